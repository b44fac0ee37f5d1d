"""A link of `RealtimeVideoClient` without a socket: client and video in one process, for tests on a mock clock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from duplex_trio.clients.video import VideoConnectionError, VideoLink
from duplex_trio.protocol.video import encode_event
from duplex_trio.video.memory import MemoryPeer, memory_transports
from duplex_trio.video.transport import TransportClosedError, VideoTransport


class MemoryLink(VideoLink):
    """Leads to a video in this process.

    Args:
        serve: the whole life of a video over its end, such as `VideoOmni.serve`; runs in the client's nursery.
    """

    def __init__(self, serve: Callable[[VideoTransport], Awaitable[object]]) -> None:
        self._serve = serve
        self._peer: MemoryPeer | None = None

    async def open(self, nursery: trio.Nursery) -> None:
        """Begin to serve."""
        transport, self._peer = memory_transports()
        nursery.start_soon(self._serve, transport, name="video")
        await trio.lowlevel.checkpoint()

    async def send(self, text: bytes) -> None:
        """Hand one message over."""
        assert self._peer is not None
        try:
            await self._peer.send(text.decode())
        except trio.BrokenResourceError as error:
            raise VideoConnectionError(str(error)) from None

    async def receive(self) -> str | bytes:
        """Take the next message."""
        assert self._peer is not None
        try:
            message = await self._peer.receive()
        except TransportClosedError as closed:
            raise VideoConnectionError(str(closed), close_code=closed.code) from None
        return message if isinstance(message, bytes) else encode_event(message).decode()

    async def close(self) -> None:
        """Leave."""
        await trio.lowlevel.checkpoint()
        if self._peer is not None:
            self._peer.leave()
