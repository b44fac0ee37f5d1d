/** One video over the WebSocket: messages as objects, and each binary message together with what announced it. */

/**
 * @typedef {object} ChunkMetadata What the binary message right behind it holds.
 * @property {"media" | "trailer"} kind
 * @property {number} transport_chunk_index
 * @property {number | null} generation_chunk_index
 * @property {number} num_frames
 * @property {number} byte_length
 * @property {string[]} started_event_ids
 * @property {string[]} active_event_ids
 * @property {string[]} completed_event_ids
 */

/**
 * @typedef {object} Handlers
 * @property {(message: object) => void} sent       Everything that went out.
 * @property {(message: object) => void} received   Everything that came in, but for the bytes.
 * @property {(metadata: ChunkMetadata, bytes: ArrayBuffer) => void} payload
 * @property {(close: {opened: boolean, code: number, reason: string}) => void} closed   Once, at its end.
 */

const SUBPROTOCOL = "realtime";
const KEY_SUBPROTOCOL = "openai-insecure-api-key.";
const PING_EVERY_MS = 20_000;

export class VideoConnection {
  #socket;
  #handlers;
  #announced = null;
  #opened = false;
  #closed = false;
  #pings = 0;

  /**
   * @param {object} start     The first message.
   * @param {string} key       An API key, or nothing.
   * @param {Handlers} handlers
   * @throws {SyntaxError} The key has characters that a browser cannot hand over.
   */
  constructor(start, key, handlers) {
    this.#handlers = handlers;
    const url = new URL("v1/realtime/video", document.baseURI);
    url.protocol = url.protocol.replace("http", "ws");
    this.#socket = new WebSocket(url, key ? [SUBPROTOCOL, KEY_SUBPROTOCOL + key] : [SUBPROTOCOL]);
    this.#socket.binaryType = "arraybuffer";
    this.#socket.onopen = () => {
      this.#opened = true;
      this.send(start);
      this.#pings = setInterval(() => this.send({ type: "session.ping" }), PING_EVERY_MS);
    };
    this.#socket.onmessage = (event) => this.#take(event.data);
    this.#socket.onclose = (event) => this.#end(event.code, event.reason);
  }

  /** Send a message, if the connection still stands. */
  send(message) {
    if (this.#socket.readyState !== WebSocket.OPEN) return;
    this.#socket.send(JSON.stringify(message));
    this.#handlers.sent(message);
  }

  /** Leave at once. */
  close() {
    this.#socket.close(1000);
    this.#end(1000, "");
  }

  #take(data) {
    if (this.#closed) return;
    if (typeof data === "string") {
      const message = JSON.parse(data);
      if (message.type === "video.chunk_metadata") this.#announced = message;
      this.#handlers.received(message);
    } else if (this.#announced) {
      const metadata = this.#announced;
      this.#announced = null;
      this.#handlers.payload(metadata, data);
    }
  }

  #end(code, reason) {
    if (this.#closed) return;
    this.#closed = true;
    clearInterval(this.#pings);
    this.#handlers.closed({ opened: this.#opened, code, reason });
  }
}

/** Another id for an interaction; `crypto.randomUUID` is missing on pages that are not served by TLS. */
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(8));
  return "ui-" + Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
