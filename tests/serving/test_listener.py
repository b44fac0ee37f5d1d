"""Who gets a connection: what is read of it, how long that may take, and what goes on to hypercorn."""

import socket
import struct
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from duplex_trio.serving.channel import UpgradeRequest, WebSocketChannel
from duplex_trio.serving.listener import NativeDoor
from duplex_trio.serving.native.pipes import Pipe
from duplex_trio.testing.raw_websocket import FIN, TEXT, RawWebSocket, frame, upgrade_request

HEAD_TIMEOUT_S = 10.0
OURS = upgrade_request("/v1/realtime?model=m", {"Sec-WebSocket-Protocol": "realtime, other"})


async def never(*_: Any) -> None:
    raise AssertionError("nothing is to be served")


def door(run_native: Any = never, serve: Any = never) -> NativeDoor:
    return NativeDoor(run_native, serve, head_timeout_s=HEAD_TIMEOUT_S, tls_timeout_s=1.0)


async def meet(sent: bytes, *, ends: bool = False) -> bytes | None:
    """What becomes of a connection that brings these bytes, one by one, and then nothing or its end."""
    client, server = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:

        async def send() -> None:
            for byte in sent:
                await client.send_all(bytes([byte]))
            if ends:
                await client.send_eof()

        nursery.start_soon(send)
        met = await door().meet(server)  # type: ignore[arg-type]  # it only reads until it knows
        nursery.cancel_scope.cancel()
    return met


async def test_who_says_nothing_is_hypercorns_after_a_while(autojump_clock: Any) -> None:
    assert await meet(b"") == b""
    assert trio.current_time() == pytest.approx(HEAD_TIMEOUT_S)


@pytest.mark.parametrize("count", [1, 20, len(OURS) - 1])
async def test_a_head_of_ours_that_does_not_end_is_dropped_after_a_while(
    autojump_clock: Any, count: int
) -> None:
    assert await meet(OURS[:count]) is None
    assert trio.current_time() == pytest.approx(HEAD_TIMEOUT_S)


@pytest.mark.parametrize("sent", [b"POST", b"GET /h", b"PRI", b"\x16\x03"])
async def test_what_cannot_be_ours_goes_on_at_once(autojump_clock: Any, sent: bytes) -> None:
    met = await meet(sent + b" and more")
    assert met is not None
    assert (sent + b" and more").startswith(met)
    assert trio.current_time() == 0


@pytest.mark.parametrize("count", [0, 1, 20])
async def test_an_end_in_a_head_goes_on(autojump_clock: Any, count: int) -> None:
    assert await meet(OURS[:count], ends=True) == OURS[:count]
    assert trio.current_time() == 0


async def test_a_connection_that_is_reset_in_its_head_is_done_with(tcp_pair: Any) -> None:
    client, server = tcp_pair
    await client.send(OURS[:20])
    client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.stream.socket.close()
    assert await door().meet(server) is None
    await server.aclose()


async def test_a_server_that_stops_lets_go_of_who_has_not_asked_yet(autojump_clock: Any) -> None:
    _, server = trio.testing.memory_stream_pair()
    stopping = door()
    met: list[bytes | None] = []

    async def one() -> None:
        met.append(await stopping.meet(server))  # type: ignore[arg-type]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(one)
        await trio.testing.wait_all_tasks_blocked()
        stopping.stop_waiting()
    assert met == [None]
    assert trio.current_time() == 0


@pytest.fixture
async def tcp_pair(nursery: trio.Nursery) -> tuple[RawWebSocket, trio.SocketStream]:
    """A client, and the server's side of its connection."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        client = await RawWebSocket.open(listener.socket.getsockname()[1])
        return client, await listener.accept()


async def served(sent: bytes, tcp_pair: Any) -> tuple[UpgradeRequest, bool]:
    """What an upgrade became: its request, and whether it may be served."""
    client, server = tcp_pair
    seen: list[UpgradeRequest] = []
    allowed: list[bool] = []

    async def serve(_: WebSocketChannel) -> None:
        await trio.lowlevel.checkpoint()

    async def run_native(pipe: Pipe, request: UpgradeRequest, chosen: Any) -> None:
        seen.append(request)
        allowed.append(chosen is serve)
        assert pipe.send_nowait(b"answer") == 6
        await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(client.send, sent))
        assert await door(run_native, serve).meet(server) is None
    assert await client.read(6) == b"answer"
    assert await client.at_end()  # the door closes what it has served
    await client.aclose()
    await server.aclose()
    return seen[0], allowed[0]


async def test_a_websocket_of_ours_is_served_natively(tcp_pair: Any) -> None:
    request, allowed = await served(OURS, tcp_pair)
    assert allowed
    assert (request.path, request.query) == ("/v1/realtime", b"model=m")
    assert request.subprotocols == ("realtime", "other")
    assert (b"sec-websocket-version", b"13") in request.headers
    assert request.client.startswith("127.0.0.1:")


@pytest.mark.parametrize(
    "sent", [OURS + b"x", OURS + frame(FIN | TEXT, b"x"), OURS.replace(b"Version: 13", b"Version: 7")]
)
async def test_a_faulty_one_is_answered_natively(sent: bytes, tcp_pair: Any) -> None:
    _, allowed = await served(sent, tcp_pair)
    assert not allowed
