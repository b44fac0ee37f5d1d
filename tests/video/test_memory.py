"""The transport without a socket keeps what any transport of a video promises."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from duplex_trio.protocol.video import SessionPing, SessionPong, encode_event
from duplex_trio.video.memory import memory_transports
from duplex_trio.video.transport import TransportClosedError

PONG = encode_event(SessionPong())


async def test_what_is_said_arrives(autojump_clock: MockClock) -> None:
    transport, peer = memory_transports()
    await peer.send(SessionPing())
    await peer.send("any text")
    await peer.send(b"binary")
    assert await transport.receive() == '{"type":"session.ping"}'
    assert await transport.receive() == "any text"
    assert await transport.receive() is None


async def test_a_pair_is_read_as_two(autojump_clock: MockClock) -> None:
    transport, peer = memory_transports()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(transport.send_pair, PONG, b"payload")
        assert isinstance(await peer.receive(), SessionPong)
        assert await peer.receive() == b"payload"


async def test_who_does_not_read_keeps_the_other_waiting(autojump_clock: MockClock) -> None:
    """And what was cancelled before it was taken is not there later."""
    transport, peer = memory_transports()
    with trio.move_on_after(1.0) as waited:
        await transport.send_text(PONG)
    assert waited.cancelled_caught
    async with trio.open_nursery() as nursery:
        nursery.start_soon(transport.send_pair, PONG, b"payload")
        await peer.receive()
        assert await peer.receive() == b"payload"


async def test_the_video_closes(autojump_clock: MockClock) -> None:
    transport, peer = memory_transports()
    await transport.close(1000, "done")
    await transport.close(1011, "again")
    assert peer.closed == (1000, "done")
    with pytest.raises(TransportClosedError) as caught:
        await peer.receive()
    assert caught.value.code == 1000
    with pytest.raises(trio.BrokenResourceError):
        await peer.send(SessionPing())


async def test_the_watcher_leaves(autojump_clock: MockClock) -> None:
    """Whoever writes or reads learns of it, also who waits already."""
    transport, peer = memory_transports()
    codes: list[int] = []

    async def read() -> None:
        with pytest.raises(TransportClosedError) as caught:
            await transport.receive()
        codes.append(caught.value.code)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await wait_all_tasks_blocked()
        peer.leave(1001)
    assert codes == [1001]
    with pytest.raises(trio.BrokenResourceError):
        await transport.send_pair(PONG, b"payload")
    with pytest.raises(TransportClosedError):
        await peer.receive()


async def test_a_writer_that_waits_learns_that_the_watcher_leaves(autojump_clock: MockClock) -> None:
    transport, peer = memory_transports()

    async def write() -> None:
        with pytest.raises(trio.BrokenResourceError):
            await transport.send_text(PONG)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        await wait_all_tasks_blocked()
        peer.leave()
