/** What went wrong, in plain words, and what a person can do about it. */

import { askHealth, sentence } from "../shared/server.js";

/** @typedef {import("../shared/server.js").Explained} Explained */

const ERRORS = {
  invalid_start: ["The server can't make this video", "Change the setting that it names and start again."],
  model_not_found: ["That model isn't served here", "Start again without naming a model."],
  resource_exhausted: ["All places are taken", "Every video keeps a processor core busy."],
  server_shutdown: ["The server is shutting down", "Save what you have; start again when it is back."],
  start_timeout: ["The connection took too long to begin", "Check the network and start again."],
  stall_timeout: ["Nothing happened for a minute", "The server gave up. Start again, and keep this tab in front."],
  generation_failed: ["The model failed", "What came so far can be saved. Start again; if it repeats, see the server's log."],
  too_many_errors: ["Too many messages were refused", "Start again."],
  unsupported: ["No video is served here", "Start the server with a model of video, for example --video-model scene."],
};

const REFUSALS = {
  input_backpressure: "Too many prompts at once. Wait a moment and send it again.",
  resource_exhausted: "This video has had too many prompts. Start a new one.",
};

/** An error that ended a video. @returns {Explained} */
export function explainError(error) {
  const known = ERRORS[error.code];
  if (!known) return { title: "The video ended with an error", advice: sentence(error.message) };
  const said = error.message ? `${sentence(error.message)} ` : "";
  return { title: known[0], advice: said + known[1] };
}

/** Why one prompt did nothing. */
export function explainRefusal(error) {
  return REFUSALS[error.code] ?? sentence(error.message);
}

/** The end of a connection that said nothing. @returns {Explained} */
export function explainClose(code) {
  if (code === 1009) return { title: "A message was too long", advice: "Use a shorter prompt and start again." };
  if (code === 1001) return explainError({ code: "server_shutdown" });
  return {
    title: "The connection was lost",
    advice: "The server or the network went away. What came so far can be saved; press Start to begin again.",
  };
}

/** What a server tells of itself: whether it still loads, its model of video, and whether it keeps that from those
 * without a key, and whether there is somebody to talk to. */
export async function askServer(key) {
  const { ok, health } = await askHealth(key); // where nothing answers, pressing Start will say why
  return { loading: health.status === "loading", model: health.video?.model ?? "", wantsKey: ok && !health.video, talks: health.session_mode === "duplex" };
}
