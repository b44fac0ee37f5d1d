"""What a tap makes of the bytes that pass it, and that they pass unchanged."""

from __future__ import annotations

import pytest
import trio
from trio_websocket import ConnectionClosed, open_websocket_url, serve_websocket
from wsproto.extensions import PerMessageDeflate
from wsproto.frame_protocol import FrameProtocol

from duplex_trio.testing.raw_websocket import CLOSE, FIN, RawWebSocket, frame, upgrade_request
from duplex_trio.testing.tap import TappedConnection, open_tap

REQUEST = b"GET /v1/realtime?model=m HTTP/1.1\r\nHost: x\r\n\r\n"
ACCEPTED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
DEFLATE = b"Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits=12\r\n"
DELTA = '{"type":"response.output_audio.delta","delta":"' + "A" * 100 + '"}'


def take(connection: TappedConnection, sender: str, data: bytes, *, step: int) -> None:
    for i in range(0, len(data), step):
        connection.take(sender, data[i : i + step], float(len(connection.messages)))  # type: ignore[arg-type]


@pytest.mark.parametrize("step", [1, 7, 4096])
@pytest.mark.parametrize("deflated", [False, True])
def test_messages_are_read_however_the_bytes_are_cut(step: int, deflated: bool) -> None:
    """Handshake and frames may come in any pieces, compressed or not, a message in several frames."""
    extensions = []
    for _ in range(2):
        extension = PerMessageDeflate(client_max_window_bits=12)
        extension.finalize("permessage-deflate; client_max_window_bits=12")
        extensions.append([extension] if deflated else [])
    client = FrameProtocol(client=True, extensions=[*extensions[0]])
    server = FrameProtocol(client=False, extensions=[*extensions[1]])
    connection = TappedConnection()
    take(connection, "client", REQUEST, step=step)
    accepted = ACCEPTED + (DEFLATE if deflated else b"") + b"\r\n"
    take(connection, "server", accepted + bytes(server.send_data('{"type":"session.created"}')), step=step)
    parts = client.send_data('{"type":"response', fin=False), client.send_data('.create"}'), client.ping(b"x")
    take(connection, "client", b"".join(map(bytes, parts)), step=step)
    take(connection, "server", bytes(server.send_data(DELTA) + server.close(1008, "no")), step=step)
    assert [(message.sender, message.kind) for message in connection.messages] == [
        ("server", "session.created"),
        ("client", "response.create"),
        ("server", "response.output_audio.delta"),
        ("server", "close"),
    ]
    assert (connection.messages[-1].close_code, connection.messages[-1].text) == (1008, "no")
    assert connection.events("server")[1]["delta"] == "A" * 100


def test_a_description_counts_sound_and_shortens_the_rest() -> None:
    server = FrameProtocol(client=False, extensions=[])
    connection = TappedConnection()
    take(connection, "client", REQUEST, step=4096)
    take(connection, "server", ACCEPTED + b"\r\n" + bytes(server.send_data(DELTA)), step=4096)
    long = '{"type":"error","event_id":"e","error":{"message":"' + "m" * 70 + '","param":[null]}}'
    take(connection, "server", bytes(server.send_data(DELTA) + server.send_data(long)), step=4096)
    assert connection.describe().splitlines() == [
        "GET /v1/realtime?model=m HTTP/1.1",
        "HTTP/1.1 101 Switching Protocols",
        "   0.00 .. sound, 0 times up, 2 down",
        '   1.00 <- error {"error":{"message":"<70 characters>","param":[null]}}',
    ]


def test_what_is_no_event_is_shown_as_it_is() -> None:
    server = FrameProtocol(client=False, extensions=[])
    connection = TappedConnection()
    take(connection, "client", REQUEST, step=4096)
    sent = [bytes(server.send_data(text)) for text in ("not JSON", "[1]")]
    take(connection, "server", ACCEPTED + b"\r\n" + b"".join(sent), step=4096)
    assert [message.kind for message in connection.messages] == ["?", "?"]
    assert connection.describe().splitlines()[2:] == [
        '   0.00 <- ? {"text":"not JSON"}',
        '   0.00 <- ? {"text":"[1]"}',
    ]


def test_a_refused_upgrade_has_no_messages() -> None:
    connection = TappedConnection()
    take(connection, "client", REQUEST, step=4096)
    take(connection, "server", b'HTTP/1.1 401 Unauthorized\r\n\r\n{"error":{}}', step=4096)
    assert connection.messages == []
    assert connection.response.startswith("HTTP/1.1 401")


async def test_a_connection_can_be_broken_where_a_test_wants_it(nursery: trio.Nursery) -> None:
    """The client learns it without a close frame; the next connection lasts."""

    async def serve(request: object) -> None:
        socket = await request.accept()  # type: ignore[attr-defined]
        await socket.send_message('{"type":"session.created"}')
        with pytest.raises(ConnectionClosed):
            await socket.get_message()

    listeners = await nursery.start(serve_websocket, serve, "127.0.0.1", 0, None)
    async with open_tap(listeners.port, cuts=["session.created"]) as tap:
        for breaks in (True, False):
            socket = await RawWebSocket.open(tap.port)
            await socket.send(upgrade_request("/x"))
            assert (await socket.response_head())[0] == 101
            created = await socket.receive()
            assert created is not None
            assert created.payload == b'{"type":"session.created"}'
            if breaks:
                assert await socket.receive() is None
            else:
                await socket.send(frame(FIN | CLOSE, b""))
                answer = await socket.receive()
                assert answer is not None
                assert answer.opcode == CLOSE
            await socket.aclose()
    assert [len(connection.messages) for connection in tap.connections] == [1, 3]


async def test_client_and_server_meet_as_without_it(nursery: trio.Nursery) -> None:
    """What either says arrives, with the close frame, and the tap knows it all."""

    async def serve(request: object) -> None:
        socket = await request.accept()  # type: ignore[attr-defined]
        await socket.send_message((await socket.get_message()).upper())
        with pytest.raises(ConnectionClosed):
            await socket.get_message()

    listeners = await nursery.start(serve_websocket, serve, "127.0.0.1", 0, None)
    async with open_tap(listeners.port) as tap:
        async with open_websocket_url(f"ws://127.0.0.1:{tap.port}/x") as socket:
            await socket.send_message('{"type":"a"}')
            assert await socket.get_message() == '{"TYPE":"A"}'
        (connection,) = tap.connections
    assert [message.text for message in connection.messages[:2]] == ['{"type":"a"}', '{"TYPE":"A"}']
    assert [message.close_code for message in connection.messages[2:]] == [1000, 1000]
