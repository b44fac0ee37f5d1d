"""The WebSocket of video on the ASGI path: pairs, and the same over HTTP/2."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
import trio
import trio.testing
from h2.events import DataReceived, ResponseReceived

from duplex_trio.entrypoints.video_omni import VideoOmni
from duplex_trio.models.scripted.video import ScriptedVideoPipeline
from duplex_trio.serving.asgi_channel import AsgiChannel
from duplex_trio.serving.channel import ChannelClosedError
from duplex_trio.serving.deployment import Deployment
from duplex_trio.serving.options import ServeOptions
from duplex_trio.serving.run import make_app
from duplex_trio.serving.video import ChannelTransport
from duplex_trio.testing.http2_client import Http2Client
from duplex_trio.testing.raw_websocket import BINARY, CLOSE, FIN, TEXT, frame
from duplex_trio.testing.videos.host import WatchedHost
from duplex_trio.video.run import run_video
from duplex_trio.video.transport import TransportClosedError

SCOPE = {
    "type": "websocket",
    "path": "/v1/realtime/video",
    "query_string": b"",
    "headers": [],
    "client": None,
}


class Peer:
    """An ASGI server that takes messages while there is room."""

    def __init__(self, room: int) -> None:
        self.sent: list[dict[str, Any]] = []
        self._room = trio.Semaphore(room)

    async def send(self, message: dict[str, Any]) -> None:
        await self._room.acquire()
        self.sent.append(message)

    async def receive(self) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        return {"type": "websocket.disconnect", "code": 1001}


def transport_of(peer: Peer, deployment: Deployment | None = None) -> ChannelTransport:
    return ChannelTransport(AsgiChannel(SCOPE, peer.receive, peer.send), deployment or Deployment())


async def test_a_pair_is_a_text_and_a_binary_message() -> None:
    peer = Peer(2)
    await transport_of(peer).send_pair(b"{}", b"\x00\xff")
    assert [message.get("text") or message.get("bytes") for message in peer.sent] == ["{}", b"\x00\xff"]


async def test_a_pair_that_is_cut_leaves_a_socket_that_can_only_be_closed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    peer = Peer(1)
    transport = transport_of(peer)
    with trio.move_on_after(1) as scope:
        await transport.send_pair(b"{}", b"x")
    assert scope.cancelled_caught
    for attempt in (transport.send_text(b"{}"), transport.send_pair(b"{}", b"x")):
        with pytest.raises(trio.BrokenResourceError):
            await attempt
    peer._room.release()
    await transport.close(1011, "é" * 200)
    assert [message["type"] for message in peer.sent] == ["websocket.send", "websocket.close"]
    assert len(peer.sent[1]["reason"].encode()) <= 123


async def test_a_client_that_takes_no_close_frame_is_left(autojump_clock: trio.testing.MockClock) -> None:
    peer = Peer(0)
    with trio.fail_after(60):
        await transport_of(peer).close(1000, "done")
    assert peer.sent == []


class SilentPeer(Peer):
    async def receive(self) -> dict[str, Any]:
        await trio.sleep_forever()
        raise AssertionError


@pytest.mark.parametrize("when", ["before", "meanwhile"])
async def test_who_has_not_begun_is_told_of_a_drain_at_once(when: str) -> None:
    peer, deployment = SilentPeer(2), Deployment()
    if when == "before":
        deployment.begin_drain()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_video, transport_of(peer, deployment), WatchedHost())
        await trio.testing.wait_all_tasks_blocked()
        deployment.begin_drain()
    told, goodbye = peer.sent
    fault = orjson.loads(told["text"])
    assert fault["code"] == "server_shutdown"
    assert fault["request_id"].startswith("video_stream-")
    assert (goodbye["type"], goodbye["code"]) == ("websocket.close", 1001)
    assert deployment.undecided == set()


async def test_who_has_begun_is_not_cut_by_a_drain() -> None:
    """Its video is, in its time."""

    class Talking(SilentPeer):
        async def receive(self) -> dict[str, Any]:
            await trio.lowlevel.checkpoint()
            return {"type": "websocket.receive", "text": "x"}

    peer, deployment = Talking(1), Deployment()
    transport = transport_of(peer, deployment)
    assert await transport.receive() == "x"
    deployment.begin_drain()
    assert await transport.receive() == "x"


async def test_who_has_gone_is_told_with_the_code() -> None:
    peer = Peer(0)
    channel = AsgiChannel(SCOPE, peer.receive, peer.send)
    with pytest.raises(TransportClosedError) as closed:
        await transport_of(peer).receive()
    assert closed.value.code == 1001
    with pytest.raises(ChannelClosedError):
        await channel.receive()


async def frames_of(client: Http2Client) -> list[tuple[int, bytes]]:
    """The frames in one stream of HTTP/2, up to the close frame."""
    buffer, seen = b"", list[tuple[int, bytes]]()
    while not seen or seen[-1][0] != CLOSE:
        data = (await client.until(DataReceived)).data
        client.connection.acknowledge_received_data(len(data), 1)
        buffer += data
        while len(buffer) >= 2:
            length, start = buffer[1], 2
            if length == 126:
                length, start = int.from_bytes(buffer[2:4], "big"), 4
            if len(buffer) < start + length:
                break
            seen.append((buffer[0] & 0xF, buffer[start : start + length]))
            buffer = buffer[start + length :]
    return seen


@pytest.mark.e2e
async def test_a_video_is_served_over_http2(serve_app: Any) -> None:
    omni = VideoOmni(ScriptedVideoPipeline(), warm_up=False)
    async with omni.running(), serve_app(make_app(omni, ServeOptions())) as server:
        client = Http2Client(await server.connect())
        await client.start()
        headers = [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "http")]
        headers += [(":path", SCOPE["path"]), (":authority", "x"), ("sec-websocket-version", "13")]
        headers += [("sec-websocket-extensions", "permessage-deflate")]
        client.connection.send_headers(1, headers)
        await client.flush()
        answer = dict((await client.until(ResponseReceived)).headers)
        assert answer[b":status"] == b"200"
        assert b"sec-websocket-extensions" not in answer
        start = {"type": "session.start", "prompt": "red", "num_frames": 9}
        client.connection.send_data(1, frame(FIN | TEXT, orjson.dumps(start)))
        await client.flush()
        with trio.fail_after(60):
            seen = await frames_of(client)
    assert [opcode for opcode, _ in seen] == [TEXT, TEXT, BINARY, TEXT, BINARY, TEXT, CLOSE]
    assert orjson.loads(seen[1][1])["byte_length"] == len(seen[2][1])


@pytest.mark.e2e
async def test_a_message_of_more_than_a_mebibyte_is_1009(serve_app: Any) -> None:
    omni = VideoOmni(ScriptedVideoPipeline(), warm_up=False)
    async with omni.running(), serve_app(make_app(omni, ServeOptions())) as server:
        client = await server.upgrade(SCOPE["path"])
        await client.send(frame(FIN | TEXT, b"x" * (1024 * 1024 + 1)))
        with trio.fail_after(60):
            while (got := await client.receive()) is not None and got.opcode != CLOSE:
                pass
        assert got is not None
        assert got.close_code == 1009
