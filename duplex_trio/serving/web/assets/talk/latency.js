/**
 * How long people wait, in ms on their own clock: from the end of their words to the first sound that they hear, to the
 * first word that comes, from their interruption to silence, and over the line and back. Plain data.
 */

/** @typedef {"endToFirstSound" | "firstToken" | "interruptToSilence" | "roundTrip"} Figure */

/** Who waits longer was not waiting for this. */
const MEANT_MAX_MS = 30_000;
const APPEND = "input_audio_buffer.append";

export class Latency {
  #figure;
  /** Sound that was said to the server, in ms, and when the last of it was. */
  #appendedMs = 0;
  #appendedAt = 0;
  /** When the turn that is to be answered ended. @type {number | null} */
  #endedAt = null;
  #tokenTaken = false;
  /** When the user began to interrupt. @type {number | null} */
  #interruptedAt = null;
  #speaking = false;
  /** How much silence the server waits for before it says that speech has ended: that is no speech any more. */
  #silenceMs = 0;
  /** When which heartbeat went out. @type {Map<string, number>} */
  #beats = new Map();

  /** @param {(name: Figure, ms: number) => void} figure */
  constructor(figure) {
    this.#figure = figure;
  }

  /** A message went out. */
  sent(message, now) {
    switch (message.type) {
      case APPEND:
        this.#appendedMs += (message.audio.length * 3) / 4 / 2 / 24;
        this.#appendedAt = now;
        break;
      case "response.create":
        this.#ended(now);
        break;
      case "barge_in":
      case "response.cancel":
        this.#interrupt(now);
        break;
      case "session.heartbeat":
        this.#beats.clear();
        this.#beats.set(message.event_id, now);
    }
  }

  /** A message came in. */
  received(message, now) {
    switch (message.type) {
      case "session.created":
      case "session.updated":
      case "session.resumed":
        this.#silenceMs = message.session.audio?.input?.turn_detection?.silence_duration_ms ?? 0;
        break;
      case "input_audio_buffer.speech_started":
        this.#interrupt(this.#spokenAt(message.audio_start_ms, now));
        break;
      case "input_audio_buffer.speech_stopped":
        this.#ended(this.#spokenAt(message.audio_end_ms - this.#silenceMs, now));
        break;
      case "response.output_audio_transcript.delta":
      case "response.output_text.delta":
        if (this.#endedAt !== null && !this.#tokenTaken) {
          this.#tokenTaken = true;
          this.#take("firstToken", now - this.#endedAt);
        }
        break;
      case "session.heartbeat_ack":
        for (const beganAt of this.#beats.values()) this.#take("roundTrip", now - beganAt);
        this.#beats.clear();
    }
  }

  /** Sound never got to the server: its own count of it has none of that. */
  lost(ms) {
    this.#appendedMs -= ms;
  }

  /** The loudspeaker began, or fell silent. */
  sounds(speaking, now) {
    this.#speaking = speaking;
    if (speaking) {
      if (this.#endedAt !== null) this.#take("endToFirstSound", now - this.#endedAt);
      this.#endedAt = null;
    } else {
      if (this.#interruptedAt !== null) this.#take("interruptToSilence", now - this.#interruptedAt);
      this.#interruptedAt = null;
    }
  }

  #ended(at) {
    this.#endedAt = at;
    this.#tokenTaken = false;
  }

  #interrupt(at) {
    if (this.#speaking && this.#interruptedAt === null) this.#interruptedAt = at;
  }

  /** When what lies there in the sound that was said to the server was spoken. */
  #spokenAt(positionMs, now) {
    if (!Number.isFinite(positionMs)) return now;
    return Math.min(now, this.#appendedAt - Math.max(0, this.#appendedMs - positionMs));
  }

  #take(name, ms) {
    if (ms >= 0 && ms <= MEANT_MAX_MS) this.#figure(name, ms);
  }
}
