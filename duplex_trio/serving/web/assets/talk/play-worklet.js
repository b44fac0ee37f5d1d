/** Plays answers where sound is made: no waiting here. */

import { PlayQueue } from "./play-queue.js";

class Play extends AudioWorkletProcessor {
  #queue = new PlayQueue(sampleRate, (message) => this.port.postMessage(message));

  constructor() {
    super();
    this.port.onmessage = ({ data }) => this.#queue.take(data);
  }

  process(_, [[out]]) {
    this.#queue.fill(out);
    return true;
  }
}

registerProcessor("play", Play);
