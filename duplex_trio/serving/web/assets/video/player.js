/**
 * Plays payloads as they come, near to the newest picture, in bounded memory.
 *
 * Pictures go to a MediaSource. What lies far behind is removed; what is far ahead waits outside the browser's buffer.
 */

/** Seconds of played pictures that are kept, and how many more there may be before they are removed. */
const KEEP_BEHIND_S = 8;
const TRIM_STEP_S = 4;
/** Seconds ahead that are given to the browser, whose own limit is of bytes. */
const AHEAD_MAX_S = 20;
/** Catching up: beyond the target by this much, this much faster at most; beyond the jump, at once. */
const CATCH_UP_SLACK_S = 0.3;
const CATCH_UP_RATE_MAX = 0.12;
const JUMP_S = 6;
/** A hole between two payloads that is stepped over. */
const GAP_MAX_S = 0.25;

const Source = globalThis.ManagedMediaSource ?? globalThis.MediaSource;

/** Whether this browser can play a type as it comes. */
export function canPlay(mimeType) {
  return Boolean(Source?.isTypeSupported(mimeType));
}

/**
 * @typedef {object} PlayerHandlers
 * @property {(mediaTime: number, now: number) => void} frame   A picture is shown; times in s and ms.
 * @property {() => void} moved                                  Time or buffer have changed.
 * @property {(state: "playing" | "waiting" | "paused" | "ended") => void} state
 * @property {(message: string) => void} failed
 */

export class Player {
  #video;
  #handlers;
  #targetS;
  #source = new Source();
  #buffer = null;
  #queue = [];
  #whole = false;
  #wantsToPlay = true;
  #url;
  #gone = new AbortController();

