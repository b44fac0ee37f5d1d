"""Bytes thrown at a server in its own process, on both WebSocket paths; nobody else may notice.

After each of them a session that was open before goes on, and a new one finishes a turn.
"""

import socket
import struct
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import orjson
import pytest
import trio

from duplex_trio.testing.raw_websocket import (
    BINARY,
    CLOSE,
    FIN,
    PING,
    PONG,
    TEXT,
    Frame,
    RawWebSocket,
    frame,
    upgrade_request,
)
from duplex_trio.testing.server_process import ServedPort, server_process

pytestmark = pytest.mark.e2e

KEY = "sk-test"
TARGET = "/v1/realtime?model=m"
MIB = 2**20
START_TIMEOUT_S = 60.0


@pytest.fixture(scope="module", params=["native", "asgi"])
def server(request: pytest.FixtureRequest) -> Iterator[ServedPort]:
    arguments = ("--deploy", "scripted", "--ws", request.param)
    with server_process(*arguments, start_timeout_s=START_TIMEOUT_S) as started:
        yield started
    log = "".join(started.printed)
    assert "Traceback" not in log, log


@asynccontextmanager
async def connected(server: ServedPort) -> AsyncIterator[RawWebSocket]:
    """TCP, and silence."""
    client = await RawWebSocket.open(server.port)
    try:
        yield client
    finally:
        await client.aclose()


@asynccontextmanager
async def session(server: ServedPort, target: str = TARGET) -> AsyncIterator[RawWebSocket]:
    """A WebSocket after `session.created`."""
    async with connected(server) as client:
        await client.send(upgrade_request(target))
        status, headers = await client.response_head()
        assert status == 101
        assert "sec-websocket-extensions" not in headers
        assert (await event(client))["type"] == "session.created"
        yield client


async def data(client: RawWebSocket) -> Frame:
    """The next frame that is no ping."""
    with trio.fail_after(30):
        while (received := await client.receive()) is not None and received.opcode == PING:
            pass
    assert received is not None, "the server closed"
    return received


async def event(client: RawWebSocket) -> dict[str, Any]:
    received = await data(client)
    assert received.opcode == TEXT, received
    read: dict[str, Any] = orjson.loads(received.payload)
    return read


async def until(client: RawWebSocket, kind: str) -> dict[str, Any]:
    while (read := await event(client))["type"] != kind:
        assert read["type"] != "error", read
    return read


async def say(client: RawWebSocket, **message: Any) -> None:
    await client.send_text(orjson.dumps(message).decode())


async def ask(client: RawWebSocket, text: str, *modalities: str) -> None:
    """Ask in writing for an answer."""
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    await say(client, type="conversation.item.create", item=item)
    await say(client, type="response.create", response={"output_modalities": list(modalities or ("text",))})


async def turn(client: RawWebSocket, text: str = "hello") -> None:
    await ask(client, text)
    done = await until(client, "response.done")
    assert done["response"]["status"] == "completed", done
    assert done["response"]["output"][0]["content"][0]["text"] == f"You said: {text}"


async def close_code(client: RawWebSocket) -> int | None:
    """The code of the server's close frame, or None where TCP ends without one. Then nothing may follow."""
    with trio.fail_after(30):
        while (received := await client.receive()) is not None and received.opcode != CLOSE:
            pass
        if received is None:
            return None
        assert await client.receive() is None
        return received.close_code


@asynccontextmanager
async def nobody_notices(server: ServedPort) -> AsyncIterator[None]:
    """A session that is in a conversation goes on with it, and another one can be opened."""
    async with session(server) as witness:
        await turn(witness, "before")
        yield
        assert server.alive
        await turn(witness, "after")
        async with session(server) as newcomer:
            await turn(newcomer)


# ---------------------------------------------------------------- B01: before the answer

EARLY = {
    "a stray byte": b"x",
    "a whole frame": frame(FIN | TEXT, b'{"type":"session.heartbeat"}'),
    "half a frame": frame(FIN | TEXT, b"hello")[:-2],
    "a close frame": frame(FIN | CLOSE, b""),
    "another upgrade": upgrade_request(TARGET),
    "another request": b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n",
    "a lot": b"y" * 200_000,
}


