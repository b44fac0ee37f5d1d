/** The API key: kept for the time of the tab, and for this server only. */

const STORED = "duplex-trio.api-key";

/** Whether a browser can hand a key over: it goes with a WebSocket as the name of a protocol, which is a token of HTTP. */
export function isSendable(key) {
  return /^[!#$%&'*+\-.^_`|~0-9A-Za-z]*$/.test(key);
}

/** Of this tab, and gone with it: a key in `localStorage` would outlive the visit. */
export function remember(key) {
  try {
    if (key) sessionStorage.setItem(STORED, key);
    else sessionStorage.removeItem(STORED);
  } catch {
    // A browser may allow no storage at all; then the field alone holds it.
  }
}

/** The key that was used last in this tab, or nothing. */
export function remembered() {
  try {
    return sessionStorage.getItem(STORED) ?? "";
  } catch {
    return "";
  }
}
