/** The figures of the video that is shown. */

import { bytes, clock, ms, seconds } from "../shared/units.js";

/**
 * @param {import("./show.js").Show} show   One that has begun.
 * @param {HTMLVideoElement} video
 */
export function drawFigures(show, video) {
  const dropped = video.getVideoPlaybackQuality?.().droppedVideoFrames ?? 0;
  const { pace } = show;
  put("f-buffered", seconds(show.player.aheadS));
  put("f-fps", pace.fps === null ? "–" : `${pace.fps.toFixed(1)} fps`);
  put("f-interval", ms(pace.intervalMs));
  put("f-ack", ms(show.lastAckMs));
  put("f-picture", ms(show.lastPictureMs));
  put("f-frames", `${show.frames} / ${dropped}`);
  put("elapsed", clock(video.currentTime));
  put("clip-size", bytes(show.clip.size));
}

function put(id, text) {
  document.getElementById(id).textContent = text;
}
