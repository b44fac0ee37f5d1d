/** One video from its start to its end, as the page knows it. */

import { Pace } from "./figures.js";
import { InteractionBook } from "./interactions.js";

/** The video that is shown, and all that belongs to it. */
export class Show {
  /** @type {import("./connection.js").VideoConnection | null} */
  connection = null;
  /** @type {import("./player.js").Player | null} From when the server has said what it will send. */
  player = null;
  /** @type {import("./player.js").Clip | null} Likewise. */
  clip = null;
  book = new InteractionBook();
  pace = new Pace();
  /** The server's `video.start`. */
  begun = null;
  /** The last error that was about no prompt. */
  error = null;
  /** That have come. */
  frames = 0;
  /** The server has ended it as it should. */
  over = false;
  /** When the server was last told how far playback is, in ms, and how far that was, in seconds. */
  reportedAt = 0;
  reportedS = 0;
  /** When the glow around the picture was drawn last, in ms. */
  ambientAt = 0;
  lastAckMs = null;
  lastPictureMs = null;

  /**
   * @param {import("./settings.js").Settings} settings
   * @param {string} prompt   What it begins with.
   */
  constructor(settings, prompt) {
    this.settings = settings;
    this.prompt = prompt;
  }

  get fps() {
    return this.begun?.config.fps ?? 24;
  }

  get chunkS() {
    return this.begun ? this.begun.chunk_frames / this.fps : null;
  }
}
