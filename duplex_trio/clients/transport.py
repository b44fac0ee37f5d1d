"""From a URL to an open byte stream, and from foreign errors to the client's own.

What runs over the stream is trio-websocket's; which tasks carry it is said in `run`.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Iterator
from urllib.parse import urlsplit

import trio
import trio_websocket
from attrs import frozen

from duplex_trio.clients.errors import DuplexConnectionError

FRAME_BYTES_MAX = 64 * 1024 * 1024
"""Largest message that a client accepts; a server sends whole clauses and session objects, never more."""
RECEIVE_BYTES = 64 * 1024
"""Bytes asked of the socket at a time: one read for a burst of audio deltas."""
_HUNG_UP = "the server ended the connection during the WebSocket handshake"

Connect = Callable[[str, int, bool], Awaitable[trio.abc.Stream]]
"""Opens a byte stream to (host, port), with TLS if the third argument says so. May raise `OSError`."""


@frozen
class Address:
    """What a socket URL says about where to connect and what to ask for."""

    host: str
    port: int
    tls: bool
    resource: str

    @classmethod
    def of(cls, url: str) -> Address:
        """Take a URL made by `build_realtime_url` apart."""
        parts = urlsplit(url)
        tls = parts.scheme == "wss"
        resource = parts.path + (f"?{parts.query}" if parts.query else "")
        return cls(parts.hostname or "", parts.port or (443 if tls else 80), tls, resource)

    @property
    def host_header(self) -> str:
        """The `Host` header: with the port unless it is the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"


def bearer_headers(api_key: str | None) -> list[tuple[bytes, bytes]]:
    """The headers that tell an API key; none without one.

    Raises:
        ValueError: the key is empty, or has white space or control characters, as one read with its line end.
    """
    if api_key is None:
        return []
    if not api_key or any(character.isspace() or not character.isprintable() for character in api_key):
        raise ValueError("api_key must be None, or a text without white space and control characters")
    return [(b"Authorization", f"Bearer {api_key}".encode())]


async def open_stream(host: str, port: int, tls: bool) -> trio.abc.Stream:
    """Connect by TCP, with TLS if asked."""
    if tls:
        return await trio.open_ssl_over_tcp_stream(host, port, https_compatible=True)
    return await trio.open_tcp_stream(host, port)


class OpeningStream(trio.abc.Stream):
    """A stream that turns its end into an error as long as the WebSocket handshake is not `done`.

    Without it a server that hangs up during the handshake leaves its client waiting for an answer.
    """

    def __init__(self, inner: trio.abc.Stream) -> None:
        self._inner = inner
        self._why = _HUNG_UP
        self.done = False

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Receive from the inner stream."""
        try:
            data = await self._inner.receive_some(max_bytes)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            if self.done:
                raise
            raise self._ended(error) from None
        if not data and not self.done:
            raise self._ended()
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send to the inner stream."""
        try:
            await self._inner.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            if self.done:
                raise
            raise self._ended(error) from None

    async def wait_send_all_might_not_block(self) -> None:
        """Wait for room in the inner stream."""
        await self._inner.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Close the inner stream."""
        await self._inner.aclose()

    def _ended(self, error: Exception | None = None) -> DuplexConnectionError:
        """What to raise; that TLS failed is said once by the stream below, to whoever used it first."""
        tls = None if error is None else error.__cause__
        if isinstance(tls, ssl.SSLCertVerificationError):
            self._why = f"the server's certificate is refused: {tls.verify_message}"
        elif isinstance(tls, ssl.SSLError):
            self._why = f"the server does not speak TLS as we do: {tls}"
        return DuplexConnectionError(self._why)


def connection_error(url: str, error: BaseException) -> BaseException:
    """The client's own error for what went wrong while connecting, out of any exception group; other errors
    as they are."""
    for leaf in _leaves(error):
        if isinstance(leaf, trio_websocket.ConnectionRejected):
            return _refusal(url, leaf)
        if isinstance(leaf, DuplexConnectionError):
            return leaf
        if isinstance(leaf, OSError | UnicodeError):  # a host name that cannot be one is a UnicodeError
            return DuplexConnectionError(f"cannot connect to {_without_query(url)}: {leaf}")
    return error


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from _leaves(part)
    else:
        yield error


def _refusal(url: str, refused: trio_websocket.ConnectionRejected) -> DuplexConnectionError:
    body = (refused.body or b"").decode("utf-8", "replace").strip()
    hint = {401: "an API key is needed, or this one is wrong", 404: "there is no such route"}
    reason = hint.get(refused.status_code, body[:200])
    text = f"{_without_query(url)} refused the connection with HTTP status {refused.status_code}"
    return DuplexConnectionError(f"{text}: {reason}" if reason else text, status=refused.status_code)


def _without_query(url: str) -> str:
    return url.partition("?")[0]
