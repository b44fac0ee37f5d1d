"""The modules of the page `/` that are plain data, run in a real browser one by one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
import trio

from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.serving.options import ServeOptions
from duplex_trio.serving.run import run_server
from duplex_trio.testing.browser import Page, open_page

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture
async def page(browser: str, nursery: trio.Nursery) -> AsyncIterator[Page]:
    factory = partial(DuplexOmni, ScriptedPipeline(), warm_up=False)
    address = await nursery.start(partial(run_server, factory, ServeOptions(port=0)))
    async with open_page(browser) as opened:
        await opened.open(f"{address.http_url}/")
        yield opened
    nursery.cancel_scope.cancel()


async def run(page: Page, imports: str, body: str, **values: Any) -> Any:
    """What a function returns that has these modules and values."""
    loaded = "".join(
        f"const {{ {name} }} = await import('/talk/{file}.js');"
        for file, name in (one.split(":") for one in imports.split())
    )
    given = "".join(f"const {name} = {json.dumps(value)};" for name, value in values.items())
    return await page.run(f"(async () => {{ {loaded} {given} {body} }})()")


RATES = [
    (48_000, 24_000),
    (44_100, 24_000),
    (16_000, 24_000),
    (24_000, 48_000),
    (24_000, 44_100),
    (24_000, 24_000),
]


async def test_sound_is_resampled_without_a_trace(page: Page) -> None:
    """A second in pieces has its length and its level; what the lower rate cannot hold is gone by 70 dB."""
    for from_hz, to_hz in RATES:
        count, level, above = await run(
            page,
            "resampler:Resampler",
            """
            const tone = (hz) => {
              const resampler = new Resampler(fromHz, toHz);
              const whole = Float32Array.from({ length: fromHz }, (_, at) => Math.sin(2 * Math.PI * hz * at / fromHz));
              const out = [];
              for (let at = 0; at < fromHz; at += 441) out.push(...resampler.feed(whole.subarray(at, at + 441)));
              out.push(...resampler.flush());
              const middle = out.slice(4000, out.length - 4000);
              return [out.length, Math.sqrt(middle.reduce((sum, x) => sum + x * x, 0) / middle.length)];
            };
            return [...tone(1000), toHz < fromHz ? tone(toHz * 0.575)[1] : 0];
            """,
            fromHz=from_hz,
            toHz=to_hz,
        )
        assert abs(count - to_hz) <= 1
        assert level == pytest.approx(0.7071, rel=0.002)
        assert above < 0.7071 * 10 ** (-70 / 20)


async def test_the_outbox_says_again_what_was_not_counted(page: Page) -> None:
    said = await run(
        page,
        "outbox:Outbox",
        """
        const box = new Outbox(); const said = [];
        const write = () => { for (let text; (text = box.next()) !== null; ) said.push(text); };
        for (const text of ["a", "b", "c"]) box.put(text);
        write(); box.confirm(1); box.put("d"); write();
        said.push("|"); box.resume(2); write();
        said.push("|"); box.confirm(1); box.resume(4); write(); box.put("e"); write();
        return said.join("");
        """,
    )
    assert said == "abcd|cd|e"


async def test_a_session_without_a_token_keeps_nothing(page: Page) -> None:
    said = await run(
        page,
        "outbox:Outbox",
        """
        const box = new Outbox(); box.put("a"); box.next(); box.put("b"); box.keepNoMore(); box.put("c");
        const said = []; for (let text; (text = box.next()) !== null; ) said.push(text);
        return said.join("") + box.wantsCount;
        """,
    )
    assert said == "bcfalse"


async def test_sound_that_waits_too_long_goes_and_is_told(page: Page) -> None:
    """Twelve seconds of sound around one command: the oldest two go, the command stays in its place."""
    kept, dropped, again = await run(
        page,
        "outbox:Outbox",
        """
        const box = new Outbox();
        for (let at = 0; at < 600; at++) { if (at === 50) box.put("command"); box.put("s" + at, 20); }
        const kept = []; for (let text; (text = box.next()) !== null; ) kept.push(text);
        return [kept, box.takeDropped(), box.takeDropped()];
        """,
    )
    assert (dropped, again) == (2000, 0)
    assert kept[:2] == ["command", "s100"]
    assert kept[-1] == "s599"
    assert len(kept) == 501


async def test_the_server_is_asked_for_its_count_when_much_waits_for_it(page: Page) -> None:
    wanted = await run(
        page,
        "outbox:Outbox",
        """
        const box = new Outbox(); const wanted = [];
        for (let at = 0; at < 3; at++) { box.put("x".repeat(400_000)); box.next(); wanted.push(box.wantsCount); }
        box.confirm(2); wanted.push(box.wantsCount);
        return wanted;
        """,
    )
    assert wanted == [False, False, True, False]


async def test_latencies_are_those_of_the_visitor(page: Page) -> None:
    """Speech that ended at 1.0 s of the sound, found out by silence 0.5 s later, is answered from then on."""
    figures = await run(
        page,
        "latency:Latency",
        """
        const figures = []; const latency = new Latency((name, ms) => figures.push([name, Math.round(ms)]));
        const session = { audio: { input: { turn_detection: { silence_duration_ms: 500 } } } };
        latency.received({ type: "session.created", session }, 0);
        const second = btoa("x".repeat(48_000));
        latency.sent({ type: "input_audio_buffer.append", audio: second }, 11_000);
        latency.sent({ type: "input_audio_buffer.append", audio: second }, 12_000);
        latency.received({ type: "input_audio_buffer.speech_stopped", audio_end_ms: 1500 }, 11_600);
        latency.received({ type: "response.output_audio_transcript.delta" }, 11_800);
        latency.received({ type: "response.output_audio_transcript.delta" }, 11_850);
        latency.sounds(true, 12_100);
        latency.sounds(true, 12_200);
        latency.received({ type: "input_audio_buffer.speech_started", audio_start_ms: 1900 }, 12_050);
        latency.sounds(false, 12_300);
        latency.sent({ type: "session.heartbeat", event_id: "h" }, 13_000);
        latency.received({ type: "session.heartbeat_ack" }, 13_012);
        latency.sent({ type: "response.create" }, 14_000);
        latency.sounds(true, 14_250);
        latency.sent({ type: "barge_in" }, 15_000);
        latency.sounds(false, 15_004);
        return figures;
        """,
    )
    assert figures == [
        ["firstToken", 800],
        ["endToFirstSound", 1100],
        ["interruptToSilence", 400],
        ["roundTrip", 12],
        ["endToFirstSound", 250],
        ["interruptToSilence", 4],
    ]


CONVERSATION = """
const talk = new Conversation();
const created = (id) => talk.received({ type: "response.created", response: { id } });
const of = (id, type, fields) => talk.received({ type: `response.${type}`, response_id: id, ...fields });
const words = (id, delta) => of(id, "output_audio_transcript.delta", { delta });
const duplex = { sample_rate_hz: 24000, request_metrics: { speech_end_to_first_audio_ms: 640 } };
const sound = (id, ms) => of(id, "output_audio.delta", { delta: "x".repeat(ms * 64), duplex });
const done = (id, status = "completed") => talk.received({ type: "response.done", response: { id, status } });
const heard = (type, item_id, fields) => talk.received({ type, item_id, ...fields });
const transcript = (id, kind, fields) => heard(`conversation.item.input_audio_transcription.${kind}`, id, fields);
const started = (id) => heard("input_audio_buffer.speech_started", id, {});
const row = ({ who, state, text, heardText, kind }) => [who, state, text, heardText ?? null, kind ?? null];
const read = () => talk.turns.map(row);
"""


async def test_what_was_heard_is_told_from_what_is_still_to_be(page: Page) -> None:
    seen = await run(
        page,
        "conversation:Conversation",
        CONVERSATION
        + """
        started("u");
        transcript("u", "delta", { delta: "What is" });
        const seen = [read()];
        transcript("u", "completed", { transcript: "What is it?" });
        created("r");
        sound("r", 100); words("r", "One two three "); sound("r", 900);
        sound("r", 100); words("r", "four five six"); sound("r", 900);
        talk.played("r", 500); seen.push(read());
        done("r"); talk.played("r", 1500); seen.push(read());
        talk.played("r", 2000); seen.push(read());
        return [seen, talk.turns[1].latencyMs];
        """,
    )
    (partial_, half, more, whole), latency_ms = seen
    assert partial_ == [["you", "partial", "What is", None, None]]
    assert half[0] == ["you", "done", "What is it?", None, None]
    assert half[1] == ["model", "speaking", "One two three four five six", "One two", None]
    assert more[1][3] == "One two three four five" or more[1][3] == "One two three four"
    assert whole[1] == ["model", "done", "One two three four five six", "One two three four five six", None]
    assert latency_ms == 640


async def test_an_interrupted_answer_says_what_was_heard_of_it(page: Page) -> None:
    turns = await run(
        page,
        "conversation:Conversation",
        CONVERSATION
        + """
        created("r"); sound("r", 100); words("r", "One two three four "); sound("r", 900); talk.played("r", 500);
        talk.received({ type: "output_audio_buffer.cleared", response_id: "r" }); done("r", "cancelled");
        created("silent"); done("silent", "cancelled");
        created("late"); sound("late", 100); words("late", "All of it."); done("late"); talk.played("late", 100);
        talk.received({ type: "output_audio_buffer.cleared" });
        return read();
        """,
    )
    assert turns == [
        ["model", "interrupted", "One two three four ", "One two", None],
        ["model", "done", "All of it.", "All of it.", None],
    ]


async def test_written_turns_calls_failures_and_coughs(page: Page) -> None:
    turns = await run(
        page,
        "conversation:Conversation",
        CONVERSATION
        + """
        const item = { id: "w", type: "message", role: "user", content: [{ type: "input_text", text: "Hello" }] };
        talk.received({ type: "conversation.item.added", item });
        created("t"); of("t", "output_text.delta", { delta: "Hi" }); done("t");
        created("c"); of("c", "function_call_arguments.done", { name: "look_up", arguments: "{}" }); done("c");
        created("f"); words("f", "I was"); done("f", "failed");
        started("cough"); transcript("cough", "completed", { transcript: " " });
        return read();
        """,
    )
    assert turns == [
        ["you", "done", "Hello", None, None],
        ["model", "done", "Hi", None, None],
        ["note", "done", "look_up({})", None, "call"],
        ["model", "failed", "I was", "", None],
    ]


async def test_a_long_talk_keeps_its_newest_turns(page: Page) -> None:
    count, first = await run(
        page,
        "conversation:Conversation",
        CONVERSATION
        + """
        for (let at = 0; at < 700; at++) { created("r" + at); words("r" + at, "word"); done("r" + at); }
        return [talk.turns.length, talk.turns[0].id];
        """,
    )
    assert (count, first) == (500, "r200")


STAGE = """
const posted = []; const phases = []; const sockets = [];
globalThis.AudioWorkletNode = class { port = { postMessage: (message) => posted.push(message) }; connect() {} };
globalThis.WebSocket = class {
  static OPEN = 1; readyState = 1; bufferedAmount = 0;
  constructor() { sockets.push(this); }
  send() {} close() {}
};
const context = {
  sampleRate: 24000, audioWorklet: { addModule: async () => {} }, createGain: () => ({ connect() {}, gain: {} }),
};
const nothing = () => {};
const handlers = { changed: nothing, message: nothing, figure: nothing, error: nothing, lost: nothing };
const told = { ...handlers, phase: (name, detail) => phases.push([name, detail]) };
const hear = (type, fields) => sockets.at(-1).onmessage({ data: JSON.stringify({ type, ...fields }) });
const delta = btoa("xx".repeat(480));
const sound = (id) => hear("response.output_audio.delta", { response_id: id, item_id: "i", delta });
const session = { id: "s" };
"""
"""A conversation whose server and loudspeaker are the test's."""


