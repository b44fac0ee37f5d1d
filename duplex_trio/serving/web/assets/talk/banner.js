/** What the connection does while it is not there, with the seconds until it is tried again. */

import { seconds } from "../shared/units.js";

const $ = (id) => document.getElementById(id);
const TOLD_MS = 5000;

let ticking = 0;
let leaving = 0;

/** The connection is gone; null as long as it is being tried. @param {{attempt: number, retryAtMs: number | null}} detail */
export function showAway({ attempt, retryAtMs }) {
  clearTimeout(leaving);
  clearInterval(ticking);
  const again = attempt > 1 ? ` Attempt ${attempt}.` : "";
  show("warn", "Connection lost", `What you say meanwhile is kept.${again}`);
  const count = () => {
    const left = retryAtMs ? Math.max(0, Math.ceil((retryAtMs - Date.now()) / 1000)) : 0;
    $("banner-count").textContent = left ? `${left} s` : "";
    $("banner-now").hidden = !left;
  };
  count();
  ticking = setInterval(count, 250);
}

/**
 * It is back.
 * @param {{missed: number, lostSoundMs: number}} detail   Events of the time away, which have been told again; sound of it
 *   that was too long to be kept.
 */
export function showBack({ missed, lostSoundMs }) {
  clearInterval(ticking);
  const caught = missed === 1 ? "1 event was caught up." : `${missed} events were caught up.`;
  const lost = lostSoundMs > 0 ? ` The first ${seconds(lostSoundMs / 1000)} of what you said meanwhile are lost.` : "";
  show("good", "Connected again", (missed ? caught : "Nothing was missed.") + lost);
  leaving = setTimeout(hideBanner, TOLD_MS);
}

export function hideBanner() {
  clearInterval(ticking);
  clearTimeout(leaving);
  $("banner").hidden = true;
}

function show(kind, title, advice) {
  $("banner-title").textContent = title;
  $("banner-advice").textContent = advice;
  $("banner-count").textContent = "";
  $("banner-now").hidden = true;
  $("banner").dataset.kind = kind;
  $("banner").hidden = false;
}
