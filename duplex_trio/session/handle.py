"""What the outside holds of a session."""

from __future__ import annotations

import trio

from duplex_trio.protocol.duplex import DuplexCommand, RealtimeError
from duplex_trio.protocol.duplex.session import DialectName
from duplex_trio.session.attachment import ResumableAttachment
from duplex_trio.session.control import SessionControl
from duplex_trio.session.core import SessionCore, SessionEnd
from duplex_trio.session.counters import SessionCounters
from duplex_trio.session.dispatch import SessionDispatch
from duplex_trio.session.presence import Presence
from duplex_trio.session.state.egress_queue import EgressWaiting
from duplex_trio.tracing import SessionTrace


class DuplexSessionHandle:
    """Submit commands, attach and detach, and learn of the end. Events go to the session's attachment."""

    def __init__(
        self, core: SessionCore, control: SessionControl, dispatch: SessionDispatch, presence: Presence
    ) -> None:
        self._core = core
        self._control = control
        self._dispatch = dispatch
        self._presence = presence

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self._core.state.session_id

    @property
    def trace(self) -> SessionTrace:
        """Who traces the session."""
        return self._core.trace

    @property
    def dialect(self) -> DialectName:
        """How the session's client wants events written."""
        return self._core.state.dialect

    @property
    def idle_timeout_s(self) -> float:
        """How long a connection that attaches now may bring nothing; one that is attached keeps what it found."""
        return self._core.state.config.idle_timeout_s

    async def wait_patience_changed(self) -> None:
        """Wait until the session is told another `idle_timeout_s`."""
        await self._core.patience_changed.park()

    @property
    def counters(self) -> SessionCounters:
        """What the session has counted so far."""
        return self._core.counters

    @property
    def closing(self) -> bool:
        """Whether the session is on its way out, or gone."""
        return self._core.closing

    def waiting(self) -> EgressWaiting:
        """What waits for the client now."""
        return self._core.egress.queue.waiting(self._core.now_s)

    # ------------------------------------------------------------------ commands

    @property
    def crowded(self) -> bool:
        """Whether so many commands wait to be taken up that `ready` would wait."""
        return self._core.crowded and not self._core.closing

    async def ready(self) -> None:
        """Wait until commands are taken up as fast as they come. Always a checkpoint.

        A reader that waits here before it reads on slows down a client that sends faster than the session
        answers; without it such a client has commands refused with `input_backpressure`.
        """
        await trio.lowlevel.checkpoint()
        while self.crowded:
            await self._core.progressed.park()

    def submit(self, command: DuplexCommand) -> None:
        """Take a command. Never blocks and never raises: a refusal reaches the client as an `error` event."""
        self._dispatch.submit(command)

    def refuse(self, error: RealtimeError, *, counts: bool = True) -> None:
        """Tell the client of a message that could not even be read.

        Args:
            error: what was wrong with it.
            counts: whether it is one of the messages that `session.resumed` counts.
        """
        if counts:
            self._core.count_client_event(error.event_id)
        if not self._core.closing:
            self._core.refuse(error)

    def touch(self) -> None:
        """A sign of life that is no command: the idle time begins anew."""
        self._core.touch()

    # ------------------------------------------------------------------ attachments

    @property
    def generation(self) -> int:
        """The lease generation; who attached at an earlier one is not the session's consumer any more."""
        return self._presence.generation

    @property
    def resumable(self) -> bool:
        """Whether the session outlives its attachment."""
        return self._presence.resumable

    @property
    def attached(self) -> bool:
        """Whether somebody gets the events."""
        return self._core.delivery.attached

    def detach(self, expected_generation: int | None = None) -> None:
        """Leave the session to itself for a while; see `Presence.detach`."""
        self._presence.detach(expected_generation)

    def disconnected(self, generation: int | None = None) -> None:
        """The consumer of a generation is gone: the session waits for it, or ends if it cannot be resumed."""
        self._presence.disconnected(generation)

    def resume(
        self,
        attachment: ResumableAttachment,
        *,
        expected_generation: int,
        control_id: str,
        last_seq: int,
    ) -> int:
        """Attach another consumer; see `Presence.resume`."""
        return self._presence.resume(
            attachment, expected_generation=expected_generation, control_id=control_id, last_seq=last_seq
        )

    def ack_events(self, seq: int) -> None:
        """The client has all events up to a number; see `Presence.ack_events`."""
        self._presence.ack_events(seq)

    # ------------------------------------------------------------------ the end

    def close(self, reason: str, *, code: int = 1000) -> None:
        """End the session from the server's side."""
        self._control.end(SessionEnd(reason, code=code))

    async def wait_closed(self) -> SessionEnd:
        """Wait until the session has ended, its last event was sent and its stage requests are released."""
        await self._core.ended.wait()
        assert self._core.end is not None
        return self._core.end
