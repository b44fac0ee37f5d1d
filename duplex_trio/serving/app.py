"""The ASGI application: who may come in, and what each request gets. No framework, no session state.

HTTP answers are `routes`', the WebSocket session is `realtime`'s. Any ASGI server on Trio can run it; the
protections that hypercorn needs are `guards`'.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from attrs import Factory, frozen

from duplex_trio.engine import DuplexSessionHandle
from duplex_trio.protocol.dialects import Dialect
from duplex_trio.protocol.duplex import RealtimeError
from duplex_trio.serving import asgi, envelope
from duplex_trio.serving.asgi import Header, Receive, Scope, Send
from duplex_trio.serving.attachments import DuplexSessionAttachmentRegistry, new_grant
from duplex_trio.serving.auth import AccessPolicy, Refusal
from duplex_trio.serving.envelope import Unavailable
from duplex_trio.serving.realtime import RealtimeConnection
from duplex_trio.serving.routes import Deployment, error_body, respond_to
from duplex_trio.serving.session_log import SessionLog
from duplex_trio.serving.socket_attachment import SocketAttachment

ConnectionRunner = Callable[[RealtimeConnection, DuplexSessionHandle], Awaitable[None]]


@frozen(kw_only=True)
class RealtimeApp:
    """The application of one deployment.

    Attributes:
        deployment: what is served.
        attachments: the sessions that clients may come back to.
        run_connection: serves an open session until the socket or the session ends.
        access: who may come in.
        config_timeout_s: how long a client that opens its session itself may wait with its first message.
        log_transcripts: write what was said into the log.
    """

    deployment: Deployment
    attachments: DuplexSessionAttachmentRegistry
    run_connection: ConnectionRunner
    access: AccessPolicy = Factory(AccessPolicy)
    config_timeout_s: float = 10.0
    log_transcripts: bool = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection, as ASGI defines it."""
        match scope["type"]:
            case "http":
                await self._http(scope, receive, send)
            case "websocket":
                await self._websocket(scope, receive, send)
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
            await asgi.respond_json(send, refusal.status, *_refusal_answer(refusal))
            return
        response = respond_to(self.deployment, scope["method"], scope["path"])
        await asgi.respond(send, response.status, response.body, response.headers)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        subprotocols = scope.get("subprotocols", ())
        log = SessionLog(transcripts=self.log_transcripts, client=_address(scope), path=scope["path"])
        refusal = self.access.check(scope["path"], scope["headers"], subprotocols)
        if refusal is not None:
            log.refused(refusal.code, refusal.message)
            await asgi.deny_websocket(scope, send, refusal.status, *_refusal_answer(refusal))
            return
        asked = envelope.read_handshake(scope["path"], scope["query_string"], scope["headers"], subprotocols)
        await send({"type": "websocket.accept", "subprotocol": asked.subprotocol})
        if isinstance(asked, Unavailable):
            log.refused("unsupported", asked.message)
            attachment = SocketAttachment(send, Dialect.DUPLEX, new_grant(1), log)
            await attachment.refuse(RealtimeError("unsupported", asked.message))
            return
        log.bind(dialect=str(asked.dialect))
        connection = RealtimeConnection(
            self.deployment,
            asked,
            receive,
            send,
            config_timeout_s=self.config_timeout_s,
            attachments=self.attachments,
            log=log,
        )
        handle = await connection.open()
        if handle is not None:
            await self.run_connection(connection, handle)


def _refusal_answer(refusal: Refusal) -> tuple[dict[str, Any], list[Header]]:
    body = error_body("invalid_request_error", refusal.code, refusal.message)
    return body, [(b"www-authenticate", b"Bearer")] if refusal.status == 401 else []


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return f"{client[0]}:{client[1]}" if client else "unknown"
