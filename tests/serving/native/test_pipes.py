"""A bare socket against the kernel; the pipe over TLS is seen in the tests of the whole server."""

import socket
import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
import trio.testing

from duplex_trio.serving.native.pipes import TcpPipe


@pytest.fixture
async def ends() -> AsyncIterator[tuple[TcpPipe, trio.SocketStream]]:
    """The server's pipe, and its client."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        client = await trio.open_tcp_stream(*listener.socket.getsockname())
        pipe = TcpPipe(await listener.accept(), bytearray(16))
    yield pipe, client
    with trio.CancelScope(shield=True):
        await pipe.aclose()
        await trio.aclose_forcefully(client)


async def test_bytes_come_into_the_shared_buffer_as_much_as_fits(ends: Any) -> None:
    pipe, client = ends
    await client.send_all(b"0123456789abcdefghij")
    received = b""
    while len(received) < 20:
        piece = await pipe.receive()
        assert len(piece) <= 16
        received += piece
    assert received == b"0123456789abcdefghij"
    await client.send_eof()
    assert len(await pipe.receive()) == 0


async def test_a_full_socket_takes_a_part_and_the_rest_later(ends: Any) -> None:
    pipe, client = ends
    total, sent = bytes(range(256)) * 20_000, 0
    while (now := pipe.send_nowait(total[sent:])) > 0:
        sent += now
    assert sent < len(total)
    received = bytearray()

    async def read() -> None:
        while len(received) < len(total):
            received.extend(await client.receive_some(1 << 20))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        while sent < len(total):
            now = await pipe.send_some(memoryview(total)[sent:])
            assert now > 0
            sent += now
    assert received == total


async def test_waiting_can_be_cancelled_and_begun_again(ends: Any) -> None:
    pipe, client = ends
    with trio.CancelScope() as scope:
        scope.cancel()
        await pipe.receive()
    await client.send_all(b"x")
    assert bytes(await pipe.receive()) == b"x"


async def write_on(pipe: TcpPipe) -> None:
    while True:
        pipe.send_nowait(b"x")
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("use", [TcpPipe.receive, write_on])
async def test_a_reset_is_a_lost_connection(ends: Any, use: Any) -> None:
    pipe, client = ends
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.socket.close()
    with pytest.raises(trio.BrokenResourceError):
        await use(pipe)
    pipe.stop_reading()  # no error, though there is nothing left to stop
    pipe.end_writing()


async def test_reading_can_be_ended_from_this_side(ends: Any, nursery: trio.Nursery) -> None:
    pipe, client = ends
    ended = trio.Event()

    async def read() -> None:
        assert len(await pipe.receive()) == 0
        ended.set()

    nursery.start_soon(read)
    await trio.testing.wait_all_tasks_blocked()
    pipe.stop_reading()
    with trio.fail_after(10):
        await ended.wait()
    assert pipe.send_nowait(b"bye") == 3
    pipe.end_writing()
    assert await client.receive_some(10) == b"bye"
    assert await client.receive_some(10) == b""


async def test_nothing_is_held_back(ends: Any) -> None:
    pipe, _ = ends
    inner = pipe._socket
    assert inner.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        assert inner.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == 16 * 1024
