"""How the bytes of one connection come and go: a TCP socket without a stream around it, or a TLS stream.

Trio's `SocketStream` tries, waits, tries again and allocates a buffer for every read. A bare socket is waited for
and then read, once, into one buffer that all connections of a server share.

What a stream sets stays in force: nothing is held back to fill a packet (TCP_NODELAY), and the kernel keeps no
more than 16 KiB unsent (TCP_NOTSENT_LOWAT), a quarter of a second of sound, which no barge-in can take back.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress

import trio

RECEIVE_BYTES = 64 * 1024

_GONE = "the connection is lost"


class Pipe(ABC):
    """Bytes in both directions. One task reads, one task writes."""

    @abstractmethod
    async def receive(self) -> memoryview | bytes:
        """Wait for bytes; none at the end. They are good until the next time anything waits.

        Raises:
            trio.BrokenResourceError: the connection is lost.
        """

    @abstractmethod
    def send_nowait(self, data: bytes) -> int:
        """Send as much as can be sent without waiting; returns how many bytes that was.

        Raises:
            trio.BrokenResourceError: the connection is lost.
        """

    @abstractmethod
    def send_together_nowait(self, parts: Sequence[bytes]) -> int:
        """The same with bytes that follow each other and are not put together for it."""

    @abstractmethod
    async def send_some(self, data: memoryview) -> int:
        """Wait until something can be sent, and send it; returns how many bytes that was.

        Raises:
            trio.BrokenResourceError: the connection is lost, also because an earlier call was cancelled.
        """

    @abstractmethod
    def stop_reading(self) -> None:
        """Let `receive` come to its end."""

    @abstractmethod
    def end_writing(self) -> None:
        """Tell the peer that nothing more comes, if it can be told while it still speaks."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close the connection. Does not wait for the peer."""


class TcpPipe(Pipe):
    """A connection without encryption. Takes the socket out of the stream.

    Args:
        stream: the accepted connection.
        buffer: where bytes are received.
    """

    def __init__(self, stream: trio.SocketStream, buffer: bytearray) -> None:
        self._socket = socket.socket(fileno=stream.socket.detach())
        self._socket.setblocking(False)
        self._buffer = memoryview(buffer)

    async def receive(self) -> memoryview:
        """Wait, then read."""
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            try:
                count = self._socket.recv_into(self._buffer)
            except BlockingIOError:
                continue
            except OSError as error:
                raise trio.BrokenResourceError(_GONE) from error
            return self._buffer[:count]

    def send_nowait(self, data: bytes | memoryview) -> int:
        """Write without waiting."""
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise trio.BrokenResourceError(_GONE) from error

    def send_together_nowait(self, parts: Sequence[bytes]) -> int:
        """Write without waiting, in one call of the system."""
        try:
            return self._socket.sendmsg(parts)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise trio.BrokenResourceError(_GONE) from error

    async def send_some(self, data: memoryview) -> int:
        """Wait, then write."""
        while True:
            await trio.lowlevel.wait_writable(self._socket)
            sent = self.send_nowait(data)
            if sent:
                return sent

    def stop_reading(self) -> None:
        """Shut the reading half down."""
        self._shut(socket.SHUT_RD)

    def end_writing(self) -> None:
        """Shut the writing half down."""
        self._shut(socket.SHUT_WR)

    async def aclose(self) -> None:
        """Close the socket."""
        trio.lowlevel.notify_closing(self._socket)
        self._socket.close()
        await trio.lowlevel.cancel_shielded_checkpoint()

    def _shut(self, how: int) -> None:
        with suppress(OSError):  # it is gone already
            self._socket.shutdown(how)


class TlsPipe(Pipe):
    """A connection with TLS, which only its stream can read and write."""

    def __init__(self, stream: trio.SSLStream[trio.SocketStream]) -> None:
        self._stream = stream

    async def receive(self) -> bytes:
        """Wait for bytes."""
        try:
            return bytes(await self._stream.receive_some(RECEIVE_BYTES))
        except trio.ClosedResourceError as error:
            raise trio.BrokenResourceError(_GONE) from error

    def send_nowait(self, data: bytes) -> int:
        """Nothing can be."""
        return 0

    def send_together_nowait(self, parts: Sequence[bytes]) -> int:
        """Nothing can be."""
        return 0

    async def send_some(self, data: memoryview) -> int:
        """Send all."""
        try:
            await self._stream.send_all(data)
        except trio.ClosedResourceError as error:
            raise trio.BrokenResourceError(_GONE) from error
        return len(data)

    def stop_reading(self) -> None:
        """Shut the reading half of TCP down."""
        with suppress(OSError):
            self._stream.transport_stream.socket.shutdown(socket.SHUT_RD)

    def end_writing(self) -> None:
        """TLS cannot say so."""

    async def aclose(self) -> None:
        """Close the stream."""
        await trio.aclose_forcefully(self._stream)
