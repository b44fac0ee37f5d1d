/**
 * What both sides said, made of what the server tells and of what was heard. Plain data: no page, no clock.
 */

/**
 * @typedef {object} Turn
 * @property {string} id
 * @property {"you" | "model" | "note"} who
 * @property {"partial" | "speaking" | "done" | "interrupted" | "failed"} state
 * @property {string} text            All that is known of its words.
 * @property {string} [heardText]     The beginning of `text` that was heard; of a turn that makes no sound there is none.
 * @property {number | null} latencyMs   From the end of the question to the first sound, as the server measured it.
 * @property {string} [kind]          Of a note: "call" or "error".
 */

const KEPT_MAX = 500;
/** States in which more may come. */
const OPEN = new Set(["partial", "speaking"]);
/** A speaking rate to go on with until the length of a text is known: about 15 characters a second. */
const MS_PER_CHARACTER = 65;

/** One answer: its words with the places in its sound at which they begin. */
class Answer {
  audioMs = 0;
  playedMs = 0;
  complete = false;
  /** @type {{text: string, startMs: number}[]} */
  parts = [];
  #lastDeltaMs = null;

  addSound(ms) {
    this.#lastDeltaMs = this.audioMs;
    this.audioMs += ms;
  }

  addWords(text) {
    // A text follows the sound that it begins with, or comes before any of it.
    this.parts.push({ text, startMs: this.#lastDeltaMs ?? this.audioMs });
    this.#lastDeltaMs = null;
  }

  /** The words whose sound has begun, as far as is known. */
  get heardText() {
    let heard = "";
    for (const [index, { text, startMs }] of this.parts.entries()) {
      if (this.playedMs <= startMs) break;
      const endMs = this.#endMs(index);
      if (this.playedMs >= endMs) {
        heard += text;
        continue;
      }
      heard += wholeWords(text, (this.playedMs - startMs) / (endMs - startMs));
      break;
    }
    return heard;
  }

  #endMs(index) {
    const next = this.parts[index + 1];
    if (next) return next.startMs;
    if (this.complete) return this.audioMs;
    const { text, startMs } = this.parts[index];
    return Math.max(this.audioMs, startMs + text.length * MS_PER_CHARACTER);
  }
}

export class Conversation {
  /** Oldest first. @type {Turn[]} */
  turns = [];
  /** @type {Map<string, Turn>} */
  #byId = new Map();
  /** @type {Map<string, Answer>} */
  #answers = new Map();
  #notes = 0;

  /** A message went out. */
  sent(message) {
    if (message.type === "barge_in") this.#cutAll();
  }

  /** A message came in. */
  received(message) {
    switch (message.type) {
      case "input_audio_buffer.speech_started":
        this.#turn(message.item_id, "you");
        break;
      case "conversation.item.added":
        this.#added(message.item);
        break;
      case "conversation.item.deleted":
        this.#drop(message.item_id);
        break;
      case "conversation.item.input_audio_transcription.delta":
        this.#turn(message.item_id, "you").text += message.delta ?? "";
        break;
      case "conversation.item.input_audio_transcription.completed":
        this.#transcribed(message.item_id, message.transcript);
        break;
      case "conversation.item.input_audio_transcription.failed":
        Object.assign(this.#turn(message.item_id, "you"), { state: "failed" });
        break;
      case "response.created":
        this.#turn(message.response.id, "model").state = "speaking";
        this.#answers.set(message.response.id, new Answer());
        break;
      case "response.output_audio.delta":
        this.#sound(message);
        break;
      case "response.output_audio_transcript.delta":
        this.#words(message);
        break;
      case "response.output_text.delta":
        this.#turn(message.response_id, "model").text += message.delta;
        break;
      case "response.function_call_arguments.done":
        this.note("call", `${message.name ?? "function"}(${message.arguments ?? ""})`);
        break;
      case "output_audio_buffer.cleared":
        this.#interrupted(message.response_id);
        break;
      case "response.done":
        this.#done(message.response);
    }
  }

  /** So much of an answer has been heard. */
  played(responseId, playedMs) {
    const answer = this.#answers.get(responseId);
    if (!answer) return;
    answer.playedMs = playedMs;
    const turn = this.#byId.get(responseId);
    if (turn?.heardText !== undefined) turn.heardText = answer.heardText;
  }

  /** Nothing more will come of it. */
  end() {
    this.#cutAll();
    for (const turn of [...this.turns]) {
      if (!OPEN.has(turn.state)) continue;
      if (turn.text) turn.state = "done";
      else this.#drop(turn.id);
    }
  }

  /** Something that is neither side's. @param {string} kind @param {string} text */
  note(kind, text) {
    this.#notes += 1;
    const turn = this.#turn(`note-${this.#notes}`, "note");
    Object.assign(turn, { kind, text, state: "done" });
  }

  // ---------------------------------------------------------------- turns

  #turn(id, who) {
    const known = this.#byId.get(id);
    if (known) return known;
    const turn = { id, who, state: "partial", text: "", latencyMs: null };
    this.#byId.set(id, turn);
    this.turns.push(turn);
    if (this.turns.length > KEPT_MAX) this.#drop(this.turns[0].id);
    return turn;
  }

