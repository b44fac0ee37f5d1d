"""The attachment that writes a session's events to one WebSocket."""

from __future__ import annotations

from contextlib import suppress
from uuid import uuid4

import trio

from duplex_trio.engine import ResumableAttachment, ResumeGrant
from duplex_trio.entrypoints.client_messages import refusal_close_code
from duplex_trio.protocol.dialects import Dialect, render
from duplex_trio.protocol.duplex import DuplexEvent, ErrorEvent, RealtimeError, SessionResyncRequired
from duplex_trio.serving import envelope
from duplex_trio.serving.channel import WebSocketChannel
from duplex_trio.serving.session_log import SessionLog


class SocketAttachment(ResumableAttachment):
    """Writes to one WebSocket, in the client's dialect. Never called twice at a time.

    Args:
        channel: the WebSocket.
        dialect: how events are written.
        grant: how the attachment is named to the client of a session that can be resumed.
        log: takes what was said, if that is to be logged.
    """

    def __init__(
        self, channel: WebSocketChannel, dialect: Dialect, grant: ResumeGrant, log: SessionLog
    ) -> None:
        self._channel = channel
        self._dialect = dialect
        self._grant = grant
        self._log = log
        self._gone = False
        self._scope: trio.CancelScope | None = None
        self._closed = False

    @property
    def grant(self) -> ResumeGrant:
        """How the attachment is named to its client."""
        return self._grant

    def regrant(self, grant: ResumeGrant) -> None:
        """Give it another name, before it is attached: its socket asks for a session that exists."""
        self._grant = grant

    def caught_up(self) -> None:
        """Note that a client that came back has been sent all it missed."""
        self._log.caught_up()

    def cancel_when_closed(self, scope: trio.CancelScope) -> None:
        """Once the close frame is written, or cannot be, there is nothing left to serve in this scope."""
        self._scope = scope
        if self._closed:
            scope.cancel()

    async def send(self, event: DuplexEvent) -> None:
        """Write one event; nothing if the dialect has no name for it.

        Raises:
            trio.BrokenResourceError: the client is gone.
        """
        self._check_there()
        self._log.event(event)
        text = render(event, self._dialect)
        if text is None:
            await trio.lowlevel.checkpoint()
        else:
            await self._channel.send(text)

    async def send_text(self, text: bytes) -> None:
        """Write one event that is rendered already.

        Raises:
            trio.BrokenResourceError: the client is gone.
        """
        self._check_there()
        self._log.text(text)
        await self._channel.send(text)

    async def close(self, code: int, reason: str) -> None:
        """Send a close frame, unless the client is gone or has one already."""
        if self._gone:
            await trio.lowlevel.checkpoint()
            return
        self._gone = True
        try:
            await self._channel.close(code, envelope.close_reason(reason))
        finally:
            self._closed = True
            if self._scope is not None:
                self._scope.cancel()

    async def refuse(self, error: RealtimeError) -> None:
        """Say why there will be no session, and close; a client that has left need not know."""
        await self._say_last(ErrorEvent.from_error(error, event_id=f"event_{uuid4().hex}"))
        await self.close(refusal_close_code(error), error.code)

    async def refuse_resync(self, session_id: str) -> None:
        """Say that too much was missed to come back to a session, and close; otherwise as `refuse`."""
        gap = SessionResyncRequired(
            event_id=f"event_{uuid4().hex}", session_id=session_id, reason="journal_gap"
        )
        await self._say_last(gap)
        await self.close(1008, gap.reason)

    def lose(self) -> None:
        """The client is gone: nothing more can be written."""
        self._gone = True

    async def _say_last(self, event: DuplexEvent) -> None:
        with suppress(trio.BrokenResourceError):
            await self.send(event)

    def _check_there(self) -> None:
        if self._gone:
            raise trio.BrokenResourceError("the WebSocket is closed")
