/** Turns as they are read. Plain data. */

/** States in which a turn may still grow. */
const OPEN = new Set(["partial", "speaking"]);

/** @param {import("./conversation.js").Turn[]} turns @returns {import("./transcript.js").Line[]} */
export function linesOf(turns) {
  const answered = turns.findLastIndex((turn) => turn.who === "model" && turn.text);
  return turns.map((turn, place) => lineOf(turn, place < answered));
}

/** @param {boolean} passed   The conversation has gone on behind it: words that have not come by now will not. */
function lineOf({ id, who, state, text, heardText, latencyMs, kind }, passed) {
  const whole = passed || !OPEN.has(state);
  if (who === "you" && passed) text ||= "(spoken)";
  const spoken = heardText ?? text; // what makes no sound is read as it comes
  const heard = spoken + text.slice(spoken.length).match(/^\s*/)[0];
  return { id, who, state, text: heard, ahead: text.slice(heard.length), waiting: !text && !whole, whole, latencyMs, kind };
}
