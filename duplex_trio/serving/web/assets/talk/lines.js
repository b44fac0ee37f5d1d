/** Turns as they are read. Plain data. */

/** States in which a turn may still grow. */
const OPEN = new Set(["partial", "speaking"]);

/** @param {import("./conversation.js").Turn[]} turns @returns {import("./transcript.js").Line[]} */
export function linesOf(turns) {
  return turns.map(lineOf);
}

function lineOf({ id, who, state, text, heardText, latencyMs, kind }) {
  const whole = !OPEN.has(state);
  const heard = heardText ?? text; // what makes no sound is read as it comes
  return { id, who, state, text: heard, ahead: text.slice(heard.length), waiting: !text && !whole, whole, latencyMs, kind };
}
