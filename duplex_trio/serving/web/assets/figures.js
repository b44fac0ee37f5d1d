/** How fast things go, of the last few chunks. Plain data. */

const CHUNKS = 8;

export class Pace {
  #arrivals = [];

  /** A chunk of that many frames came; `now` in ms. */
  chunk(frames, now) {
    this.#arrivals.push({ frames, now });
    if (this.#arrivals.length > CHUNKS + 1) this.#arrivals.shift();
  }

  /** Frames a second, as they arrive; null as long as there is nothing to compare. */
  get fps() {
    const spanMs = this.#spanMs;
    const frames = this.#arrivals.slice(1).reduce((sum, one) => sum + one.frames, 0);
    return spanMs > 0 ? (1000 * frames) / spanMs : null;
  }

  /** Mean ms from one chunk to the next. */
  get intervalMs() {
    return this.#spanMs > 0 ? this.#spanMs / (this.#arrivals.length - 1) : null;
  }

  get #spanMs() {
    return this.#arrivals.length > 1 ? this.#arrivals.at(-1).now - this.#arrivals[0].now : 0;
  }
}

/** Milliseconds for people. */
export function ms(value) {
  if (value === null || value === undefined) return "–";
  return value < 10 ? `${value.toFixed(1)} ms` : value < 10_000 ? `${Math.round(value)} ms` : seconds(value / 1000);
}

/** Seconds for people. */
export function seconds(value) {
  return `${value.toFixed(value < 10 ? 1 : 0)} s`;
}

/** A time of the video: m:ss. */
export function clock(value) {
  const whole = Math.max(0, Math.floor(value));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

/** Bytes for people. */
export function bytes(value) {
  if (value < 1e3) return `${value} B`;
  return value < 1e6 ? `${Math.round(value / 1e3)} kB` : `${(value / 1e6).toFixed(1)} MB`;
}
