/** What became of every prompt, read off the messages. Plain data: nothing here knows of the page. */

/**
 * @typedef {"sending" | "queued" | "active" | "completed" | "superseded" | "interrupted" | "unfinished" | "failed"} State
 */

/**
 * @typedef {object} Interaction
 * @property {string} id
 * @property {string} prompt
 * @property {number} transition   Chunks until it is in force; 0 at once.
 * @property {State} state
 * @property {number} steps        Chunks that it has had an effect on.
 * @property {number} sentAt       Ms, as `performance.now()` counts them.
 * @property {number | null} ackMs
 * @property {number | null} startS     Where its first chunk begins, in seconds of the video.
 * @property {number | null} pictureMs  From sending it until that was seen.
 * @property {string} message      Why it failed.
 */

const OPEN = new Set(["sending", "queued", "active"]);

export class InteractionBook {
  /** @type {Map<string, Interaction>} In the order they were sent. */
  #all = new Map();
  #lastChunk = -1;

  /** @returns {Interaction[]} */
  get all() {
    return [...this.#all.values()];
  }

  /** @param {string} id */
  get(id) {
    return this.#all.get(id);
  }

  /** A prompt goes out. */
  send(id, prompt, transition, now) {
    const fresh = { ackMs: null, startS: null, pictureMs: null, message: "" };
    this.#all.set(id, { id, prompt, transition, state: "sending", steps: 0, sentAt: now, ...fresh });
  }

  /** It was admitted. */
  queued(id, now) {
    const found = this.#all.get(id);
    if (found?.state !== "sending") return;
    found.state = "queued";
    found.ackMs = now - found.sentAt;
  }

  /** It was refused, or failed later. */
  failed(id, message) {
    const found = this.#all.get(id);
    if (!found || !OPEN.has(found.state)) return;
    found.state = "failed";
    found.message = message;
  }

  /**
   * A chunk came.
   * @param {import("./connection.js").ChunkMetadata} metadata
   * @param {number} startS   Where it begins, in seconds of the video.
   */
  chunk(metadata, startS) {
    for (const id of metadata.started_event_ids) this.#started(id, startS);
    const active = new Set(metadata.active_event_ids);
    const isNew = metadata.generation_chunk_index !== null && metadata.generation_chunk_index > this.#lastChunk;
    if (isNew) this.#lastChunk = metadata.generation_chunk_index;
    for (const found of this.#all.values()) {
      if (found.state !== "active") continue;
      if (active.has(found.id)) found.steps += isNew ? 1 : 0;
      else if (metadata.kind === "media") found.state = "interrupted";
    }
    for (const id of metadata.completed_event_ids) {
      const found = this.#all.get(id);
      if (found?.state === "active") found.state = "completed";
    }
  }

  /** A picture is shown: which prompts are seen with it for the first time. */
  seen(mediaS, now) {
    const found = this.all.filter((one) => one.pictureMs === null && one.startS !== null && one.startS <= mediaS);
    for (const one of found) one.pictureMs = now - one.sentAt;
    return found;
  }

  /** The end; what the server says became of each wins. @param {Record<string, State>} outcomes */
  end(outcomes = {}) {
    for (const found of this.#all.values()) {
      const told = outcomes[found.id];
      if (told && told !== "queued") found.state = told;
      else if (OPEN.has(found.state)) found.state = "unfinished";
    }
  }

  #started(id, startS) {
    const found = this.#all.get(id);
    if (!found || found.state === "active") return;
    for (const earlier of this.#all.values()) {
      if (earlier === found) break;
      if (earlier.state === "queued") earlier.state = "superseded"; // a newer one was ready at the same boundary
    }
    found.state = "active";
    found.startS = startS;
  }
}
