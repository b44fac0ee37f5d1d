// What the client programs share: a microphone, a list of what came, and lines that tell the test what happened.

export const API_KEY = "sk-test";
const RATE_HZ = 24_000;
const CHUNK_MS = 20;
const CHUNK_BYTES = (RATE_HZ / 1000) * CHUNK_MS * 2;
const PATIENCE_MS = 40_000;

export const GREETING = "hello there";
export const LONG =
  "please tell me everything that you know about the sea and the ships that cross it every day and night";
export const LAST = "are you still there";
export const WEATHER = "what is the weather in Paris";
export const WEATHER_SAID = "look up the weather in Paris";
export const TOOL = {
  name: "get_weather",
  description: "Look up the weather of a city.",
  parameters: {
    type: "object",
    properties: { city: { type: "string" } },
    required: ["city"],
    additionalProperties: false,
  },
};

/** What the tool of the clients answers. */
export const weather = ({ city }) => `sunny in ${city}`;

/** Sound that voice activity by loudness takes for speech, as 16 bit PCM. */
export function tone(seconds) {
  const samples = new Int16Array(Math.floor(seconds * RATE_HZ));
  samples.forEach((_, i) => {
    samples[i] = 9000 * Math.sin((2 * Math.PI * 440 * i) / RATE_HZ);
  });
  return Buffer.from(samples.buffer);
}

/** Tell the test what the client saw. */
export function report(turn, facts) {
  console.log(JSON.stringify({ turn, ...facts }));
}

/** Sends sound in real time: what is to be said, and silence else. */
export class Microphone {
  #waiting = Buffer.alloc(0);
  #timer;

  constructor(send) {
    let sent = 0;
    const began = performance.now();
    this.#timer = setInterval(() => {
      while (sent * CHUNK_MS <= performance.now() - began) {
        const chunk = Buffer.alloc(CHUNK_BYTES);
        this.#waiting.copy(chunk);
        this.#waiting = this.#waiting.subarray(CHUNK_BYTES);
        send(chunk);
        sent += 1;
      }
    }, CHUNK_MS);
  }

  say(pcm) {
    this.#waiting = Buffer.concat([this.#waiting, pcm]);
  }

  off() {
    clearInterval(this.#timer);
  }
}

/** What has come so far, in order, and a way to wait for more of it: each wait goes on where the last one stopped. */
export class Heard {
  #things = [];
  #wake = () => {};
  #fault;

  add(thing) {
    this.#things.push(thing);
    this.#wake();
  }

  fail(fault) {
    this.#fault = fault;
    this.#wake();
  }

  /** Everything up to the first thing that matches, which is the last of them. */
  async until(matches, what) {
    const passed = [];
    const deadline = Date.now() + PATIENCE_MS;
    for (;;) {
      if (this.#fault !== undefined) throw this.#fault;
      while (this.#things.length > 0) {
        passed.push(this.#things.shift());
        if (matches(passed.at(-1))) return passed;
      }
      if (Date.now() >= deadline) throw new Error(`no ${what} came`);
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, deadline - Date.now());
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }

  /** The first thing that matches. */
  async next(matches, what) {
    return (await this.until(matches, what)).at(-1);
  }
}
