/** The page: what its controls do, and what it shows of a video. The parts it is made of know nothing of it. */

import { copy, saveAs } from "../shared/files.js";
import { EventLog } from "../shared/log.js";
import { explainUnopened } from "../shared/server.js";
import { seconds } from "../shared/units.js";
import { drawFigures } from "./board.js";
import { VideoConnection, newId } from "./connection.js";
import { LOG_RULES, describe, chunksSaid } from "./describe.js";
import { askServer, explainClose, explainError, explainRefusal } from "./explain.js";
import { Clip, Player, canPlay } from "./player.js";
import { drawPrompts } from "./prompts.js";
import { readSettings, settle } from "./settings.js";
import { Show } from "./show.js";
import { FIRST_PROMPT, offerSuggestions } from "./suggestions.js";

/** @typedef {"loading" | "idle" | "connecting" | "running" | "stopping" | "done" | "failed"} State */

const REPORT_EVERY_MS = 250;
const AMBIENT_EVERY_MS = 250;
const ASK_AGAIN_MS = 1000;
/** A shorter wait is seen by who looks; to tell of it would only be restless. */
const WAIT_TOLD_AFTER_MS = 700;

const $ = (id) => document.getElementById(id);
const video = $("video");
const ambient = $("ambient").getContext("2d");
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const touched = matchMedia("(pointer: coarse)");
const log = new EventLog({ list: $("log-list"), empty: $("log-empty"), counter: $("log-count") }, LOG_RULES);

/** @type {Show | null} */
let show = null;
/** Of the saved clip, while it is played again. @type {string | null} */
let replayUrl = null;
/** Whether somebody has moved the slider: until then it follows the model's own choice. */
let transitionChosen = false;
let waiting = 0;

// ---------------------------------------------------------------- what people do

function start() {
  const prompt = $("prompt").value.trim();
  if (!prompt) return void $("prompt").focus();
  const settings = readSettings();
  if (!settings) return;
  leave();
  const mine = (show = new Show(settings, prompt));
  hush();
  log.begin();
  enter("connecting");
  try {
    mine.connection = new VideoConnection({ ...settings.start, prompt }, settings.key, {
      sent: (message) => mine === show && log.add("out", message, describe(message)),
      received: (message) => mine === show && receive(message),
      payload: (metadata, data) => mine === show && take(metadata, data),
      closed: (close) => mine === show && closed(close),
    });
  } catch {
    const advice = "It has characters that a browser can't hand over. Check it under Settings.";
    fail({ title: "The API key can't be used", advice, wantsKey: true });
  }
}

function send(prompt) {
  if (document.body.dataset.state !== "running" || !prompt.trim()) return;
  const id = newId();
  const transition = Number($("transition").value);
  show.book.send(id, prompt.trim(), transition, performance.now());
  show.connection.send({
    type: "session.interaction",
    interaction: { event_id: id, event: { prompt: prompt.trim() }, transition_chunks: transition },
  });
  listPrompts();
}

function suggested(prompt) {
  if (document.body.dataset.state === "running") return send(prompt);
  $("prompt").value = prompt;
  $("prompt").focus();
}

function stop() {
  enter("stopping");
  show.connection.send({ type: "session.stop" });
}

/** Let go of the video that is shown. */
function leave() {
  const old = show;
  show = null;
  old?.connection?.close();
  old?.player?.discard();
  if (replayUrl) URL.revokeObjectURL(replayUrl);
  replayUrl = null;
  video.controls = false;
  video.removeAttribute("src");
  video.load();
}

function togglePlay() {
  if (!show?.player) return;
  if (replayUrl) return void (video.paused ? video.play() : video.pause());
  if (show.over && video.ended) return replay();
  show.player.paused ? show.player.play() : show.player.pause();
}

/** Once all was seen: the whole clip, with the browser's own controls. */
function replay() {
  show.player.discard();
  replayUrl = URL.createObjectURL(show.clip.file());
  video.src = replayUrl;
  video.controls = true;
  video.onplay = video.onpause = () => replayUrl && showPlaying(!video.paused);
  video.play();
}

// ---------------------------------------------------------------- what the server says

function receive(message) {
  log.add("in", message, describe(message));
  switch (message.type) {
    case "video.start":
      return begin(message);
    case "session.interaction.queued":
      show.book.queued(message.event_id, performance.now());
      show.lastAckMs = show.book.get(message.event_id)?.ackMs ?? show.lastAckMs;
      return listPrompts();
    case "session.done":
      return finish(message);
    case "error":
      return refused(message);
  }
}

