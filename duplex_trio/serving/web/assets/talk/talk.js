/** The page: what its controls do, and what it shows of a conversation. The parts it is made of know nothing of it. */

import { copy, saveAs } from "../shared/files.js";
import { isSendable, remember, remembered } from "../shared/key.js";
import { EventLog } from "../shared/log.js";
import { explainUnopened } from "../shared/server.js";
import { clock } from "../shared/units.js";
import { hideBanner, showAway, showBack } from "./banner.js";
import { Board } from "./board.js";
import { Call, TRAIL_MS } from "./call.js";
import { LOG_RULES, describe } from "./describe.js";
import { explainDevice, explainEnd, explainError, explainSlow } from "./explain.js";
import { heldBy, keysOf } from "./keys.js";
import { linesOf } from "./lines.js";
import { listDevices } from "./microphone.js";
import { offerQuestions, wordsFor } from "./say.js";
import { askDoor } from "./door.js";
import { Settings } from "./settings.js";
import "./sheet.js";
import { TranscriptView } from "./transcript.js";
import { Waves } from "./waves.js";

const $ = (id) => document.getElementById(id);
const ASK_AGAIN_MS = 1000;
/** States in which something is to be seen of what is heard, also without a microphone. */
const MOVES = new Set(["hearing", "thinking", "speaking"]);

const log = new EventLog({ list: $("log-list"), empty: $("log-empty"), counter: $("log-count") }, LOG_RULES);
const board = new Board();
const view = new TranscriptView({
  scroll: $("scroll"),
  list: $("turns"),
  older: $("older"),
  empty: $("empty"),
  newest: $("newest"),
  news: $("news"),
});
const waves = new Waves($("waves"), () => call?.levels ?? { you: 0, model: 0 });
const settings = new Settings((patch, field) => call && settings.noteSent(call.update(patch), field));

/** @type {Call | null} */
let call = null;
/** Made at the first press, without which browsers let no page be heard. @type {AudioContext | null} */
let context = null;
/** What a visitor wanted before the model was there. @type {(() => void) | null} */
let wanted = null;
let key = remembered();
/** The last one that was let in. */
let good = "";
let ready = false;
let beganAt = 0;
let drawing = 0;
/** What is told is of a server that cannot be reached: it is over when one can. */
let passing = false;
/** What is told is that all places are taken: a server that takes nobody in, or is gone, has none. */
let full = false;
/** The conversation for which the browser asks for leave to use the microphone. @type {Call | null} */
let asking = null;
/** Whether turns were held the last time that somebody chose. */
let held = settings.mode === "hold";
/** What was written, by the ids of its messages, until the server has it. @type {Map<string, string>} */
const unsent = new Map();

// ---------------------------------------------------------------- the server, before and between conversations

/** Ask the server how it is until there is somebody to talk to. */
async function greet() {
  const door = await askDoor(key);
  ready = door.kind === "ready";
  if (door.kind !== "key") $("door").hidden = true;
  if (ready) return welcome(door);
  if (full) hush();
  if (door.kind === "key") return openDoor(door.wrong);
  if (door.kind === "video") return location.replace("video");
  show("loading", door);
  setTimeout(greet, ASK_AGAIN_MS);
}

function welcome(door) {
  good = key;
  $("model").textContent = door.models[0] ?? "";
  $("to-video").hidden = $("to-video-too").hidden = !door.video;
  $("change-key").hidden = !key;
  const writes = door.capabilities?.supports_text_only_turn !== false;
  $("words").disabled = !writes;
  $("words").placeholder = writes ? "Write instead of speaking…" : "This model reads nothing: talk to it.";
  $("chips").hidden = !writes;
  if (passing) hush();
  settings.offer(door);
  showIdle();
  wanted?.();
  wanted = null;
}

function openDoor(wrong) {
  $("door").hidden = false;
  $("door-close").hidden = !ready && !good;
  $("key-error").textContent = wrong ? "That key is not the one." : "";
  show("key");
  $("key").focus();
}

// ---------------------------------------------------------------- what people do

/** The big button: begin, or the microphone of a conversation that is on. */
async function talk(event) {
  wake();
  if (document.body.dataset.state === "key") return $("key").focus();
  if (!ready) {
    wanted = () => talk();
    return show("loading", { kind: "loading" });
  }
  if (!call) begin();
  if (asking === call) return;
  if (!call.hasMicrophone) return open();
  if (settings.mode !== "hold") return call.hear(!call.hears, TRAIL_MS);
  if (event?.detail === 0) hold(!call.hears); // by the keyboard or an aid, which cannot hold
}

