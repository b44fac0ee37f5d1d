"""The server in memory as a tree of tasks.

    serve_in_memory      the body of `async with serve_in_memory(...)`
    `- connection xN     hypercorn's protocols and the application, from a stream in memory

Everything but the network is what `duplex-trio serve` runs behind its HTTP server: the application with its
keys, limits and routes, and hypercorn with our protections. Of the two ways in which that serves WebSockets
this is the one through ASGI (`--ws asgi`); the other needs a socket.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx
import trio
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import LifespanState
from hypercorn.utils import wrap_app

from duplex_trio.entrypoints.omni_base import AsyncOmniBase
from duplex_trio.entrypoints.video_omni import VideoOmni
from duplex_trio.serving.guards import GuardedTCPServer, install_guards
from duplex_trio.serving.http_config import ServerConfig
from duplex_trio.serving.options import ServeOptions
from duplex_trio.serving.run import make_app
from duplex_trio.testing.memory.http import http_transport
from duplex_trio.testing.memory.streams import HOST, MemoryStream, memory_connection


class MemoryServer:
    """A server without a port.

    ```python
    async with scripted_omni() as omni, serve_in_memory(omni) as server:
        async with DuplexClient(server.url, connect=server.connect) as client:
            ...
        async with server.http_client() as http:
            print((await http.get("/health")).json())
    ```

    Args:
        app: the ASGI application.
        nursery: where connections live.

    Attributes:
        url: the URL for clients; only `connect` knows where it leads.
        app: the ASGI application.
    """

    url = f"ws://{HOST}"

    def __init__(self, app: Any, nursery: trio.Nursery) -> None:
        self.app = app
        self._wrapped = wrap_app(app, 0, "asgi")
        self._config = ServerConfig()
        self._context = WorkerContext(None)
        self._nursery = nursery
        self._count = 0
        self._open: dict[int, tuple[MemoryStream, MemoryStream]] = {}
        self._changed = trio.lowlevel.ParkingLot()

    @property
    def connections(self) -> int:
        """How many connections are open now."""
        return len(self._open)

    async def connect(self, _host: str = HOST, _port: int = 80, _tls: bool = False) -> trio.abc.Stream:
        """Open a connection; the `connect` of every client.

        Raises:
            OSError: the server is over.
        """
        await trio.lowlevel.checkpoint()
        if self._nursery.cancel_scope.cancel_called:
            raise ConnectionRefusedError("the server in memory is over")
        self._count += 1
        ours, theirs = memory_connection(self._count)
        self._open[self._count] = ours, theirs
        self._nursery.start_soon(self._serve, self._count, theirs, name=f"connection {self._count}")
        return ours

    def http_client(self, **options: Any) -> httpx.AsyncClient:
        """An HTTP client for the other routes; `options` are httpx's, such as `headers`."""
        return httpx.AsyncClient(transport=http_transport(self.connect), base_url=f"http://{HOST}", **options)

    def drop(self) -> None:
        """Break all connections at once, in both directions and without a close frame, as a network does."""
        for ends in self._open.values():
            for end in ends:
                end.lose()

    async def closed(self) -> None:
        """Wait until no connection is left, and the server has done with the last one."""
        while self._open:
            await self._changed.park()

    async def _serve(self, number: int, stream: MemoryStream) -> None:
        try:
            # It asks of its stream what is declared here, and takes one without a handshake for TCP.
            await GuardedTCPServer(
                self._wrapped, self._config, self._context, cast(LifespanState, {}), cast(Any, stream)
            ).run()
        finally:
            stream.lose()
            del self._open[number]
            self._changed.unpark_all()


@asynccontextmanager
async def serve_in_memory(
    omni: AsyncOmniBase, options: ServeOptions | None = None, *, video: VideoOmni | None = None
) -> AsyncIterator[MemoryServer]:
    """Serve a running engine without a port until the block ends; connections that are open then are broken.

    An error of the block's own comes out as it is. Works under a mock clock as long as the engine does: one
    from `scripted_omni` has no threads.

    Args:
        omni: the engine, running.
        options: how to serve, such as `ServeOptions(api_keys=("secret",))`; what concerns ports and signals
            has no effect.
        video: an engine of video to be served beside it.

    Raises:
        GuardsUnavailableError: the installed hypercorn is not the one this was written for.
    """
    install_guards()
    failed: Exception | None = None
    async with trio.open_nursery() as nursery:
        server = MemoryServer(make_app(omni, options or ServeOptions(), video=video), nursery)
        try:
            yield server
        except Exception as error:
            failed = error
        finally:
            server.drop()
            nursery.cancel_scope.cancel()
    if failed is not None:
        raise failed
