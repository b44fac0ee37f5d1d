"""The relay: a listener, and two tasks for each connection that pass bytes on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
from attrs import Factory, define

from duplex_trio.testing.tap.reading import Side, TappedConnection

CHUNK_BYTES = 65536


@define(eq=False)
class WireTap:
    """Where clients connect instead of the server, and what passed there.

    Args:
        target_port: the server's port on loopback.
    """

    target_port: int
    port: int = 0
    connections: list[TappedConnection] = Factory(list)

    async def relay(self, client: trio.SocketStream) -> None:
        """Connect to the server and pass on what either side says until one of them leaves."""
        server = await trio.open_tcp_stream("127.0.0.1", self.target_port)
        connection = TappedConnection()
        self.connections.append(connection)
        async with server, client, trio.open_nursery() as nursery:
            nursery.start_soon(_pass_on, connection, "client", client, server)
            nursery.start_soon(_pass_on, connection, "server", server, client)


async def _pass_on(
    connection: TappedConnection, side: Side, source: trio.SocketStream, sink: trio.SocketStream
) -> None:
    try:
        async for data in source:
            connection.take(side, bytes(data), trio.current_time())
            await sink.send_all(data)
        await sink.send_eof()
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        # One side is gone. The other one learns it by the end of its stream.
        await sink.aclose()


@asynccontextmanager
async def open_tap(target_port: int) -> AsyncIterator[WireTap]:
    """Listen on a free loopback port and relay to the server at `target_port` until the block ends."""
    tap = WireTap(target_port)
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        tap.port = listeners[0].socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, tap.relay, listeners)
        try:
            yield tap
        finally:
            nursery.cancel_scope.cancel()
