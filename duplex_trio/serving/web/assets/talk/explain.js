/** What went wrong, in plain words, and what a person can do about it. */

import { sentence } from "../shared/server.js";
import { seconds } from "../shared/units.js";

/** @typedef {import("../shared/server.js").Explained & {retry?: boolean}} Explained */

const ERRORS = {
  resource_exhausted: ["All places are taken", "Somebody has to leave first. Try again in a moment."],
  server_shutdown: ["The server is shutting down", "The conversation ends here. Try again when it is back."],
  session_replaced: ["This conversation goes on elsewhere", "Another window or device has taken it over."],
  session_replay: ["Too much was missed", "The server no longer had what was said meanwhile. Begin a new conversation."],
  session_resume_expired: ["The connection was away for too long", "The server has ended the conversation meanwhile."],
  disconnect_grace_expired: ["The connection was away for too long", "The server has ended the conversation meanwhile."],
  idle_ttl_expired: ["Nothing was said for a while", "The server has ended the conversation to make room."],
  invalid_resume_token: ["The conversation could not be taken up again", "Begin a new one."],
  unsupported: ["There is nothing to talk to here", "This server's deployment has no sessions."],
  engine_error: ["The model failed", "Begin again; if it repeats, see the server's log."],
  model_not_found: ["That model isn't served here", "Choose another under Settings."],
  server_vad_unavailable: ["The server can't hear where speech ends", "Choose “I hold to talk” under Settings."],
};

/** Devices, by the reason that the browser or the microphone gives. */
const DEVICES = {
  denied: ["The microphone isn't allowed", "Allow it for this page in the browser's address bar. You can write meanwhile."],
  insecure: ["Browsers give no microphone here", "They do on this machine (localhost) or where the server has TLS (--certfile). You can write meanwhile."],
  missing: ["No microphone was found", "Plug one in and press the button. You can write meanwhile."],
  busy: ["The microphone is in use", "Another program holds it. You can write meanwhile."],
  lost: ["The microphone is gone", "It was unplugged or taken away. Choose another under Settings, or write."],
  unsupported: ["This browser can't record sound", "Use a newer one. You can write meanwhile."],
};

/** An error that stands alone, or that ended a conversation. @returns {Explained} */
export function explainError(error) {
  const known = ERRORS[error.code];
  if (!known) return { title: "The server reports an error", advice: sentence(error.message) };
  return { title: known[0], advice: known[1], retry: true };
}

/** Why there is no sound from here. @param {string} kind @returns {Explained} */
export function explainDevice(kind, message = "") {
  const [title, advice] = DEVICES[kind] ?? ["The microphone can't be used", `${sentence(message)} You can write meanwhile.`];
  return { title, advice };
}

/** Sound that a line had no room for. @param {{lostSoundMs: number}} detail @returns {Explained} */
export function explainSlow({ lostSoundMs }) {
  const advice = `${seconds(lostSoundMs / 1000)} of what you said could not be sent. You can write meanwhile.`;
  return { title: "The connection is too slow for your voice", advice };
}

/** The end of a conversation. @returns {Explained} */
export function explainEnd({ code, message, opened = true }) {
  if (ERRORS[code]) return explainError({ code, message });
  if (code === 1001) return explainError({ code: "server_shutdown" });
  if (code === 1013) return explainError({ code: "resource_exhausted" });
  const advice = message ? sentence(message) : "The server or the network went away.";
  return { title: opened ? "The conversation has ended" : "The conversation could not begin", advice, retry: true };
}