function begin(message) {
  show.begun = message;
  const { config, mime_type: mimeType } = message;
  if (!canPlay(mimeType)) {
    return giveUp({ title: "This browser can't play the video", advice: `It has no decoder for ${mimeType}. Choose another format.` });
  }
  const lead = show.settings.start.streaming_buffer_seconds;
  const target = lead === null ? null : lead + show.chunkS;
  show.clip = new Clip(mimeType);
  show.player = new Player(video, mimeType, target, {
    frame: shown,
    moved,
    state: playerState,
    failed: (why) => giveUp({ title: "The video can't be shown", advice: `${why}. Try another format.` }),
  });
  $("model").textContent = config.model ?? "";
  if (!transitionChosen) $("transition").value = message.default_transition_chunks;
  sayTransition();
  offerSuggestions($("chips"), config.model, suggested);
  enter("running");
  $("prompt").value = "";
  if (!touched.matches) $("prompt").focus({ preventScroll: true }); // a phone's keyboard would cover the video
  listPrompts();
}

function take(metadata, data) {
  if (!show.clip) return;
  show.book.chunk(metadata, show.frames / show.fps);
  show.clip.add(data);
  show.frames += metadata.num_frames;
  if (metadata.kind === "media") {
    show.pace.chunk(metadata.num_frames, performance.now());
    show.player.append(data);
  }
  listPrompts();
  moved();
}

function refused(error) {
  if (error.event_id) {
    show.book.failed(error.event_id, explainRefusal(error));
    listPrompts();
    tell({ title: "A prompt was not taken", advice: explainRefusal(error) }, "warning");
  } else {
    show.error = error; // the close that may follow decides whether it was the end
    if (show.begun) tell({ title: "The server refused a message", advice: explainRefusal(error) }, "warning");
  }
}

function finish(message) {
  show.over = true;
  show.book.end(message.interactions);
  show.player?.end();
  if (show.error?.code === "server_shutdown") fail(explainError(show.error));
  else if (document.body.dataset.state !== "failed") enter("done", message.stopped ? "Stopped" : "Finished");
  listPrompts();
}

async function closed({ opened, code }) {
  if (show.over || document.body.dataset.state === "failed") return;
  show.player?.end();
  show.book.end();
  listPrompts();
  const mine = show;
  const explained = !opened
    ? await explainUnopened(show.settings.key)
    : show.error
      ? explainError(show.error)
      : explainClose(code);
  if (mine === show) fail(explained);
}

// ---------------------------------------------------------------- what is shown

/** @param {State} state */
function enter(state, said) {
  const words = { loading: "The model is loading…", idle: "Ready", connecting: "Connecting…", running: "Playing", stopping: "Stopping…" };
  document.body.dataset.state = state;
  say(said ?? words[state] ?? "");
  const live = state === "running" || state === "stopping" || state === "connecting";
  const steerable = state === "running" && show.begun.supports_interaction;
  $("prompt-label").textContent = state === "running" ? "What should it show next?" : "What should it show?";
  $("prompt").disabled = live && !steerable;
  if (state === "running" && !steerable) $("prompt-label").textContent = "This model's prompt can't be changed while it runs";
  $("go").textContent = state === "running" ? "Send" : "Start";
  $("go").disabled = state === "loading" || (live && !steerable);
  $("stop").disabled = !(state === "running" || state === "connecting");
  $("fields").disabled = live;
  $("blank").hidden = state !== "idle" && state !== "loading" && !(state === "failed" && !show?.frames);
  $("spinner").hidden = state !== "connecting";
  if (state === "connecting") $("caption").hidden = true;
  $("live").hidden = state !== "running";
  $("play").disabled = $("full").disabled = !show?.player;
  $("save").disabled = !show?.clip?.size;
  if (state === "running" || state === "connecting") $("settings").open = false;
  if (!live && !$("prompt").value && show) $("prompt").value = show.prompt;
  settle($("settings-said"), show?.begun);
}

/** The end, not as it should be. @param {import("./explain.js").Explained} explained */
function fail(explained) {
  enter("failed", explained.title);
  tell(explained, "error");
  if (!explained.wantsKey) return;
  $("settings").open = true;
  $("key").focus();
}

/** The end, as nothing more can be shown: a video that goes on would keep its place on the server. */
function giveUp(explained) {
  show.connection.send({ type: "session.stop" });
  fail(explained);
}

function tell({ title, advice }, kind) {
  $("notice-title").textContent = title;
  $("notice-advice").textContent = advice;
  $("notice").dataset.kind = kind;
  $("notice").hidden = false;
}

function hush() {
  $("notice").hidden = true;
}

function say(text) {
  if ($("status").textContent !== text) $("status").textContent = text;
}

function playerState(state) {
  const running = document.body.dataset.state === "running";
  if (state === "ended") show.connection.close();
  if (state === "paused") report(performance.now(), { always: true });
  clearTimeout(waiting);
  if (state === "waiting" && running) waiting = setTimeout(showWaiting, WAIT_TOLD_AFTER_MS);
  else if (running) say(state === "paused" ? "Paused" : "Playing");
  $("spinner").hidden = true;
  showPlaying(state === "playing" || state === "waiting");
}

