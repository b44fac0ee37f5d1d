"""A text message and a binary one that leave as one write, whatever happens meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from duplex_trio.serving.native.channel import NativeChannel
from duplex_trio.testing.raw_websocket import BINARY, FIN, PING, PONG, TEXT, Frame, frame

TOLD = b'{"type": "video.chunk_metadata"}'


async def accepted(channel: NativeChannel, pipe: Any) -> None:
    await channel.accept(None)
    pipe.sent.clear()


@pytest.mark.parametrize("size", [1, 125, 126, 65_535, 65_536, 1_000_000])
async def test_a_pair_is_two_whole_frames_in_one_write(
    channel: NativeChannel, pipe: Any, frames_in: Callable[[bytes], list[Frame]], size: int
) -> None:
    await accepted(channel, pipe)
    writes: list[int] = []
    pipe.send_together_nowait = lambda parts: (
        writes.append(len(parts)) or type(pipe).send_together_nowait(pipe, parts)
    )
    payload = bytes(range(256)) * (size // 256 + 1)
    await channel.send_pair(TOLD, payload[:size])
    assert [(one.opcode, one.payload) for one in frames_in(pipe.sent)] == [
        (TEXT, TOLD),
        (BINARY, payload[:size]),
    ]
    assert len(writes) == 1


@pytest.mark.parametrize("room", [0, 1, 20, 36, 37, 40, 41, 100])
async def test_a_pair_that_is_cancelled_anywhere_is_still_sent_whole(
    channel: NativeChannel, pipe: Any, frames_in: Callable[[bytes], list[Frame]], room: int
) -> None:
    """And nothing comes between its halves: not a pong, not what is said next."""
    await accepted(channel, pipe)
    pipe.room = room
    with trio.CancelScope() as scope:
        scope.cancel()
        await channel.send_pair(TOLD, b"x" * 200)
    assert scope.cancelled_caught
    pipe.arrive(frame(FIN | PING, b"are you there"))
    pipe.arrive(frame(FIN | TEXT, b"hello"))
    assert await channel.receive() == "hello"
    pipe.make_room(float("inf"))
    await channel.send(b"next")
    await trio.testing.wait_all_tasks_blocked()
    kinds = [one.opcode for one in frames_in(pipe.sent)]
    assert kinds[:2] == [TEXT, BINARY]
    assert sorted(kinds[2:]) == sorted([PONG, TEXT])


async def test_a_payload_waits_uncopied_until_it_is_taken(channel: NativeChannel, pipe: Any) -> None:
    await accepted(channel, pipe)
    pipe.room = 0
    payload = b"x" * 1_000_000
    async with trio.open_nursery() as nursery:
        nursery.start_soon(channel.send_pair, TOLD, payload)
        await trio.testing.wait_all_tasks_blocked()
        waiting = channel._writer._pending
        assert [view.obj is payload for view in waiting] == [False, True]
        pipe.make_room(float("inf"))
    assert len(pipe.sent) > len(payload)


async def test_nothing_is_sent_to_who_has_gone(channel: NativeChannel, pipe: Any) -> None:
    await accepted(channel, pipe)
    pipe.lose()
    with pytest.raises(trio.BrokenResourceError):
        await channel.send_pair(TOLD, b"x")
    with pytest.raises(trio.BrokenResourceError):
        await channel.send_pair(TOLD, b"x")


async def test_nothing_follows_a_close_frame(channel: NativeChannel, pipe: Any) -> None:
    await accepted(channel, pipe)
    await channel.close(1000, "done")
    with pytest.raises(trio.BrokenResourceError):
        await channel.send_pair(TOLD, b"x")
