/** What plays answers: a node that takes and tells what `PlayQueue` does, by a port as a worklet's. */

import { PlayQueue } from "./play-queue.js";

/** Samples that are asked for at a time; fewer would stutter while the page is busy. */
const PIECE = 2048;

/**
 * A worklet, or, where a browser has none, a processor on the page's own thread: browsers have worklets only where the
 * page comes by TLS or from this machine, and answers are to be heard from any address.
 * @param {AudioContext} context
 * @returns {Promise<AudioNode & {port: {postMessage: (message: object) => void, onmessage: Function | null}}>}
 */
export async function playNode(context) {
  if (!context.audioWorklet) return plainNode(context);
  await moduleOf(context);
  return new AudioWorkletNode(context, "play", { numberOfInputs: 0, numberOfOutputs: 1, outputChannelCount: [1] });
}

function plainNode(context) {
  const node = context.createScriptProcessor(PIECE, 0, 1);
  const port = { onmessage: null, postMessage: (message) => queue.take(message) };
  const queue = new PlayQueue(context.sampleRate, (data) => port.onmessage?.({ data }));
  node.onaudioprocess = ({ outputBuffer }) => queue.fill(outputBuffer.getChannelData(0).fill(0));
  return Object.assign(node, { port });
}

/** What each context has loaded. @type {WeakMap<AudioContext, Promise<void>>} */
const modules = new WeakMap();

function moduleOf(context) {
  if (!modules.has(context)) {
    modules.set(context, context.audioWorklet.addModule(new URL("play-worklet.js", import.meta.url)));
  }
  return modules.get(context);
}
