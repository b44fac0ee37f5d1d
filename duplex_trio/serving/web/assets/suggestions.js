/** Prompts to begin with. */

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
export function suggestionsFor(model) {
  return /glyph/i.test(model ?? "") ? GLYPHS : SCENES;
}