function begin() {
  hush();
  hideBanner();
  log.begin();
  board.clear();
  settings.begin();
  let mine = null;
  const asked = { key, model: settings.model, session: settings.session(), ownsTurns: settings.modelOwnsTurns };
  mine = call = new Call(asked, context, {
    changed: () => mine === call && draw(),
    message: (way, message) => mine === call && noted(way, message),
    phase: (phase, detail) => mine === call && moved(phase, detail),
    figure: (figure, value) => mine === call && board.take(figure, value),
    error: (error) => mine === call && refused(error),
    lost: (reason) => mine === call && tell(explainDevice(reason), "warning"),
  });
  call.volume = Number($("volume").value);
  if ($("output").value) call.playOn($("output").value);
  beganAt = Date.now();
  document.body.dataset.mode = "live";
  document.body.dataset.heard = "false";
  draw();
}

/** Let the model hear. */
async function open() {
  const mine = call;
  asking = mine;
  try {
    await mine.listen({ deviceId: $("input").value, muted: () => settings.mode === "hold" });
    if (mine !== call) return;
    if ($("notice").dataset.kind === "warning") hush(); // of the microphone that was not there
    document.body.dataset.heard = "true";
    settings.offerDevices(await listDevices()); // their names are told only now
  } catch (error) {
    if (mine === call) tell(explainDevice(error.kind ?? error.reason, error.message), "warning");
  } finally {
    if (asking === mine) asking = null;
    draw();
  }
}

function write() {
  const text = $("words").value.trim();
  if (!text) return;
  wake();
  if (!ready) {
    wanted = write;
    return;
  }
  if (!call) begin();
  document.body.dataset.heard = "true";
  unsent.set(call.write(text), text);
  fill("");
}

function interrupt() {
  call?.interrupt();
}

function end() {
  call?.close();
  giveBack([...unsent.keys()]);
  leave();
  showIdle();
}

/** The conversation is over; what was said of it stays. */
function leave() {
  if (call) drawNow();
  call = null;
  document.body.dataset.mode = "idle";
  waves.run(false);
  hideBanner();
}

/** Browsers let a page be heard from its visitor's first press on. */
function wake() {
  context ??= new AudioContext();
  if (context.state === "suspended") context.resume();
}

function hold(down) {
  if (!call?.hasMicrophone || settings.mode !== "hold") return;
  call.hold(down);
  $("talk").dataset.held = String(call.hears);
}

// ---------------------------------------------------------------- what happens

function moved(phase, detail) {
  if (phase === "away") showAway(detail);
  if (phase === "resumed") showBack(detail);
  if (phase === "slow") tell(explainSlow(detail), "warning");
  if (phase === "closed") closed(detail);
}

async function closed(detail) {
  leave();
  showIdle();
  if (detail.expected) return;
  giveBack([...unsent.keys()]);
  const told = detail.opened || typeof detail.code === "string";
  const explained = told ? explainEnd(detail) : { ...(await explainUnopened(key)), retry: true };
  if (call) return; // another one has begun meanwhile
  if (explained.wantsKey) return openDoor(Boolean(key));
  tell(explained, "error");
  passing = !told;
  full = detail.code === "resource_exhausted" || detail.code === 1013;
  show("failed");
  ready = false;
  greet();
}

function noted(way, message) {
  log.add(way, message, describe(message));
  // Written turns are taken in their order.
  const written = way === "in" && message.type === "conversation.item.added" && message.item.content?.[0]?.type === "input_text";
  if (written) unsent.delete(unsent.keys().next().value);
}

/** What was written and did not arrive stands where it was written again, before what has been written since. */
function giveBack(ids) {
  const texts = ids.map((id) => unsent.get(id));
  for (const id of ids) unsent.delete(id);
  if (texts.length) fill([...texts, $("words").value].filter(Boolean).join("\n"));
}

function refused(error) {
  if (unsent.has(error.event_id)) giveBack([error.event_id]);
  if (settings.refuse(error)) return;
  if (error.code === "response_cancel_not_active" || error.code === "input_audio_buffer_commit_empty") return;
  tell(explainError(error), "warning");
}

// ---------------------------------------------------------------- what is shown

/** Once a frame at most, however many messages come. */
function draw() {
  drawing ||= requestAnimationFrame(drawNow);
}

