"""What a client hears: the same events in the same order over either way, answers one by one, tools, and readers
that are slow."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.clients import (
    DuplexClientBase,
    DuplexLagError,
    DuplexProtocolError,
    ResponseHandle,
    SessionConfig,
)
from duplex_trio.clients.events import ResponseDone
from duplex_trio.models.scripted.native import NativePipeline
from duplex_trio.models.scripted.script import Script, tool_call

Run = Callable[..., Any]
BY_HAND = SessionConfig(turn_detection=None)
RATE_HZ = 24_000
WORD_MS = 300
TONE = b"".join(int(9000 * (-1) ** (i // 40)).to_bytes(2, "little", signed=True) for i in range(16_000))
TOOL = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}
OF_A_CONNECTION = ("event_id", "server_event_seq", "resume_token", "attachment_generation")


async def ask(client: DuplexClientBase, text: str) -> None:
    await client.create_item(text)
    await client.create_response()


def comparable(value: Any, names: dict[str, str]) -> Any:
    """An event without what differs from session to session: ids are numbered, figures of time left out."""
    match value:
        case dict():
            kept = {k: v for k, v in value.items() if k not in OF_A_CONNECTION and "metrics" not in k}
            return {key: comparable(inner, names) for key, inner in kept.items()}
        case list():
            return [comparable(inner, names) for inner in value]
        case str() if value.startswith(("duplex-", "resp_", "resp-", "item_", "conv_", "call_")):
            return names.setdefault(value, f"id {len(names)}")
    return value


async def converse(client: DuplexClientBase) -> list[dict[str, Any]]:
    """Write, speak, interrupt, be refused, and hear it all."""
    before = client.events()
    async with client:
        with client.events() as events:
            await ask(client, "hello")
            await events.wait_for("response.done")
            await client.stream_pcm(TONE, chunk_ms=100)
            await client.commit(create_response=True)
            await events.wait_for("response.output_audio.delta")
            await trio.sleep(0.233)
            await client.barge_in()
            await events.wait_for("response.done")
            await client.cancel_response("nobody")
            assert (await events.wait_for("error")).type == "error"
            await client.update(instructions="go on")
            await events.wait_for("session.updated")
    return [dict(event.raw) async for event in before]


async def test_the_events_are_those_of_a_socket(run_both: Run, autojump_clock: MockClock) -> None:
    told = []
    for way in run_both(Script(heard=["what is up"])):
        async with way as engine:
            names: dict[str, str] = {}
            told.append([comparable(raw, names) for raw in await converse(engine.client(config=BY_HAND))])
    inline, websocket = told
    # Heartbeats and acknowledgments are the connection's; all else is the session's.
    assert [event["type"] for event in inline] == [event["type"] for event in websocket]
    for ours, theirs in zip(inline, websocket, strict=True):
        assert ours == theirs
    assert inline[0]["type"] == "session.created"
    assert inline[-1]["type"] == "session.closed"


async def test_in_the_same_program_nothing_is_numbered_and_nothing_can_be_resumed(
    run_both: Run, autojump_clock: MockClock
) -> None:
    inline, _ = run_both()
    async with inline as engine:
        client = engine.client()
        told = client.events()
        async with client:
            await ask(client, "hello")
            await client.wait_for("response.done")
        for event in [event async for event in told]:
            assert not {"server_event_seq", "resume_token"} & event.raw.keys()


async def test_an_event_is_the_clients_own(run_engine: Run, autojump_clock: MockClock) -> None:
    """What one does to it, the session does not notice."""
    async with run_engine() as engine, engine.client(config=BY_HAND) as client:
        info = client.session_info
        assert isinstance(info, dict)
        info["instructions"] = "spoilt"
        info["capabilities"].clear()
        with client.events() as events:
            await client.update(metadata={"a": "b"})
            while client.session_info.get("metadata") != {"a": "b"}:
                await events.wait_for("session.updated")
        assert client.session_info["instructions"] != "spoilt"
        assert client.session_info["capabilities"]


# ---------------------------------------------------------------------- answers


async def test_an_answer_is_spoken(run_engine: Run, autojump_clock: MockClock) -> None:
    async with run_engine(Script(replies={"hello": "hello to you"})) as engine, engine.client() as client:
        responses = client.responses()
        assert client.responses() is responses
        await ask(client, "hello")
        response = await anext(responses)
        assert (response.decision, response.finished) == ("speak", False)
        sound = b"".join([pcm async for pcm in response.audio()])
        assert (response.encoding, response.sample_rate_hz) == ("pcm16", RATE_HZ)
        assert len(sound) == 3 * WORD_MS * RATE_HZ // 1000 * 2
        assert response.played_ms == pytest.approx(3 * WORD_MS)
        assert isinstance(await response.wait(), ResponseDone)
        assert (response.transcript, response.status) == ("hello to you", "completed")
        assert response.item_id == f"item_{response.response_id}"


async def test_an_answer_is_written(run_engine: Run, autojump_clock: MockClock) -> None:
    script, config = Script(replies={"hello": "hello to you"}), SessionConfig(modalities=["text"])
    async with run_engine(script) as engine, engine.client(config=config) as client:
        responses = client.responses()
        await ask(client, "hello")
        response = await anext(responses)
        await response.wait()
        assert (response.text, response.transcript) == ("hello to you", "")
        assert [pcm async for pcm in response.audio()] == []


async def test_a_refusal_comes_in_its_place_and_the_stream_goes_on(
    run_engine: Run, autojump_clock: MockClock
) -> None:
    async with run_engine() as engine, engine.client() as client:
        responses = client.responses()
        await ask(client, "one")
        await (await anext(responses)).wait()
        await client.retrieve_item("nobody")
        with client.events() as events:
            await client.heartbeat()
            assert (await events.wait_for("session.heartbeat_ack", "error")).type
        await ask(client, "two")
        with pytest.raises(DuplexProtocolError, match="nobody"):
            await anext(responses)
        assert (await anext(responses)).decision == "speak"


async def test_silence_is_a_decision_to_listen(run_engine: Run, autojump_clock: MockClock) -> None:
    """It belongs to no response, and is told once while nobody has taken it."""
    async with run_engine() as engine, engine.client(config=BY_HAND) as client:
        responses = client.responses()
        with client.events() as events:
            await client.append_audio(bytes(6_400))
            await client.commit()
            await events.wait_for("response.listen")
        response = await anext(responses)
        assert (response.response_id, response.decision, response.finished) == (None, "listen", True)
        await ask(client, "hello")
        while (response := await anext(responses)).decision == "listen":
            assert response.response_id is None
        assert response.decision == "speak"


async def test_a_model_that_owns_its_turns_speaks_by_itself(
    run_engine: Run, autojump_clock: MockClock
) -> None:
    async with run_engine(pipeline=NativePipeline(answer="oh hello")) as engine:
        async with engine.client() as client, trio.open_nursery() as nursery:
            responses = client.responses()
            nursery.start_soon(client.stream_pcm, TONE + bytes(64_000))
            spoken = ""
            while not spoken:
                response = await anext(responses)
                if response.decision == "speak":
                    await response.wait()
                    spoken = response.transcript
            nursery.cancel_scope.cancel()
        assert spoken.strip()


async def test_an_interruption_ends_the_sound_at_once(run_engine: Run, autojump_clock: MockClock) -> None:
    """Nothing of the answer that was cut is played any more, and the next one is whole."""
    script = Script(otherwise=lambda text: "all right" if "stop" in text else "word " * 10)
    async with run_engine(script) as engine, engine.client() as client:
        responses = client.responses()
        await ask(client, "talk")
        first = await anext(responses)
        heard = 0.0
        async for _pcm in first.audio():
            heard = first.played_ms
            if heard > 900:
                await client.barge_in()
                await first.wait()
        assert first.cut
        assert first.status == "cancelled"
        assert heard < 10 * WORD_MS
        await ask(client, "stop")
        second = await anext(responses)
        assert sum([len(pcm) async for pcm in second.audio()]) == 2 * WORD_MS * RATE_HZ // 1000 * 2
        assert not second.cut


async def test_speech_interrupts_too(run_engine: Run, autojump_clock: MockClock) -> None:
    script = Script(heard=["stop"], otherwise=lambda text: "all right" if "stop" in text else "word " * 40)
    config = SessionConfig(turn_detection={"type": "server_vad"})
    async with run_engine(script) as engine, engine.client(config=config) as client:
        responses = client.responses()
        await ask(client, "talk")
        first = await anext(responses)
        await client.stream_pcm(TONE + bytes(32_000), chunk_ms=20)
        await first.wait()
        second = await anext(responses)
        await second.wait()
        assert (first.status, second.transcript) == ("cancelled", "all right")


async def test_a_tool_is_called_and_its_answer_goes_on(run_engine: Run, autojump_clock: MockClock) -> None:
    script = Script(
        replies={"weather": "One moment. " + tool_call("get_weather", city="Paris"), "sunny": "It is sunny."}
    )
    async with run_engine(script) as engine, engine.client(config=SessionConfig(tools=[TOOL])) as client:
        responses = client.responses()
        await ask(client, "weather")
        called: list[ResponseHandle] = [await anext(responses)]
        await called[0].wait()
        (call,) = called[0].function_calls
        assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Paris"})
        await client.send_function_output(call.call_id, "sunny", item_id="item_sun")
        await client.create_response()
        answer = await anext(responses)
        await answer.wait()
        assert answer.transcript == "It is sunny."


async def test_waiting(run_engine: Run, autojump_clock: MockClock) -> None:
    """For the first of several; no longer than wanted; not beyond an error; for an error if that is wanted."""
    async with run_engine() as engine, engine.client() as client:
        with client.events() as events:
            await ask(client, "hello")
            created = await events.wait_for("response.done", "response.created")
            assert created.type == "response.created"
        with pytest.raises(trio.TooSlowError):
            await client.wait_for("session.expired", timeout_s=1)
        with client.events() as events:
            await client.delete_item("nobody")
            with pytest.raises(DuplexProtocolError, match="item_not_found"):
                await events.wait_for("conversation.item.deleted")
        with client.events() as events:
            await client.delete_item("nobody")
            assert (await events.wait_for("error")).type == "error"


# ---------------------------------------------------------------------- readers that are slow


async def test_a_slow_subscriber_loses_only_itself_and_knows(
    run_engine: Run, autojump_clock: MockClock
) -> None:
    """It has what its queue held, then the error; the others and the session have noticed nothing."""
    async with run_engine(Script(otherwise=lambda _: "word " * 20)) as engine, engine.client() as client:
        slow, quick = client.events(events_max=4), client.events()
        begin_s = trio.current_time()
        await ask(client, "hello")
        await quick.wait_for("response.done")
        assert trio.current_time() - begin_s < 20 * WORD_MS / 1000
        assert len([await anext(slow) for _ in range(4)]) == 4
        with pytest.raises(DuplexLagError):
            await anext(slow)
        assert client.connected
        await ask(client, "hello")
        await quick.wait_for("response.done")


async def test_sound_waits_for_a_slow_player(run_engine: Run, autojump_clock: MockClock) -> None:
    """Whoever plays an answer later than it comes plays all of it."""
    async with run_engine(Script(otherwise=lambda _: "word " * 20)) as engine, engine.client() as client:
        responses = client.responses()
        await ask(client, "hello")
        response = await anext(responses)
        await response.wait()
        heard_ms = 0.0
        async for pcm in response.audio():
            heard_ms += len(pcm) / 2 / RATE_HZ * 1000
            await trio.sleep(1)
        assert heard_ms == pytest.approx(20 * WORD_MS)


async def test_who_sends_faster_than_it_is_worked_off_waits_and_nothing_is_refused(
    run_engine: Run, autojump_clock: MockClock
) -> None:
    """A thousand commands at once, in order, each answered; a control among them is not lost."""
    async with run_engine() as engine, engine.client(config=BY_HAND) as client:
        with client.events(events_max=5_000) as events:

            async def send() -> None:
                for number in range(1_000):
                    await client.create_item("x", item_id=f"i{number}")
                    await client.delete_item(f"i{number}")
                await client.heartbeat()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(send)
                deleted = []
                while (event := await anext(events)).type != "session.heartbeat_ack":
                    assert event.type != "error"
                    deleted += [event.item_id] if event.type == "conversation.item.deleted" else []
            # A heartbeat is answered as it arrives, items in their turn.
            while len(deleted) < 1_000:
                deleted.append((await events.wait_for("conversation.item.deleted")).item_id)
        assert deleted == [f"i{number}" for number in range(1_000)]
