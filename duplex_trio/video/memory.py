"""A transport without a socket: a video and its watcher in one process. Nothing waits in between but what is read.

The watcher talks in messages, not in JSON, though the very bytes of the wire lie between the two.
"""

from __future__ import annotations

import trio
from attrs import define, field

from duplex_trio.protocol.video import VideoCommand, VideoEvent, decode_event, encode_command
from duplex_trio.video.transport import TransportClosedError, VideoTransport

COMMANDS_WAITING_MAX = 16
"""Messages to the video that may wait to be read."""
GONE = 1006
"""The close code of who left without one."""

_Sent = tuple[bytes, bytes | None]
"""A text message, and the binary one right behind it."""


@define(eq=False)
class _Line:
    """What both ends share.

    Attributes:
        closed: close code and reason, once an end has closed it.
    """

    to_video: tuple[trio.MemorySendChannel[str | None], trio.MemoryReceiveChannel[str | None]] = field(
        factory=lambda: trio.open_memory_channel[str | None](COMMANDS_WAITING_MAX)
    )
    to_peer: tuple[trio.MemorySendChannel[_Sent], trio.MemoryReceiveChannel[_Sent]] = field(
        factory=lambda: trio.open_memory_channel[_Sent](0)
    )
    closed: tuple[int, str] | None = None

    def close(self, code: int, reason: str) -> None:
        """Close it, once: the sending ends, so that what is on the way still arrives."""
        if self.closed is None:
            self.closed = code, reason
        self.to_video[0].close()
        self.to_peer[0].close()

    @property
    def code(self) -> int:
        """The code that it was closed with."""
        return GONE if self.closed is None else self.closed[0]


class MemoryTransport(VideoTransport):
    """The video's end; see `memory_transports`."""

    def __init__(self, line: _Line) -> None:
        self._line = line

    async def receive(self) -> str | None:
        """Wait for the watcher's next message."""
        try:
            return await self._line.to_video[1].receive()
        except (trio.EndOfChannel, trio.ClosedResourceError):
            raise TransportClosedError(self._line.code) from None

    async def send_text(self, text: bytes) -> None:
        """Hand over one message; waits until the watcher takes it."""
        await self._send((text, None))

    async def send_pair(self, metadata: bytes, payload: bytes) -> None:
        """Hand over two messages as one; waits until the watcher takes the first of them."""
        await self._send((metadata, payload))

    async def _send(self, item: _Sent) -> None:
        try:
            await self._line.to_peer[0].send(item)
        except trio.ClosedResourceError:
            raise trio.BrokenResourceError("the watcher has gone") from None

    async def close(self, code: int, reason: str) -> None:
        """End it."""
        await trio.lowlevel.checkpoint()
        self._line.close(code, reason)


class MemoryPeer:
    """The watcher's end; see `memory_transports`. What it does not read keeps the video waiting."""

    def __init__(self, line: _Line) -> None:
        self._line = line
        self._payload: bytes | None = None

    @property
    def closed(self) -> tuple[int, str] | None:
        """Close code and reason, once either end has closed."""
        return self._line.closed

    async def send(self, command: VideoCommand | str | bytes) -> None:
        """Say something to the video: a command, or any text; bytes are a binary message.

        Raises:
            trio.BrokenResourceError: it has ended.
        """
        text: str | None
        if isinstance(command, bytes):
            text = None
        else:
            text = command if isinstance(command, str) else encode_command(command).decode()
        try:
            await self._line.to_video[0].send(text)
        except trio.ClosedResourceError:
            raise trio.BrokenResourceError("the video has ended") from None

    async def receive(self) -> VideoEvent | bytes:
        """Wait for the next message: an event, or the payload that belongs to the metadata before.

        Raises:
            TransportClosedError: there is none any more; `closed` says why.
        """
        if self._payload is not None:
            await trio.lowlevel.checkpoint()
            payload, self._payload = self._payload, None
            return payload
        try:
            text, self._payload = await self._line.to_peer[1].receive()
        except (trio.EndOfChannel, trio.ClosedResourceError):
            raise TransportClosedError(self._line.code) from None
        return decode_event(text)

    def leave(self, code: int = GONE) -> None:
        """Close this end at once; what the video still sends is not heard."""
        self._line.close(code, "")
        self._line.to_peer[1].close()


def memory_transports() -> tuple[MemoryTransport, MemoryPeer]:
    """Make both ends of a line: one for `run_video`, one for whoever watches."""
    line = _Line()
    return MemoryTransport(line), MemoryPeer(line)
