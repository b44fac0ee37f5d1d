/** Turns as they are read. Plain data. */

/** @param {object[]} turns   As `Conversation` has them. @returns {import("./transcript.js").Line[]} */
export function linesOf(turns) {
  return turns.map(lineOf);
}

function lineOf(turn) {
  const heard = turn.heardText ?? turn.text;
  const ahead = turn.text.startsWith(heard) ? turn.text.slice(heard.length) : "";
  return { id: turn.id, who: turn.who, state: turn.state, text: heard, ahead, waiting: !turn.text, whole: true, latencyMs: turn.latencyMs ?? null };
}
