"""httpx over streams in memory: no socket, so that time-outs run under a mock clock, with all of its real parts.

The streams hold nothing back: whoever sends waits until the other side reads.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import httpcore
import httpx
import trio
import trio.testing

if TYPE_CHECKING:
    from duplex_trio.testing.http_faults.run import FaultEngine


def memory_transport(engine: FaultEngine, start_soon: Callable[..., None]) -> httpx.AsyncHTTPTransport:
    """A transport whose every connection leads to a scripted engine.

    Args:
        engine: the engine.
        start_soon: starts what serves a connection.
    """
    transport = httpx.AsyncHTTPTransport(trust_env=False, verify=False)
    # httpx has no public way to the network below it.
    transport._pool = httpcore.AsyncConnectionPool(
        network_backend=_MemoryNetwork(engine, start_soon), max_connections=None, keepalive_expiry=4.0
    )
    return transport


class _MemoryNetwork(httpcore.AsyncNetworkBackend):
    def __init__(self, engine: FaultEngine, start_soon: Callable[..., None]) -> None:
        self._engine = engine
        self._start_soon = start_soon

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        with trio.move_on_after(float("inf") if timeout is None else timeout):
            await trio.lowlevel.checkpoint()
            if self._engine.deaf:
                await trio.sleep_forever()
            if not self._engine.up:
                raise httpcore.ConnectError("connection refused")
            ours, theirs = trio.testing.lockstep_stream_pair()
            self._start_soon(self._engine.serve, theirs)
            return _MemoryStream(ours)
        raise httpcore.ConnectTimeout("no connection")

    async def sleep(self, seconds: float) -> None:
        await trio.sleep(seconds)


class _MemoryStream(httpcore.AsyncNetworkStream):
    def __init__(self, stream: trio.StapledStream[Any, Any]) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            return bytes(await self._stream.receive_some(max_bytes))
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise httpcore.ReadError(str(error)) from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        try:
            await self._stream.send_all(buffer)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise httpcore.WriteError(str(error)) from error

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        raise httpcore.ConnectError("there is no TLS in memory")

    def get_extra_info(self, info: str) -> Any:
        return False if info == "is_readable" else None
