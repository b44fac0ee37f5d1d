/** What is heard of both sides, drawn: the visitor's voice in green, the model's in violet. Still while nobody talks. */

const YOU = ["#5eead4", "#2dd4bf"];
const MODEL = ["#c4b5fd", "#f472b6"];
const GLOW = "#8b5cf6";
/** Levels are loudness of speech, whose root mean square is rarely above this. */
const LOUD_RMS = 0.11;
/** How quickly a ribbon follows its level, in ms. */
const RISE_MS = 60;
const FALL_MS = 260;
/** Where nothing may move much, the picture is drawn this seldom. */
const CALM_EVERY_MS = 250;

const RIBBONS = 3;
const STEPS = 120;
/** Where the big button is, of the height. */
const MIDDLE = 0.4;

export class Waves {
  #canvas;
  #context;
  #levels;
  #calm = matchMedia("(prefers-reduced-motion: reduce)");
  #you = 0;
  #model = 0;
  #at = 0;
  #phase = 0;
  #frame = 0;
  #live = false;

  /**
   * @param {HTMLCanvasElement} canvas
   * @param {() => {you: number, model: number}} levels   Root mean squares of now, 0 to 1.
   */
  constructor(canvas, levels) {
    this.#canvas = canvas;
    this.#context = canvas.getContext("2d");
    this.#levels = levels;
    new ResizeObserver(() => this.#fit()).observe(canvas);
  }

  /** Move, as long as somebody may talk. */
  run(live) {
    this.#live = live;
    if (live && !this.#frame) this.#next();
  }

  #fit() {
    const ratio = Math.min(2, devicePixelRatio);
    this.#canvas.width = Math.round(this.#canvas.clientWidth * ratio);
    this.#canvas.height = Math.round(this.#canvas.clientHeight * ratio);
    this.#draw();
  }

  #next() {
    const wait = this.#calm.matches ? (act) => setTimeout(() => act(performance.now()), CALM_EVERY_MS) : requestAnimationFrame;
    this.#frame = wait((now) => this.#move(now));
  }

  #move(now) {
    const step = Math.min(100, now - this.#at);
    this.#at = now;
    const { you, model } = this.#live ? this.#levels() : { you: 0, model: 0 };
    this.#you = towards(this.#you, Math.min(1, you / LOUD_RMS), step);
    this.#model = towards(this.#model, Math.min(1, model / LOUD_RMS), step);
    if (!this.#calm.matches) this.#phase += step / 1000;
    this.#draw();
    this.#frame = 0;
    if (this.#live || this.#you + this.#model > 0.01) this.#next();
  }

  #draw() {
    const { width, height } = this.#canvas;
    if (!width) return;
    this.#context.clearRect(0, 0, width, height);
    this.#halo(width, height);
    this.#ribbons(width, height, this.#you, YOU, 2.1);
    this.#ribbons(width, height, this.#model, MODEL, 0);
  }

  /** A glow around the button: who talks lights it. */
  #halo(width, height) {
    const loud = Math.max(this.#you, this.#model);
    const [x, y] = [width / 2, height * MIDDLE];
    const radius = height * (0.36 + 0.26 * loud);
    const colour = this.#you > this.#model ? YOU[1] : GLOW;
    const glow = this.#context.createRadialGradient(x, y, height * 0.12, x, y, radius);
    glow.addColorStop(0, hexWith(colour, 0.14 + 0.38 * loud));
    glow.addColorStop(1, hexWith(colour, 0));
    this.#context.fillStyle = glow;
    this.#context.fillRect(0, 0, width, height);
  }

  #ribbons(width, height, level, colours, apart) {
    const context = this.#context;
    for (let ribbon = 0; ribbon < RIBBONS; ribbon++) {
      const size = height * (0.012 + (0.33 - 0.07 * ribbon) * level);
      const strength = (0.85 - 0.22 * ribbon) * (0.42 + 0.58 * level);
      context.strokeStyle = this.#paint(width, colours, strength);
      context.lineWidth = Math.max(1, height * (0.011 - 0.0025 * ribbon));
      context.beginPath();
      const [slow, quick] = [this.#phase * (1.6 + 0.5 * ribbon) + apart, this.#phase * (3.4 - 0.5 * ribbon) + ribbon];
      for (let step = 0; step <= STEPS; step++) {
        const at = step / STEPS;
        const swell = Math.sin(Math.PI * at) ** 1.4;
        const wave = Math.sin(at * 11 + slow + ribbon * 0.9) * 0.62 + Math.sin(at * 23 - quick + apart) * 0.38;
        context.lineTo(at * width, height * MIDDLE + wave * size * swell);
      }
      context.stroke();
    }
  }

  /** Towards both edges it fades. */
  #paint(width, colours, strength) {
    const paint = this.#context.createLinearGradient(0, 0, width, 0);
    for (const [stop, colour, alpha] of [[0, 0, 0], [0.18, 0, 1], [0.5, 1, 0.8], [0.82, 0, 1], [1, 1, 0]]) {
      paint.addColorStop(stop, hexWith(colours[colour], alpha * strength));
    }
    return paint;
  }
}

function towards(now, wanted, stepMs) {
  const rate = 1 - Math.exp(-stepMs / (wanted > now ? RISE_MS : FALL_MS));
  return now + (wanted - now) * rate;
}

function hexWith(colour, alpha) {
  const part = Math.round(255 * Math.max(0, Math.min(1, alpha)));
  return colour + part.toString(16).padStart(2, "0");
}
