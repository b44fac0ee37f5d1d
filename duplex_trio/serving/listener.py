"""The port that hypercorn and the native WebSockets share (decision D17).

hypercorn owns the port, HTTP and the lifecycle. One name of it, its class for a TCP connection, is replaced by
one that reads the head of the first request: a WebSocket of ours is taken away from hypercorn, and everything
else goes on to it with every byte. Where that name is not what it was, `install_hook` says so, and WebSockets
are served through the ASGI application.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog
import trio
from attrs import frozen
from hypercorn.events import RawData
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.utils import parse_socket_addr

from duplex_trio.serving.channel import UpgradeRequest, WebSocketChannel
from duplex_trio.serving.guards import GuardedTCPServer, replace
from duplex_trio.serving.native.head import HEAD_MAX_BYTES, HeadReader, Verdict
from duplex_trio.serving.native.pipes import RECEIVE_BYTES, Pipe, TcpPipe, TlsPipe
from duplex_trio.serving.responses import Response
from duplex_trio.serving.upgrade import check_upgrade, early_data, offered_subprotocols

log = structlog.get_logger("duplex_trio.http")

Stream = trio.SocketStream | trio.SSLStream[trio.SocketStream]
Serve = Callable[[WebSocketChannel], Awaitable[None]]
NativeRunner = Callable[[Pipe, UpgradeRequest, Serve], Awaitable[None]]
"""Runs a native channel over a pipe and lets the last argument serve it."""


@frozen
class _Upgrade:
    """A request for a WebSocket of ours, and why it is refused if it is."""

    request: UpgradeRequest
    refusal: Response | None


class NativeDoor:
    """Meets the connections of one server before hypercorn does.

    Args:
        run_native: runs the channel of a WebSocket of ours.
        serve: serves it.
        head_timeout_s: how long a head may take. Who has not begun one by then is hypercorn's.
        tls_timeout_s: how long the handshake of TLS may take.
    """

    def __init__(
        self, run_native: NativeRunner, serve: Serve, *, head_timeout_s: float, tls_timeout_s: float
    ) -> None:
        self._run_native = run_native
        self._serve = serve
        self._head_timeout_s = head_timeout_s
        self._tls_timeout_s = tls_timeout_s
        self._buffer = bytearray(RECEIVE_BYTES)
        self._waiting: set[trio.CancelScope] = set()

    def stop_waiting(self) -> None:
        """Let go of connections that have not asked for anything yet."""
        for scope in self._waiting:
            scope.cancel()

    async def meet(self, stream: Stream) -> bytes | None:
        """Serve a connection that is ours to its end; otherwise return what was read of it, for hypercorn.

        None means that the connection is done with.
        """
        try:
            met = await self._read_head(stream)
        except trio.BrokenResourceError:
            return None
        if isinstance(met, _Upgrade):
            await self._serve_native(stream, met)
            return None
        return met

    async def _read_head(self, stream: Stream) -> _Upgrade | bytes | None:
        reader = HeadReader()
        with trio.CancelScope() as stopped:
            self._waiting.add(stopped)
            try:
                if isinstance(stream, trio.SSLStream) and not await self._speaks_http1(stream):
                    return b""
                with trio.move_on_after(self._head_timeout_s):
                    verdict = Verdict.OPEN
                    while verdict is Verdict.OPEN:
                        verdict = reader.feed(bytes(await stream.receive_some(HEAD_MAX_BYTES)))
                    return bytes(reader.raw) if verdict is Verdict.NOT_OURS else _read_upgrade(stream, reader)
                return None if reader.raw else b""
            finally:
                self._waiting.discard(stopped)
        return None

    async def _speaks_http1(self, stream: trio.SSLStream[trio.SocketStream]) -> bool:
        with trio.move_on_after(self._tls_timeout_s):
            await stream.do_handshake()
            return bool(stream.selected_alpn_protocol() != "h2")
        raise trio.BrokenResourceError("no TLS handshake")

    async def _serve_native(self, stream: Stream, upgrade: _Upgrade) -> None:
        pipe = TlsPipe(stream) if isinstance(stream, trio.SSLStream) else TcpPipe(stream, self._buffer)
        serve = self._serve if upgrade.refusal is None else _denying(upgrade.refusal)
        try:
            await self._run_native(pipe, upgrade.request, serve)
        finally:
            with trio.CancelScope(shield=True):
                await pipe.aclose()


class ListeningTCPServer(GuardedTCPServer):
    """One TCP connection to the port: a native WebSocket, or hypercorn's."""

    async def run(self) -> None:
        """Serve the connection until it ends."""
        self._read_already = b""
        if self.config.door is not None:
            met = None
            try:
                met = await self.config.door.meet(self.stream)
            except* Exception as group:  # the border: any fault ends this peer only
                log.exception("http.connection_failed", exc_info=group)
            if met is None:
                return
            self._read_already = met
        await super().run()

    async def _read_data(self) -> None:
        if self._read_already:
            data, self._read_already = self._read_already, b""
            await self.protocol.handle(RawData(data))
        await super()._read_data()


def install_hook() -> None:
    """Replace hypercorn's class for a TCP connection, for servers that run with `ServerConfig`.

    May be called any number of times.

    Raises:
        GuardsUnavailableError: hypercorn has no such class where it was, or another one.
    """
    needed = ("run", "protocol_send", "_read_data")
    replace("hypercorn.trio.run", "TCPServer", TCPServer, ListeningTCPServer, needed)


def _denying(refusal: Response) -> Serve:
    async def deny(channel: WebSocketChannel) -> None:
        await channel.deny(refusal.status, refusal.body, refusal.headers)

    return deny


def _read_upgrade(stream: Stream, reader: HeadReader) -> _Upgrade:
    """What is kept of a head; the rest of it goes with its reader."""
    refusal = check_upgrade(reader.headers)
    if refusal is None and reader.early:
        refusal = early_data()
    socket = (stream.transport_stream if isinstance(stream, trio.SSLStream) else stream).socket
    path, _, query = reader.target.partition(b"?")
    try:
        peer = parse_socket_addr(socket.family, socket.getpeername())
    except OSError:  # it has gone already
        peer = None
    request = UpgradeRequest(
        path=path.decode(),
        query=query,
        headers=reader.headers,
        subprotocols=offered_subprotocols(reader.headers),
        client=f"{peer[0]}:{peer[1]}" if peer else "unknown",
    )
    return _Upgrade(request, refusal)
