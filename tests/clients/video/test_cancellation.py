"""A client that is cancelled at any step: what else goes on is whole, and what ends leaves nothing behind."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.testing.steps import acting_at
from duplex_trio.testing.video_peer import VideoPeer, read_all, scripted_client


async def answering(peer: VideoPeer) -> None:
    """A server that queues what comes and sends a payload after each, until it is told to stop."""
    await peer.begin()
    while (command := await peer.receive())["type"] != "session.stop":
        await peer.queued(command["interaction"]["event_id"])
        await peer.pair(command["interaction"]["event_id"].encode())
    await peer.end(stopped=True)


async def test_an_interaction_that_is_cancelled_is_sent_whole_or_not_at_all(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def steer(step: int) -> int:
        async with scripted_client(nursery, answering) as video:
            scope = trio.CancelScope()
            with acting_at(step, scope.cancel) as steps, scope:
                await video.interact("rain", event_id="a")
            taken = steps.steps
            assert await video.interact("rain", event_id="a") == "a"
            await video.interact("snow", event_id="b")
            await video.stop()
            payloads = [chunk.payload for chunk in await read_all(video)]
            assert payloads in ([b"a", b"b", b"trailer"], [b"a", b"a", b"b", b"trailer"])
            assert [each.state for each in video.interactions.values()] == ["unfinished"] * 2
        return taken

    whole = await steer(0)
    for step in range(1, whole + 1):
        await steer(step)


@pytest.mark.slow
async def test_a_client_that_is_cancelled_anywhere_ends(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def watch(step: int) -> tuple[int, list[Any]]:
        scope = trio.CancelScope()
        come: list[Any] = []
        async with trio.open_nursery() as serving:
            with acting_at(step, scope.cancel) as steps, scope:
                async with scripted_client(serving, answering) as video:
                    await video.interact("rain", event_id="a")
                    come.append(await video.__anext__())
                    await video.stop()
                    come += await read_all(video)
            taken = steps.steps
            serving.cancel_scope.cancel()
        return taken, come

    begin_s = trio.current_time()
    whole, come = await watch(0)
    assert len(come) == 2
    for step in range(1, whole + 1):
        await watch(step)
    assert trio.current_time() - begin_s < whole * 3, "each leaves within its second for a goodbye"
