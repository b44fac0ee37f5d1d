"""The seam between a client of video and what carries its messages, and the carrier that people use: a WebSocket."""

from __future__ import annotations

from abc import ABC, abstractmethod

import trio
import trio_websocket

from duplex_trio.clients.errors import DuplexConnectionError
from duplex_trio.clients.transport import (
    RECEIVE_BYTES,
    Address,
    Connect,
    OpeningStream,
    bearer_headers,
    connection_error,
    open_stream,
)
from duplex_trio.clients.video.errors import VideoConnectionError

MESSAGE_BYTES_MAX = 16 * 1024 * 1024
"""Largest message that is taken: sixteen times what a server cuts its payloads at (video.md 3.5)."""


class VideoLink(ABC):
    """Carries one video. One task sends, one other task receives."""

    @abstractmethod
    async def open(self, nursery: trio.Nursery) -> None:
        """Connect; what the link needs running runs in `nursery`.

        Raises:
            VideoConnectionError: that failed. A task of the nursery may fail with a `DuplexConnectionError` instead.
        """

    @abstractmethod
    async def send(self, text: bytes) -> None:
        """Write one text message. A caller that is cancelled meanwhile may have broken the link.

        Raises:
            VideoConnectionError: it has ended.
        """

    @abstractmethod
    async def receive(self) -> str | bytes:
        """Wait for the next message. As long as nobody calls this, the other side has to wait.

        Raises:
            VideoConnectionError: it has ended, with the close code and its reason if there was one.
        """

    @abstractmethod
    async def close(self) -> None:
        """End it, in whatever state it is. May be cancelled, and does the rest then without waiting."""


class WebSocketLink(VideoLink):
    """A video over a WebSocket.

    Args:
        url: made by `build_video_url`.
        api_key: sent as a bearer token.
        connect: opens the byte stream.
    """

    def __init__(self, url: str, *, api_key: str | None = None, connect: Connect = open_stream) -> None:
        self.url = url
        self._headers = bearer_headers(api_key)
        self._connect = connect
        self._stream: trio.abc.Stream | None = None
        self._socket: trio_websocket.WebSocketConnection | None = None

    async def open(self, nursery: trio.Nursery) -> None:
        """Connect and shake hands."""
        address = Address.of(self.url)
        try:
            self._stream = await self._connect(address.host, address.port, address.tls)
            opening = OpeningStream(self._stream)
            self._socket = await trio_websocket.wrap_client_stream(
                nursery,
                opening,
                address.host_header,
                address.resource,
                extra_headers=self._headers,
                max_message_size=MESSAGE_BYTES_MAX,
                receive_buffer_size=RECEIVE_BYTES,
            )
        except (OSError, UnicodeError, trio_websocket.HandshakeError) as error:
            raise open_error(self.url, error) from None
        opening.done = True

    async def send(self, text: bytes) -> None:
        """Write one text message."""
        assert self._socket is not None
        try:
            await self._socket.send_message(text.decode())
        except trio_websocket.ConnectionClosed as closed:
            raise _lost(closed) from None

    async def receive(self) -> str | bytes:
        """Read the next message."""
        assert self._socket is not None
        try:
            message: str | bytes = await self._socket.get_message()
        except trio_websocket.ConnectionClosed as closed:
            raise _lost(closed) from None
        return message

    async def close(self) -> None:
        """Say goodbye and let go of the stream."""
        try:
            if self._socket is not None:
                await self._socket.aclose()
        finally:
            if self._stream is not None:
                await trio.aclose_forcefully(self._stream)


def open_error(url: str, error: BaseException) -> BaseException:
    """The client's own error for what went wrong while connecting, out of any group; other errors as they are."""
    found = connection_error(url, error)
    if isinstance(found, DuplexConnectionError):
        return VideoConnectionError(str(found), status=found.status)
    return found


def _lost(closed: trio_websocket.ConnectionClosed) -> VideoConnectionError:
    if closed.reason is None:
        return VideoConnectionError("the connection broke")
    code, reason = closed.reason.code, closed.reason.reason
    said = f"{code} {reason}" if reason else f"{code}"
    return VideoConnectionError(
        f"the server closed the connection ({said})", close_code=code, close_reason=reason
    )
