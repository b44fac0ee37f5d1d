"""Frames are written whole, whoever is cancelled, and what waits is bounded."""

from typing import Any

import pytest
import trio
import trio.testing

from duplex_trio.serving.native.frames import text_frame
from duplex_trio.serving.native.writer import FrameWriter
from duplex_trio.testing.raw_websocket import PONG, TEXT

TIMEOUT_S = 5.0


@pytest.fixture
def writer(pipe: Any, nursery: trio.Nursery) -> FrameWriter:
    return FrameWriter(pipe, TIMEOUT_S, nursery.start_soon)


def texts(frames: list[Any]) -> list[bytes]:
    return [frame.payload for frame in frames if frame.opcode == TEXT]


async def test_what_the_socket_takes_is_written_at_once(pipe: Any, writer: FrameWriter) -> None:
    writer.put(text_frame(b"a"))
    assert pipe.sent == text_frame(b"a")
    assert not writer.waiting
    await writer.wait_flushed()


@pytest.mark.parametrize("room", range(8))
async def test_what_is_left_over_is_written_when_there_is_room(
    pipe: Any, writer: FrameWriter, frames_in: Any, room: int
) -> None:
    pipe.room = room
    writer.put(text_frame(b"first"))
    writer.put(text_frame(b"second"))
    await trio.testing.wait_all_tasks_blocked()
    assert len(pipe.sent) == room
    for _ in range(20):
        pipe.make_room(1)
        await trio.testing.wait_all_tasks_blocked()
    with trio.fail_after(1):
        await writer.wait_flushed()
    assert texts(frames_in(pipe.sent)) == [b"first", b"second"]
    writer.put(text_frame(b""))
    assert not writer.broken


@pytest.mark.parametrize("room", range(8))
async def test_a_writer_that_is_cancelled_leaves_no_half_frame(
    pipe: Any, writer: FrameWriter, frames_in: Any, room: int
) -> None:
    pipe.room = room
    with trio.CancelScope() as scope:
        writer.put(text_frame(b"first"))
        scope.cancel()
        await writer.wait_flushed()
    writer.put(text_frame(b"second"))
    pipe.make_room(100)
    await writer.wait_flushed()
    assert texts(frames_in(pipe.sent)) == [b"first", b"second"]


async def test_a_socket_that_takes_nothing_for_too_long_breaks(
    pipe: Any, writer: FrameWriter, autojump_clock: Any
) -> None:
    pipe.room = 3
    writer.put(text_frame(b"first"))
    await trio.sleep(TIMEOUT_S - 1)
    pipe.make_room(1)  # a byte is progress, and the time begins anew
    await trio.sleep(TIMEOUT_S - 1)
    assert not writer.broken
    with pytest.raises(trio.BrokenResourceError):
        await writer.wait_flushed()
    assert writer.broken
    assert pipe.cut  # the reader learns of it
    assert len(pipe.sent) == 4
    with pytest.raises(trio.BrokenResourceError):
        writer.put(text_frame(b"second"))


@pytest.mark.parametrize("room", [0, 3])
async def test_a_connection_that_is_lost_breaks_it(pipe: Any, writer: FrameWriter, room: int) -> None:
    pipe.room = room
    writer.put(text_frame(b"first"))
    pipe.lose()
    with pytest.raises(trio.BrokenResourceError):
        await writer.wait_flushed()
    with pytest.raises(trio.BrokenResourceError):
        writer.put(text_frame(b"second"))


async def test_a_loss_at_once_breaks_it(pipe: Any, writer: FrameWriter) -> None:
    pipe.lose()
    with pytest.raises(trio.BrokenResourceError):
        writer.put(text_frame(b"first"))
    assert writer.broken
    writer.put_pong(b"")  # no error: nobody waits for it
    with pytest.raises(trio.BrokenResourceError):
        await writer.wait_flushed()


async def test_a_loss_at_a_pong_breaks_it_quietly(pipe: Any, writer: FrameWriter) -> None:
    pipe.lose()
    writer.put_pong(b"")
    assert writer.broken


async def test_only_the_latest_of_waiting_pongs_is_written(
    pipe: Any, writer: FrameWriter, frames_in: Any
) -> None:
    pipe.room = 3
    writer.put(text_frame(b"first"))
    for number in range(1000):
        writer.put_pong(str(number).encode())
    pipe.make_room(1000)
    await writer.wait_flushed()
    writer.put_pong(b"now")
    written = [(frame.opcode, frame.payload) for frame in frames_in(pipe.sent)]
    assert written == [(TEXT, b"first"), (PONG, b"999"), (PONG, b"now")]


async def test_a_flush_that_is_cancelled_breaks_the_connection(pipe: Any) -> None:
    async with trio.open_nursery() as nursery:
        writer = FrameWriter(pipe, TIMEOUT_S, nursery.start_soon)
        pipe.room = 3
        writer.put(text_frame(b"first"))
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert writer.broken
    with pytest.raises(trio.BrokenResourceError):
        await writer.wait_flushed()
