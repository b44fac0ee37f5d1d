"""What may go wrong: videos that are refused or fail, servers that leave the protocol, connections that are cut."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing
import trio_websocket
from trio.testing import MockClock

from duplex_trio.clients import RealtimeVideoClient, VideoChunk
from duplex_trio.clients.transport import Connect
from duplex_trio.clients.video import (
    VideoBusyError,
    VideoClientError,
    VideoConnectionError,
    VideoFailedError,
    VideoProtocolError,
    VideoRefusedError,
)
from duplex_trio.testing.video_peer import VideoPeer, read_all, scripted_client, video_scripted

Step = Callable[[VideoPeer], Awaitable[None]]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("start_timeout", VideoRefusedError),
        ("invalid_json", VideoRefusedError),
        ("invalid_message", VideoRefusedError),
        ("session_not_started", VideoRefusedError),
        ("message_too_large", VideoRefusedError),
        ("invalid_start", VideoRefusedError),
        ("model_not_found", VideoRefusedError),
        ("not_available", VideoRefusedError),
        ("resource_exhausted", VideoBusyError),
        ("server_shutdown", VideoBusyError),
    ],
)
async def test_a_video_that_is_refused(
    nursery: trio.Nursery, autojump_clock: MockClock, code: str, kind: type[VideoRefusedError]
) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.receive("session.start")
        await peer.refuse(code, param="width")
        await peer.wire.close(1008, code)

    with pytest.raises(kind, match=code) as caught:
        async with scripted_client(nursery, script):
            pytest.fail("it must not begin")
    assert type(caught.value) is kind
    assert (caught.value.code, caught.value.param) == (code, "width")


async def test_a_close_instead_of_a_video_names_the_code(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.receive("session.start")
        await peer.wire.close(1013, "full")

    with pytest.raises(VideoConnectionError, match="1013 full") as caught:
        async with scripted_client(nursery, script):
            pytest.fail("it must not begin")
    assert (caught.value.close_code, caught.value.close_reason) == (1013, "full")


def raw_server(nursery: trio.Nursery, serve: Callable[[trio.abc.Stream], Awaitable[None]]) -> Connect:
    async def connect(_host: str, _port: int, _tls: bool) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        client_side, server_side = trio.testing.memory_stream_pair()
        nursery.start_soon(serve, server_side)
        return client_side

    return connect


async def test_an_upgrade_that_is_refused_tells_the_status(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def refuse(stream: trio.abc.Stream) -> None:
        request = await trio_websocket.wrap_server_stream(nursery, stream)
        await request.reject(401, body=b"who are you")

    with pytest.raises(VideoConnectionError, match="401: an API key is needed") as caught:
        async with RealtimeVideoClient("test.invalid", prompt="x", connect=raw_server(nursery, refuse)):
            pytest.fail("it must not begin")
    assert caught.value.status == 401


async def test_a_server_that_hangs_up_at_once(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    with pytest.raises(VideoConnectionError, match="during the WebSocket handshake"):
        async with RealtimeVideoClient(
            "test.invalid", prompt="x", connect=raw_server(nursery, trio.aclose_forcefully)
        ):
            pytest.fail("it must not begin")


async def test_a_port_that_nobody_listens_on() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free_port = probe.getsockname()[1]
    with pytest.raises(VideoConnectionError, match=f"cannot connect to ws://127.0.0.1:{free_port}"):
        async with RealtimeVideoClient(f"127.0.0.1:{free_port}", prompt="x"):
            pytest.fail("it must not begin")


async def take_all(video: RealtimeVideoClient, chunks: list[VideoChunk]) -> None:
    async for chunk in video:
        chunks.append(chunk)


@pytest.mark.parametrize("code", ["generation_failed", "stall_timeout", "too_many_errors", "server_shutdown"])
@pytest.mark.parametrize("done", [False, True])
async def test_a_video_that_fails_gives_what_it_had_and_raises(
    nursery: trio.Nursery, autojump_clock: MockClock, code: str, done: bool
) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        await peer.pair()
        await peer.refuse(code)
        if done:
            await peer.end()
        await peer.wire.close(1011, code)

    async with scripted_client(nursery, script) as video:
        chunks: list[VideoChunk] = []
        with pytest.raises(VideoFailedError, match=code) as caught:
            await take_all(video, chunks)
        assert len(chunks) == caught.value.received.chunks == 1 + done
        assert caught.value.code == code
        with pytest.raises(VideoFailedError):
            await video.__anext__()


async def test_an_error_about_nothing_in_particular_does_not_end_a_video(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        await peer.refuse("invalid_message")
        await peer.refuse("interaction_failed", "who is that")
        await peer.wire.send_raw('{"type": "video.something_new", "x": 1}')
        await peer.end()

    async with scripted_client(nursery, script) as video:
        assert len(await read_all(video)) == 1


async def _begin_again(peer: VideoPeer) -> None:
    peer.receive = _immediately  # type: ignore[method-assign]
    await peer.begin()


async def _immediately(*_types: str) -> dict[str, str]:
    await trio.lowlevel.checkpoint()
    return {"type": "session.start", "prompt": "x"}


WRONG: dict[str, tuple[Step, str]] = {
    "no JSON": (lambda peer: peer.wire.send_raw("{"), "what is no event"),
    "no event": (lambda peer: peer.wire.send_raw('{"type": "video.chunk_metadata"}'), "is missing"),
    "a payload alone": (lambda peer: peer.wire.send_raw(b"x"), "without its video.chunk_metadata"),
    "a wrong length": (lambda peer: peer.pair(byte_length=5), "6 bytes instead of 5"),
    "a wrong index": (lambda peer: peer.pair(transport_chunk_index=4), "payload 1 was to come, not 4"),
    "an answer to nobody": (lambda peer: peer.queued("a"), "no interaction that was sent"),
    "a wrong sum": (lambda peer: peer.end(chunks=7), "7 payloads were sent, and 2 came"),
    "a second start": (_begin_again, "video.start came twice"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_server_that_leaves_the_protocol(
    nursery: trio.Nursery, autojump_clock: MockClock, name: str
) -> None:
    step, said = WRONG[name]

    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        await peer.pair()
        await step(peer)
        await peer.wire.receive("session.never")

    async with scripted_client(nursery, script) as video:
        with pytest.raises(VideoProtocolError, match=said):
            await read_all(video)
        assert video.received.chunks >= 1


async def test_a_pair_that_is_torn_apart(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        await peer.pair(b"")
        await peer.wire.send_raw('{"type": "session.pong"}')
        send_raw = peer.wire.send_raw

        async def torn(message: str | bytes) -> None:
            await send_raw(message if isinstance(message, str) else '{"type": "session.pong"}')

        peer.wire.send_raw = torn  # type: ignore[method-assign]
        await peer.pair()

    async with scripted_client(nursery, script) as video:
        with pytest.raises(VideoProtocolError, match="followed by another text message"):
            await read_all(video)


async def test_an_event_before_the_start(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.receive("session.start")
        await peer.pair()

    with pytest.raises(VideoProtocolError, match="before video"):
        async with scripted_client(nursery, script):
            pytest.fail("it must not begin")


# ---------------------------------------------------------------------- cuts


class CutStream(trio.abc.Stream):
    """Brings so many bytes, then the end."""

    def __init__(self, inner: trio.abc.Stream, left: int) -> None:
        self.inner, self.left, self.brought = inner, left, 0

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        if self.left <= 0:
            await trio.lowlevel.checkpoint()
            await trio.aclose_forcefully(self.inner)
            return b""
        data = await self.inner.receive_some(min(self.left, max_bytes or self.left))
        self.left -= len(data)
        self.brought += len(data)
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self.inner.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self.inner.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self.inner.aclose()


async def watch_cut(
    nursery: trio.Nursery, left: int
) -> tuple[CutStream, list[VideoChunk], BaseException | None]:
    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        await peer.queue()
        for number in range(3):
            await peer.pair(bytes([number]) * 40, active=("a",))
        await peer.end({"a": "completed"})

    streams: list[CutStream] = []
    chunks: list[VideoChunk] = []
    inner = video_scripted(nursery, script)

    async def connect(host: str, port: int, tls: bool) -> trio.abc.Stream:
        streams.append(CutStream(await inner(host, port, tls), left))
        return streams[-1]

    try:
        async with RealtimeVideoClient("test.invalid", prompt="x", connect=connect) as video:
            await video.interact("rain", event_id="a")
            async for chunk in video:
                chunks.append(chunk)
    except VideoClientError as error:
        return streams[0], chunks, error
    return streams[0], chunks, None


@pytest.mark.slow
async def test_a_connection_that_is_cut_after_any_byte(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    whole, chunks, error = await watch_cut(nursery, 1_000_000)
    assert error is None
    assert len(chunks) == 4
    seen: set[int] = set()
    for left in range(whole.brought):
        _, came, error = await watch_cut(nursery, left)
        if error is None:  # only the goodbye was missing
            assert came == chunks
            continue
        assert isinstance(error, VideoConnectionError), left
        assert came == chunks[: len(came)], left
        if came:
            assert error.received.chunks == len(came)
        seen.add(len(came))
    assert seen == {0, 1, 2, 3, 4}


async def test_messages_that_are_larger_than_any_payload_end_the_video(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        await peer.pair(bytes(17 * 1024 * 1024))

    async with scripted_client(nursery, script) as video:
        with pytest.raises(VideoConnectionError):
            await read_all(video)
