"""Bytes that broke stock hypercorn, thrown at a real server, which must go on serving everybody else."""

import os
import struct
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import hypercorn.protocol.h11
import hypercorn.trio.run
import pytest
import trio
from h2.events import DataReceived, ResponseReceived
from hypercorn.config import Config
from hypercorn.protocol.ws_stream import WSStream

from duplex_trio.serving.guarded_streams import GuardedWSStream
from duplex_trio.serving.guards import GuardsUnavailableError, install_guards
from duplex_trio.serving.http_config import ServerConfig
from duplex_trio.testing.http2_client import Http2Client
from duplex_trio.testing.raw_websocket import (
    BINARY,
    CLOSE,
    FIN,
    PING,
    PONG,
    TEXT,
    RawWebSocket,
    frame,
    upgrade_request,
)

pytestmark = pytest.mark.e2e


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answer HTTP without reading the body; echo WebSocket text until the client leaves."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})
        return
    assert (await receive())["type"] == "websocket.connect"
    await trio.lowlevel.checkpoint()
    await send({"type": "websocket.accept"})
    await echo_on(receive, send)


async def echo_on(receive: Any, send: Any) -> None:
    while (message := await receive())["type"] != "websocket.disconnect":
        if message["text"] == "crash":
            raise RuntimeError("as asked")
        if message["text"] == "crash a group":
            raise ExceptionGroup("as asked", [RuntimeError("as asked")])
        if message["text"] == "bye":
            await send({"type": "websocket.close", "code": 1000, "reason": "as asked"})
            return
        await send({"type": "websocket.send", "text": message["text"] or "binary"})


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def assert_alive(server: Any, other: RawWebSocket) -> None:
    """A session opened before the fault goes on, and a new one can be opened."""
    for client in (other, await server.upgrade()):
        await client.send_text("alive?")
        answer = await client.receive()
        assert answer is not None
        assert answer.payload == b"alive?"


EARLY = {
    "a stray byte": b"x",
    "a whole frame": frame(FIN | TEXT, b"early"),
    "a lot": b"y" * 200_000,
}


@pytest.mark.parametrize("early", EARLY.values(), ids=EARLY)
async def test_data_before_the_upgrade_is_answered_ends_that_connection_alone(
    serve_app: Any, early: bytes
) -> None:
    async with serve_app(echo) as server:
        other = await server.upgrade()
        with trio.fail_after(30):
            client = await server.connect()
            await client.send(upgrade_request("/") + early)
            assert await client.at_end()
            await assert_alive(server, other)


PROTOCOL_ERRORS = {
    "a new message inside a fragmented one": (frame(TEXT, b"ab") + frame(FIN | TEXT, b"cd"), 1002),
    "a fragmented ping": (frame(PING, b""), 1002),
    "a close with one byte": (frame(FIN | CLOSE, b"\x03"), 1002),
    "a close with 1005": (frame(FIN | CLOSE, struct.pack("!H", 1005)), 1002),
    "bad UTF-8": (frame(FIN | TEXT, b"\xff\xfe"), 1007),
    "an unmasked frame": (frame(FIN | TEXT, b"ab", mask=None), 1002),
    "a reserved bit": (frame(FIN | 0x20 | TEXT, b"ab"), 1002),
    "an unknown opcode": (frame(FIN | 0x3, b""), 1002),
    "a continuation of nothing": (frame(FIN, b"ab"), 1002),
    "a control frame that is too long": (frame(FIN | PING, b"p" * 126), 1002),
    "compression that was not agreed": (frame(FIN | 0x40 | TEXT, b"ab"), 1002),
}


@pytest.mark.parametrize(("sent", "code"), PROTOCOL_ERRORS.values(), ids=PROTOCOL_ERRORS)
async def test_a_protocol_error_is_answered_with_a_close_frame(
    serve_app: Any, sent: bytes, code: int
) -> None:
    async with serve_app(echo, linger_quiet_s=0.05) as server:
        other = await server.upgrade()
        with trio.fail_after(30):
            client = await server.upgrade()
            await client.send(sent)
            answer = await client.receive()
            assert answer is not None
            assert answer.close_code == code
            assert await client.at_end()
            await assert_alive(server, other)


