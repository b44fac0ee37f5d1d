/** The settings of the next video: read from their fields, kept for the time of the tab where that is of use. */

import { remember, remembered } from "../shared/key.js";
import { canPlay } from "./player.js";

const FORMATS = [
  { value: "m4s", label: "MP4 (H.264)", mimeType: 'video/mp4; codecs="avc1.42C01F"' },
  { value: "webm", label: "WebM (VP8)", mimeType: 'video/webm; codecs="vp8"' },
];

const $ = (id) => document.getElementById(id);

/**
 * @typedef {object} Settings
 * @property {object} start   The first message, but for its prompt.
 * @property {string} key
 */

/** What the fields say; null where one of them is wrong, which the browser then shows. @returns {Settings | null} */
export function readSettings() {
  if (!$("seed").checkValidity()) {
    $("settings").open = true;
    $("seed").reportValidity();
    return null;
  }
  const key = $("key").value.trim();
  remember(key);
  const lead = $("lead").value;
  const start = {
    type: "session.start",
    format: $("format").value,
    streaming_buffer_seconds: lead === "" ? null : Number(lead),
  };
  if ($("size").value) start.size = $("size").value;
  if ($("fps").value) start.fps = Number($("fps").value);
  if ($("seconds").value) start.seconds = Number($("seconds").value);
  // One that is chosen here can be read, kept and entered again: the server's may have more digits than a number holds.
  start.seed = $("seed").value ? Number($("seed").value) : crypto.getRandomValues(new Uint32Array(1))[0];
  return { start, key };
}

/** Say in a few words what is in force. @param {HTMLElement} place @param {object | null} begun `video.start` */
export function settle(place, begun) {
  const config = begun?.config;
  place.textContent = config ? `${config.width}×${config.height} · ${Number(config.fps)} fps · seed ${config.seed}` : "";
}

const playable = FORMATS.filter((format) => canPlay(format.mimeType));
for (const format of playable.length ? playable : FORMATS) {
  $("format").append(new Option(format.label, format.value));
}
$("key").value = remembered();
