/**
 * What was said to the server and may have to be said again: commands in order, until the server has counted them.
 *
 * A server that keeps sessions over lost connections says how many commands it has taken. Over a new connection exactly
 * those follow that it has not. Sound that waits for a connection is bounded; the oldest of it goes first, and is counted.
 */

/** Sound that may wait for a connection: what is older helps nobody. */
const SOUND_WAITING_MAX_MS = 10_000;
/** So much that is written and not counted yet is asked about. */
const ASK_AT_CHARACTERS = 1_000_000;

export class Outbox {
  /** @type {{text: string, soundMs: number}[]} */
  #commands = [];
  #written = 0;
  #writtenCharacters = 0;
  #waitingMs = 0;
  #counted = 0;
  #keeps = true;
  #droppedMs = 0;

  /** Sound that was dropped since it was taken note of, in ms. */
  get droppedMs() {
    return this.#droppedMs;
  }

  /** Take note of it. */
  takeDropped() {
    const dropped = this.#droppedMs;
    this.#droppedMs = 0;
    return dropped;
  }

  /** Whether the server should be asked how many commands it has. */
  get wantsCount() {
    return this.#keeps && this.#writtenCharacters > ASK_AT_CHARACTERS;
  }

  /** Take a command. @param {string} text @param {number} soundMs   How much sound it is. */
  put(text, soundMs = 0) {
    this.#commands.push({ text, soundMs });
    this.#waitingMs += soundMs;
    while (this.#waitingMs > SOUND_WAITING_MAX_MS) this.#dropOldestSound();
  }

  /** The next command to write, which counts as written; null when all are. */
  next() {
    const command = this.#commands[this.#written];
    if (!command) return null;
    this.#waitingMs -= command.soundMs;
    if (this.#keeps) {
      this.#written += 1;
      this.#writtenCharacters += command.text.length;
    } else {
      this.#commands.shift();
    }
    return command.text;
  }

  /** The server has so many commands; fewer than before is an old count. */
  confirm(count) {
    const done = Math.min(this.#written, Math.max(0, count - this.#counted));
    for (const { text } of this.#commands.splice(0, done)) this.#writtenCharacters -= text.length;
    this.#written -= done;
    this.#counted += done;
  }

  /** Another connection begins, and the server has so many commands: what was written beyond that waits again. */
  resume(count) {
    this.confirm(count);
    for (let at = 0; at < this.#written; at++) this.#waitingMs += this.#commands[at].soundMs;
    this.#written = 0;
    this.#writtenCharacters = 0;
    while (this.#waitingMs > SOUND_WAITING_MAX_MS) this.#dropOldestSound();
  }

  /** The session ends with its connection: what is written is done with. */
  keepNoMore() {
    this.#keeps = false;
    this.#commands.splice(0, this.#written);
    this.#written = 0;
    this.#writtenCharacters = 0;
  }

  #dropOldestSound() {
    // What was written may have arrived, and is counted in order: only what waits can go.
    const at = this.#commands.findIndex(({ soundMs }, index) => index >= this.#written && soundMs > 0);
    const [{ soundMs }] = this.#commands.splice(at, 1);
    this.#waitingMs -= soundMs;
    this.#droppedMs += soundMs;
  }
}
