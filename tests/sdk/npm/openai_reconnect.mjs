// The npm `openai` package's realtime client, which reconnects by itself when its connection breaks.
// Usage: openai_reconnect.mjs HTTP_BASE

import net from "node:net";
import OpenAI from "openai";
import { OpenAIRealtimeWS } from "openai/realtime/ws";
import { API_KEY, GREETING, LAST, report } from "./parts.mjs";

const baseURL = new URL(process.argv[2]);
const client = new OpenAI({ apiKey: API_KEY, baseURL: baseURL.href });
const createConnection = () => net.connect(Number(baseURL.port), baseURL.hostname);
const connection = new OpenAIRealtimeWS(
  { model: "gpt-realtime", reconnect: true, reconnectInitialDelay: 50, options: { createConnection } },
  client,
);

const waiting = [
  ["first", GREETING],
  ["second", LAST],
];
const breaks = [];
let turn;
// Of a new connection it can hear the greeting before it counts as open.
let greeted = false;
let open = true;

connection.on("error", (error) => {
  throw error;
});
connection.on("reconnecting", (event) => {
  open = false;
  breaks.push(event.closeCode ?? event.code);
});
connection.on("reconnected", () => {
  open = true;
  talk();
});
connection.on("session.created", () => {
  greeted = true;
  talk();
});

function talk() {
  if (!greeted || !open) return;
  greeted = false;
  let text;
  [turn, text] = waiting.shift();
  // What was not sent before the break waits until the application has restored its session.
  connection.flushPending();
  const content = [{ type: "input_text", text }];
  connection.send({ type: "conversation.item.create", item: { type: "message", role: "user", content } });
  connection.send({ type: "response.create" });
}

connection.on("response.done", ({ response }) => {
  report(turn, { answer: response.output[0].content[0].transcript, breaks });
  if (waiting.length === 0) connection.close();
});
