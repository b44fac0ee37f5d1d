/**
 * One conversation from its beginning to its end: the session, what is heard of both sides, and what is known of it.
 * Nothing here knows of the page.
 */

import { Conversation } from "./conversation.js";
import { Latency } from "./latency.js";
import { Microphone } from "./microphone.js";
import { Player } from "./player.js";
import { TalkSession } from "./session.js";

/** @typedef {"connecting" | "listening" | "hearing" | "thinking" | "speaking" | "away" | "over"} State */

/**
 * @typedef {object} Handlers
 * @property {() => void} changed     The state or what was said is another.
 * @property {(way: "out" | "in", message: object) => void} message   One went out or came in.
 * @property {(name: string, detail: object) => void} phase           Of the connection, as `TalkSession` tells it.
 * @property {(name: string, ms: number) => void} figure              A latency was measured.
 * @property {(error: object) => void} error                          The server refused something.
 * @property {(reason: string) => void} lost                          The microphone is gone.
 */

const RATE_HZ = 24_000;
/** A hold that is shorter than that was a slip: there is no word in it. */
const HELD_MIN_MS = 200;
/** Silence behind the last words before the microphone went off: longer than any that a turn may end with by itself. */
export const TRAIL_MS = 9_000;
/** A turn that is answered by nothing is waited for no longer than this. */
const THINKING_MAX_MS = 15_000;

export class Call {
  #session;
  #player;
  #handlers;
  #conversation = new Conversation();
  #latency;
  /** @type {Microphone | null} */
  #microphone = null;
  /** How often a microphone was asked for, and which of these it is. */
  #listens = 0;
  #listensTo = 0;
  #level = 0;
  #phase = "connecting";
  #answering = "";
  #speaking = false;
  #hearing = false;
  #waitingSince = -Infinity;
  #heldAt = 0;
  #ownsTurns;

