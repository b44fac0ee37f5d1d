/**
 * The loudspeaker: plays answers in their order, falls silent when one is cut, and tells what a listener has heard.
 *
 * What has been heard are the samples that were really played, less those that are still on their way to the ear.
 */

import { playNode } from "./play-node.js";
import { Resampler } from "./resampler.js";

/** @typedef {{responseId: string, itemId: string, playedMs: number}} Played */

/** How much of an answer must have been heard since it was last told; its first and its last moment are told at once. */
const TELL_EVERY_MS = 200;
const LOOK_EVERY_MS = 25;
const ENDED_KEPT = 64;

/**
 * @typedef {object} Track   One answer.
 * @property {string} responseId
 * @property {string} itemId
 * @property {number} frames      That came, at the rate of the device.
 * @property {number} played      That were played.
 * @property {number} playedAt    When that was last known to grow, on the clock of `performance`.
 * @property {number} lengthMs    Of what came.
 * @property {boolean} finished   Nothing more will come.
 * @property {boolean} cut
 * @property {number} told        What was told last, in ms.
 * @property {Resampler} resampler
 */

export class Player {
  #context;
  #handlers;
  /** @type {Awaited<ReturnType<typeof playNode>> | null} */
  #node = null;
  #gain;
  /** @type {object[]} what came before the node was there */
  #early = [];
  /** @type {Map<string, Track>} */
  #tracks = new Map();
  /** Ids of answers that are over. @type {Set<string>} */
  #ended = new Set();
  #rms = 0;
  #speaking = false;
  #looking = 0;
  #closed = false;

  /**
   * @param {AudioContext} context
   * @param {{onPlayed: (played: Played) => void, onState: (speaking: boolean) => void}} handlers
   */
  constructor(context, handlers) {
    this.#context = context;
    this.#handlers = handlers;
    this.#gain = context.createGain();
    this.#gain.connect(context.destination);
    this.#load();
  }