GIVEN_UP_AFTER = [*range(6)] * 10
"""Turns of the loop. Which of two tasks a turn runs first is left to chance, hence more than once."""


async def give_up_sends(scope: Any, receive: Any, send: Any) -> None:
    """Cancel one send after another, each after some turns of the loop, and send on."""
    assert (await receive())["type"] == "websocket.connect"
    await send({"type": "websocket.accept"})
    for turns in GIVEN_UP_AFTER:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel_after, turns, nursery.cancel_scope)
            await send({"type": "websocket.send", "text": f"given up {turns}"})
        await send({"type": "websocket.send", "text": f"kept {turns}"})


async def cancel_after(turns: int, scope: trio.CancelScope) -> None:
    for _ in range(turns):
        await trio.lowlevel.checkpoint()
    scope.cancel()


async def test_a_send_that_is_cancelled_costs_a_peer_that_reads_nothing(serve_app: Any) -> None:
    async with serve_app(give_up_sends) as server:
        client = await server.upgrade()
        with trio.fail_after(30):
            for turns in GIVEN_UP_AFTER:
                answer = await client.receive()
                if answer is not None and answer.payload == f"given up {turns}".encode():
                    answer = await client.receive()
                assert answer is not None
                assert answer.payload == f"kept {turns}".encode()


async def test_a_fragmented_message_with_a_ping_inside_is_answered(serve_app: Any) -> None:
    async with serve_app(echo) as server:
        client = await server.upgrade()
        await client.send(frame(TEXT, b"he") + frame(FIN | PING, b"p") + frame(FIN, b"llo"))
        with trio.fail_after(30):
            first, second = await client.receive(), await client.receive()
        assert first is not None
        assert (first.opcode, first.payload) == (PONG, b"p")
        assert second is not None
        assert second.payload == b"hello"


async def test_a_message_over_the_limit_gets_1009_and_what_follows_is_not_kept(serve_app: Any) -> None:
    async with serve_app(echo, websocket_max_message_size=1000, linger_quiet_s=1.0) as server:
        other = await server.upgrade()
        with trio.fail_after(30):
            client = await server.upgrade()
            before = resident_bytes()
            await client.send(frame(TEXT, b"a" * 1001))
            for _ in range(64):
                await client.send(frame(0, b"a" * 1_000_000))
            answer = await client.receive()
            assert answer is not None
            assert answer.close_code == 1009
            assert resident_bytes() - before < 32 * 2**20
            assert await client.at_end()
            await assert_alive(server, other)


async def test_the_limit_counts_bytes_not_characters(serve_app: Any) -> None:
    async with serve_app(echo, websocket_max_message_size=1000) as server:
        client = await server.upgrade()
        await client.send_text("é" * 501)
        answer = await client.receive()
        assert answer is not None
        assert answer.close_code == 1009


async def test_a_message_just_at_the_limit_passes(serve_app: Any) -> None:
    async with serve_app(echo, websocket_max_message_size=1000) as server:
        client = await server.upgrade()
        await client.send_text("é" * 500)
        answer = await client.receive()
        assert answer is not None
        assert len(answer.payload) == 1000


async def test_compression_is_declined_so_a_bomb_costs_nothing(serve_app: Any) -> None:
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = b"".join(deflate.compress(bytes(1 << 20)) for _ in range(300)) + deflate.flush(zlib.Z_SYNC_FLUSH)
    async with serve_app(echo) as server:
        other = await server.upgrade()
        client = await server.connect()
        await client.send(upgrade_request("/", {"Sec-WebSocket-Extensions": "permessage-deflate"}))
        status, headers = await client.response_head()
        assert status == 101
        assert "sec-websocket-extensions" not in headers
        before = resident_bytes()
        await client.send(frame(FIN | 0x40 | TEXT, bomb[:-4]))
        with trio.fail_after(30):
            answer = await client.receive()
            assert answer is not None
            assert answer.close_code == 1002
            assert resident_bytes() - before < 64 * 2**20
            await assert_alive(server, other)


