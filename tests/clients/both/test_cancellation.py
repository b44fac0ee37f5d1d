"""Whatever a client is doing may be cancelled at any step; nothing of it is left, and the session goes on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from duplex_trio.clients import DuplexClientBase, PlaybackCursor, SessionConfig
from duplex_trio.models.scripted.script import Script
from duplex_trio.testing.steps import acting_at

Run = Callable[..., Any]
LONG = Script(otherwise=lambda _: "word " * 30)
STEPS = pytest.mark.parametrize("stride", [61, pytest.param(7, marks=pytest.mark.slow)])
"""Every so manyth step is tried."""


async def converse(client: DuplexClientBase) -> None:
    """Do a little of everything; its end is not waited for."""
    responses = client.responses()
    await client.create_item("hello")
    await client.create_response()
    response = await anext(responses)
    async for _pcm in response.audio():
        if response.played_ms > 300:
            break
    await client.append_audio(bytes(3_200))
    await client.barge_in()
    await client.wait_for("response.done")
    await client.update(instructions="on")


@STEPS
async def test_a_whole_session_can_be_cancelled_at_each_step(
    run_engine: Run, autojump_clock: MockClock, stride: int
) -> None:
    """Opening, talking and leaving: the slot and the stage requests are free at once afterwards."""
    async with run_engine(LONG, max_sessions=1) as engine:

        async def hold(scope: trio.CancelScope) -> None:
            with scope:
                async with engine.client(playback=PlaybackCursor()) as client:
                    await converse(client)

        step, over = 1, False
        while not over:
            scope = trio.CancelScope()
            with acting_at(step, scope.cancel) as watched, trio.fail_after(60):
                await hold(scope)
            over = not scope.cancelled_caught and watched.steps < step
            with trio.fail_after(5):
                await engine.settle()
            step += stride
        assert step > 100
        async with engine.client() as client:
            await converse(client)


async def _append_forever(client: DuplexClientBase) -> None:
    while True:
        await client.append_audio(bytes(6_400))


async def _write_forever(client: DuplexClientBase) -> None:
    while True:
        await client.create_item("x")


async def _read_sound(client: DuplexClientBase) -> None:
    async for response in client.responses():
        async for _pcm in response.audio():
            pass


async def _read_events(client: DuplexClientBase) -> None:
    async for _event in client:
        pass


async def _wait_for(client: DuplexClientBase) -> None:
    await client.wait_for("never")


async def _stream(client: DuplexClientBase) -> None:
    await client.stream_pcm(bytes(3_200_000))


@pytest.mark.parametrize("ticks", [1, 2, 3, 7, 50])
@pytest.mark.parametrize(
    "activity", [_append_forever, _write_forever, _read_sound, _read_events, _wait_for, _stream]
)
async def test_a_cancelled_activity_leaves_the_session_usable(
    run_engine: Run,
    autojump_clock: MockClock,
    ticks: int,
    activity: Callable[[DuplexClientBase], Awaitable[None]],
) -> None:
    """A command that was cancelled has been sent whole or not at all."""
    async with run_engine(LONG) as engine, engine.client(config=SessionConfig(turn_detection=None)) as client:
        client.responses()
        await client.create_item("hello")
        await client.create_response()
        scope = trio.CancelScope()
        with acting_at(3 * ticks, scope.cancel), scope, trio.fail_after(100):
            await activity(client)
        assert scope.cancelled_caught
        with client.events(events_max=10_000) as events:
            await client.heartbeat()
            await events.wait_for("session.heartbeat_ack")
            await client.create_item("the last", item_id="last")
            await client.retrieve_item("last")
            assert (await events.wait_for("conversation.item.retrieved")).item_id == "last"


async def test_senders_that_wait_go_on_in_their_order(run_engine: Run, autojump_clock: MockClock) -> None:
    """Also when one of them is cancelled."""
    async with run_engine() as engine, engine.client(config=SessionConfig(turn_detection=None)) as client:
        scope = trio.CancelScope()

        async def send(number: int) -> None:
            if number == 150:
                with scope:
                    await client.create_item("x", item_id=f"i{number}")
            else:
                await client.create_item("x", item_id=f"i{number}")

        added: list[str | None] = []
        with client.events(events_max=10_000) as events:
            async with trio.open_nursery() as nursery:
                for number in range(300):
                    nursery.start_soon(send, number)
                    await trio.lowlevel.checkpoint()
                    if number == 149:
                        scope.cancel()
            await client.retrieve_item("i299")
            while (event := await anext(events)).type != "conversation.item.retrieved":
                assert event.type != "error"
                added += [event.item_id] if event.type == "conversation.item.added" else []
        await wait_all_tasks_blocked()
        assert len(added) >= 299
        assert added.index("i299") > added.index("i298") > added.index("i0")
