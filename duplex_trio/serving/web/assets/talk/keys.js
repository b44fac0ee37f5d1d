/** Keys that work wherever the focus is, but where something is written, and what is done by holding. */

const WRITES = "input:not([type=range]), textarea, select, [contenteditable]";
const OWN_SPACE = "button, summary, a, input, select, textarea";

/**
 * @param {object} acts
 * @param {() => void} acts.talk
 * @param {(down: boolean) => void} acts.hold
 * @param {() => void} acts.interrupt
 * @param {() => void} acts.write
 * @param {() => boolean} acts.holds   Whether the space bar is held to talk.
 */
export function keysOf({ talk, hold, interrupt, write, holds }) {
  let held = false;
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || document.querySelector("dialog[open]")) return;
    if (event.key === "Escape") return interrupt();
    if (event.target.closest?.(WRITES)) return;
    if (event.key === " " && holds() && (!event.target.closest?.(OWN_SPACE) || event.target.id === "talk")) {
      event.preventDefault();
      if (!held) hold((held = true));
    } else if (event.repeat) {
      return;
    } else if (event.key.toLowerCase() === "m") {
      talk();
    } else if (event.key === "/") {
      event.preventDefault();
      write();
    }
  });
  const up = () => {
    if (held) hold((held = false));
  };
  addEventListener("keyup", (event) => {
    if (event.key === " " && held) event.preventDefault(); // else the button under it is pressed, too
    if (event.key === " ") up();
  });
  addEventListener("blur", up); // the key is let go elsewhere
}

/** A button that is held with the mouse or a finger. @param {HTMLElement} button @param {(down: boolean) => void} hold */
export function heldBy(button, hold) {
  button.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    button.setPointerCapture(event.pointerId);
    hold(true);
  });
  for (const name of ["pointerup", "pointercancel", "lostpointercapture"]) button.addEventListener(name, () => hold(false));
  button.addEventListener("contextmenu", (event) => event.preventDefault()); // of a long press
}
