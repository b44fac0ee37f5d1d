/**
 * One session of the duplex dialect over one WebSocket after another: what is said arrives once and in order, and so does
 * what is heard, however often the connection breaks. docs/resuming.md tells the rules.
 *
 *     opening --session.created--> open --lost--> away --connected--> resuming --session.resumed--> open
 */

import { Outbox } from "./outbox.js";

/** @typedef {"connecting" | "open" | "slow" | "away" | "resumed" | "closed"} PhaseName */

/**
 * @typedef {object} Handlers
 * @property {(message: object) => void} sent        Everything that went out, or will when there is a connection again.
 * @property {(message: object) => void} received    Everything that came in, each message once.
 * @property {(name: PhaseName, detail?: object) => void} phase
 *   "slow": `{lostSoundMs}`, of an open one whose line takes less than is said; "away": `{attempt, retryAtMs, reason}`,
 *   `retryAtMs` null while it is tried; "resumed": `{missed, lostSoundMs}`, told when what was missed has come; "closed":
 *   `{expected, opened, code, message}`, last.
 */

const SUBPROTOCOL = "realtime";
const KEY_SUBPROTOCOL = "openai-insecure-api-key.";

const OPEN_TIMEOUT_MS = 15_000;
const ATTEMPT_TIMEOUT_MS = 5_000;
/** A server waits half a minute for its client by default; this is for one that waits longer. */
const GIVE_UP_AFTER_MS = 60_000;
const BACKOFF_MS = [250, 4_000];
const BEAT_EVERY_MS = 5_000;
const BEAT_PATIENCE_MS = 8_000;
const ACKNOWLEDGE_EVERY_MS = 250;
/** So much sound that was lost to a slow line is told at a time. */
const LOST_TOLD_MS = 1_000;
/** More than this in the browser's own buffer means that the line is too slow for sound. */
const BUFFERED_MAX = 256 * 1024;
const BUFFERED_WAIT_MS = 40;
const GOODBYE_MS = 1_500;
const CAUGHT_UP_MS = 100;

/** Answers to `session.resume` that another attempt would get as well. */
const FATAL_REFUSALS = new Set([
  "invalid_session_resume",
  "session_resume_expired",
  "unsupported_session_resume",
  "invalid_resume_token",
  "session_resume_conflict",
]);
/** The server found fault with what was sent, which another connection would carry too. */
const FATAL_CLOSE_CODES = new Set([1002, 1003, 1007, 1009, 1010]);

export class TalkSession {
  #asked;
  #handlers;
  #outbox = new Outbox();
  /** @type {"opening" | "open" | "away" | "resuming" | "closed"} */
  #phase = "opening";
  /** @type {WebSocket | null} */
  #socket = null;
  #opened = false;
  #leaving = false;
  #ids = 0;
  /** @type {object | null} the last error that came before the session was open */
  #complaint = null;

  #sessionId = "";
  #token = "";
  #lastSeq = 0;
  #requests = 0;
  #held = [];
  #missed = 0;

  #attempt = 0;
  #awaySince = 0;
  #heardAt = 0;
  #toAcknowledge = false;
  #asking = false;
  #timers = { retry: 0, patience: 0, beat: 0, acknowledge: 0, pump: 0, goodbye: 0, caughtUp: 0 };
  #wake = () => document.visibilityState === "visible" && this.retry();

