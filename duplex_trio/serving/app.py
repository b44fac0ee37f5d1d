"""The ASGI application: who may come in, and what each request gets. No framework, no session state.

HTTP answers are `routes`', WebSockets are `endpoint`'s. Any ASGI server on Trio can run it; the protections
that hypercorn needs are `guards`'.
"""

from __future__ import annotations

from attrs import frozen

from duplex_trio.serving import asgi
from duplex_trio.serving.asgi import Receive, Scope, Send
from duplex_trio.serving.asgi_channel import AsgiChannel
from duplex_trio.serving.auth import AccessPolicy
from duplex_trio.serving.endpoint import RealtimeEndpoint
from duplex_trio.serving.routes import Deployment, refusal_response, respond_to


@frozen(kw_only=True)
class RealtimeApp:
    """The application of one deployment.

    Attributes:
        deployment: what is served.
        realtime: serves its WebSockets.
        access: who may come in.
    """

    deployment: Deployment
    realtime: RealtimeEndpoint
    access: AccessPolicy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection, as ASGI defines it."""
        match scope["type"]:
            case "http":
                await self._http(scope, receive, send)
            case "websocket":
                await receive()  # websocket.connect
                await self.realtime.serve(AsgiChannel(scope, receive, send))
            case "lifespan":
                await self._lifespan(receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        await asgi.discard_body(receive)
        refusal = self.access.check(scope["path"], scope["headers"])
        if refusal is not None:
            response = refusal_response(refusal)
        else:
            response = respond_to(self.deployment, scope["method"], scope["path"])
        await asgi.respond(send, response.status, response.body, response.headers)
