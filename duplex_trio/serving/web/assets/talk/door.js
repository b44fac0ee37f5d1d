/** What stands between a visitor and the model: nothing, its loading, a key, or a server that is not there. */

import { askHealth, askJson } from "../shared/server.js";

/**
 * @typedef {object} Door
 * @property {"ready" | "loading" | "gone" | "draining" | "broken" | "none" | "video" | "key"} kind
 * @property {string[]} [models]     What there is to talk to.
 * @property {string[]} [voices]
 * @property {object} [capabilities]
 * @property {boolean} [video]       Whether video is served, too.
 * @property {boolean} [wrong]       Of a key: the one that was shown is not the one.
 * @property {{done: number, all: number, now: string}} [parts]   Of the loading.
 */

/** @param {string} key @returns {Promise<Door>} */
export async function askDoor(key) {
  const { reached, health } = await askHealth(key);
  if (!reached) return { kind: "gone" };
  if (health.status === "loading") return { kind: "loading", parts: partsOf(health.stages) };
  if (health.status === "draining") return { kind: "draining" };
  if (health.stages === undefined) return { kind: "key", wrong: Boolean(key) };
  if (health.session_mode === "video") return { kind: "video" };
  if (health.session_mode === "turn") return { kind: "none" };
  const [models, about] = await Promise.all([askJson("v1/models", key), askJson("v1/realtime/capabilities", key)]);
  if (!models || !about) return { kind: "gone" };
  const names = models.data.map((model) => model.id).filter((id) => id !== health.video?.model);
  return { kind: "ready", models: names, voices: about.voices ?? [], capabilities: about.capabilities, video: Boolean(health.video) };
}

function partsOf(stages) {
  if (!stages?.length) return undefined;
  const done = stages.filter((stage) => stage.state === "ready").length;
  const now = stages.find((stage) => stage.state !== "ready");
  return { done, all: stages.length, now: now?.name ?? "" };
}
