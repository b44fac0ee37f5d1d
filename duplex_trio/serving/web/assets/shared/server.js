/** What a server tells of itself without a WebSocket, and why one does not open. */

/** Who says nothing for so long is taken as not there. */
const PATIENCE_MS = 10_000;

/** @typedef {{title: string, advice: string, wantsKey?: boolean}} Explained What went wrong, and what to do about it. */

/**
 * What `/health` says. Without a key that the server wants, that is its word alone.
 * @returns {Promise<{reached: boolean, ok: boolean, health: object}>}
 */
export async function askHealth(key) {
  try {
    const answer = await fetch(new URL("health", document.baseURI), withKey(key));
    return { reached: true, ok: answer.ok, health: await answer.json() };
  } catch {
    return { reached: false, ok: false, health: {} };
  }
}

/** An answer in JSON; null where there is none. */
export async function askJson(path, key) {
  try {
    const answer = await fetch(new URL(path, document.baseURI), withKey(key));
    return answer.ok ? await answer.json() : null;
  } catch {
    return null;
  }
}

/** Why a connection never opened: browsers do not tell, so a plain request asks. @returns {Promise<Explained>} */
export async function explainUnopened(key) {
  let status = 0;
  try {
    status = (await fetch(new URL("v1/models", document.baseURI), withKey(key))).status;
  } catch {
    return { title: "The server can't be reached", advice: "Check that it runs, then try again." };
  }
  if (status === 401) {
    const title = key ? "The API key is wrong" : "This server needs an API key";
    return { title, advice: "Enter the key and try again.", wantsKey: true };
  }
  if (status === 503) return { title: "The model is still loading", advice: "Try again in a few seconds." };
  if (status === 403) {
    return { title: "This address isn't allowed", advice: "The server's --allow-origin must name this page's address." };
  }
  const advice = "The server answers, but not over WebSockets. A proxy in between may not let them through.";
  return { title: "The connection could not be opened", advice };
}

function withKey(key) {
  const headers = key ? { authorization: `Bearer ${key}` } : {};
  return { headers, cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) };
}

/** A message as a sentence. */
export function sentence(text) {
  const trimmed = String(text ?? "").trim();
  if (!trimmed) return "";
  return trimmed[0].toUpperCase() + trimmed.slice(1) + (/[.!?]$/.test(trimmed) ? "" : ".");
}