function showWaiting() {
  if (document.body.dataset.state !== "running") return;
  say("Waiting for pictures…");
  $("spinner").hidden = false;
}

function showPlaying(playing) {
  $("play").dataset.playing = playing;
  $("play").setAttribute("aria-label", playing ? "Pause" : video.ended ? "Play again" : "Play");
}

/** A picture is on the screen. */
function shown(mediaS, now) {
  // Half a frame: a frame's time and the sum of the frames before it are rounded apart.
  const seen = show.book.seen(mediaS + 0.5 / show.fps, now);
  if (seen.length) {
    show.lastPictureMs = seen.at(-1).pictureMs;
    $("news").textContent = `Now on screen: ${seen.at(-1).prompt}`;
    listPrompts();
    moved();
  }
  const started = show.book.all.filter((one) => one.pictureMs !== null);
  const caption = started.at(-1)?.prompt ?? show.prompt;
  if ($("caption").textContent !== caption) $("caption").textContent = caption;
  $("caption").hidden = false;
  if (now - show.ambientAt > AMBIENT_EVERY_MS && !calm.matches) {
    show.ambientAt = now;
    ambient.drawImage(video, 0, 0, 16, 9);
  }
  report(now);
}

function moved() {
  if (!show?.player) return;
  drawFigures(show, video);
  $("save").disabled = !show.clip.size;
  document.body.dataset.heldS = show.player.heldS.toFixed(3);
  report(performance.now());
}

/** Tell the server how far this is: it generates no further ahead of that than it was told to, nor while it is paused. */
function report(now, { always = false } = {}) {
  if (show.over || show.settings.start.streaming_buffer_seconds === null) return;
  const due = now - show.reportedAt >= REPORT_EVERY_MS && video.currentTime > show.reportedS;
  if (!due && !always) return;
  show.reportedAt = now;
  show.reportedS = video.currentTime;
  show.connection.send({ type: "session.playback", position_seconds: Number(video.currentTime.toFixed(3)) });
}

function listPrompts() {
  $("prompts-none").hidden = Boolean(show?.begun);
  drawPrompts($("prompts"), show?.begun ? show.prompt : null, show?.book.all ?? []);
}

function sayTransition() {
  const chunks = Number($("transition").value);
  const said = chunks && show?.chunkS ? `${chunksSaid(chunks)} · ${seconds(chunks * show.chunkS)}` : chunksSaid(chunks);
  $("transition-said").textContent = said;
  $("transition").setAttribute("aria-valuetext", said);
}

/** Before anything is asked for: what is served here, and whether a key is wanted. */
async function greet() {
  const { loading, model, wantsKey, talks } = await askServer($("key").value);
  $("to-talk").hidden = !talks;
  if (show) return;
  if (loading) setTimeout(greet, ASK_AGAIN_MS);
  const state = loading ? "loading" : "idle";
  if (document.body.dataset.state !== state) enter(state);
  $("model").textContent = model;
  offerSuggestions($("chips"), model, suggested);
  if (wantsKey) $("key").placeholder = "this server wants one";
}

// ---------------------------------------------------------------- the controls

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const state = document.body.dataset.state;
  if (["loading", "connecting", "stopping"].includes(state)) return;
  if (state !== "running") return start();
  send($("prompt").value);
  $("prompt").value = "";
});
$("prompt").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  $("composer").requestSubmit();
});
$("stop").addEventListener("click", () => {
  if (document.body.dataset.state === "running") return stop();
  leave();
  enter("idle");
});
$("play").addEventListener("click", togglePlay);
video.addEventListener("click", () => video.controls || togglePlay());
$("save").addEventListener("click", () => {
  saveAs(show.clip.file(), show.clip.name(show.prompt, show.begun.config.seed ?? 0));
});
$("full").addEventListener("click", () => {
  if (document.fullscreenElement) document.exitFullscreen();
  else if ($("stage").requestFullscreen) $("stage").requestFullscreen();
  else video.webkitEnterFullscreen?.(); // iPhones
});
$("notice-close").addEventListener("click", hush);
$("transition").addEventListener("input", () => {
  transitionChosen = true;
  sayTransition();
});
for (const id of ["log-kind", "log-words"]) {
  $(id).addEventListener("input", () => log.filter($("log-kind").value, $("log-words").value));
}
$("log-copy").addEventListener("click", (event) => copy(log.lines(true), event.currentTarget));
$("log-export").addEventListener("click", () => {
  saveAs(new Blob([log.lines()], { type: "application/x-ndjson" }), "video-messages.jsonl");
});
$("log-clear").addEventListener("click", () => log.clear());
addEventListener("pagehide", () => show?.connection?.close());

$("prompt").value ||= FIRST_PROMPT;
offerSuggestions($("chips"), "", suggested);
sayTransition();
enter("idle");
greet();
