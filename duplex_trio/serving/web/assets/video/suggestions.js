/** Prompts to begin with, and to go on with. */

const SCENES = [
  "a snowy street illuminated by warm lanterns",
  "a volcano erupting at night",
  "a rainy neon city",
  "dunes at sunset",
  "a tropical beach at noon",
  "northern lights over a frozen lake",
  "an underwater coral reef",
];

const GLYPHS = ["red apple", "cat face", "ocean wave", "fire", "smiling face", "rocket", "tropical fish", "red heart"];

/** What suits a model, by its name. @param {string | undefined} model */
function suggestionsFor(model) {
  return /glyph/i.test(model ?? "") ? GLYPHS : SCENES;
}

/**
 * Show what suits a model.
 * @param {HTMLElement} list
 * @param {string | undefined} model
 * @param {(prompt: string) => void} choose
 */
export function offerSuggestions(list, model, choose) {
  const items = suggestionsFor(model).map((prompt) => {
    const item = document.createElement("li");
    const chip = document.createElement("button");
    chip.type = "button";
    chip.textContent = prompt;
    chip.addEventListener("click", () => choose(prompt));
    item.append(chip);
    return item;
  });
  list.replaceChildren(...items);
}

/** What the prompt box holds at first. */
export const FIRST_PROMPT = SCENES[0];
