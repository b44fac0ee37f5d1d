"""The relay: a listener, and two tasks for each connection that pass bytes on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import trio
from attrs import Factory, define

from duplex_trio.testing.tap.reading import Side, TappedConnection, TappedMessage

CHUNK_BYTES = 65536


@define(eq=False)
class WireTap:
    """Where clients connect instead of the server, and what passed there.

    Attributes:
        port: where the tap listens on loopback.
        connections: what passed, by connection in the order in which they came.

    Args:
        target_port: the server's port on loopback.
        cuts: types of events at whose passing the connection breaks, one for the first connection, one for the
        second and so on; a connection without one lasts.
    """

    target_port: int
    cuts: Sequence[str] = ()
    port: int = 0
    connections: list[TappedConnection] = Factory(list)
    _news: trio.lowlevel.ParkingLot = Factory(trio.lowlevel.ParkingLot)

    async def wait_passed(self) -> None:
        """Wait until something more has passed."""
        await self._news.park()

    async def relay(self, client: trio.SocketStream) -> None:
        """Connect to the server and pass on what either side says until one of them leaves."""
        server = await trio.open_tcp_stream("127.0.0.1", self.target_port)
        connection = TappedConnection()
        self.connections.append(connection)
        cut = next(iter(self.cuts[len(self.connections) - 1 :]), None)
        async with server, client, trio.open_nursery() as nursery:

            def after(message: TappedMessage) -> None:
                self._news.unpark_all()
                if message.kind == cut:
                    nursery.cancel_scope.cancel()

            nursery.start_soon(_pass_on, connection, "client", client, server, after)
            nursery.start_soon(_pass_on, connection, "server", server, client, after)


async def _pass_on(
    connection: TappedConnection,
    side: Side,
    source: trio.SocketStream,
    sink: trio.SocketStream,
    after: Callable[[TappedMessage], None],
) -> None:
    try:
        async for data in source:
            known = len(connection.messages)
            connection.take(side, bytes(data), trio.current_time())
            new = connection.messages[known:]
            await sink.send_all(data)
            for message in new:
                after(message)
        await sink.send_eof()
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        # One side is gone. The other one learns it by the end of its stream.
        await sink.aclose()


@asynccontextmanager
async def open_tap(target_port: int, *, cuts: Sequence[str] = ()) -> AsyncIterator[WireTap]:
    """Listen on a free loopback port and relay to the server at `target_port` until the block ends.

    Args:
        target_port: the server's port on loopback.
        cuts: events at which connections break, see `WireTap`.
    """
    tap = WireTap(target_port, cuts)
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        tap.port = listeners[0].socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, tap.relay, listeners)
        try:
            yield tap
        finally:
            nursery.cancel_scope.cancel()
