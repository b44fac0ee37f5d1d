"""A client that acknowledges by itself what a listener has heard, over either way to an engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
from attrs import Factory, define
from trio.testing import MockClock

from duplex_trio.clients import DuplexClientBase, PlaybackCursor, ResponseHandle, SessionConfig
from duplex_trio.clients.acknowledger import LOOK_EVERY_S
from duplex_trio.clients.events import ErrorEvent
from duplex_trio.models.scripted.script import Script
from duplex_trio.models.scripted.turns import TurnsPipeline
from duplex_trio.models.scripted.turns_plugin import TurnsPlugin
from duplex_trio.plugin.capabilities import DuplexCapabilities

Run = Callable[..., Any]
WORD_MS = 300
LOUD = b"".join(int(9000 * (-1) ** (i // 40)).to_bytes(2, "little", signed=True) for i in range(16_000))


def words(count: int) -> Script:
    return Script(otherwise=lambda text: "all right" if "stop" in text else " ".join(["word"] * count))


@define
class Listening:
    """A client that listens, and what the server was told of that: (time, played ms), by response."""

    client: DuplexClientBase
    acks: dict[str, list[tuple[float, int]]] = Factory(dict)
    errors: list[ErrorEvent] = Factory(list)

    async def watch(self) -> None:
        async for event in self.client.events():
            if event.type == "playback.acknowledged":
                record = event.raw["event"]
                told = (event.received_at_s, record["played_ms"])
                self.acks.setdefault(record["item_id"].removeprefix("item_"), []).append(told)
            elif isinstance(event, ErrorEvent):
                self.errors.append(event)

    async def answer(self, text: str = "hello") -> ResponseHandle:
        """Ask, and wait until there is something to be heard."""
        await self.client.create_item(text)
        await self.client.create_response()
        response = await anext(self.client.responses())
        assert response.response_id is not None
        return response

    async def kept(self, response: ResponseHandle) -> str:
        """What the conversation holds of an answer."""
        with self.client.events() as events:
            await self.client.retrieve_item(f"item_{response.response_id}")
            item = (await events.wait_for("conversation.item.retrieved")).raw["item"]
        return str(item["content"][0]["transcript"])


@asynccontextmanager
async def listening(engine: Any, **options: Any) -> AsyncIterator[Listening]:
    async with (
        engine.client(**{"playback": PlaybackCursor()} | options) as client,
        trio.open_nursery() as nursery,
    ):
        ear = Listening(client)
        client.responses()
        nursery.start_soon(ear.watch)
        yield ear
        nursery.cancel_scope.cancel()


async def test_an_answer_is_acknowledged_as_it_is_heard(run_engine: Run, autojump_clock: MockClock) -> None:
    """From its first moment to its last, in real time however early it arrived, and not beyond."""
    async with run_engine(words(10)) as engine, listening(engine) as ear:
        response = await ear.answer()
        begin_s = trio.current_time()
        await response.wait()
        assert trio.current_time() - begin_s < 10 * WORD_MS / 1000  # it came faster than it is heard
        await trio.sleep(5)
        acks = ear.acks[response.response_id]
        assert [played for _, played in acks] == sorted({played for _, played in acks})
        assert len(acks) >= 10 * WORD_MS / 250
        for at_s, played_ms in acks:
            assert at_s - begin_s == pytest.approx(played_ms / 1000, abs=LOOK_EVERY_S + 0.001)
        assert acks[-1][1] == 10 * WORD_MS
        assert await ear.kept(response) == response.transcript
        assert ear.client.playback is not None
        assert not ear.client.playback.pending
        assert ear.errors == []


async def test_without_a_cursor_nothing_is_acknowledged(run_engine: Run, autojump_clock: MockClock) -> None:
    async with run_engine(words(3)) as engine, listening(engine, playback=None) as ear:
        assert ear.client.playback is None
        response = await ear.answer()
        await trio.sleep(5)
        assert ear.acks == {}
        await ear.client.ack_playback(600, response_id=response.response_id)
        await trio.sleep(1)
        assert [played for _, played in ear.acks[response.response_id]] == [600]


@pytest.mark.parametrize("heard_ms", [20, 317, 1017, 1500, 1866])
async def test_who_is_interrupted_has_heard_what_was_played_to_the_millisecond(
    run_engine: Run, autojump_clock: MockClock, heard_ms: int
) -> None:
    """The server is told at once, and keeps that much of the answer's words."""
    async with run_engine(words(20)) as engine, listening(engine) as ear:
        response = await ear.answer()
        await trio.sleep(heard_ms / 1000)
        await ear.client.barge_in()
        await response.wait()
        cut_s = trio.current_time()
        await trio.sleep(5)
        assert ear.acks[response.response_id][-1] == (cut_s, heard_ms)
        assert ear.client.playback is not None
        assert ear.client.playback.played_ms(str(response.response_id), trio.current_time()) == pytest.approx(
            heard_ms
        )
        kept = await ear.kept(response)
        assert response.transcript.startswith(kept)
        assert len(kept) == pytest.approx(len("word ") * heard_ms / WORD_MS, abs=3)


