"""One WebSocket and its session: the handshake, the reader, and the attachment that the session writes through.

Transport only. The reader decodes a message, hands it over synchronously, and reads the next; it waits only
for a session that has not worked off what it was given. Nothing here writes while the session is open except
the session's egress, through `SocketAttachment`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import trio

from duplex_trio.engine import Attachment, DuplexSessionHandle
from duplex_trio.protocol.dialects import Dialect, render
from duplex_trio.protocol.duplex import (
    ClientMessage,
    DuplexEvent,
    ErrorEvent,
    RealtimeError,
    SessionEventAck,
    SessionResume,
    decode_command,
)
from duplex_trio.serving import envelope
from duplex_trio.serving.asgi import Message, Receive, Send
from duplex_trio.serving.envelope import Handshake, OpenSession, RefuseSession
from duplex_trio.serving.session_log import SessionLog

if TYPE_CHECKING:
    from duplex_trio.serving.routes import Deployment


class SocketAttachment(Attachment):
    """Writes a session's events to one WebSocket, in the client's dialect. Never called twice at a time."""

    def __init__(self, send: Send, dialect: Dialect, log: SessionLog) -> None:
        self._send = send
        self._dialect = dialect
        self._log = log
        self._gone = False

    async def send(self, event: DuplexEvent) -> None:
        """Write one event; nothing if the dialect has no name for it.

        Raises:
            trio.BrokenResourceError: the client is gone.
        """
        if self._gone:
            raise trio.BrokenResourceError("the WebSocket is closed")
        self._log.event(event)
        text = render(event, self._dialect)
        if text is None:
            await trio.lowlevel.checkpoint()
        else:
            await self._send({"type": "websocket.send", "text": text.decode()})

    async def close(self, code: int, reason: str) -> None:
        """Send a close frame, unless the client is gone or has one already."""
        if self._gone:
            await trio.lowlevel.checkpoint()
            return
        self._gone = True
        await self._send({"type": "websocket.close", "code": code, "reason": envelope.close_reason(reason)})

    async def refuse(self, error: RealtimeError) -> None:
        """Say why there will be no session, and close."""
        await self.send(ErrorEvent.from_error(error, event_id=f"event_{uuid4().hex}"))
        await self.close(envelope.close_code(error), error.code)

    def lose(self) -> None:
        """The client is gone: nothing more can be written."""
        self._gone = True


class RealtimeConnection:
    """A WebSocket of the realtime routes, from the accepted upgrade to its end.

    Args:
        deployment: whose sessions are opened.
        handshake: what the request asked for.
        receive: the ASGI channel to read from.
        send: the ASGI channel to write to.
        config_timeout_s: how long a client may keep a session that it opens itself waiting.
        log: takes the lines of this connection.
    """

    def __init__(
        self,
        deployment: Deployment,
        handshake: Handshake,
        receive: Receive,
        send: Send,
        *,
        config_timeout_s: float,
        log: SessionLog,
    ) -> None:
        self._deployment = deployment
        self._handshake = handshake
        self._receive = receive
        self._config_timeout_s = config_timeout_s
        self._log = log
        self.attachment = SocketAttachment(send, handshake.dialect, log)

    async def open(self) -> DuplexSessionHandle | None:
        """Do what comes before the session, and open it; None when the connection ended instead."""
        opening: OpenSession | RefuseSession | None = OpenSession()
        if not self._handshake.opens_at_once:
            opening = await self._first_message()
        if isinstance(opening, RefuseSession):
            await self._refuse(opening.error)
        if not isinstance(opening, OpenSession):
            return None
        try:
            handle = await self._deployment.omni.open_session(
                dialect=self._handshake.dialect.session_name,
                patch=opening.patch,
                model=self._handshake.model or self._deployment.model_name,
                attachment=self.attachment,
            )
        except RealtimeError as error:
            await self._refuse(error)
            return None
        self._log.attached(handle.session_id)
        if opening.complaint is not None:
            handle.refuse(opening.complaint)
        if opening.command is not None:
            self._dispatch(handle, opening.command)
        return handle

    async def read(self, handle: DuplexSessionHandle) -> None:
        """Hand everything the client sends to the session, until the client leaves."""
        while (message := await self._receive())["type"] != "websocket.disconnect":
            self._take(handle, message.get("text"))
            await handle.ready()
        self._lose(message)

    async def close_with(self, handle: DuplexSessionHandle) -> None:
        """Wait for the session's end, and close if the session could not do so itself."""
        end = await handle.wait_closed()
        await self.attachment.close(end.code, end.reason)

    def leave(self, handle: DuplexSessionHandle) -> None:
        """Whatever ended the connection: the session cannot write to it any more."""
        self.attachment.lose()
        handle.disconnected()

    async def _refuse(self, error: RealtimeError) -> None:
        self._log.refused(error.code, error.message)
        await self.attachment.refuse(error)

    def _take(self, handle: DuplexSessionHandle, text: str | None) -> None:
        if text is None:
            handle.refuse(envelope.binary_message())
            return
        try:
            command = decode_command(text)
        except RealtimeError as error:
            handle.refuse(error)
        else:
            self._dispatch(handle, command)

    def _dispatch(self, handle: DuplexSessionHandle, command: ClientMessage) -> None:
        match command:
            case SessionResume():
                handle.refuse(
                    RealtimeError(
                        "unsupported_session_resume",
                        "only the first message of a connection can resume a session",
                        event_id=command.event_id,
                    )
                )
            case SessionEventAck(server_event_seq=seq):
                if seq > 0:
                    handle.refuse(
                        RealtimeError(
                            "invalid_event_ack",
                            "no event of this session has a sequence number",
                            param="server_event_seq",
                            event_id=command.event_id,
                        )
                    )
            case _:
                handle.submit(command)

    async def _first_message(self) -> OpenSession | RefuseSession | None:
        with trio.move_on_after(self._config_timeout_s):
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                self._lose(message)
                return None
            text = message.get("text")
            if text is None:
                return RefuseSession(envelope.binary_message())
            return envelope.read_first_message(self._handshake, text)
        return envelope.config_timeout(self._config_timeout_s)

    def _lose(self, message: Message) -> None:
        self.attachment.lose()
        self._log.disconnected(message.get("code", 1006))