@pytest.mark.parametrize("early", EARLY.values(), ids=EARLY)
async def test_bytes_before_the_upgrade_is_answered_are_refused(server: ServedPort, early: bytes) -> None:
    async with nobody_notices(server), connected(server) as client:
        with suppress(trio.BrokenResourceError):  # what is too long is cut off
            await client.send(upgrade_request(TARGET) + early)
            status, headers = await client.response_head()
            assert status == 400
            body = await client.read(int(headers["content-length"]))
            assert body is not None
            assert orjson.loads(body)["error"]["code"] == "invalid_websocket_request"
        with trio.fail_after(30):
            assert await client.at_end()


async def test_a_stray_byte_does_not_disturb_a_spoken_answer(server: ServedPort) -> None:
    async with session(server) as talking:
        await ask(talking, "a b c", "audio")
        await until(talking, "response.output_audio.delta")
        for early in (b"x", frame(FIN | TEXT, b"early")):
            async with connected(server) as rude:
                await rude.send(upgrade_request(TARGET) + early)
                with trio.fail_after(30):
                    assert await rude.at_end()
        done = await until(talking, "response.done")
        assert done["response"]["status"] == "completed"


# ---------------------------------------------------------------- heads

HANDSHAKES: dict[str, tuple[Callable[[bytes], bytes], int]] = {
    "no version": (lambda head: head.replace(b"Sec-WebSocket-Version: 13\r\n", b""), 426),
    "an old version": (lambda head: head.replace(b"Version: 13", b"Version: 8"), 426),
    "no key": (lambda head: head.replace(b"Sec-WebSocket-Key", b"X"), 400),
    "a short key": (lambda head: head.replace(b"Sec-WebSocket-Key: ", b"Sec-WebSocket-Key: A"), 400),
    "two keys": (lambda head: head[:-2] + b"Sec-WebSocket-Key: " + b"A" * 22 + b"==\r\n\r\n", 400),
    "a body": (lambda head: head[:-2] + b"Content-Length: 5\r\n\r\nhello", 400),
    "a protocol that is no text": (lambda head: head[:-2] + b"Sec-WebSocket-Protocol: \xff\r\n\r\n", 400),
    "no upgrade": (lambda head: head.replace(b"Upgrade: websocket\r\n", b""), 426),
    "no host": (lambda head: head.replace(b"Host: 127.0.0.1\r\n", b""), 400),
    "a faulty header": (lambda head: head[:-2] + b"a b: c\r\n\r\n", 400),
    "no HTTP": (lambda _head: b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
    "a head without end": (lambda head: head[:-2] + b"X: " + b"y" * 70_000, 431),
}


@pytest.mark.parametrize(("change", "status"), HANDSHAKES.values(), ids=HANDSHAKES)
async def test_a_faulty_handshake_is_refused(
    server: ServedPort, change: Callable[[bytes], bytes], status: int
) -> None:
    async with nobody_notices(server), connected(server) as client:
        with suppress(trio.BrokenResourceError):
            await client.send(change(upgrade_request(TARGET)))
        answered, headers = await client.response_head()
        assert answered == status
        if status == 426:
            assert headers["upgrade"] == "websocket"


async def test_a_head_that_drips_in_byte_by_byte_is_a_head(server: ServedPort) -> None:
    async with nobody_notices(server), connected(server) as client:
        for byte in upgrade_request(TARGET):
            await client.send(bytes([byte]))
            await trio.lowlevel.checkpoint()
        assert (await client.response_head())[0] == 101
        assert (await event(client))["type"] == "session.created"
        await turn(client)


async def test_heads_that_never_end_hold_nobody(server: ServedPort) -> None:
    async with trio.open_nursery() as nursery:
        held = [await nursery.start(_hold, server, upgrade_request(TARGET)[:count]) for count in range(60)]
        async with nobody_notices(server):
            assert len(held) == 60
        nursery.cancel_scope.cancel()


async def _hold(server: ServedPort, head: bytes, task_status: Any) -> None:
    async with connected(server) as client:
        if head:
            await client.send(head)
        task_status.started(client)
        await trio.sleep_forever()


@pytest.mark.parametrize("count", [0, 1, 30, 100])
@pytest.mark.parametrize("how", ["reset", "half-close", "leave"])
async def test_a_client_that_leaves_in_its_head(server: ServedPort, count: int, how: str) -> None:
    async with nobody_notices(server), connected(server) as client:
        if count:
            await client.send(upgrade_request(TARGET)[:count])
        await leave(client, how)


async def leave(client: RawWebSocket, how: str) -> None:
    """End TCP with a reset, the half of it, or properly."""
    match how:
        case "reset":
            client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.stream.socket.close()
        case "half-close":
            await client.stream.send_eof()
            with trio.fail_after(30):
                assert await client.at_end()
        case "leave":
            await client.aclose()


async def test_http_on_the_same_connection_before_a_websocket(server: ServedPort) -> None:
    async with nobody_notices(server), connected(server) as client:
        await client.send(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        status, headers = await client.response_head()
        assert status == 200
        body = await client.read(int(headers["content-length"]))
        assert body.startswith(b'{"status":"ready"')
        await client.send(upgrade_request(TARGET))
        assert (await client.response_head())[0] == 101
        assert (await event(client))["type"] == "session.created"
        await turn(client)


# ---------------------------------------------------------------- B07: frames

PROTOCOL_ERRORS = {
    "a message inside a message": (frame(TEXT, b"ab") + frame(FIN | TEXT, b"cd"), 1002),
    "a binary inside a text": (frame(TEXT, b"ab") + frame(FIN | BINARY, b"cd"), 1002),
    "a fragmented ping": (frame(PING, b""), 1002),
    "a ping that is too long": (frame(FIN | PING, b"p" * 126), 1002),
    "a close with one byte": (frame(FIN | CLOSE, b"\x03"), 1002),
    "a close with 1005": (frame(FIN | CLOSE, struct.pack("!H", 1005)), 1002),
    "a close with 1006": (frame(FIN | CLOSE, struct.pack("!H", 1006)), 1002),
    "a close with 999": (frame(FIN | CLOSE, struct.pack("!H", 999)), 1002),
    "a close whose reason is no UTF-8": (frame(FIN | CLOSE, b"\x03\xe8\xff"), 1007),
    "bad UTF-8": (frame(FIN | TEXT, b"\xff\xfe"), 1007),
    "half a character": (frame(TEXT, b"a") + frame(FIN, b"\xc3"), 1007),
    "an unmasked frame": (frame(FIN | TEXT, b"ab", mask=None), 1002),
    "a reserved bit": (frame(FIN | 0x10 | TEXT, b"ab"), 1002),
    "an unknown opcode": (frame(FIN | 0x3, b"ab"), 1002),
    "a continuation of nothing": (frame(FIN, b"ab"), 1002),
    "a length that is written too long": (b"\x81\xfe\x00\x05", 1002),
    "a length of 64 bits": (b"\x81\xff" + struct.pack("!Q", 1 << 63), 1002),
    "compression": (frame(FIN | 0x40 | TEXT, b"\xf2\x48\xcd\xc9\xc9\x07\x00"), 1002),
}


@pytest.mark.parametrize(("sent", "code"), PROTOCOL_ERRORS.values(), ids=PROTOCOL_ERRORS)
async def test_a_broken_rule_is_a_close_frame_with_its_code(
    server: ServedPort, sent: bytes, code: int
) -> None:
    async with nobody_notices(server), session(server) as client:
        await client.send(sent)
        # The answer of a well-behaved client spares the server its wait for one.
        with trio.fail_after(30):
            while (received := await client.receive()) is not None and received.opcode != CLOSE:
                pass
        assert received is not None
        assert received.close_code == code
        await client.stream.send_eof()
        with trio.fail_after(30):
            assert await client.at_end()


async def test_a_fragmented_message_with_pings_inside_is_one_message(server: ServedPort) -> None:
    async with nobody_notices(server), session(server) as client:
        text = orjson.dumps({"type": "nonsense", "event_id": "é" * 50})
        for place in range(0, len(text), 7):
            await client.send(frame(TEXT if place == 0 else 0, text[place : place + 7]))
            await client.send(frame(FIN | PING, str(place).encode()))
        await client.send(frame(FIN, b""))
        pongs = []
        while (received := await data(client)).opcode == PONG or b'"error"' not in received.payload:
            if received.opcode == PONG:
                pongs.append(received.payload)
        assert pongs == [str(place).encode() for place in range(0, len(text), 7)]
        await turn(client)


async def test_a_message_that_drips_in_byte_by_byte_is_a_message(server: ServedPort) -> None:
    async with nobody_notices(server), session(server) as client:
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "drop"}]}
        messages = ({"type": "conversation.item.create", "item": item}, {"type": "response.create"})
        for byte in b"".join(frame(FIN | TEXT, orjson.dumps(message)) for message in messages):
            await client.send(bytes([byte]))
            await trio.lowlevel.checkpoint()
        assert (await until(client, "response.done"))["response"]["status"] == "completed"


