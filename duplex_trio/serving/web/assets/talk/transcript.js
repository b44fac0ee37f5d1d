/**
 * The conversation as it is read. Rows are kept and changed, so that nothing jumps or is read twice, and there are
 * only so many of them, however long people talk.
 */

import { ms } from "../shared/units.js";

/**
 * @typedef {object} Line   One turn as it is shown.
 * @property {string} id
 * @property {"you" | "model" | "note"} who
 * @property {string} state      "interrupted" strikes out what was not heard; "partial" may still change.
 * @property {string} text       What was heard, or, of a turn that makes no sound, all of it.
 * @property {string} ahead      What is still to be heard, or was not.
 * @property {boolean} waiting   There is nothing to read yet.
 * @property {boolean} whole     Nothing will be added.
 * @property {number | null} latencyMs
 * @property {string} [kind]     Of a note: "error", "call" or nothing.
 */

const SHOWN_MAX = 200;
const AT_END_PX = 32;

export class TranscriptView {
  /** @type {Map<string, HTMLElement>} */
  #rows = new Map();
  #places;
  /** What has been told to screen readers of each turn, in characters. @type {Map<string, number>} */
  #told = new Map();
  #follows = true;
  #dropped = false;

  /** @param {Record<"scroll" | "list" | "older" | "empty" | "newest" | "news", HTMLElement>} places */
  constructor(places) {
    this.#places = places;
    let before = 0;
    places.scroll.addEventListener("scroll", () => {
      const { scrollTop, scrollHeight, clientHeight } = places.scroll;
      // What is added below moves nothing up: only a reader does.
      if (scrollTop < before) this.#follows = false;
      if (scrollHeight - scrollTop - clientHeight < AT_END_PX) this.#follows = true;
      before = scrollTop;
      places.newest.hidden = this.#follows;
    });
    const sizes = new ResizeObserver(() => this.#follow());
    sizes.observe(places.scroll);
    sizes.observe(places.list);
    places.newest.addEventListener("click", () => {
      this.#follows = true;
      this.#follow();
      places.scroll.focus({ preventScroll: true });
    });
  }

  /** @param {Line[]} lines   Oldest first. */
  draw(lines) {
    const shown = lines.slice(-SHOWN_MAX);
    const ids = new Set(shown.map((line) => line.id));
    for (const [id, row] of this.#rows) if (!ids.has(id)) this.#drop(id, row);
    let last = null;
    for (const line of shown) {
      const row = this.#rows.get(line.id) ?? this.#made(line.id);
      fill(row, line);
      const place = last ? last.nextElementSibling : this.#places.list.firstElementChild;
      if (place !== row) this.#places.list.insertBefore(row, place);
      last = row;
      this.#tell(line);
    }
    this.#dropped = shown.length > 0 && (this.#dropped || lines.length > SHOWN_MAX);
    this.#places.older.hidden = !this.#dropped;
    this.#places.empty.hidden = shown.length > 0;
    this.#follow();
  }

  #made(id) {
    const row = document.createElement("li");
    row.className = "turn";
    const head = made("div", "turn-head");
    head.append(made("span", "turn-who"), made("span", "turn-facts"), made("span", "mark"));
    const bubble = made("div", "bubble");
    bubble.dir = "auto"; // the words' own direction
    bubble.append(made("span", "heard"), made("span", "ahead"), dots());
    row.append(head, bubble);
    this.#rows.set(id, row);
    return row;
  }

  #drop(id, row) {
    row.remove();
    this.#rows.delete(id);
    this.#told.delete(id);
    this.#dropped = true;
  }

  #follow() {
    const { scroll, newest } = this.#places;
    const hidden = scroll.scrollHeight - scroll.clientHeight > AT_END_PX;
    if (this.#follows) scroll.scrollTop = scroll.scrollHeight;
    newest.hidden = this.#follows || !hidden;
  }

  /** Whole sentences, once each: a screen reader that is told every word says none of them to its end. */
  #tell(line) {
    if (line.waiting || (line.who === "you" && !line.whole)) return;
    const text = line.text + (line.state === "interrupted" ? "" : line.ahead);
    const from = this.#told.get(line.id) ?? 0;
    const to = line.whole ? text.length : sentencesEnd(text);
    if (to <= from) return;
    this.#told.set(line.id, to);
    const said = text.slice(from, to).trim();
    const who = from > 0 || line.who === "note" ? "" : line.who === "you" ? "You: " : "Model: ";
    if (said) this.#places.news.textContent = who + said;
  }
}

/** Where the last whole sentence of a text ends. */
export function sentencesEnd(text) {
  let end = 0;
  for (const found of text.matchAll(/[.!?…](?=\s)|[。！？]|\n/g)) end = found.index + found[0].length;
  return end;
}

function fill(row, line) {
  const [head, bubble] = row.children;
  const [who, facts, mark] = head.children;
  const [heard, ahead, waiting] = bubble.children;
  set(row, "who", line.who);
  set(row, "state", line.state);
  set(row, "kind", line.kind ?? "");
  head.hidden = line.who === "note";
  put(who, line.who === "you" ? "You" : "Model");
  put(facts, line.latencyMs === null ? "" : ms(line.latencyMs));
  put(mark, line.state === "interrupted" ? "interrupted" : line.state === "failed" ? "failed" : "");
  mark.hidden = !mark.textContent;
  bubble.classList.toggle("call", line.kind === "call");
  put(heard, line.text);
  put(ahead, line.ahead);
  ahead.title = line.ahead ? (line.state === "interrupted" ? "Not heard" : "Still to be heard") : "";
  waiting.hidden = !line.waiting;
}

function dots() {
  const place = made("span", "dots");
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", "not there yet");
  place.append(made("i"), made("i"), made("i"));
  return place;
}

function made(tag, className = "") {
  const element = document.createElement(tag);
  if (className) element.className = className;
  return element;
}

function set(row, name, value) {
  if (row.dataset[name] !== value) row.dataset[name] = value;
}

function put(place, text) {
  if (place.textContent !== text) place.textContent = text;
}
