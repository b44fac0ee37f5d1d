"""The ASGI application: which part of the server a connection goes to. No framework, no session state.

HTTP requests are `http`'s, WebSockets are `entrance`'s. Any ASGI server on Trio can run it; the protections
that hypercorn needs are `guards`'.
"""

from __future__ import annotations

from attrs import frozen

from duplex_trio.serving.asgi import Receive, Scope, Send
from duplex_trio.serving.asgi_channel import AsgiChannel
from duplex_trio.serving.deployment import Deployment
from duplex_trio.serving.entrance import SocketEntrance
from duplex_trio.serving.http import HttpEndpoint


@frozen(kw_only=True)
class RealtimeApp:
    """The application of one deployment.

    Attributes:
        deployment: what is served.
        sockets: serves its WebSockets.
        http: serves its other routes.
    """

    deployment: Deployment
    sockets: SocketEntrance
    http: HttpEndpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection, as ASGI defines it."""
        match scope["type"]:
            case "http":
                await self.http.serve(scope, receive, send)
            case "websocket":
                await receive()  # websocket.connect
                await self.sockets.serve(AsgiChannel(scope, receive, send))
            case "lifespan":
                await self._lifespan(receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
