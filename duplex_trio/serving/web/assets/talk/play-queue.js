/**
 * Answers one behind the other, and what of each was played. Knows no clock and no device: whoever makes sound asks for it.
 *
 * In: `{play: id, pcm}`, `{cut: id or null for all}`, `{forget: id}` of what is over. Out: `{played: [[id, frames], ...],
 * rms, dry}`, and `{silenced: [[id, frames], ...]}` once what was cut is silent.
 */

const REPORT_EVERY_S = 0.05;
/** A cut in the middle of a wave would click; this is not heard as a fade. */
const FADE_S = 0.005;

export class PlayQueue {
  #rate;
  #tell;
  /** @type {{id: string, pcm: Float32Array, at: number}[]} */
  #queue = [];
  /** Frames of each answer that were played. @type {Map<string, number>} */
  #frames = new Map();
  #changed = new Set();
  #sinceReport = 0;
  #squares = 0;
  #count = 0;
  #wasDry = true;
  #fading = null;

  /** @param {number} rate   In Hz. @param {(message: object) => void} tell   Takes what goes out. */
  constructor(rate, tell) {
    this.#rate = rate;
    this.#tell = tell;
  }

  /** Take what comes in. */
  take(message) {
    if ("play" in message) this.#put(message.play, message.pcm);
    else if ("cut" in message) this.#cut(message.cut);
    else this.#frames.delete(message.forget);
  }

  /** Fill a piece of silence with what is next. @param {Float32Array} out */
  fill(out) {
    let filled = this.#fade(out);
    while (filled < out.length && this.#queue.length) {
      const [piece] = this.#queue;
      const part = piece.pcm.subarray(piece.at, piece.at + out.length - filled);
      out.set(part, filled);
      filled += part.length;
      piece.at += part.length;
      this.#frames.set(piece.id, (this.#frames.get(piece.id) ?? 0) + part.length);
      this.#changed.add(piece.id);
      if (piece.at === piece.pcm.length) this.#queue.shift();
    }
    for (let at = 0; at < filled; at++) this.#squares += out[at] * out[at];
    this.#count += out.length;
    this.#sinceReport += out.length;
    const dry = filled === 0;
    if (dry !== this.#wasDry || this.#sinceReport >= REPORT_EVERY_S * this.#rate) this.#report(dry);
    this.#wasDry = dry;
  }

  #put(id, pcm) {
    this.#queue.push({ id, pcm, at: 0 });
  }

  #cut(id) {
    const gone = (piece) => id === null || piece.id === id;
    const [now] = this.#queue;
    if (now && gone(now)) this.#fading = now.pcm.slice(now.at, now.at + Math.round(FADE_S * this.#rate));
    this.#queue = this.#queue.filter((piece) => !gone(piece));
    const silenced = [...this.#frames].filter(([played]) => id === null || played === id);
    for (const [played] of silenced) {
      this.#frames.delete(played);
      this.#changed.delete(played);
    }
    this.#tell({ silenced });
  }

  #fade(out) {
    const fading = this.#fading;
    if (!fading) return 0;
    const count = Math.min(fading.length, out.length);
    const whole = FADE_S * this.#rate;
    for (let at = 0; at < count; at++) out[at] = fading[at] * ((fading.length - at) / whole);
    this.#fading = fading.length > count ? fading.subarray(count) : null;
    return count;
  }

  #report(dry) {
    const played = [...this.#changed].map((id) => [id, this.#frames.get(id)]);
    this.#changed.clear();
    this.#tell({ played, rms: Math.sqrt(this.#squares / Math.max(1, this.#count)), dry });
    this.#sinceReport = this.#squares = this.#count = 0;
  }
}
