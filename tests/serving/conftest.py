"""A real hypercorn with the guards, on a port of its own, for ASGI applications under test."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import hypercorn.trio
import pytest
import trio
from attrs import Factory, define

from duplex_trio.serving.guards import install_guards
from duplex_trio.serving.http_config import ServerConfig
from duplex_trio.testing.raw_websocket import RawWebSocket, upgrade_request

App = Callable[[Any, Any, Any], Awaitable[None]]


def with_lifespan(app: App) -> App:
    async def outer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return
        for _ in range(2):
            message = await receive()
            await send({"type": message["type"] + ".complete"})

    return outer


@define
class Server:
    """A running server, and the raw clients a test opened to it."""

    port: int
    clients: list[RawWebSocket] = Factory(list)

    async def connect(self) -> RawWebSocket:
        """Open TCP and say nothing."""
        client = await RawWebSocket.open(self.port)
        self.clients.append(client)
        return client

    async def upgrade(self, target: str = "/", headers: dict[str, str] | None = None) -> RawWebSocket:
        """Open a WebSocket."""
        client = await self.connect()
        await client.send(upgrade_request(target, headers))
        status, _ = await client.response_head()
        assert status == 101
        return client

    async def aclose(self) -> None:
        """Drop what is still open."""
        for client in self.clients:
            await client.aclose()


@asynccontextmanager
async def serving(app: App, **settings: Any) -> AsyncIterator[Server]:
    """Serve `app` until the block ends."""
    install_guards()
    config = ServerConfig()
    config.bind = ["127.0.0.1:0"]
    for name, value in settings.items():
        assert hasattr(config, name)
        setattr(config, name, value)
    async with trio.open_nursery() as nursery:
        binds = await nursery.start(partial(hypercorn.trio.serve, with_lifespan(app), config))
        server = Server(int(binds[0].rsplit(":", 1)[1]))
        try:
            yield server
        finally:
            with trio.CancelScope(shield=True):
                await server.aclose()
            nursery.cancel_scope.cancel()


@pytest.fixture
def serve_app() -> Any:
    return serving
