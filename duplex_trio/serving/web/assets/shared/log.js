/** The list of messages: bounded, filtered, each with its JSON when it is opened. */

/** @typedef {{at: number, way: "out" | "in", type: string, data: object, count: number, note: string}} Entry */

const KEPT_MAX = 2000;
const SHOWN_MAX = 250;

/**
 * @typedef {object} LogRules
 * @property {Set<string>} quiet   Types that come many times a second and tell little: counted in one line.
 * @property {Record<string, (message: object) => boolean>} kinds   What there is to choose beside "main" and "all".
 * @property {(message: object) => object} [kept]   What is kept of a message; the whole of it as a rule.
 */

export class EventLog {
  /** @type {Entry[]} */
  #entries = [];
  #rows = new Map();
  #list;
  #empty;
  #counter;
  #rules;
  #kind = "main";
  #words = "";
  #beganAt = performance.now();

  /**
   * @param {{list: HTMLElement, empty: HTMLElement, counter: HTMLElement}} places
   * @param {LogRules} rules
   */
  constructor({ list, empty, counter }, rules) {
    this.#rules = { kept: (message) => message, ...rules };
    this.#list = list;
    this.#empty = empty;
    this.#counter = counter;
  }

  /** Times count from here. */
  begin() {
    this.#beganAt = performance.now();
    this.clear();
  }

  clear() {
    this.#entries = [];
    this.#draw();
  }

  /** Note a message. @param {"out" | "in"} way */
  add(way, message, note = "") {
    const data = this.#rules.kept(message);
    const same = this.#sameQuiet(data.type, way);
    if (same) {
      same.count += 1;
      same.data = data;
      const row = this.#rows.get(same);
      if (row) row.querySelector(".log-note").textContent = `× ${same.count}`;
      return;
    }
    const at = (performance.now() - this.#beganAt) / 1000;
    const entry = { at, way, type: data.type, data, count: 1, note };
    this.#entries.push(entry);
    if (this.#entries.length > KEPT_MAX) this.#drop(this.#entries.shift());
    if (this.#matches(entry)) this.#show(entry);
    this.#count();
  }

  /** Show only some. */
  filter(kind, words) {
    this.#kind = kind;
    this.#words = words.trim().toLowerCase();
    this.#draw();
  }

  /** What is kept, one JSON object a line; with `shownOnly`, as far as the filter lets it through. */
  lines(shownOnly = false) {
    const chosen = shownOnly ? this.#entries.filter((entry) => this.#matches(entry)) : this.#entries;
    const plain = ({ at, way, data, count }) => ({ at_s: Number(at.toFixed(3)), way, count, message: data });
    return chosen.map((entry) => JSON.stringify(plain(entry))).join("\n") + "\n";
  }

  #matches(entry) {
    if (!this.#chosen(entry)) return false;
    return !this.#words || JSON.stringify(entry.data).toLowerCase().includes(this.#words);
  }

  /** The line in which a message that tells little is only counted: of its type, since something else was told. */
  #sameQuiet(type, way) {
    if (!this.#rules.quiet.has(type)) return null;
    for (let place = this.#entries.length - 1; place >= 0; place--) {
      const entry = this.#entries[place];
      if (!this.#rules.quiet.has(entry.type)) return null;
      if (entry.type === type && entry.way === way) return entry;
    }
    return null;
  }

  #chosen(entry) {
    if (this.#kind === "all") return true;
    return this.#kind === "main" ? !this.#rules.quiet.has(entry.type) : this.#rules.kinds[this.#kind](entry.data);
  }

  #draw() {
    this.#rows.clear();
    this.#list.replaceChildren();
    const chosen = this.#entries.filter((entry) => this.#matches(entry)).slice(-SHOWN_MAX);
    for (const entry of chosen) this.#show(entry);
    this.#count();
  }

  #count() {
    this.#empty.hidden = this.#rows.size > 0;
    this.#counter.textContent = `${this.#entries.length}`;
  }

  #show(entry) {
    const atEnd = this.#list.scrollHeight - this.#list.scrollTop - this.#list.clientHeight < 24;
    const row = document.createElement("li");
    const details = document.createElement("details");
    const summary = document.createElement("summary");
    const arrow = entry.way === "out" ? "↑" : "↓";
    summary.append(
      span("log-time", entry.at.toFixed(2)),
      span("log-way", arrow, entry.way === "out" ? "sent" : "received"),
      span("log-type", entry.type),
      span("log-note", entry.count > 1 ? `× ${entry.count}` : entry.note),
    );
    row.dataset.way = entry.way;
    row.dataset.type = entry.type;
    details.append(summary);
    details.addEventListener("toggle", () => {
      if (!details.open || details.querySelector("pre")) return;
      const json = document.createElement("pre");
      json.textContent = JSON.stringify(entry.data, null, 2);
      json.tabIndex = 0;
      details.append(json);
    });
    row.append(details);
    this.#list.append(row);
    this.#rows.set(entry, row);
    if (this.#rows.size > SHOWN_MAX) this.#drop(this.#rows.keys().next().value);
    if (atEnd) this.#list.scrollTop = this.#list.scrollHeight;
  }

  #drop(entry) {
    this.#rows.get(entry)?.remove();
    this.#rows.delete(entry);
  }
}

function span(className, text, spoken = "") {
  const made = document.createElement("span");
  made.className = className;
  made.textContent = text;
  if (spoken) {
    made.setAttribute("role", "img");
    made.setAttribute("aria-label", spoken);
  }
  return made;
}