  /**
   * @param {{key: string, model: string, session: object, ownsTurns: boolean}} asked   `ownsTurns` of the model: it
   *   decides by itself when to speak.
   * @param {AudioContext} context   One that may make sounds.
   * @param {Handlers} handlers
   */
  constructor(asked, context, handlers) {
    this.#handlers = handlers;
    this.#ownsTurns = asked.ownsTurns;
    this.#latency = new Latency((name, value) => handlers.figure(name, value));
    this.#player = new Player(context, {
      onPlayed: (played) => this.#played(played),
      onState: (speaking) => this.#sounds(speaking),
    });
    this.#session = new TalkSession(asked, {
      sent: (message) => this.#sent(message),
      received: (message) => this.#received(message),
      phase: (name, detail) => this.#moved(name, detail),
    });
  }

  /** @returns {State} */
  get state() {
    if (this.#phase !== "open") return this.#phase;
    if (this.#hearing) return "hearing";
    if (this.#speaking) return "speaking";
    return this.#answering || this.#waits ? "thinking" : "listening";
  }

  /** Every turn so far, oldest first, as `Conversation` has them. */
  get turns() {
    return this.#conversation.turns;
  }

  /** How loud both sides are now, as root mean squares. */
  get levels() {
    return { you: this.hears ? this.#level : 0, model: this.#speaking ? this.#player.level() : 0 };
  }

  /** Whether there is a microphone, on or off. */
  get hasMicrophone() {
    return this.#microphone !== null;
  }

  /** Whether what is said here goes to the model. */
  get hears() {
    return this.#microphone !== null && !this.#microphone.muted;
  }

  /** Whether there is something to interrupt. */
  get answers() {
    return this.#speaking || Boolean(this.#answering) || this.#waits;
  }

  get #waits() {
    return performance.now() - this.#waitingSince < THINKING_MAX_MS;
  }

  // ---------------------------------------------------------------- what people do

  /**
   * Take what a microphone hears. Another one replaces the one before, and is as muted as that; of several that are
   * opened at a time the one that was asked for last stays.
   * @param {{deviceId: string, muted: () => boolean}} how   `muted` is asked when the first one is there.
   * @throws what `Microphone.open` does
   */
  async listen({ deviceId, muted }) {
    const turn = (this.#listens += 1);
    const opened = await Microphone.open(
      { deviceId },
      {
        frame: (pcm16) => this.#session.append(pcm16),
        level: (rms) => (this.#level = rms),
        lost: (reason) => {
          if (this.#microphone !== opened) return;
          this.#microphone = null;
          this.#handlers.lost(reason);
          this.#handlers.changed();
        },
      },
    );
    if (this.#phase === "over" || turn < this.#listensTo) return opened.close();
    this.#listensTo = turn;
    const before = this.#microphone;
    opened.muted = before ? before.muted : muted();
    this.#microphone = opened;
    before?.close();
    this.#handlers.changed();
  }

  /**
   * Let the model hear what is said here, or not.
   * @param {boolean} on
   * @param {number} [silenceMs]   Goes out behind the last of it, so that a turn which silence ends can end.
   */
  hear(on, silenceMs = 0) {
    if (this.#microphone) {
      this.#microphone.muted = !on;
      if (!on) this.#microphone.trail(silenceMs);
    }
    this.#level = 0;
    this.#handlers.changed();
  }

  /** Push to talk: down to speak, up to be answered. */
  hold(down, now = performance.now()) {
    if (!this.#microphone || down === this.hears) return;
    if (this.#ownsTurns) return this.hear(down, TRAIL_MS);
    if (down) this.interrupt();
    else if (now - this.#heldAt < HELD_MIN_MS) this.#session.send({ type: "input_audio_buffer.clear" });
    this.hear(down);
    if (down) {
      this.#heldAt = now;
    } else if (now - this.#heldAt >= HELD_MIN_MS) {
      this.#session.send({ type: "input_audio_buffer.commit" });
      this.#session.send({ type: "response.create" });
      this.#waitingSince = now;
    }
  }

  /** A turn in writing. @returns {string} the id of the message, which a refusal names */
  write(text) {
    this.interrupt();
    const item = { type: "message", role: "user", content: [{ type: "input_text", text }] };
    const id = this.#session.send({ type: "conversation.item.create", item });
    this.#session.send({ type: "response.create" });
    this.#waitingSince = performance.now();
    this.#handlers.changed();
    return id;
  }

  /** Silence the answer at once, wherever it is by now. */
  interrupt() {
    if (!this.answers) return;
    this.#session.send({ type: "barge_in" });
    this.#player.cut();
    if (this.#answering) this.#player.cut(this.#answering); // its sound may be on its way here
    this.#waitingSince = -Infinity;
    this.#handlers.changed();
  }

  /** Change the session. @returns {string} the id of the message, which a refusal names */
  update(session) {
    return this.#session.send({ type: "session.update", session });
  }

  /** Try the connection now. */
  retry() {
    this.#session.retry();
  }

  /** @param {string} deviceId   Where it is heard. */
  playOn(deviceId) {
    return this.#player.setSink(deviceId);
  }

  set volume(value) {
    this.#player.volume = value;
  }

  close() {
    this.#session.close();
    this.#end();
  }

  // ---------------------------------------------------------------- what happens

  #sent(message) {
    this.#conversation.sent(message);
    this.#latency.sent(message, performance.now());
    this.#handlers.message("out", message);
  }

  #received(message) {
    const now = performance.now();
    this.#handlers.message("in", message);
    this.#conversation.received(message, now);
    this.#latency.received(message, now);
    this.#follow(message, now);
    this.#handlers.changed();
  }

  #follow(message, now) {
    switch (message.type) {
      case "input_audio_buffer.speech_started":
        this.#hearing = true;
        break;
      case "input_audio_buffer.speech_stopped":
        this.#hearing = false;
        this.#waitingSince = now;
        break;
      case "input_audio_buffer.committed":
      case "input_audio_buffer.cleared":
        this.#hearing = false;
        break;
      case "response.created":
        this.#answering = message.response.id;
        this.#hearing = false; // a model that owns its turns says no other end of them
        this.#waitingSince = -Infinity;
        break;
      case "response.output_audio.delta":
        this.#player.enqueue(message.response_id, message.item_id, pcmOf(message.delta), rateOf(message));
        break;
      case "response.done":
        this.#answering = "";
        if (message.response.status === "cancelled") this.#player.cut(message.response_id);
        else this.#player.finish(message.response_id);
        break;
      case "output_audio_buffer.cleared":
        this.#player.cut(message.response_id ?? undefined);
        break;
      case "error":
        this.#waitingSince = -Infinity;
        this.#handlers.error(message.error);
    }
  }

  #moved(name, detail) {
    this.#phase = { open: "open", slow: "open", resumed: "open", away: "away", closed: "over" }[name] ?? "connecting";
    if (name === "closed") this.#end();
    if (name === "resumed" || name === "slow") this.#latency.lost(detail.lostSoundMs);
    this.#handlers.phase(name, detail ?? {});
    this.#handlers.changed();
  }

  #played({ responseId, itemId, playedMs }) {
    this.#session.send({ type: "playback.ack", response_id: responseId, item_id: itemId, played_ms: playedMs });
    this.#conversation.played(responseId, playedMs);
    this.#handlers.changed();
  }

  #sounds(speaking) {
    this.#speaking = speaking;
    this.#latency.sounds(speaking, performance.now());
    this.#handlers.changed();
  }

  #end() {
    this.#phase = "over";
    this.#hearing = false;
    this.#microphone?.close();
    this.#microphone = null;
    this.#player.close();
    this.#conversation.end();
  }
}

/** The samples of a delta. */
function pcmOf(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Int16Array(bytes.buffer);
}

function rateOf(message) {
  return message.duplex?.sample_rate_hz ?? RATE_HZ;
}