@pytest.mark.parametrize("how", ["crash", "crash a group"])
async def test_an_application_that_fails_is_1011_and_not_a_clean_close(serve_app: Any, how: str) -> None:
    async with serve_app(echo, linger_quiet_s=0.05) as server:
        client = await server.upgrade()
        await client.send_text(how)
        answer = await client.receive()
        assert answer is not None
        assert answer.close_code == 1011
        assert await client.at_end()


async def test_a_websocket_over_http2_has_the_guards_too(serve_app: Any) -> None:
    async with serve_app(echo) as server:
        client = Http2Client(await server.connect())
        await client.start()
        headers = [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "http"), (":path", "/")]
        headers += [(":authority", "x"), ("sec-websocket-version", "13")]
        headers += [("sec-websocket-extensions", "permessage-deflate")]
        client.connection.send_headers(1, headers)
        await client.flush()
        answer = dict((await client.until(ResponseReceived)).headers)
        assert answer[b":status"] == b"200"
        assert b"sec-websocket-extensions" not in answer
        client.connection.send_data(1, frame(FIN | TEXT, b"over h2"))
        await client.flush()
        assert (await client.until(DataReceived)).data == bytes([FIN | TEXT, 7]) + b"over h2"
        client.connection.send_data(1, frame(FIN | TEXT, b"\xff"))
        await client.flush()
        closing = (await client.until(DataReceived)).data
        assert closing[0] == FIN | CLOSE
        assert struct.unpack("!H", closing[2:4]) == (1007,)


async def test_a_request_that_breaks_the_http_library_ends_its_connection_alone(serve_app: Any) -> None:
    async with serve_app(echo) as server:
        other = await server.upgrade()
        client = Http2Client(await server.connect())
        await client.start()
        client.connection.send_headers(1, [(":method", "CONNECT"), (":authority", "x")])  # no path
        await client.flush()
        with trio.fail_after(30):
            assert await client.raw.at_end()
            await assert_alive(server, other)


async def test_the_server_waits_for_the_close_frame_of_the_client(serve_app: Any) -> None:
    async with serve_app(echo) as server:
        client = await server.upgrade()
        await client.send_text("bye")
        answer = await client.receive()
        assert answer is not None
        assert (answer.close_code, answer.close_reason) == (1000, "as asked")
        await client.send(frame(FIN | BINARY, b"late"))
        await client.send(frame(FIN | CLOSE, struct.pack("!H", 1000)))
        with trio.fail_after(0.9):  # below the quiet time: the answer ends it, not the clock
            assert await client.at_end()


async def flood(client: RawWebSocket) -> None:
    while True:
        await client.send(frame(FIN | TEXT, b"flood" * 1000))


async def test_a_client_that_floods_a_closing_socket_is_cut_off(serve_app: Any) -> None:
    async with serve_app(echo, linger_quiet_s=0.5, linger_max_s=0.5) as server:
        other = await server.upgrade()
        client = await server.upgrade()
        await client.send_text("bye")
        with trio.fail_after(30), pytest.raises(trio.BrokenResourceError):
            await flood(client)
        await assert_alive(server, other)


async def test_a_body_nobody_reads_does_not_hold_the_connection(serve_app: Any) -> None:
    async with serve_app(echo) as server:
        other = await server.upgrade()
        client = await server.connect()
        with trio.fail_after(30):
            with suppress(trio.BrokenResourceError):  # the server may close before it has read everything
                await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n")
                await client.send(bytes(2_000_000))
            assert await client.at_end()
        await assert_alive(server, other)