function drawNow() {
  cancelAnimationFrame(drawing);
  drawing = 0;
  if (!call) return;
  const { state } = call;
  view.draw(linesOf(call.turns));
  show(state);
  waves.run(call.hears || MOVES.has(state));
  $("interrupt").disabled = !call.answers;
  $("end").disabled = false;
}

/** @param {string} state @param {object} [detail] */
function show(state, detail) {
  const { hears, hasMicrophone } = call ?? {};
  const about = { detail, mode: settings.mode, hears, hasMicrophone, asks: Boolean(call) && asking === call, waiting: Boolean(wanted) };
  const { status, said, hint, button } = wordsFor(state, about);
  document.body.dataset.state = state;
  put("status", status);
  put("say", said);
  put("hint", hint);
  put("talk-label", button);
  const off = call?.hasMicrophone && !call.hears && settings.mode !== "hold";
  $("talk").dataset.mic = off ? "off" : "on";
  $("talk").disabled = state === "key" || state === "connecting" || (state === "loading" && Boolean(wanted));
  if (call?.hasMicrophone) $("talk").setAttribute("aria-pressed", String(call.hears));
  else $("talk").removeAttribute("aria-pressed");
}

function showIdle() {
  $("interrupt").disabled = $("end").disabled = true;
  $("talk").dataset.held = "false";
  show(ready ? "idle" : "loading");
}

function tell({ title, advice, retry }, kind) {
  put("notice-title", title);
  put("notice-advice", advice);
  $("notice").dataset.kind = kind;
  $("notice-retry").hidden = !retry || Boolean(call);
  $("notice").hidden = false;
}

function hush() {
  passing = full = false;
  $("notice").hidden = true;
}

function fill(text) {
  $("words").value = text;
  $("send").disabled = !text;
}

function put(id, text) {
  if ($(id).textContent !== text) $(id).textContent = text;
}

setInterval(() => call && put("elapsed", clock((Date.now() - beganAt) / 1000)), 500);

// ---------------------------------------------------------------- the controls

$("talk").addEventListener("click", talk);
$("interrupt").addEventListener("click", interrupt);
$("end").addEventListener("click", end);
heldBy($("talk"), hold);
keysOf({ talk, hold, interrupt, write: () => $("words").focus(), holds: () => settings.mode === "hold" && Boolean(call?.hasMicrophone) });

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  write();
});
$("words").addEventListener("input", () => ($("send").disabled = !$("words").value.trim()));
$("words").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  write();
});
$("door").addEventListener("submit", (event) => {
  event.preventDefault();
  const typed = $("key").value.trim();
  if (!isSendable(typed)) return put("key-error", "Browsers can hand over letters, digits and - . _ ~ only: this key has others.");
  key = typed;
  remember(key);
  greet();
});
$("change-key").addEventListener("click", () => openDoor(false));
$("door-close").addEventListener("click", () => {
  $("door").hidden = true;
  if (ready) return showIdle();
  key = good; // another one was tried, and is not let in
  remember(key);
  greet();
});
$("banner-now").addEventListener("click", () => call?.retry());
$("notice-close").addEventListener("click", hush);
$("notice-retry").addEventListener("click", () => {
  hush();
  talk();
});
$("turns-mode").addEventListener("change", () => {
  const before = held;
  held = settings.mode === "hold";
  // From one way to end turns to another, who is muted stays muted.
  if (call?.hasMicrophone && held !== before) call.hear(!held, TRAIL_MS);
});
$("input").addEventListener("change", () => call?.hasMicrophone && open());
$("output").addEventListener("change", () => call?.playOn($("output").value));
$("volume").addEventListener("input", () => call && (call.volume = Number($("volume").value)));
navigator.mediaDevices?.addEventListener("devicechange", async () => settings.offerDevices(await listDevices()));
for (const id of ["log-kind", "log-words"]) {
  $(id).addEventListener("input", () => log.filter($("log-kind").value, $("log-words").value));
}
$("log-copy").addEventListener("click", (event) => copy(log.lines(true), event.currentTarget));
$("log-export").addEventListener("click", () => {
  saveAs(new Blob([log.lines()], { type: "application/x-ndjson" }), "talk-messages.jsonl");
});
$("log-clear").addEventListener("click", () => log.clear());
addEventListener("pagehide", () => call?.close());

offerQuestions($("chips"), (question) => {
  $("words").value = question;
  write();
});
show("loading", { kind: "asking" });
greet();
