/** A microphone: frames of 20 ms at 24 kHz, whatever the device gives, with the echo of this page taken out of them. */

import { Resampler } from "./resampler.js";

/** @typedef {"denied" | "insecure" | "missing" | "busy" | "unsupported"} MicrophoneFault */

const RATE_HZ = 24_000;
const FRAME_SAMPLES = 480;

/** Why there is no microphone. */
export class MicrophoneError extends Error {
  /** @param {MicrophoneFault} kind @param {string} message */
  constructor(kind, message) {
    super(message);
    this.name = "MicrophoneError";
    this.kind = kind;
  }
}

/** What there is to choose from. Devices have names only once a microphone has been allowed. */
export async function listDevices() {
  const found = (await navigator.mediaDevices?.enumerateDevices?.()) ?? [];
  const of = (kind) => found.filter((device) => device.kind === kind).map(({ deviceId, label }) => ({ id: deviceId, label }));
  return { inputs: of("audioinput"), outputs: of("audiooutput") };
}

export class Microphone {
  /** While set nothing is handed on. */
  muted = false;
  #stream;
  #context;
  #node;
  #source;
  #handlers;
  #resampler;
  #waiting = new Float32Array(0);
  #trailing = 0;
  #closed = false;

  /**
   * @param {{deviceId?: string}} wanted   The system's own without an id.
   * @param {{frame: (pcm16: Int16Array) => void, level: (rms: number) => void, lost: (reason: string) => void}} handlers
   *   `lost` is told when the device goes away by itself.
   * @throws {MicrophoneError}
   */
  static async open({ deviceId }, handlers) {
    const stream = await streamOf(deviceId);
    const context = new AudioContext({ latencyHint: "interactive" });
    try {
      await context.audioWorklet.addModule(new URL("capture-worklet.js", import.meta.url));
      if (context.state !== "running") await context.resume();
      return new Microphone(stream, context, handlers);
    } catch (error) {
      for (const track of stream.getTracks()) track.stop();
      context.close();
      throw new MicrophoneError("unsupported", error.message);
    }
  }

  constructor(stream, context, handlers) {
    this.#stream = stream;
    this.#context = context;
    this.#handlers = handlers;
    this.#resampler = new Resampler(context.sampleRate, RATE_HZ);
    this.#source = context.createMediaStreamSource(stream);
    const options = { numberOfInputs: 1, numberOfOutputs: 0, channelCount: 1, channelCountMode: "explicit" };
    this.#node = new AudioWorkletNode(context, "capture", options);
    this.#node.port.onmessage = ({ data }) => this.#take(data);
    this.#source.connect(this.#node);
    for (const track of stream.getTracks()) track.onended = () => this.#lose();
  }

  /** Hand on silence for so long, also while muted: who listens for the end of speech hears it end. */
  trail(ms) {
    this.#trailing = Math.round(ms / 20);
  }

  close() {
    if (this.#closed) return;
    this.#closed = true;
    this.#node.port.postMessage("end");
    this.#source.disconnect();
    for (const track of this.#stream.getTracks()) track.stop();
    this.#context.close();
  }

  #lose() {
    if (this.#closed) return;
    this.close();
    this.#handlers.lost("lost");
  }

  #take(piece) {
    if (this.#closed) return;
    const heard = this.#resampler.feed(piece);
    const all = new Float32Array(this.#waiting.length + heard.length);
    all.set(this.#waiting);
    all.set(heard, this.#waiting.length);
    let at = 0;
    for (; all.length - at >= FRAME_SAMPLES; at += FRAME_SAMPLES) this.#frame(all.subarray(at, at + FRAME_SAMPLES));
    this.#waiting = all.slice(at);
  }

  #frame(pcm) {
    let sum = 0;
    for (const sample of pcm) sum += sample * sample;
    this.#handlers.level(Math.sqrt(sum / pcm.length));
    if (!this.muted) {
      this.#trailing = 0;
      this.#handlers.frame(pcm16Of(pcm));
    } else if (this.#trailing > 0) {
      this.#trailing -= 1;
      this.#handlers.frame(new Int16Array(FRAME_SAMPLES));
    }
  }
}

async function streamOf(deviceId) {
  if (!navigator.mediaDevices?.getUserMedia || !globalThis.AudioWorkletNode) {
    const kind = globalThis.isSecureContext ? "unsupported" : "insecure";
    throw new MicrophoneError(kind, "this browser gives no microphone to this page");
  }
  const audio = { echoCancellation: true, noiseSuppression: true, autoGainControl: true, channelCount: 1 };
  if (deviceId) audio.deviceId = { exact: deviceId };
  try {
    return await navigator.mediaDevices.getUserMedia({ audio });
  } catch (error) {
    const kinds = { NotAllowedError: "denied", SecurityError: "denied", NotFoundError: "missing", OverconstrainedError: "missing" };
    throw new MicrophoneError(kinds[error.name] ?? "busy", error.message);
  }
}

function pcm16Of(pcm) {
  return Int16Array.from(pcm, (sample) => Math.max(-32768, Math.min(32767, Math.round(sample * 32767))));
}
