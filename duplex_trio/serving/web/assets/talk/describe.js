/** Messages in a few words, and what the list of them keeps: everything but the sound. */

const QUIET = new Set([
  "input_audio_buffer.append",
  "playback.ack",
  "playback.acknowledged",
  "session.heartbeat",
  "session.heartbeat_ack",
  "session.event_ack",
  "response.output_audio.delta",
]);
const SOUND = /^(input_audio_buffer|output_audio_buffer|playback|response\.output_audio\.)/;

/** @type {import("../shared/log.js").LogRules} */
export const LOG_RULES = {
  quiet: QUIET,
  kinds: {
    conversation: ({ type }) => /^(conversation|response)\b/.test(type) && !QUIET.has(type),
    session: ({ type }) => /^(session|rate_limits|overlap|turn)\b/.test(type),
    sound: ({ type }) => SOUND.test(type),
    errors: ({ type }) => type === "error",
  },
  kept: withoutSound,
};

const LONG = 160;

/** A message whose sound is told by its length alone, and whose token is not told at all. */
function withoutSound(message) {
  const long = (text) => typeof text === "string" && text.length > LONG;
  const kept = { ...message };
  if (long(kept.audio)) kept.audio = `(${kept.audio.length} characters of sound)`;
  if (kept.type === "response.output_audio.delta" && long(kept.delta)) kept.delta = `(${kept.delta.length} characters of sound)`;
  if (kept.resume_token) kept.resume_token = "(secret)";
  return kept;
}

/** What a line of the list says beside the type. */
export function describe(message) {
  const { type } = message;
  if (type === "error") return `${message.error?.code ?? ""} · ${message.error?.message ?? ""}`;
  if (typeof message.transcript === "string") return message.transcript;
  if (type.endsWith(".delta") && typeof message.delta === "string") return message.delta.length > LONG ? "" : message.delta;
  if (type.startsWith("conversation.item.")) return itemSaid(message.item);
  if (type === "response.done") return [message.response?.status, message.response?.status_details?.reason].filter(Boolean).join(" · ");
  if (type === "session.update") return Object.keys(message.session ?? {}).filter((name) => name !== "type").join(", ");
  if (type === "session.closed" || type === "session.expired") return message.reason ?? "";
  return "";
}

function itemSaid(item) {
  if (!item) return "";
  const text = item.content?.map((part) => part.text ?? part.transcript ?? "").join(" ");
  return [item.role ?? item.type, text].filter(Boolean).join(": ");
}