@pytest.mark.parametrize("how", ["reset", "half-close", "leave"])
@pytest.mark.parametrize("cut", [0, 1, 4, 7, 20], ids=lambda cut: f"at byte {cut}")
async def test_a_client_that_leaves_in_a_frame(server: ServedPort, how: str, cut: int) -> None:
    async with nobody_notices(server), session(server) as client:
        await ask(client, "a b c d", "audio")
        if cut:
            await client.send(frame(FIN | TEXT, b"x" * 30)[:cut])
        await leave(client, how)


async def test_a_close_is_answered_with_its_code_and_ends_tcp(server: ServedPort) -> None:
    async with nobody_notices(server), session(server) as client:
        await ask(client, "a b c d", "audio")
        await client.send(frame(FIN | CLOSE, struct.pack("!H", 4000) + b"bye") + frame(FIN | TEXT, b"late"))
        assert await close_code(client) == 4000


async def test_a_client_may_wait_with_its_answer_to_a_close(server: ServedPort) -> None:
    async with nobody_notices(server), session(server) as client:
        await say(client, type="session.close")
        while (received := await data(client)).opcode != CLOSE:
            pass
        assert received.close_code == 1000
        await client.send(frame(FIN | TEXT, b"late") + frame(FIN | CLOSE, struct.pack("!H", 1000)))
        with trio.fail_after(0.9):  # below the quiet time of the server: the answer ends it
            assert await client.at_end()