  /**
   * @param {HTMLVideoElement} video
   * @param {string} mimeType
   * @param {number | null} targetS   Seconds ahead to keep to; null plays on, however much is there.
   * @param {PlayerHandlers} handlers
   */
  constructor(video, mimeType, targetS, handlers) {
    this.#video = video;
    this.#targetS = targetS;
    this.#handlers = handlers;
    const listen = (target, name, act) => target.addEventListener(name, act, { signal: this.#gone.signal });
    listen(this.#source, "sourceopen", () => this.#open(mimeType));
    listen(video, "timeupdate", () => this.#advance());
    listen(video, "playing", () => handlers.state("playing"));
    listen(video, "waiting", () => this.#advance(handlers.state("waiting")));
    listen(video, "pause", () => video.ended || handlers.state("paused"));
    listen(video, "ended", () => handlers.state("ended"));
    listen(video, "error", () => handlers.failed(video.error?.message || "the pictures could not be decoded"));
    video.disableRemotePlayback = true; // ManagedMediaSource asks for it
    video.controls = false;
    video.playbackRate = 1;
    this.#url = URL.createObjectURL(this.#source);
    video.src = this.#url;
    this.#watch();
  }

  /** Seconds that can be played from here. */
  get aheadS() {
    const ranges = this.#buffer ? this.#video.buffered : [];
    return ranges.length ? Math.max(0, ranges.end(ranges.length - 1) - this.#video.currentTime) : 0;
  }

  /** Seconds that the browser's buffer holds. */
  get heldS() {
    let held = 0;
    const ranges = this.#buffer ? this.#video.buffered : [];
    for (let i = 0; i < ranges.length; i++) held += ranges.end(i) - ranges.start(i);
    return held;
  }

  get paused() {
    return !this.#wantsToPlay;
  }

  /** Take the next payload. @param {ArrayBuffer} bytes */
  append(bytes) {
    this.#queue.push(bytes);
    this.#pump();
  }

  /** No payload follows. */
  end() {
    this.#whole = true;
    this.#pump();
  }

  play() {
    this.#wantsToPlay = true;
    this.#video.play().catch((error) => {
      if (error.name === "NotAllowedError") this.pause(); // the browser wants a click first
    });
  }

  pause() {
    this.#wantsToPlay = false;
    this.#video.pause();
    this.#handlers.state("paused");
  }

  /** Let go of the video element. */
  discard() {
    this.#gone.abort();
    this.#queue = [];
    this.#buffer = null;
    URL.revokeObjectURL(this.#url);
  }

  #open(mimeType) {
    this.#buffer = this.#source.addSourceBuffer(mimeType);
    this.#buffer.addEventListener("updateend", () => this.#advance(), { signal: this.#gone.signal });
    this.#pump();
  }

  #watch() {
    if (!this.#video.requestVideoFrameCallback) return;
    const shown = (now, frame) => {
      if (this.#gone.signal.aborted) return;
      this.#handlers.frame(frame.mediaTime, Math.max(now, frame.expectedDisplayTime));
      this.#video.requestVideoFrameCallback(shown);
    };
    this.#video.requestVideoFrameCallback(shown);
  }

  #advance() {
    if (!this.#buffer) return;
    this.#follow();
    this.#pump();
    this.#handlers.moved();
  }

  /** Keep to the newest picture, and step over holes. */
  #follow() {
    const video = this.#video;
    const ranges = video.buffered;
    for (let i = 0; i < ranges.length; i++) {
      const before = i === 0 ? 0 : ranges.end(i - 1);
      const inHole = video.currentTime < ranges.start(i) && video.currentTime >= before - 0.05;
      if (inHole && (i === 0 || ranges.start(i) - before < GAP_MAX_S)) video.currentTime = ranges.start(i);
    }
    if (ranges.length && this.#wantsToPlay && video.paused && !video.ended) this.play();
    if (this.#targetS === null || this.#whole) {
      video.playbackRate = 1;
      return;
    }
    const late = this.aheadS - this.#targetS;
    if (late > JUMP_S && this.#wantsToPlay) video.currentTime += late;
    const rate = late > CATCH_UP_SLACK_S ? 1 + Math.min(CATCH_UP_RATE_MAX, late / 10) : 1;
    if (Math.abs(rate - video.playbackRate) > 0.015 || rate === 1) video.playbackRate = rate;
  }

  /** Do the one next thing with the buffer; it reports back when that is done. */
  #pump() {
    if (!this.#buffer || this.#buffer.updating || this.#source.readyState !== "open") return;
    const now = this.#video.currentTime;
    const ranges = this.#buffer.buffered;
    const oldest = ranges.length ? ranges.start(0) : now;
    if (now - oldest > KEEP_BEHIND_S + TRIM_STEP_S) {
      this.#buffer.remove(0, now - KEEP_BEHIND_S);
    } else if (this.#queue.length && this.aheadS < AHEAD_MAX_S) {
      this.#append(now, oldest);
    } else if (this.#whole && !this.#queue.length) {
      this.#source.endOfStream();
    }
  }

  #append(now, oldest) {
    try {
      this.#buffer.appendBuffer(this.#queue[0]);
      this.#queue.shift();
    } catch (error) {
      if (error.name !== "QuotaExceededError") throw error;
      // The browser is full: give up more of what was played, or wait until more of it has been.
      if (now - oldest > 1) this.#buffer.remove(0, now - 0.5);
    }
  }
}

/** What has come, as one file. Bytes are handed to blobs now and then, which a browser may keep on its disk. */
export class Clip {
  #blobs = [];
  #recent = [];
  #bytes = 0;

  /** @param {string} mimeType */
  constructor(mimeType) {
    this.type = mimeType.split(";")[0];
  }

  /** Bytes so far. */
  get size() {
    return this.#bytes;
  }

  /** @param {ArrayBuffer} bytes */
  add(bytes) {
    this.#recent.push(bytes);
    this.#bytes += bytes.byteLength;
    if (this.#recent.length >= 64) {
      this.#blobs.push(new Blob(this.#recent));
      this.#recent = [];
    }
  }

  /** The file so far; it plays at any time. */
  file() {
    return new Blob([...this.#blobs, ...this.#recent], { type: this.type });
  }

  /** A name for it, of what it shows. */
  name(prompt, seed) {
    const words = prompt.toLowerCase().normalize("NFKD").match(/[\p{L}\p{N}]+/gu) ?? ["video"];
    return `${words.slice(0, 6).join("-").slice(0, 60)}-${seed}.${this.type === "video/webm" ? "webm" : "mp4"}`;
  }
}
