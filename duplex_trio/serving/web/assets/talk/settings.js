/** The settings: what their fields say as a session object, what changes at once, and which field an error is about. */

import { reveal } from "./sheet.js";

const $ = (id) => document.getElementById(id);

/** What a field is on the wire (wire.md 3.1). A refusal names the place in the session; its beginning finds the field. */
const PLACES = [
  ["session.audio.input.turn_detection.threshold", "threshold"],
  ["session.audio.input.turn_detection.silence_duration_ms", "silence"],
  ["session.audio.input.turn_detection.eagerness", "eagerness"],
  ["session.audio.input.turn_detection", "turns-mode"],
  ["turn_detection", "turns-mode"],
  ["session.audio.output.voice", "voice"],
  ["session.voice", "voice"],
  ["session.audio.output.speed", "speed"],
  ["session.output_modalities", "modality"],
  ["session.instructions", "instructions"],
  ["session.model", "served"],
];

/** Refusals that only mean that it is too late in this conversation. */
const TOO_LATE = new Set([
  "cannot_update_voice",
  "voice_update_after_audio_unsupported",
  "instructions_update_unsupported",
  "model_update_unsupported",
]);

const NEXT_TIME = "Applies to the next conversation.";

export class Settings {
  /** The model decides by itself when to speak. */
  modelOwnsTurns = false;
  #locksInstructions = false;
  /** Ids of the messages that carry a change, each with the field it is of. @type {Map<string, string>} */
  #sent = new Map();
  #changed;

  /** @param {(patch: object, field: string) => void} changed   A field was changed that a conversation can follow. */
  constructor(changed) {
    this.#changed = changed;
    for (const id of ["instructions", "threshold", "silence", "eagerness", "modality", "speed", "voice", "served"]) {
      $(id).addEventListener("change", () => this.#change(id));
    }
    $("turns-mode").addEventListener("change", () => {
      this.#showMode();
      this.#change("turns-mode");
    });
    $("settings").addEventListener("submit", (event) => event.preventDefault());
    this.#showMode();
  }

  /** How turns end: "server_vad", "semantic_vad", "hold" or "own". */
  get mode() {
    return $("turns-mode").value;
  }

  get model() {
    return $("served").value;
  }

  /** The session object of a new conversation. `heard` without a microphone: nothing is waited for. */
  session() {
    const parts = ["instructions", "turns-mode", "voice", "modality", "speed"].map((id) => this.#patch(id));
    return parts.reduce(merge, { type: "realtime" });
  }

  /** A conversation begins: what was put off is in force now. */
  begin() {
    this.#sent.clear();
    for (const field of document.querySelectorAll("#settings .field")) this.#say(field, "", "");
  }

  /** A change went out under that id. */
  noteSent(eventId, field) {
    this.#sent.set(eventId, field);
  }

  /**
   * An error about a setting goes to its field.
   * @returns {boolean} whether it was about one
   */
  refuse(error) {
    const param = error.param ?? "";
    const named = PLACES.find(([place]) => param === place || param.startsWith(`${place}.`))?.[1];
    const id = named ?? this.#sent.get(error.event_id);
    if (!id) return false;
    const later = TOO_LATE.has(error.code);
    this.#say(fieldOf(id), later ? "later" : "error", later ? NEXT_TIME : humanly(error.message, param));
    if (!later) {
      $(id).setAttribute("aria-invalid", "true");
      reveal(id);
    }
    return true;
  }

  /** What is served, to choose from. */
  offer({ models, voices, capabilities }) {
    options($("served"), models.map((name) => [name, name]));
    $("model-field").hidden = models.length < 2;
    $("model-field").nextElementSibling.classList.toggle("wide", models.length < 2);
    options($("voice"), [["", "Model's own"], ...voices.map((name) => [name, name])]);
    this.modelOwnsTurns = Boolean(capabilities?.supports_model_native_turn_policy);
    this.#locksInstructions = Boolean(capabilities?.locks_context_after_input);
    const own = $("turns-mode").querySelector('[value="own"]');
    own.disabled = !this.modelOwnsTurns;
    own.textContent = this.modelOwnsTurns ? "The model decides" : "The model decides (not this one)";
    if (this.modelOwnsTurns && this.mode === "server_vad") $("turns-mode").value = "own";
    this.#showMode();
  }

  /** Where sound comes from and goes to. */
  offerDevices({ inputs, outputs }) {
    for (const [id, found] of [["input", inputs], ["output", outputs]]) {
      const named = found.filter((device) => device.id && device.id !== "default" && device.label);
      options($(id), [["", "Default"], ...named.map((device) => [device.id, device.label])]);
    }
  }

  #change(id) {
    const field = fieldOf(id);
    $(id).removeAttribute("aria-invalid");
    this.#say(field, "", "");
    if (document.body.dataset.mode !== "live") return;
    const late = id === "served" || (id === "instructions" && this.#locksInstructions && document.body.dataset.heard === "true");
    if (late) this.#say(field, "later", NEXT_TIME);
    else this.#changed(this.#patch(id, true), id);
  }

  /** A field as a part of the session; `always` also says what is the default. */
  #patch(id, always = false) {
    const value = $(id).value.trim();
    switch (id) {
      case "instructions":
        return value ? { instructions: value } : always ? { instructions: null } : {};
      case "voice":
        return value ? { audio: { output: { voice: value } } } : always ? { audio: { output: { voice: null } } } : {};
      case "speed":
        return value ? { audio: { output: { speed: Number(value) } } } : always ? { audio: { output: { speed: 1 } } } : {};
      case "modality":
        return value === "text" || always ? { output_modalities: value === "text" ? ["text"] : ["text", "audio"] } : {};
      default:
        return this.#turns(always);
    }
  }

  #turns(always) {
    if (this.mode === "own" && !always) return {}; // such a model's sessions begin like that
    const detection = { server_vad: vad, semantic_vad: semantic }[this.mode]?.() ?? null;
    return { audio: { input: { turn_detection: detection } } };
  }

  #showMode() {
    for (const field of document.querySelectorAll("#settings .field[data-mode]")) {
      field.hidden = field.dataset.mode !== this.mode;
    }
    document.body.dataset.turns = this.mode;
    $("hold-key").hidden = this.mode !== "hold";
  }

  #say(field, kind, text) {
    field.dataset.kind = kind;
    const said = field.querySelector(".said");
    if (said && said.textContent !== text) said.textContent = text;
  }
}

function vad() {
  const found = { type: "server_vad" };
  if ($("threshold").value) found.threshold = Number($("threshold").value);
  if ($("silence").value) found.silence_duration_ms = Number($("silence").value);
  return found;
}

function semantic() {
  return { type: "semantic_vad", eagerness: $("eagerness").value };
}

function fieldOf(id) {
  return $(id).closest(".field");
}

/** An error of the wire without the wire's name of the field, which stands beside it anyway. */
function humanly(message, param) {
  const said = message.replace(param, "It").replace(/^The It/, "It");
  return said[0].toUpperCase() + said.slice(1);
}

function options(select, choices) {
  const before = select.value;
  select.replaceChildren(...choices.map(([value, label]) => new Option(label, value)));
  if (choices.some(([value]) => value === before)) select.value = before;
}

function merge(into, from) {
  for (const [name, value] of Object.entries(from)) {
    const both = value && typeof value === "object" && !Array.isArray(value) && into[name];
    into[name] = both ? merge(into[name], value) : value;
  }
  return into;
}
