// The npm `openai` package's realtime client, with the session that the server gives it.
// Usage: openai.mjs HTTP_BASE

import net from "node:net";
import OpenAI from "openai";
import { OpenAIRealtimeWS } from "openai/realtime/ws";
import { API_KEY, GREETING, Heard, LAST, LONG, Microphone, TOOL, WEATHER, WEATHER_SAID, report, tone, weather } from "./parts.mjs";

const baseURL = new URL(process.argv[2]);
const client = new OpenAI({ apiKey: API_KEY, baseURL: baseURL.href });
// The client insists on wss. A plain connection is what `ws` is given for it.
const createConnection = () => net.connect(Number(baseURL.port), baseURL.hostname);
const connection = new OpenAIRealtimeWS({ model: "gpt-realtime", options: { createConnection } }, client);

const heard = new Heard();
const sound = new Map();
connection.on("error", (error) => heard.fail(error));
connection.on("event", (event) => {
  if (event.type === "response.output_audio.delta") {
    const size = Buffer.from(event.delta, "base64").length;
    sound.set(event.item_id, (sound.get(event.item_id) ?? 0) + size);
  }
  heard.add(event);
});

const next = (type) => heard.next((event) => event.type === type, type);

function write(text, response = {}) {
  const content = [{ type: "input_text", text }];
  connection.send({ type: "conversation.item.create", item: { type: "message", role: "user", content } });
  connection.send({ type: "response.create", response });
}

async function answer() {
  const { response } = await next("response.done");
  const [item] = response.output;
  return { status: response.status, answer: item.content[0].transcript, bytes: sound.get(item.id) ?? 0 };
}

await next("session.created");
write(GREETING);
report("text", await answer());

const microphone = new Microphone((pcm) =>
  connection.send({ type: "input_audio_buffer.append", audio: pcm.toString("base64") }),
);
microphone.say(tone(1.0));
const { transcript } = await next("conversation.item.input_audio_transcription.completed");
report("speech", { heard: transcript, ...(await answer()) });

write(LONG);
const { item_id } = await next("response.output_audio.delta");
microphone.say(tone(0.6));
await next("input_audio_buffer.speech_started");
const audio_end_ms = Math.floor((sound.get(item_id) * 1000) / 48_000);
connection.send({ type: "conversation.item.truncate", item_id, content_index: 0, audio_end_ms });
const cut = await answer();
if (cut.status !== "cancelled") throw new Error(`the interrupted answer is ${JSON.stringify(cut)}`);
await next("conversation.item.truncated");
report("interruption", await answer());

microphone.off();
connection.send({
  type: "session.update",
  session: { type: "realtime", tools: [{ type: "function", ...TOOL }] },
});
await next("session.updated");
for (const [name, text] of [
  ["tool", WEATHER],
  ["tool_said", WEATHER_SAID],
]) {
  write(text);
  const call = await next("response.function_call_arguments.done");
  const { response } = await next("response.done");
  const output = weather(JSON.parse(call.arguments));
  const item = { type: "function_call_output", call_id: call.call_id, output };
  connection.send({ type: "conversation.item.create", item });
  connection.send({ type: "response.create" });
  report(name, { items: response.output.map((one) => one.type), ...(await answer()) });
}

write(LAST, { metadata: { purpose: "the last turn" } });
report("last", await answer());
connection.close();
