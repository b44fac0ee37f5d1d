// The npm `@openai/agents-realtime` package's session, with an agent that has a tool and is set up in no other way.
// Usage: agents.mjs WS_URL, or node --conditions=browser --experimental-websocket agents.mjs WS_URL for the build that
// browsers get, which says its key in a subprotocol.

import { OpenAIRealtimeWebSocket, RealtimeAgent, RealtimeSession, tool } from "@openai/agents-realtime";
import { API_KEY, GREETING, Heard, LAST, LONG, Microphone, TOOL, WEATHER, WEATHER_SAID, report, tone, weather } from "./parts.mjs";

const tools = [tool({ ...TOOL, execute: weather })];
const agent = new RealtimeAgent({ name: "assistant", tools });
const transport = new OpenAIRealtimeWebSocket({ url: process.argv[2], useInsecureApiKey: true });
const session = new RealtimeSession(agent, { transport });

const heard = new Heard();
session.on("error", ({ error }) => heard.fail(new Error(JSON.stringify(error))));
session.on("audio", (event) => heard.add({ type: "audio", bytes: event.data.byteLength }));
session.on("audio_interrupted", () => heard.add({ type: "audio_interrupted" }));
session.on("history_updated", (history) => heard.add({ type: "history_updated", history }));
session.on("agent_tool_end", (_context, _agent, _tool, result) => heard.add({ type: "tool_end", result }));
session.transport.on("turn_done", () => heard.add({ type: "turn_done" }));

const next = (type) => heard.next((event) => event.type === type, type);

/** What the history holds of what one side said last. */
function last(role) {
  const item = session.history.findLast((one) => one.role === role);
  return item.content[0].transcript;
}

/** Everything up to the end of the next answer. */
const turn = () => heard.until((event) => event.type === "turn_done", "end of a turn");

/** What the history holds of the next answer at its end, and how much sound it had. */
async function answer() {
  const bytes = (await turn()).reduce((sum, event) => sum + (event.bytes ?? 0), 0);
  return { answer: last("assistant"), bytes };
}

await session.connect({ apiKey: API_KEY });
session.sendMessage(GREETING);
report("text", await answer());

const microphone = new Microphone((pcm) =>
  session.sendAudio(pcm.buffer.slice(pcm.byteOffset, pcm.byteOffset + pcm.byteLength)),
);
microphone.say(tone(1.0));
const spoken = await answer();
report("speech", { heard: last("user"), ...spoken });

session.sendMessage(LONG);
await next("audio");
microphone.say(tone(0.6));
await next("audio_interrupted");
await answer();
report("interruption", await answer());

microphone.off();
for (const [name, text] of [
  ["tool", WEATHER],
  ["tool_said", WEATHER_SAID],
]) {
  session.sendMessage(text);
  // The tool runs while the turn that called it ends; the answer is the turn after that.
  const events = [...(await turn()), ...(await turn())];
  const results = events.filter((event) => event.type === "tool_end").map((event) => event.result);
  report(name, { results, answer: last("assistant") });
}

session.sendMessage(LAST);
report("last", await answer());
session.close();
