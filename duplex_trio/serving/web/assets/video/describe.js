/** Messages in a few words. */

import { bytes } from "../shared/units.js";

/** What comes many times a second and tells little, and what there is to choose among. */
export const LOG_RULES = {
  quiet: new Set(["session.playback", "session.ping", "session.pong"]),
  kinds: {
    interactions: (message) => message.type.startsWith("session.interaction") || namesInteraction(message),
    chunks: (message) => message.type === "video.chunk_metadata",
    errors: (message) => message.type === "error",
  },
};

function namesInteraction(message) {
  return Boolean(message.event_id || message.started_event_ids?.length || message.completed_event_ids?.length);
}

/** What a line of the log says beside the type. */
export function describe(message) {
  switch (message.type) {
    case "session.start":
      return message.prompt;
    case "session.interaction":
      return `${message.interaction.event.prompt} · ${chunksSaid(message.interaction.transition_chunks)}`;
    case "video.chunk_metadata":
      return describeChunk(message);
    case "session.done":
      return `${message.chunks} payloads, ${message.frames} frames${message.stopped ? ", stopped" : ""}`;
    case "error":
      return `${message.code} · ${message.message}`;
    default:
      return "";
  }
}

function describeChunk(metadata) {
  if (metadata.kind === "trailer") return `trailer, ${bytes(metadata.byte_length)}`;
  const ids = ["started", "completed"].filter((what) => metadata[`${what}_event_ids`].length).join(", ");
  const size = `${metadata.num_frames} frames, ${bytes(metadata.byte_length)}`;
  return `#${metadata.generation_chunk_index} · ${size}${ids ? ` · ${ids}` : ""}`;
}

/** A transition in words. */
export function chunksSaid(chunks) {
  return chunks === 0 ? "at once" : chunks === 1 ? "1 chunk" : `${chunks} chunks`;
}