  #drop(id) {
    this.turns = this.turns.filter((turn) => turn.id !== id);
    this.#byId.delete(id);
    this.#answers.delete(id);
  }

  #added(item) {
    if (item.type !== "message" || item.role !== "user") return;
    const said = item.content.map((part) => part.text ?? part.transcript ?? "").join(" ");
    const turn = this.#turn(item.id, "you");
    if (!said) return;
    turn.text = said;
    turn.state = "done";
  }

  #transcribed(id, text) {
    // Nothing was said after all: a cough is no turn.
    if (!text.trim()) return this.#drop(id);
    Object.assign(this.#turn(id, "you"), { text, state: "done" });
  }

  // ---------------------------------------------------------------- answers

  #sound({ response_id: id, delta, duplex }) {
    const turn = this.#turn(id, "model");
    turn.heardText ??= "";
    const wait = duplex?.request_metrics?.speech_end_to_first_audio_ms;
    if (Number.isFinite(wait)) turn.latencyMs = wait;
    this.#answers.get(id)?.addSound(((delta.length * 3) / 4 / 2 / (duplex?.sample_rate_hz ?? 24_000)) * 1000);
  }

  #words({ response_id: id, delta }) {
    const turn = this.#turn(id, "model");
    turn.heardText ??= "";
    turn.text += delta;
    this.#answers.get(id)?.addWords(delta);
  }

  #done({ id, status }) {
    const answer = this.#answers.get(id);
    if (answer) answer.complete = true;
    const turn = this.#turn(id, "model");
    if (status === "failed") turn.state = "failed";
    else if (status === "cancelled") this.#interrupted(id);
    else if (turn.state === "speaking") turn.state = "done";
    if (!turn.text && turn.state === "done") this.#drop(id); // nothing but a call
    else if (answer) this.played(id, answer.playedMs);
  }

  #interrupted(id) {
    if (!id) return this.#cutAll();
    const turn = this.#byId.get(id);
    if (!turn) return;
    if (!turn.text) return this.#drop(id);
    if (turn.heardText === undefined || turn.heardText.length < turn.text.length) turn.state = "interrupted";
  }

  #cutAll() {
    for (const turn of [...this.turns]) {
      const sounds = turn.heardText !== undefined && turn.heardText.length < turn.text.length;
      if (turn.who === "model" && (turn.state === "speaking" || (turn.state === "done" && sounds))) this.#interrupted(turn.id);
    }
  }
}

/** The first `share` of a text, up to the word that is being spoken and without it. */
function wholeWords(text, share) {
  let count = Math.floor(text.length * share);
  if (count >= text.length) return text;
  while (count > 0 && !/\s/.test(text[count])) count -= 1;
  return text.slice(0, count);
}
