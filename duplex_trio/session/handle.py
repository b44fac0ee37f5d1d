"""What the outside holds of a session."""

from __future__ import annotations

import trio

from duplex_trio.protocol.duplex import DuplexCommand, RealtimeError
from duplex_trio.protocol.duplex.session import DialectName
from duplex_trio.session.control import SessionControl
from duplex_trio.session.core import SessionCore, SessionEnd
from duplex_trio.session.counters import SessionCounters
from duplex_trio.session.dispatch import SessionDispatch


class DuplexSessionHandle:
    """Submit commands, and learn of the end. Events go to the session's attachment."""

    def __init__(self, core: SessionCore, control: SessionControl, dispatch: SessionDispatch) -> None:
        self._core = core
        self._control = control
        self._dispatch = dispatch

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self._core.state.session_id

    @property
    def dialect(self) -> DialectName:
        """How the session's client wants events written."""
        return self._core.state.dialect

    @property
    def counters(self) -> SessionCounters:
        """What the session has counted so far."""
        return self._core.counters

    async def ready(self) -> None:
        """Wait until commands are taken up as fast as they come. Always a checkpoint.

        A reader that waits here before it reads on slows down a client that sends faster than the session
        answers; without it such a client has commands refused with `input_backpressure`.
        """
        core = self._core
        await trio.lowlevel.checkpoint()
        while core.crowded and not core.closing:
            await core.progressed.park()

    def submit(self, command: DuplexCommand) -> None:
        """Take a command. Never blocks and never raises: a refusal reaches the client as an `error` event."""
        self._dispatch.submit(command)

    def refuse(self, error: RealtimeError) -> None:
        """Tell the client of a message that could not even be read."""
        if not self._core.closing:
            self._core.refuse(error)

    def disconnected(self, reason: str = "disconnect") -> None:
        """The client is gone; without resume the session ends with it."""
        self._core.egress.attachment = None
        self._control.end(SessionEnd(reason))

    def close(self, reason: str, *, code: int = 1000) -> None:
        """End the session from the server's side."""
        self._control.end(SessionEnd(reason, code=code))

    async def wait_closed(self) -> SessionEnd:
        """Wait until the session has ended, its last event was sent and its stage requests are released."""
        await self._core.ended.wait()
        assert self._core.end is not None
        return self._core.end
