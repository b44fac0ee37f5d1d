/** The list of prompts and what became of each. Rows are kept and changed, so that nothing jumps or is read twice. */

import { ms } from "../shared/units.js";

const WORDS = {
  sending: "sending",
  queued: "queued",
  active: "changing",
  completed: "completed",
  superseded: "superseded",
  interrupted: "interrupted",
  unfinished: "unfinished",
  failed: "failed",
};

/**
 * @param {HTMLElement} list
 * @param {string | null} first   The prompt that the video began with.
 * @param {import("./interactions.js").Interaction[]} all
 */
export function drawPrompts(list, first, all) {
  const rows = [...all].reverse().map((one) => ({ ...one, progress: progressOf(one) }));
  if (first !== null) rows.push({ id: "start", prompt: first, state: "completed", word: "start", progress: 1, message: "" });
  const kept = new Map([...list.children].map((row) => [row.dataset.id, row]));
  for (const [id, row] of kept) if (!rows.some((one) => one.id === id)) row.remove();
  rows.forEach((one, place) => {
    const row = kept.get(one.id) ?? made(one.id);
    fill(row, one);
    if (list.children[place] !== row) list.insertBefore(row, list.children[place] ?? null);
  });
}

function progressOf(one) {
  if (one.state === "completed") return 1;
  return one.transition > 0 ? Math.min(1, one.steps / one.transition) : 0;
}

function made(id) {
  const row = document.createElement("li");
  row.dataset.id = id;
  for (const name of ["prompt-text", "state", "facts"]) {
    const part = document.createElement("span");
    part.className = name;
    row.append(part);
  }
  const bar = document.createElement("progress");
  bar.max = 1;
  bar.setAttribute("aria-hidden", "true"); // the state says it in words
  row.append(bar);
  return row;
}

function fill(row, one) {
  row.dataset.state = one.state;
  const [text, state, facts, bar] = row.children;
  put(text, one.prompt);
  put(state, one.word ?? stateWords(one));
  put(facts, one.message || factsOf(one));
  bar.value = one.progress;
}

function stateWords(one) {
  if (one.state === "active" && one.transition > 1) return `changing ${one.steps}/${one.transition}`;
  return WORDS[one.state] ?? one.state;
}

function factsOf(one) {
  if (one.id === "start") return "";
  const facts = [];
  if (one.ackMs !== null) facts.push(`taken after ${ms(one.ackMs)}`);
  if (one.pictureMs !== null) facts.push(`seen after ${ms(one.pictureMs)}`);
  return facts.join(" · ");
}

function put(place, text) {
  if (place.textContent !== text) place.textContent = text;
}
