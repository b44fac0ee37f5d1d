"""The two ends of a connection in memory, and how a network breaks it."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio
import trio.testing

T = TypeVar("T")

HOST = "in.memory"
PORT = 80
_GONE = "the connection was reset"


class SocketInName:
    """What a server asks a socket about, where there is none.

    Attributes:
        family: as if it were TCP over IPv4.
    """

    family = socket.AF_INET

    def __init__(self, number: int) -> None:
        self._number = number

    def getpeername(self) -> tuple[str, int]:
        """The client, told apart by its port."""
        return "127.0.0.1", self._number

    def getsockname(self) -> tuple[str, int]:
        """The server."""
        return "127.0.0.1", PORT


class MemoryStream(trio.abc.HalfCloseableStream):
    """One end of a connection in memory.

    It holds whatever the other end has not read yet, so that nobody ever waits to send.

    Args:
        inner: carries the bytes.
        number: of the connection.

    Attributes:
        socket: says who is connected.
    """

    def __init__(
        self,
        inner: trio.StapledStream[trio.testing.MemorySendStream, trio.testing.MemoryReceiveStream],
        number: int,
    ) -> None:
        self.socket = SocketInName(number)
        self._inner = inner
        self._lost = False

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Wait for bytes; none at the end.

        Raises:
            trio.BrokenResourceError: the connection was broken.
        """
        return await self._guarded(lambda: self._inner.receive_some(max_bytes))

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes.

        Raises:
            trio.BrokenResourceError: the connection was broken, or the other end is closed.
        """
        await self._guarded(lambda: self._inner.send_all(data))

    async def wait_send_all_might_not_block(self) -> None:
        """There is always room."""
        await self._guarded(self._inner.wait_send_all_might_not_block)

    async def send_eof(self) -> None:
        """Say that nothing more comes."""
        await self._guarded(self._inner.send_eof)

    async def aclose(self) -> None:
        """Close this end; the other end comes to the end of what was sent."""
        await self._inner.aclose()

    def lose(self) -> None:
        """The network is gone: what was on its way is lost, and whoever reads or writes finds out now."""
        self._lost = True
        self._inner.receive_stream.close()
        self._inner.send_stream.close()

    async def _guarded(self, act: Callable[[], Awaitable[T]]) -> T:
        try:
            return await act()
        except trio.ClosedResourceError as error:
            if self._lost:
                raise trio.BrokenResourceError(_GONE) from error
            raise


def memory_connection(number: int) -> tuple[MemoryStream, MemoryStream]:
    """A connection: the client's end and the server's."""
    ours, theirs = trio.testing.memory_stream_pair()
    return MemoryStream(ours, number), MemoryStream(theirs, number)
