/**
 * Another rate for a sound that comes in pieces: a windowed sinc, whose pieces together are what the whole would be.
 * Plain data.
 */

/** Zero crossings of the sinc on either side: what is let through ends sharply enough for speech. */
const CROSSINGS = 16;
/** Of the lower rate's half: what lies above is taken away, so that nothing is folded back. */
const PASSED = 0.92;
/** Places between two samples at which the filter is known; between those it is straight. */
const STEPS = 256;

export class Resampler {
  #ratio;
  #reach;
  #table;
  #kept = new Float32Array(0);
  /** Where the next sample out lies in `#kept`. */
  #at;

  /** @param {number} fromHz @param {number} toHz */
  constructor(fromHz, toHz) {
    this.#ratio = fromHz / toHz;
    const cut = PASSED * Math.min(1, toHz / fromHz);
    this.#reach = Math.ceil(CROSSINGS / cut);
    this.#table = tableOf(cut, this.#reach);
    this.#at = this.#reach;
    this.#kept = new Float32Array(this.#reach);
  }

  /** Whether the rates are the same, and nothing is done. */
  get isIdle() {
    return this.#ratio === 1;
  }

  /** @param {Float32Array} pcm @returns {Float32Array} what is ready of it */
  feed(pcm) {
    if (this.isIdle) return pcm;
    const all = new Float32Array(this.#kept.length + pcm.length);
    all.set(this.#kept);
    all.set(pcm, this.#kept.length);
    const last = all.length - 1 - this.#reach;
    const count = Math.max(0, Math.floor((last - this.#at) / this.#ratio) + 1);
    const out = new Float32Array(count);
    for (let index = 0; index < count; index++) out[index] = this.#sample(all, this.#at + index * this.#ratio);
    const next = this.#at + count * this.#ratio;
    const from = Math.max(0, Math.floor(next) - this.#reach);
    this.#kept = all.slice(from);
    this.#at = next - from;
    return out;
  }

  /** What is still held of a sound that has ended. */
  flush() {
    return this.isIdle ? new Float32Array(0) : this.feed(new Float32Array(this.#reach));
  }

  #sample(pcm, at) {
    const first = Math.max(0, Math.ceil(at) - this.#reach);
    const last = Math.min(pcm.length - 1, Math.floor(at) + this.#reach);
    let sum = 0;
    for (let index = first; index <= last; index++) {
      const place = Math.abs(index - at) * STEPS;
      const step = Math.floor(place);
      const share = place - step;
      sum += pcm[index] * (this.#table[step] * (1 - share) + this.#table[step + 1] * share);
    }
    return sum;
  }
}

/** One half of the filter: a sinc under a Blackman window. */
function tableOf(cut, reach) {
  const table = new Float32Array(reach * STEPS + 2);
  for (let step = 0; step <= reach * STEPS; step++) {
    const x = step / STEPS;
    const window = 0.42 + 0.5 * Math.cos((Math.PI * x) / reach) + 0.08 * Math.cos((2 * Math.PI * x) / reach);
    table[step] = (x === 0 ? cut : Math.sin(Math.PI * cut * x) / (Math.PI * x)) * window;
  }
  return table;
}
