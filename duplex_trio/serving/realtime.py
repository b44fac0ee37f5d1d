"""One WebSocket and its session: the handshake, the reader, and what its end means to the session.

Transport only. The reader decodes a message, hands it over synchronously, and reads the next; it waits only
for a session that has not worked off what it was given. Nothing here writes while the session is open except
the session's egress, through `SocketAttachment`. A session that another socket has taken over gets nothing
more from this one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from duplex_trio.engine import DuplexSessionHandle, JournalGapError
from duplex_trio.entrypoints.client_messages import read_text, take_message
from duplex_trio.protocol.duplex import RealtimeError, SessionResume
from duplex_trio.serving import envelope
from duplex_trio.serving.attachments import DuplexSessionAttachmentRegistry, new_grant
from duplex_trio.serving.channel import ChannelClosedError, WebSocketChannel, trace_headers
from duplex_trio.serving.envelope import Handshake, OpenSession, RefuseSession, ResumeSession
from duplex_trio.serving.session_log import SessionLog
from duplex_trio.serving.socket_attachment import SocketAttachment

if TYPE_CHECKING:
    from duplex_trio.entrypoints.duplex_omni import DuplexOmni
    from duplex_trio.serving.deployment import Deployment


class RealtimeConnection:
    """A WebSocket of the realtime routes, from the accepted upgrade to its end.

    Args:
        omni: whose sessions are opened.
        deployment: tells whether the server is on its way out.
        handshake: what the request asked for.
        channel: the WebSocket.
        config_timeout_s: how long a client may keep a session that it opens itself waiting.
        attachments: knows the sessions that a client may come back to.
        log: takes the lines of this connection.
    """

    def __init__(
        self,
        omni: DuplexOmni,
        deployment: Deployment,
        handshake: Handshake,
        channel: WebSocketChannel,
        *,
        config_timeout_s: float,
        attachments: DuplexSessionAttachmentRegistry,
        log: SessionLog,
    ) -> None:
        self._omni = omni
        self._deployment = deployment
        self._handshake = handshake
        self._channel = channel
        self._config_timeout_s = config_timeout_s
        self._attachments = attachments
        self._log = log
        self._generation = 0
        self._confirmed = True
        self._heard_s = trio.current_time()
        self.attachment = SocketAttachment(channel, handshake.dialect, new_grant(1), log)

    async def open(self) -> DuplexSessionHandle | None:
        """Do what comes before the session, and open or resume it; None when the connection ended instead."""
        opening: OpenSession | ResumeSession | RefuseSession | None = OpenSession()
        if not self._handshake.opens_at_once:
            opening = await self._first_message()
        try:
            match opening:
                case OpenSession():
                    return await self._open(opening)
                case ResumeSession(request):
                    return self._resume(request)
                case RefuseSession(error):
                    await self._refuse(error)
        except RealtimeError as error:
            await self._refuse(error)
        except JournalGapError as gap:
            assert isinstance(opening, ResumeSession)
            self._log.refused("journal_gap", str(gap))
            await self.attachment.refuse_resync(opening.request.session_id)
        return None

    async def read(self, handle: DuplexSessionHandle) -> None:
        """Hand everything the client sends to the session, until the client leaves."""
        try:
            while True:
                text = await self._channel.receive()
                self._heard_s = trio.current_time()
                if handle.generation == self._generation:
                    self._confirm(handle)
                    self._take(handle, text)
                if handle.crowded:
                    await handle.ready()
        except ChannelClosedError as closed:
            self._lose(closed.code)

    async def watch_silence(self, handle: DuplexSessionHandle) -> None:
        """Wait for a client that brings nothing for as long as its session lets it; it counts as gone then."""
        while (deadline_s := self._heard_s + handle.idle_timeout_s) > trio.current_time():
            with trio.move_on_at(deadline_s):
                await handle.wait_patience_changed()
        self._log.silent(handle.idle_timeout_s)
        handle.disconnected(self._generation)
        await self.attachment.close(1000, "idle_timeout")

    async def close_with(self, handle: DuplexSessionHandle) -> None:
        """Wait for the session's end, and close if the session could not do so itself."""
        end = await handle.wait_closed()
        await self.attachment.close(end.code, end.reason)

    def leave(self, handle: DuplexSessionHandle) -> None:
        """Whatever ended the connection: the session cannot write to it any more."""
        self.attachment.lose()
        handle.disconnected(self._generation)

    async def _open(self, opening: OpenSession) -> DuplexSessionHandle:
        try:
            handle = await self._omni.open_session(
                dialect=self._handshake.dialect.session_name,
                patch=opening.patch,
                model=self._handshake.model or self._deployment.model_name,
                attachment=self.attachment,
                trace_headers=trace_headers(self._channel.request.headers),
            )
        except RealtimeError as error:
            raise error.with_event_id(opening.event_id) from None
        self._generation = handle.generation
        self._log.attached(handle.session_id, **handle.trace.log_fields)
        if handle.resumable:
            self._attachments.register(handle, self.attachment.grant)
        if opening.complaint is not None:
            handle.refuse(opening.complaint)
        if opening.command is not None:
            take_message(handle, opening.command)
        return handle

    def _resume(self, request: SessionResume) -> DuplexSessionHandle:
        try:
            handle = self._attachments.resume(request, self.attachment)
        except RealtimeError as error:
            raise error.with_event_id(request.event_id) from None
        self._generation, self._confirmed = handle.generation, False
        self._log.bind(**handle.trace.log_fields)
        self._log.resumed(handle.session_id, self.attachment.grant.attachment_generation)
        return handle

    def _confirm(self, handle: DuplexSessionHandle) -> None:
        if not self._confirmed:
            self._confirmed = True
            self._attachments.confirm(handle.session_id)

    async def _refuse(self, error: RealtimeError) -> None:
        self._log.refused(error.code, error.message)
        await self.attachment.refuse(error)

    def _take(self, handle: DuplexSessionHandle, text: str | None) -> None:
        if text is None:
            handle.refuse(envelope.binary_message())
        elif (message := read_text(handle, text)) is not None:
            take_message(handle, message)

    async def _first_message(self) -> OpenSession | ResumeSession | RefuseSession | None:
        undecided = self._deployment.undecided
        with trio.move_on_after(self._config_timeout_s) as scope:
            undecided.add(scope)
            try:
                text = await self._channel.receive()
            except ChannelClosedError as closed:
                self._lose(closed.code)
                return None
            finally:
                undecided.discard(scope)
            if text is None:
                return RefuseSession(envelope.binary_message())
            return envelope.read_first_message(self._handshake, text)
        if self._deployment.draining:
            return envelope.shutting_down()
        return envelope.config_timeout(self._config_timeout_s)

    def _lose(self, code: int) -> None:
        self.attachment.lose()
        self._log.disconnected(code)
