// The npm `openai-realtime-api` package, which speaks OpenAI's beta protocol and asks for no turn detection.
// Usage: openai_realtime_api.mjs WS_URL

import { RealtimeClient } from "openai-realtime-api";
import { API_KEY, GREETING, Heard, LAST, LONG, TOOL, WEATHER, WEATHER_SAID, report, tone, weather } from "./parts.mjs";

const client = new RealtimeClient({ url: process.argv[2], apiKey: API_KEY });
const heard = new Heard();
client.on("realtime.event", ({ source, event }) => {
  if (source === "server" && event.type === "error") heard.fail(new Error(JSON.stringify(event.error)));
});
client.on("conversation.updated", ({ item, delta }) => heard.add({ type: "updated", item, delta }));
client.on("conversation.item.completed", ({ item }) => heard.add({ type: "completed", item }));
client.realtime.on("server.response.done", () => heard.add({ type: "done" }));

/** The next answer as the client has put it together. */
async function answer() {
  const by = (event) => event.type === "completed" && event.item.role === "assistant";
  const { item } = await heard.next(by, "answer");
  await heard.next((event) => event.type === "done", "end of the response");
  return { answer: item.formatted.transcript, bytes: item.formatted.audio.byteLength };
}

const write = (text) => client.sendUserMessageContent([{ type: "input_text", text }]);
const say = (seconds) => {
  client.appendInputAudio(new Int16Array(new Uint8Array(tone(seconds)).buffer));
  client.createResponse();
};

client.addTool(TOOL, weather);
await client.connect();
await client.waitForSessionCreated();
write(GREETING);
report("text", await answer());

say(1.0);
const spoken = await answer();
const user = client.conversation.getItems().findLast((item) => item.role === "user");
report("speech", { heard: user.formatted.transcript, ...spoken });

write(LONG);
const sounds = (event) => event.type === "updated" && event.delta?.audio !== undefined;
const { item } = await heard.next(sounds, "sound of the answer");
client.cancelResponse(item.id, item.formatted.audio.length);
await heard.next((event) => event.type === "done", "end of the answer");
say(0.6);
report("interruption", await answer());

for (const [name, text] of [
  ["tool", WEATHER],
  ["tool_said", WEATHER_SAID],
]) {
  write(text);
  let facts = await answer();
  while (!facts.answer.includes("sunny")) facts = await answer(); // what was said before the call
  report(name, facts);
}

write(LAST);
report("last", await answer());
client.disconnect();
