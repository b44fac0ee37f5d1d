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