async def test_sound_that_was_on_its_way_when_it_was_interrupted_is_not_played(page: Page) -> None:
    played = await run(
        page,
        "call:Call",
        STAGE
        + """
        const call = new Call({ key: "", model: "", session: {}, ownsTurns: false }, context, told);
        await new Promise((done) => setTimeout(done));
        sockets[0].onopen();
        hear("session.created", { session, resume_token: "t" });
        for (const id of ["first", "second"]) {
          hear("response.created", { response: { id } });
          if (id === "second") call.interrupt();
          sound(id);
        }
        return posted.filter(({ play }) => play).map(({ play }) => play);
        """,
    )
    assert played == ["first"]


async def test_an_end_that_came_while_the_session_was_taken_up_is_one(page: Page) -> None:
    phases = await run(
        page,
        "session:TalkSession",
        STAGE
        + """
        const later = []; globalThis.setTimeout = (act, ms) => later.push(act);
        const talk = new TalkSession({ session: {} }, { sent: nothing, received: nothing, phase: told.phase });
        sockets[0].onopen();
        hear("session.created", { session, resume_token: "t" });
        sockets[0].onclose({ code: 1006, reason: "" });
        later.at(-1)();
        sockets[1].onopen();
        hear("session.closed", { reason: "idle_timeout", server_event_seq: 1 });
        hear("session.resumed", { session, resume_token: "u", client_event_count: 0 });
        return phases.map(([name, detail]) => [name, detail?.code ?? null]);
        """,
    )
    assert phases == [["open", None], ["away", None], ["away", None], ["closed", "idle_timeout"]]


async def test_what_has_been_played_is_forgotten(page: Page) -> None:
    silenced = await run(
        page,
        "play-queue:PlayQueue",
        """
        const silenced = [];
        const queue = new PlayQueue(24000, (said) => said.silenced && silenced.push(said.silenced));
        for (const id of ["a", "b"]) queue.take({ play: id, pcm: new Float32Array(64) });
        queue.fill(new Float32Array(128));
        queue.take({ forget: "a" }); queue.take({ cut: null }); queue.take({ cut: null });
        return silenced;
        """,
    )
    assert silenced == [[["b", 64]], []]
