"""httpx over streams that something else opens, so that HTTP needs no socket and runs under a mock clock.

All of httpx takes part but its own network.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from typing import Any

import httpcore
import httpx
import trio

from duplex_trio.clients.transport import Connect


def http_transport(connect: Connect, *, keepalive_s: float = 5.0) -> httpx.AsyncHTTPTransport:
    """A transport for `httpx.AsyncClient` whose connections `connect` opens.

    Args:
        connect: opens a stream to (host, port); an `OSError` means that it is refused.
        keepalive_s: how long an idle connection is kept for the next request.
    """
    transport = httpx.AsyncHTTPTransport(trust_env=False, verify=False)
    # httpx has no public way to the network below it.
    transport._pool = httpcore.AsyncConnectionPool(
        network_backend=_Network(connect), max_connections=None, keepalive_expiry=keepalive_s
    )
    return transport


class _Network(httpcore.AsyncNetworkBackend):
    def __init__(self, connect: Connect) -> None:
        self._connect = connect

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        with trio.move_on_after(float("inf") if timeout is None else timeout):
            try:
                return _Stream(await self._connect(host, port, False))
            except OSError as error:
                raise httpcore.ConnectError(str(error)) from error
        raise httpcore.ConnectTimeout("no connection")

    async def sleep(self, seconds: float) -> None:
        await trio.sleep(seconds)


class _Stream(httpcore.AsyncNetworkStream):
    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with trio.move_on_after(float("inf") if timeout is None else timeout):
            try:
                return bytes(await self._stream.receive_some(max_bytes))
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise httpcore.ReadError(str(error)) from error
        raise httpcore.ReadTimeout("nothing came")

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        with trio.move_on_after(float("inf") if timeout is None else timeout):
            try:
                await self._stream.send_all(buffer)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise httpcore.WriteError(str(error)) from error
            return
        raise httpcore.WriteTimeout("nobody reads")

    async def aclose(self) -> None:
        await trio.aclose_forcefully(self._stream)

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        raise httpcore.ConnectError("there is no TLS in memory")

    def get_extra_info(self, info: str) -> Any:
        return False if info == "is_readable" else None
