"""HTTP requests of a deployment: who may come in, what pages may read, and which route answers."""

from __future__ import annotations

from attrs import frozen

from duplex_trio.serving import cors
from duplex_trio.serving.asgi import Receive, Scope, Send, respond
from duplex_trio.serving.auth import AccessPolicy
from duplex_trio.serving.deployment import Deployment
from duplex_trio.serving.paths import CHAT_PATH
from duplex_trio.serving.request_body import discard_body
from duplex_trio.serving.responses import refusal_response
from duplex_trio.serving.routes import respond_to


@frozen(kw_only=True)
class HttpEndpoint:
    """What HTTP requests of one deployment are served with.

    Attributes:
        deployment: what is served.
        access: who may come in.
    """

    deployment: Deployment
    access: AccessPolicy

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        method, path, headers = scope["method"], scope["path"], scope["headers"]
        page = self.access.page_origin(headers)
        if page is not None:
            send = cors.readable_by(page, send)
            if cors.is_preflight(method, headers):
                # It carries no key; what follows it does.
                await discard_body(receive)
                await respond(send, 204, b"", cors.preflight_headers(headers))
                return
        refusal = self.access.check(path, headers)
        service = self.deployment.service
        asks = refusal is None and (method, path) == ("POST", CHAT_PATH)
        if asks and service is not None and service.chat is not None and service.has_chats:
            await service.chat.serve(scope, receive, send)
            return
        await discard_body(receive)
        if refusal is not None:
            response = refusal_response(refusal)
        else:
            trusted = self.access.trusts(headers)
            response = respond_to(self.deployment, method, path, headers, trusted=trusted)
        await respond(send, response.status, response.body, response.headers)