  /**
   * @param {{key?: string, model?: string, session: object}} asked   `session` as `session.update` takes it.
   * @param {Handlers} handlers
   * @throws {SyntaxError} The key has characters that a browser cannot hand over.
   */
  constructor(asked, handlers) {
    this.#asked = asked;
    this.#handlers = handlers;
    this.#connect();
    addEventListener("online", this.#wake);
    document.addEventListener("visibilitychange", this.#wake);
    this.#timers.beat = setInterval(() => this.#beat(), BEAT_EVERY_MS);
    this.#timers.acknowledge = setInterval(() => this.#acknowledge(), ACKNOWLEDGE_EVERY_MS);
    // The caller has no handle yet to do anything about it.
    queueMicrotask(() => this.#phase === "opening" && handlers.phase("connecting"));
  }

  /** Send a message, now or when there is a connection again. @returns {string} its `event_id` */
  send(message) {
    const full = { event_id: this.#newId(), ...message };
    if (this.#phase === "closed" || this.#leaving) return full.event_id;
    this.#outbox.put(JSON.stringify(full));
    this.#handlers.sent(full);
    this.#pump();
    return full.event_id;
  }

  /** Send what the microphone heard. @param {Int16Array} pcm16   Mono at 24 kHz. */
  append(pcm16) {
    if (this.#phase === "closed" || this.#leaving) return;
    const message = { event_id: this.#newId(), type: "input_audio_buffer.append", audio: base64Of(pcm16) };
    this.#outbox.put(JSON.stringify(message), pcm16.length / 24);
    this.#handlers.sent(message);
    this.#pump();
    if (this.#phase !== "open" || this.#timers.caughtUp || this.#outbox.droppedMs < LOST_TOLD_MS) return;
    this.#handlers.phase("slow", { lostSoundMs: this.#outbox.takeDropped() });
  }

  /** Do not wait any longer for the next attempt. */
  retry() {
    if (this.#phase !== "away" || !this.#timers.retry) return;
    clearTimeout(this.#timers.retry);
    this.#try();
  }

  /** End the session. The handlers hear of it once more, at its end. */
  close() {
    if (this.#phase === "closed" || this.#leaving) return;
    this.#leaving = true;
    const goodbye = { event_id: this.#newId(), type: "session.close" };
    if (this.#phase === "open" && this.#socket?.readyState === WebSocket.OPEN) {
      // Behind what still waits: a page that is left has no time for it.
      this.#write(goodbye);
      this.#timers.goodbye = setTimeout(() => this.#end({ code: 1000 }), GOODBYE_MS);
    } else {
      this.#end({ code: 1000 });
    }
  }

  // ---------------------------------------------------------------- connections

  #connect() {
    const url = new URL("v1/realtime", document.baseURI);
    url.protocol = url.protocol.replace("http", "ws");
    url.searchParams.set("duplex", "1");
    url.searchParams.set("autostart", "0");
    if (this.#asked.model) url.searchParams.set("model", this.#asked.model);
    const { key } = this.#asked;
    const socket = new WebSocket(url, key ? [SUBPROTOCOL, KEY_SUBPROTOCOL + key] : [SUBPROTOCOL]);
    this.#socket = socket;
    const mine = (act) => (event) => socket === this.#socket && act(event);
    socket.onopen = mine(() => this.#connected());
    socket.onmessage = mine((event) => this.#take(event.data));
    socket.onclose = mine((event) => this.#lost(event.code, event.reason));
    const patience = this.#opened ? ATTEMPT_TIMEOUT_MS : OPEN_TIMEOUT_MS;
    this.#timers.patience = setTimeout(() => this.#drop("the server does not answer"), patience);
  }

  #connected() {
    if (this.#phase === "opening") {
      const { model, session } = this.#asked;
      const message = { event_id: this.#newId(), type: "session.update", session: model ? { model, ...session } : session };
      this.#write(message);
      return;
    }
    this.#phase = "resuming";
    this.#held = [];
    this.#requests += 1;
    this.#write({
      type: "session.resume",
      session_id: this.#sessionId,
      resume_token: this.#token,
      last_received_server_event_seq: this.#lastSeq,
      attempt: this.#requests,
    });
  }

  /** Give a connection up that may not know itself that it is dead. */
  #drop(reason) {
    const socket = this.#socket;
    if (!socket) return;
    this.#socket = null;
    socket.close();
    this.#lost(1006, reason);
  }

  #lost(code, reason) {
    this.#socket = null;
    clearTimeout(this.#timers.patience);
    if (this.#phase === "closed") return;
    if (this.#leaving) return this.#end({ code });
    if (code === 1000 && reason === "session_replaced") return this.#end({ code: "session_replaced" });
    if (!this.#token || FATAL_CLOSE_CODES.has(code)) {
      return this.#end({ code: this.#complaint?.code ?? code, message: this.#complaint?.message ?? reason });
    }
    if (this.#phase === "open") {
      this.#awaySince = performance.now();
      this.#attempt = 0;
    }
    this.#phase = "away";
    this.#asking = false;
    clearTimeout(this.#timers.caughtUp);
    if (performance.now() - this.#awaySince > GIVE_UP_AFTER_MS) return this.#end({ code: 1006, message: reason });
    this.#attempt += 1;
    const [least, most] = BACKOFF_MS;
    // Random, so that not all clients of a server come back in one moment.
    const wait = least + Math.random() * (Math.min(most, least * 2 ** (this.#attempt - 1)) - least);
    this.#timers.retry = setTimeout(() => this.#try(), wait);
    this.#handlers.phase("away", { attempt: this.#attempt, retryAtMs: Date.now() + wait, reason });
  }

  #try() {
    this.#timers.retry = 0;
    this.#handlers.phase("away", { attempt: this.#attempt, retryAtMs: null, reason: "" });
    this.#connect();
  }

  #beat() {
    if (this.#phase !== "open" || this.#leaving) return;
    if (this.#asking && performance.now() - this.#heardAt > BEAT_PATIENCE_MS) {
      return this.#drop("the server says nothing any more");
    }
    this.#ask();
  }

  /** A heartbeat, whose answer says how many commands the server has. */
  #ask() {
    if (this.#asking) return;
    this.#asking = true;
    this.#write({ event_id: this.#newId(), type: "session.heartbeat" });
  }

  #acknowledge() {
    if (!this.#toAcknowledge || this.#phase !== "open") return;
    this.#toAcknowledge = false;
    this.#write({ type: "session.event_ack", server_event_seq: this.#lastSeq });
  }

  #write(message) {
    if (this.#socket?.readyState !== WebSocket.OPEN) return;
    this.#socket.send(JSON.stringify(message));
    this.#handlers.sent(message);
  }

  #pump() {
    if (this.#phase !== "open" || this.#leaving) return;
    while (this.#socket?.readyState === WebSocket.OPEN) {
      if (this.#socket.bufferedAmount > BUFFERED_MAX) {
        this.#timers.pump ||= setTimeout(() => {
          this.#timers.pump = 0;
          this.#pump();
        }, BUFFERED_WAIT_MS);
        return;
      }
      const text = this.#outbox.next();
      if (text === null) break;
      this.#socket.send(text);
    }
    if (this.#outbox.wantsCount) this.#ask();
  }

  // ---------------------------------------------------------------- what comes

  #take(data) {
    if (typeof data !== "string") return;
    this.#heardAt = performance.now();
    const message = JSON.parse(data);
    if (this.#phase === "resuming") return this.#takeAnswer(message);
    switch (message.type) {
      case "session.created":
        this.#created(message);
        break;
      case "session.heartbeat_ack":
        this.#asking = false;
        if (Number.isInteger(message.client_event_count)) this.#outbox.confirm(message.client_event_count);
        break;
      case "session.resync_required":
        this.#forgetToken();
        break;
      case "error":
        if (!this.#opened) this.#complaint = message.error;
    }
    this.#tell(message);
    this.#followEnd(message);
  }

  #created(message) {
    clearTimeout(this.#timers.patience);
    this.#phase = "open";
    this.#opened = true;
    this.#sessionId = message.session.id;
    this.#token = message.resume_token ?? "";
    if (!this.#token) this.#forgetToken();
    this.#handlers.phase("open");
    this.#pump();
  }

  #takeAnswer(message) {
    const { type } = message;
    if (type === "session.resumed") {
      this.#resumed(message);
    } else if (type === "session.resync_required") {
      this.#end({ code: "session_replay", message: message.reason });
    } else if (type === "session.replaced") {
      this.#end({ code: "session_replaced" });
    } else if (type === "error" && FATAL_REFUSALS.has(message.error?.code)) {
      this.#handlers.received(message);
      this.#end({ code: message.error.code, message: message.error.message });
    } else {
      this.#held.push(message);
    }
  }

  #resumed(message) {
    clearTimeout(this.#timers.patience);
    this.#phase = "open";
    this.#token = message.resume_token;
    this.#missed = 0;
    this.#outbox.resume(message.client_event_count);
    // The first message behind `session.resumed` tells the server that the new token has arrived.
    this.#write({ type: "session.event_ack", server_event_seq: this.#lastSeq });
    this.#handlers.received(message);
    for (const held of this.#held.splice(0)) {
      this.#tell(held);
      this.#followEnd(held);
    }
    if (this.#phase !== "open") return;
    this.#pump();
    this.#caughtUp();
  }

  /** What was missed comes in one go: what has come a moment later is not of it any more. */
  #caughtUp() {
    this.#timers.caughtUp = setTimeout(() => {
      this.#timers.caughtUp = 0;
      const detail = { missed: this.#missed, lostSoundMs: this.#outbox.takeDropped() };
      this.#handlers.phase("resumed", detail);
    }, CAUGHT_UP_MS);
  }

  #tell(message) {
    const seq = message.server_event_seq;
    if (Number.isInteger(seq)) {
      this.#toAcknowledge = true;
      if (seq <= this.#lastSeq) return;
      this.#lastSeq = seq;
      if (this.#timers.caughtUp) this.#missed += 1;
    }
    this.#handlers.received(message);
  }

  #followEnd(message) {
    const { type, reason } = message;
    if (type === "session.replaced") this.#end({ code: "session_replaced" });
    else if (type === "session.expired") this.#end({ code: reason });
    else if (type === "session.closed") this.#end({ code: reason });
  }

  #forgetToken() {
    this.#token = "";
    this.#outbox.keepNoMore();
  }

  #end({ code, message = "" }) {
    if (this.#phase === "closed") return;
    this.#phase = "closed";
    removeEventListener("online", this.#wake);
    document.removeEventListener("visibilitychange", this.#wake);
    for (const timer of Object.values(this.#timers)) clearTimeout(timer);
    const socket = this.#socket;
    this.#socket = null;
    // A browser complains of a connection that is closed before it is open.
    if (socket?.readyState === WebSocket.CONNECTING) socket.onopen = () => socket.close(1000);
    else socket?.close(1000);
    this.#handlers.phase("closed", { expected: this.#leaving, opened: this.#opened, code, message });
  }

  #newId() {
    this.#ids += 1;
    return `page-${this.#ids}`;
  }
}

/** Samples as the wire has them. */
function base64Of(pcm16) {
  const bytes = new Uint8Array(pcm16.buffer, pcm16.byteOffset, pcm16.byteLength);
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
}