async def test_speech_cuts_what_is_heard(run_engine: Run, autojump_clock: MockClock) -> None:
    """Of two answers each has its own account; the second is heard from its beginning to its end."""
    script = Script(heard=["stop"], otherwise=words(20).otherwise)
    config = SessionConfig(turn_detection={"type": "server_vad"})
    async with run_engine(script) as engine, listening(engine, config=config) as ear:
        first = await ear.answer()
        begin_s = trio.current_time()
        await trio.sleep(0.9)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ear.client.stream_pcm, LOUD + bytes(32_000))
            cut = await ear.client.wait_for("output_audio_buffer.cleared", "response.done")
        second = await anext(ear.client.responses())
        await trio.sleep(5)
        cursor = ear.client.playback
        assert cursor is not None
        heard_ms = ear.acks[str(first.response_id)][-1][1]
        assert heard_ms == pytest.approx((cut.received_at_s - begin_s) * 1000, abs=1)
        assert heard_ms == pytest.approx(cursor.played_ms(str(first.response_id), trio.current_time()), abs=1)
        assert [played for _, played in ear.acks[str(second.response_id)]][-1] == 2 * WORD_MS


async def test_what_is_cut_before_it_is_heard_is_not_acknowledged(
    run_engine: Run, autojump_clock: MockClock
) -> None:
    async with run_engine(words(20)) as engine, listening(engine) as ear:
        first = await ear.answer()
        await first.wait()  # all of it is there, most of it unheard
        with ear.client.events() as events:
            await ear.client.clear_output()
            await events.wait_for("output_audio_buffer.cleared")
        told = [played for _, played in ear.acks[str(first.response_id)]]
        await trio.sleep(10)
        assert [played for _, played in ear.acks[str(first.response_id)]][: len(told)] == told
        assert ear.acks[str(first.response_id)][-1][1] < 20 * WORD_MS


async def test_a_device_is_heard_later(run_engine: Run, autojump_clock: MockClock) -> None:
    """Its latency is known once it is open, before anything is heard."""
    cursor = PlaybackCursor()
    async with run_engine(words(3)) as engine, listening(engine, playback=cursor) as ear:
        cursor.latency_s = 0.7
        response = await ear.answer()
        begin_s = trio.current_time()
        await trio.sleep(5)
        acks = ear.acks[str(response.response_id)]
        assert acks[0][0] - begin_s == pytest.approx(0.7, abs=LOOK_EVERY_S + 0.01)
        assert acks[-1][0] - begin_s == pytest.approx(0.7 + 3 * WORD_MS / 1000, abs=LOOK_EVERY_S + 0.01)


async def test_a_refused_acknowledgment_of_its_own_disturbs_nobody(
    run_engine: Run, autojump_clock: MockClock
) -> None:
    """What the server refuses of the client's own acknowledgments is told among the events and raised nowhere."""
    async with run_engine(words(20)) as engine, listening(engine) as ear:
        response = await ear.answer()
        refusal = {
            "type": "error",
            "error": {"code": "playback_item_not_found", "event_id": "evt_playback_1"},
        }
        await trio.sleep(0.5)
        ear.client.dispatch(refusal)
        await response.wait()
        following = await ear.answer("stop")
        await following.wait()
        assert [error.code for error in ear.errors] == ["playback_item_not_found"]
        ear.client.dispatch({**refusal, "error": {"code": "playback_item_not_found", "event_id": "evt_mine"}})
        with pytest.raises(Exception, match="playback_item_not_found"):
            await anext(ear.client.responses())


class _Unheard(TurnsPlugin):
    """A model that wants to know nothing of its listener."""

    def capabilities(self, max_sessions: int) -> DuplexCapabilities:
        return attrs.evolve(super().capabilities(max_sessions), supports_playback_ack=False)


class _UnheardPipeline(TurnsPipeline):
    def build_plugin(self) -> TurnsPlugin:
        return _Unheard()


async def test_a_model_that_takes_no_acknowledgments_gets_none(
    run_engine: Run, autojump_clock: MockClock
) -> None:
    async with run_engine(pipeline=_UnheardPipeline(script=words(3))) as engine, listening(engine) as ear:
        await (await ear.answer()).wait()
        await trio.sleep(5)
        assert (ear.acks, ear.errors) == ({}, [])


async def test_the_end_of_a_session_ends_it(run_engine: Run, autojump_clock: MockClock) -> None:
    async with run_engine(words(20)) as engine, listening(engine) as ear:
        await ear.answer()
        await trio.sleep(1)
        await ear.client.close()
        await trio.sleep(5)


async def test_a_lost_connection_costs_no_acknowledgment(run_both: Run, autojump_clock: MockClock) -> None:
    """The listener hears what has arrived; what was heard meanwhile is told when there is a connection again."""
    _, websocket = run_both(words(10))
    async with websocket as engine, listening(engine) as ear:
        response = await ear.answer()
        await trio.sleep(0.5)
        engine.server.drop()
        await response.wait()
        await trio.sleep(5)
        assert ear.acks[str(response.response_id)][-1][1] == 10 * WORD_MS
