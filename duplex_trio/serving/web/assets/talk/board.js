/** The figures of the conversation: the last of each, and the median of the last ones. */

import { ms } from "../shared/units.js";

const KEPT = 50;
const PLACES = { endToFirstSound: "sound", firstToken: "token", interruptToSilence: "silence", roundTrip: "trip" };

export class Board {
  #taken = Object.fromEntries(Object.keys(PLACES).map((name) => [name, []]));

  /** Another conversation begins. */
  clear() {
    for (const name of Object.keys(PLACES)) {
      this.#taken[name] = [];
      this.#draw(name);
    }
  }

  /** A figure was taken. @param {keyof typeof PLACES} name @param {number} value   In ms. */
  take(name, value) {
    const taken = this.#taken[name];
    taken.push(value);
    if (taken.length > KEPT) taken.shift();
    this.#draw(name);
  }

  #draw(name) {
    const taken = this.#taken[name];
    document.getElementById(`l-${PLACES[name]}`).textContent = ms(taken.at(-1));
    document.getElementById(`m-${PLACES[name]}`).textContent = ms(median(taken));
  }
}

/** The middle one; null of none. */
export function median(values) {
  if (!values.length) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}
