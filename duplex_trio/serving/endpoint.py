"""The realtime WebSocket of a deployment of sessions: what each request for one gets.

One code for every transport: what carries the WebSocket is behind a `WebSocketChannel`. The session is
`realtime`'s.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from attrs import frozen

from duplex_trio.engine import DuplexSessionHandle
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.serving import envelope
from duplex_trio.serving.absent import refuse_socket
from duplex_trio.serving.attachments import DuplexSessionAttachmentRegistry
from duplex_trio.serving.channel import WebSocketChannel
from duplex_trio.serving.deployment import Deployment
from duplex_trio.serving.envelope import Unavailable
from duplex_trio.serving.realtime import RealtimeConnection
from duplex_trio.serving.session_log import SessionLog

ConnectionRunner = Callable[[RealtimeConnection, DuplexSessionHandle], Awaitable[None]]


@frozen(kw_only=True)
class RealtimeEndpoint:
    """What WebSockets of one deployment are served with.

    Attributes:
        omni: the engine.
        deployment: what is served.
        attachments: the sessions that clients may come back to.
        run_connection: serves an open session until the socket or the session ends.
        config_timeout_s: how long a client that opens its session itself may wait with its first message.
        log_transcripts: write what was said into the log.
    """

    omni: DuplexOmni
    deployment: Deployment
    attachments: DuplexSessionAttachmentRegistry
    run_connection: ConnectionRunner
    config_timeout_s: float
    log_transcripts: bool

    async def serve(self, channel: WebSocketChannel) -> None:
        """Serve one WebSocket, from the request for it to its end."""
        request = channel.request
        log = SessionLog(transcripts=self.log_transcripts, client=request.client, path=request.path)
        asked = envelope.read_handshake(request.path, request.query, request.headers, request.subprotocols)
        await channel.accept(asked.subprotocol)
        if isinstance(asked, Unavailable):
            await refuse_socket(channel, "unsupported", asked.message)
            return
        log.bind(dialect=str(asked.dialect))
        connection = RealtimeConnection(
            self.omni,
            self.deployment,
            asked,
            channel,
            config_timeout_s=self.config_timeout_s,
            attachments=self.attachments,
            log=log,
        )
        handle = await connection.open()
        if handle is not None:
            await self.run_connection(connection, handle)
