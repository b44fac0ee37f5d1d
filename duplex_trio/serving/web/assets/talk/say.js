/** The words of every state, and questions to begin with. */

/**
 * @param {string} state   Of the conversation, or "loading", "key", "idle" and "failed" without one.
 * @param {{detail?: object, mode: string, hears?: boolean, hasMicrophone?: boolean, asks: boolean, waiting: boolean}} about
 * @returns {{status: string, said: string, hint: string, button: string}}   `button` names the big one.
 */
export function wordsFor(state, about) {
  const [status, said, hint] = (WORDS[state] ?? WORDS.idle)(about);
  return { status, said, hint, button: buttonFor(about) };
}

function buttonFor({ mode, hasMicrophone }) {
  if (!hasMicrophone) return "Start talking";
  if (mode === "hold") return "Hold to talk";
  return "Microphone"; // whether it is on is the button's own state
}

const PRESS = matchMedia("(pointer: coarse)").matches ? "press the square" : "press Esc";

const WORDS = {
  loading: ({ detail, waiting }) => {
    const [said, hint] = DOORS[detail?.kind]?.(detail) ?? ["The model is loading…", ""];
    const starts = "Your conversation starts by itself when it is ready.";
    return [STATUS[detail?.kind] ?? "Not ready", said, waiting ? starts : hint];
  },
  key: () => ["Needs a key", "", ""],
  idle: () => ["Ready", "Press and talk", "You can interrupt it at any time."],
  failed: () => ["Ended", "The conversation has ended", "Press to begin a new one."],
  connecting: () => ["Connecting…", "Connecting…", ""],
  away: () => ["Reconnecting…", "Reconnecting…", "What you say meanwhile is kept and sent."],
  over: () => ["Ended", "The conversation is over", ""],
  listening: (about) => (about.hasMicrophone ? listening(about) : unheard(about)),
  hearing: () => ["You speak", "You are speaking…", "It answers when you are done."],
  thinking: () => ["Thinking…", "Thinking…", ""],
  speaking: ({ hears, mode }) => ["Speaking", "Speaking…", hears && mode !== "hold" ? `Talk over it, or ${PRESS}, to interrupt.` : `You can ${PRESS} to interrupt.`],
};

function unheard({ asks }) {
  if (asks) return ["Microphone?", "Allow the microphone", "Your browser asks you for it."];
  return ["Ready", "Write to it", "Or press the microphone to talk."];
}

function listening({ mode, hears }) {
  if (mode === "hold") {
    return hears ? ["You speak", "Listening while you hold…", "Let go to be answered."] : ["Ready", "Hold to talk", "Hold the button or the space bar while you speak."];
  }
  return hears ? ["Listening", "Listening…", "Just speak."] : ["Muted", "Your microphone is off", "Press it, or M, to be heard again."];
}

const STATUS = { asking: "Looking…", loading: "Loading…", gone: "Unreachable", draining: "Closing" };

const DOORS = {
  asking: () => ["Looking for the server…", ""],
  gone: () => ["The server can't be reached", "Trying again every second."],
  draining: () => ["The server is shutting down", "It takes nobody in any more. Trying again every second."],
  none: () => ["There is nothing to talk to here", "This deployment has no sessions, only chat completions."],
  loading: ({ parts }) => {
    const how = parts ? `${parts.done} of ${parts.all} parts are ready${parts.now ? `, now “${parts.now}”` : ""}.` : "This takes a few seconds.";
    return ["The model is loading…", how];
  },
};

const QUESTIONS = ["What can you do?", "Tell me a short story.", "What is a good breakfast?"];

/** Show them. @param {HTMLElement} list @param {(question: string) => void} choose */
export function offerQuestions(list, choose) {
  for (const question of QUESTIONS) {
    const item = document.createElement("li");
    const chip = document.createElement("button");
    chip.type = "button";
    chip.textContent = question;
    chip.addEventListener("click", () => choose(question));
    item.append(chip);
    list.append(item);
  }
}