  /** @param {Int16Array} pcm16 @param {number} rate   In Hz. */
  enqueue(responseId, itemId, pcm16, rate) {
    if (this.#ended.has(responseId) || this.#closed) return;
    const track = this.#tracks.get(responseId) ?? this.#begin(responseId, itemId, rate);
    if (track.cut || track.finished) return;
    track.lengthMs += (pcm16.length / rate) * 1000;
    this.#play(track, track.resampler.feed(Float32Array.from(pcm16, (sample) => sample / 32768)));
    this.#look();
  }

  /** Nothing more of this answer will come. */
  finish(responseId) {
    const track = this.#tracks.get(responseId);
    if (!track || track.finished || track.cut) return;
    this.#play(track, track.resampler.flush());
    track.finished = true;
    this.#look();
  }

  /** Fall silent at once; without an id about everything. What comes of it later is not played. */
  cut(responseId) {
    const gone = [...this.#tracks.values()].filter((track) => !responseId || track.responseId === responseId);
    const unheard = gone.filter((track) => !track.cut);
    if (responseId && !gone.length) this.#end(responseId);
    if (!unheard.length) return;
    for (const track of unheard) track.cut = true;
    this.#post({ cut: responseId ?? null });
    if (!this.#node) for (const track of unheard) this.#settle(track);
  }

  /** How much of an answer has been heard, in ms. */
  playedMs(responseId) {
    const track = this.#tracks.get(responseId);
    return track ? this.#heardMs(track) : 0;
  }

  /** How loud it is now, as root mean square. */
  level() {
    return this.#rms;
  }

  /** 0 to 1. */
  set volume(value) {
    this.#gain.gain.value = value;
  }

  /** Where it is heard; does nothing where the browser has no choice. @param {string} id */
  async setSink(id) {
    if (this.#context.setSinkId) await this.#context.setSinkId(id === "default" ? "" : id);
  }

  /** Let go of the device. What was heard until now has been told. */
  close() {
    if (this.#closed) return;
    this.cut();
    this.#closed = true;
    clearInterval(this.#looking);
    // Behind the answer to the cut, which the node is still to give.
    setTimeout(() => {
      this.#node?.disconnect();
      this.#gain.disconnect();
    }, 200);
  }

  // ---------------------------------------------------------------- the way to the device

  async #load() {
    try {
      this.#node = await playNode(this.#context);
    } catch (error) {
      console.warn("this browser cannot play", error);
      return;
    }
    this.#node.port.onmessage = ({ data }) => (data.silenced ? this.#silenced(data.silenced) : this.#report(data));
    this.#node.connect(this.#gain);
    for (const message of this.#early.splice(0)) this.#post(message);
  }

  #begin(responseId, itemId, rate) {
    const resampler = new Resampler(rate, this.#context.sampleRate);
    const counts = { frames: 0, played: 0, playedAt: 0, lengthMs: 0, told: 0 };
    const track = { responseId, itemId, resampler, ...counts, finished: false, cut: false };
    this.#tracks.set(responseId, track);
    return track;
  }

  #play(track, pcm) {
    if (!pcm.length) return;
    track.frames += pcm.length;
    this.#post({ play: track.responseId, pcm });
  }

  #post(message) {
    if (this.#node) this.#node.port.postMessage(message);
    else if ("cut" in message) this.#early = this.#early.filter(({ play }) => message.cut !== null && play !== message.cut);
    else this.#early.push(message);
  }

  #report({ played, rms, dry }) {
    this.#rms = dry ? 0 : rms;
    for (const [id, frames] of played) this.#note(id, frames);
    this.#tell();
  }

  #silenced(played) {
    for (const [id, frames] of played) this.#note(id, frames);
    this.#rms = 0;
    for (const track of [...this.#tracks.values()]) if (track.cut) this.#settle(track);
  }

  #note(id, frames) {
    const track = this.#tracks.get(id);
    if (!track) return;
    track.played = frames;
    track.playedAt = performance.now();
  }

  // ---------------------------------------------------------------- what was heard

  /** From the moment in which a sample is played to the one in which it is heard, in ms. */
  get #latencyMs() {
    return 1000 * (this.#context.outputLatency || this.#context.baseLatency || 0);
  }

  #heardMs(track) {
    if (track.finished && !track.cut && this.#isHeard(track)) return track.lengthMs;
    const ahead = Math.max(0, this.#latencyMs - (performance.now() - track.playedAt));
    const played = (1000 * track.played) / this.#context.sampleRate;
    return Math.max(track.told, Math.min(track.lengthMs, played - ahead));
  }

  #isHeard(track) {
    return track.played >= track.frames && performance.now() - track.playedAt >= this.#latencyMs;
  }

  #look() {
    this.#looking ||= setInterval(() => this.#tell(), LOOK_EVERY_MS);
  }

  #tell() {
    for (const track of [...this.#tracks.values()]) {
      if (track.cut) continue;
      const over = track.finished && this.#isHeard(track);
      const heard = over ? Math.ceil(track.lengthMs) : Math.floor(this.#heardMs(track));
      const step = over || track.told === 0 ? 1 : TELL_EVERY_MS;
      if (track.played > 0 && !this.#speaking && heard > 0) this.#says(true);
      if (heard - track.told >= step) this.#told(track, heard);
      if (over) this.#settleWhole(track);
    }
  }

  #told(track, playedMs) {
    track.told = playedMs;
    this.#handlers.onPlayed({ responseId: track.responseId, itemId: track.itemId, playedMs });
  }

  #settleWhole(track) {
    this.#tracks.delete(track.responseId);
    this.#end(track.responseId);
    this.#node?.port.postMessage({ forget: track.responseId });
    this.#mayBeSilent();
  }

  /** A cut answer is silent: what was heard of it is what was played, less what never reached the ear. */
  #settle(track) {
    const heard = Math.floor(this.#heardMs(track));
    if (heard > track.told) this.#told(track, heard);
    this.#settleWhole(track);
  }

  #mayBeSilent() {
    if (this.#tracks.size) return;
    clearInterval(this.#looking);
    this.#looking = 0;
    this.#rms = 0;
    if (this.#speaking) this.#says(false);
  }

  #says(speaking) {
    this.#speaking = speaking;
    this.#handlers.onState(speaking);
  }

  #end(responseId) {
    this.#ended.add(responseId);
    if (this.#ended.size > ENDED_KEPT) this.#ended.delete(this.#ended.values().next().value);
  }
}
