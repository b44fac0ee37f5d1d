/** Hands on what an input brings, as one channel, in pieces of about 10 ms. Runs where sound is made: no waiting here. */

const PIECE_S = 0.01;

class Capture extends AudioWorkletProcessor {
  #piece = new Float32Array(Math.round(sampleRate * PIECE_S));
  #filled = 0;
  #over = false;

  constructor() {
    super();
    this.port.onmessage = () => (this.#over = true);
  }

  process([input]) {
    if (this.#over) return false;
    const [channel] = input;
    for (let at = 0; channel && at < channel.length; ) {
      const part = channel.subarray(at, at + this.#piece.length - this.#filled);
      this.#piece.set(part, this.#filled);
      this.#filled += part.length;
      at += part.length;
      if (this.#filled === this.#piece.length) {
        this.port.postMessage(this.#piece, [this.#piece.buffer]);
        this.#piece = new Float32Array(Math.round(sampleRate * PIECE_S));
        this.#filled = 0;
      }
    }
    return true;
  }
}

registerProcessor("capture", Capture);