async def test_a_peer_that_does_not_read_is_dropped_and_its_application_told(serve_app: Any) -> None:
    gone = trio.Event()

    async def pour(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        async with trio.open_nursery() as nursery:

            async def send_for_ever() -> None:
                while True:
                    await send({"type": "websocket.send", "text": "x" * 100_000})
                    await trio.lowlevel.checkpoint()

            nursery.start_soon(send_for_ever)
            assert (await receive())["type"] == "websocket.disconnect"
            gone.set()
            nursery.cancel_scope.cancel()

    async with serve_app(pour, send_timeout_s=0.3) as server:
        client = await server.upgrade()
        with trio.fail_after(30):
            await gone.wait()
        assert await client.at_end()


async def test_a_write_to_a_peer_that_does_not_read_can_be_cancelled(serve_app: Any) -> None:
    cancelled = trio.Event()

    async def impatient(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        with trio.move_on_after(0.3):
            while True:
                await send({"type": "websocket.send", "text": "x" * 100_000})
        cancelled.set()

    async with serve_app(impatient) as server:
        client = await server.upgrade()
        with trio.fail_after(5):  # far below the send timeout
            await cancelled.wait()
        assert await client.at_end()


async def test_a_peer_that_answers_no_ping_is_dropped(serve_app: Any) -> None:
    async with serve_app(echo, websocket_ping_interval=0.1, linger_quiet_s=0.1) as server:
        silent = await server.upgrade()
        with trio.fail_after(30):
            opcodes = []
            while (received := await silent.receive()) is not None:
                opcodes.append(received.opcode)
        assert opcodes[0] == PING
        assert opcodes[-1] == CLOSE


async def test_a_peer_that_answers_pings_is_kept(serve_app: Any) -> None:
    async with serve_app(echo, websocket_ping_interval=0.1) as server:
        client = await server.upgrade()
        with trio.fail_after(30):
            for _ in range(8):
                ping = await client.receive()
                assert ping is not None
                assert ping.opcode == PING
                await client.send(frame(FIN | PONG, ping.payload))


async def test_a_peer_is_not_missed_while_nobody_reads(serve_app: Any) -> None:
    takes = trio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await takes.wait()
        await echo_on(receive, send)

    async with serve_app(slow, websocket_ping_interval=0.05) as server:
        client = await server.upgrade()
        for number in range(40):  # more than waits for an application
            await client.send_text(str(number))
        with trio.fail_after(30):
            for _ in range(6):  # pings that nobody can answer
                ping = await client.receive()
                assert ping is not None
                assert ping.opcode == PING
            takes.set()
            echoed = []
            while len(echoed) < 40:
                received = await client.receive()
                assert received is not None
                if received.opcode == TEXT:
                    echoed.append(received.payload)
        assert echoed == [str(number).encode() for number in range(40)]


async def test_a_refused_handshake_closes_the_connection(serve_app: Any) -> None:
    async with serve_app(echo) as server:
        client = await server.connect()
        await client.send(upgrade_request("/").replace(b"Version: 13", b"Version: 8"))
        with trio.fail_after(30):
            status, headers = await client.response_head()
            assert (status, headers["sec-websocket-version"]) == (426, "13")
            assert await client.at_end()


async def test_random_bytes_after_the_upgrade_never_stop_the_server(serve_app: Any) -> None:
    async with serve_app(echo, linger_quiet_s=0.05) as server:
        other = await server.upgrade()
        with trio.fail_after(60):
            for _ in range(20):
                client = await server.connect()
                await client.send(upgrade_request("/") + os.urandom(50))
                late = await server.upgrade()
                await late.send(os.urandom(50))
                await client.aclose()
                await late.aclose()
            await assert_alive(server, other)


def test_installing_twice_changes_nothing() -> None:
    install_guards()
    first = hypercorn.trio.run.TCPServer
    install_guards()
    assert hypercorn.trio.run.TCPServer is first


def test_a_missing_internal_name_is_said_clearly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(WSStream, "_handle_events")
    with pytest.raises(GuardsUnavailableError, match=r"WSStream._handle_events .* need hypercorn >=0.18"):
        install_guards()


def test_an_unknown_class_in_place_of_the_internal_one_is_said_clearly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hypercorn.protocol.h11, "WSStream", Path)
    with pytest.raises(GuardsUnavailableError, match=r"hypercorn.protocol.h11.WSStream"):
        install_guards()


async def test_another_server_in_the_process_keeps_the_stock_classes() -> None:
    install_guards()
    for config, cls in ((Config(), WSStream), (ServerConfig(), GuardedWSStream)):
        stream = hypercorn.protocol.h11.WSStream(None, config, None, None, False, None, None, None, 1)  # type: ignore[arg-type]
        assert type(stream) is cls
