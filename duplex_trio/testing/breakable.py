"""A client whose network can be cut, and mended again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import trio

from duplex_trio.clients.errors import DuplexClientError
from duplex_trio.clients.reconnect import ReconnectPolicy
from duplex_trio.clients.transport import Connect, open_stream
from duplex_trio.clients.websocket import DuplexClient
from duplex_trio.models.scripted.script import Script

if TYPE_CHECKING:
    from duplex_trio.testing.dialogue.account import Account

T = TypeVar("T")

PATIENT = ReconnectPolicy(max_attempts=10_000, backoff_s=(0.1, 0.1))
"""Comes back 100 ms after the line is mended at the latest, whenever that is, and as fast each time."""


class Line:
    """The way to a server. While it is cut nothing comes through, and whoever connects waits.

    Args:
        connect: opens connections.
    """

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._streams: set[_LineStream] = set()
        self._whole = trio.Event()
        self._whole.set()

    @property
    def is_cut(self) -> bool:
        """Whether it is cut."""
        return not self._whole.is_set()

    async def connect(self, host: str, port: int, tls: bool) -> trio.abc.Stream:
        """Open a connection, once there is a line.

        Raises:
            OSError: it cannot be opened, or the line was cut meanwhile.
        """
        await self._whole.wait()
        inner = await self._connect(host, port, tls)
        if self.is_cut:
            await trio.aclose_forcefully(inner)
            raise ConnectionResetError("the line was cut")
        stream = _LineStream(inner, self._streams)
        self._streams.add(stream)
        return stream

    def cut(self) -> None:
        """Break all connections, without a word to anybody."""
        self._whole = trio.Event()
        for stream in list(self._streams):
            stream.lose()

    def mend(self) -> None:
        """Let connections be made again."""
        self._whole.set()


class _LineStream(trio.abc.Stream):
    def __init__(self, inner: trio.abc.Stream, streams: set[_LineStream]) -> None:
        self._inner = inner
        self._streams = streams
        self._lost = False
        self._scopes: set[trio.CancelScope] = set()

    def lose(self) -> None:
        self._lost = True
        self._streams.discard(self)
        for scope in self._scopes:
            scope.cancel()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._carried(lambda: self._inner.receive_some(max_bytes))

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._carried(lambda: self._inner.send_all(data))

    async def wait_send_all_might_not_block(self) -> None:
        await self._carried(self._inner.wait_send_all_might_not_block)

    async def aclose(self) -> None:
        self._streams.discard(self)
        await self._inner.aclose()

    async def _carried(self, act: Callable[[], Awaitable[T]]) -> T:
        if not self._lost:
            with trio.CancelScope() as scope:
                self._scopes.add(scope)
                try:
                    return await act()
                finally:
                    self._scopes.discard(scope)
        await trio.lowlevel.checkpoint()
        raise trio.BrokenResourceError("the line was cut")


class BreakableClient(DuplexClient):
    """A `DuplexClient` whose network can be cut.

    ```python
    async with BreakableClient("ws://127.0.0.1:8765") as client:
        client.cut()
        await trio.sleep(5)
        client.mend()
        await client.wait_for("connection.resumed")
    ```

    It tries to come back for as long as it takes, unless told otherwise.

    Args:
        url: of the server.
        connect: opens the byte stream; TCP or TLS by default.
        script: of the scripted model at the server, if that runs in this process; conversations that are played
            tell it what is said.
        **options: more of `DuplexClient`.

    Attributes:
        accounts: of the conversations that were played on the client.
    """

    def __init__(
        self, url: str, *, connect: Connect = open_stream, script: Script | None = None, **options: Any
    ) -> None:
        self.line = Line(connect)
        self.script = script
        self.accounts: list[Account] = []
        super().__init__(url, connect=self.line.connect, **{"reconnect": PATIENT, **options})

    async def close(self, timeout_s: float = 20.0) -> None:
        """End the session; over a line that is cut, mend it for that, and let the session be gone already.

        Raises:
            DuplexConnectionError: the line is whole, and the server did not confirm within `timeout_s`.
        """
        if not self.line.is_cut:
            await super().close(timeout_s)
            return
        self.mend()
        with suppress(DuplexClientError):
            await super().close(timeout_s)

    def cut(self) -> None:
        """Break the connection as a network does, and let no other one be made."""
        self.line.cut()

    def mend(self) -> None:
        """Let connections be made again."""
        self.line.mend()
