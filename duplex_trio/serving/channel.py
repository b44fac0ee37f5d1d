"""One WebSocket as the sessions' transport sees it, whatever carries it.

`asgi_channel` is the one over an ASGI server. What is said over a channel, and when it is accepted or
refused, is `endpoint`'s and `realtime`'s.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from attrs import frozen

Header = tuple[bytes, bytes]
_TRACE = (b"traceparent", b"tracestate")


@frozen(kw_only=True)
class UpgradeRequest:
    """What a client asked for when it asked for a WebSocket.

    Attributes:
        path: decoded.
        query: the raw query string, without its question mark.
        headers: lower-case names and values, in the request's order.
        subprotocols: what the client offers, in its order.
        client: its address, for the log.
    """

    path: str
    query: bytes
    headers: tuple[Header, ...]
    subprotocols: tuple[str, ...]
    client: str


def trace_headers(headers: Iterable[Header]) -> dict[str, str]:
    """What a request says of the trace that it is part of (W3C Trace Context): `traceparent`, `tracestate`."""
    told = {name.decode("latin1"): value.decode("latin1") for name, value in headers if name in _TRACE}
    return told if "traceparent" in told else {}


class ChannelClosedError(Exception):
    """The WebSocket has ended. `code` is the client's close code, or 1006 if it left without one."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the WebSocket was closed with {code}")
        self.code = code


class WebSocketChannel(ABC):
    """One WebSocket, from the request for it to its end.

    First `accept` or `deny` is called, once. `receive` is called by one task, `send` and `close` by one task at a
    time, which may be another one.
    """

    @property
    @abstractmethod
    def request(self) -> UpgradeRequest:
        """What was asked for."""

    @abstractmethod
    async def accept(self, subprotocol: str | None) -> None:
        """Answer that the connection is a WebSocket now, with one of the offered subprotocols or none."""

    @abstractmethod
    async def deny(self, status: int, body: bytes, headers: Iterable[Header]) -> None:
        """Answer with an HTTP response instead."""

    @abstractmethod
    async def receive(self) -> str | None:
        """Wait for the next message: its text, or None for a binary one.

        Raises:
            ChannelClosedError: there is none any more.
        """

    @abstractmethod
    async def send(self, text: bytes) -> None:
        """Write one text message. Waits while the client does not read, and may be cancelled then.

        Raises:
            trio.BrokenResourceError: the client is gone.
        """

    @abstractmethod
    async def send_pair(self, text: bytes, data: bytes) -> None:
        """Write one text message and one binary one, with no other message between them.

        Waits while the client does not read, and may be cancelled then: either both get to the client whole, or
        nothing can be written any more but the close frame.

        Raises:
            trio.BrokenResourceError: the client is gone.
        """

    @abstractmethod
    async def close(self, code: int, reason: str) -> None:
        """Write the close frame. The reason fits into it."""