# ---------------------------------------------------------------- B08: sizes


async def test_compressed_messages_are_declined_however_they_are_split(server: ServedPort) -> None:
    offer = {"Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits"}
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = b"".join(deflate.compress(bytes(MIB)) for _ in range(300)) + deflate.flush(zlib.Z_SYNC_FLUSH)
    split = frame(0x41, b"\xf2\x48\xcd\xc9\xc9\x07\x00\x00\x00\xff\xff") + frame(FIN, b"\x00")
    before = server.resident_bytes()
    for sent in (split, frame(FIN | 0x40 | TEXT, bomb[:-4])):
        async with nobody_notices(server), connected(server) as client:
            await client.send(upgrade_request(TARGET, offer))
            status, headers = await client.response_head()
            assert status == 101
            assert "sec-websocket-extensions" not in headers
            with suppress(trio.BrokenResourceError):
                await client.send(sent)
            with trio.fail_after(30):
                while (received := await client.receive()) is not None and received.opcode != CLOSE:
                    pass
            assert received is not None
            assert received.close_code == 1002
    assert server.resident_bytes() - before < 64 * MIB


async def test_too_much_is_an_error_and_the_session_stays(server: ServedPort) -> None:
    async with nobody_notices(server), session(server) as client:
        await client.send_text('{"type":"session.heartbeat","x":"' + "x" * (15 * MIB) + '"}')
        assert (await event_of(client, "error"))["error"]["code"] == "event_too_large"
        await turn(client)


@pytest.mark.parametrize("target", ["/v1/duplex", "/v1/realtime?duplex=1&model=m&autostart=0"])
@pytest.mark.parametrize("pieces", [1, 3], ids=["a frame", "three fragments"])
async def test_too_much_as_the_first_message_is_an_error_and_a_reason(
    server: ServedPort, target: str, pieces: int
) -> None:
    """Nothing is opened by a message that is not read, so that there is no session to go on with."""
    text = b'{"type":"session.update","session":{"x":"' + b"x" * (15 * MIB) + b'"}}'
    cuts = [len(text) * number // pieces for number in range(pieces + 1)]
    async with nobody_notices(server), waiting(server, target) as client:
        for number in range(pieces):
            last = FIN if number == pieces - 1 else 0
            await client.send(frame(last | (0 if number else TEXT), text[cuts[number] : cuts[number + 1]]))
        told = await event(client)
        assert (told["type"], told["error"]["code"]) == ("error", "event_too_large")
        assert told["error"]["type"] == "invalid_request_error"
        closing = await data(client)
        assert (closing.opcode, closing.close_code) == (CLOSE, 1008)
        assert closing.payload[2:] == b"event_too_large"


async def test_far_too_much_as_the_first_message_is_1009(server: ServedPort) -> None:
    async with nobody_notices(server), waiting(server, "/v1/duplex") as client:
        with suppress(trio.BrokenResourceError):
            await client.send(frame(FIN | TEXT, b"x" * (16 * MIB + 1)))
        assert await close_code_reading(client) == 1009


@asynccontextmanager
async def waiting(server: ServedPort, target: str) -> AsyncIterator[RawWebSocket]:
    """A WebSocket whose session the client has to open."""
    async with connected(server) as client:
        await client.send(upgrade_request(target))
        status, _ = await client.response_head()
        assert status == 101
        yield client


async def event_of(client: RawWebSocket, kind: str) -> dict[str, Any]:
    while (read := await event(client))["type"] != kind:
        pass
    return read


OVER = {
    "a frame": [frame(FIN | TEXT, b"x" * (16 * MIB + 1))],
    "two fragments": [frame(TEXT, b"x" * (8 * MIB)), frame(FIN, b"x" * (8 * MIB + 1))],
    "fragments without end": [frame(TEXT, b"x" * MIB), *[frame(0, b"x" * MIB)] * 100],
    "a frame without end": [b"\x81\xff" + struct.pack("!Q", 1 << 40) + b"mask", *[b"x" * MIB] * 20],
}


@pytest.mark.parametrize("pieces", OVER.values(), ids=OVER)
async def test_far_too_much_is_1009_and_not_kept(server: ServedPort, pieces: list[bytes]) -> None:
    before = server.resident_bytes()
    async with nobody_notices(server), session(server) as client:
        with suppress(trio.BrokenResourceError):
            for piece in pieces:
                await client.send(piece)
        assert await close_code_reading(client) == 1009
    assert server.resident_bytes() - before < 64 * MIB


async def close_code_reading(client: RawWebSocket) -> int:
    with trio.fail_after(30):
        while (received := await client.receive()) is not None and received.opcode != CLOSE:
            pass
    assert received is not None
    await client.stream.send_eof()
    return received.close_code


@pytest.mark.parametrize("first", [False, True], ids=["later", "first message"])
async def test_a_binary_frame_is_an_error(server: ServedPort, first: bool) -> None:
    async with nobody_notices(server), session(server) as client:
        if not first:
            await turn(client)
        await client.send(frame(FIN | BINARY, b"\x00\xff"))
        assert (await event_of(client, "error"))["error"]["code"] == "bad_event"
        await turn(client)


# ---------------------------------------------------------------- B11: who does not read


async def stuck(server: ServedPort) -> RawWebSocket:
    """A session whose client asks for ten minutes of speech and never reads."""
    raw = trio.socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await raw.connect(("127.0.0.1", server.port))
    client = RawWebSocket(trio.SocketStream(raw))
    await client.send(upgrade_request(TARGET))
    assert (await client.response_head())[0] == 101
    await ask(client, "on " * 2000, "audio")
    return client


@pytest.mark.slow
async def test_a_reader_that_stops_costs_nobody_anything(server: ServedPort) -> None:
    before = server.resident_bytes()
    gaps: list[list[float]] = [[], []]

    async def talk(into: int) -> None:
        async with session(server) as client:
            await ask(client, "a b c d e f g", "audio")
            await until(client, "response.output_audio.delta")
            last = time.perf_counter()
            while (read := await event(client))["type"] != "response.done":
                if read["type"] == "response.output_audio.delta":
                    gaps[into].append(time.perf_counter() - last)
                    last = time.perf_counter()
            assert read["response"]["status"] == "completed"

    for round_number in range(2):  # alone, and beside somebody who is stuck
        client = await stuck(server) if round_number else None
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(talk, round_number)
        if client is not None:
            with trio.fail_after(30):
                while "has not read for too long" not in "".join(server.printed):  # noqa: ASYNC110 (not our process)
                    await trio.sleep(0.1)
            await client.aclose()
    assert max(gaps[1]) < max(gaps[0]) + 0.5
    assert server.resident_bytes() - before < 32 * MIB
    async with nobody_notices(server):
        pass


async def test_pings_of_a_client_that_does_not_read_are_not_collected(server: ServedPort) -> None:
    before = server.resident_bytes()
    async with nobody_notices(server):
        client = await stuck(server)
        with trio.move_on_after(2), suppress(trio.BrokenResourceError):
            for _ in range(1000):
                await client.send(frame(FIN | PING, b"p" * 125) * 1000)
        await client.aclose()
    assert server.resident_bytes() - before < 32 * MIB


# ---------------------------------------------------------------- B12: browsers


async def test_a_browser_gets_realtime_and_never_its_key(server: ServedPort) -> None:
    async with nobody_notices(server), connected(server) as client:
        offer = {"Sec-WebSocket-Protocol": f"realtime, openai-insecure-api-key.{KEY}"}
        await client.send(upgrade_request(TARGET, offer))
        status, headers = await client.response_head()
        assert (status, headers["sec-websocket-protocol"]) == (101, "realtime")
