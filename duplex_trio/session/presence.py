"""Whether a session has its client: lost, detached, attached anew, and the lease that waits meanwhile.

Synchronous, so that of two who want the same session one comes first. A party names the lease generation it
knows; once another has attached, that is an old one and changes nothing any more.
"""

from __future__ import annotations

from duplex_trio.protocol.duplex import RealtimeError, SessionResumed
from duplex_trio.session.attachment import ResumableAttachment
from duplex_trio.session.control import SessionControl
from duplex_trio.session.core import SLOW_READER, SessionCore, SessionEnd
from duplex_trio.session.update import session_object


class Presence:
    """Comings and goings of the client of one session."""

    def __init__(self, core: SessionCore, control: SessionControl) -> None:
        self._core = core
        self._control = control

    @property
    def generation(self) -> int:
        """The current lease generation: 0 at first, one more with each resume, and at the end."""
        return self._core.state.lease.generation

    @property
    def resumable(self) -> bool:
        """Whether the session outlives its attachment."""
        return self._core.delivery.journal is not None

    def detach(self, expected_generation: int | None = None) -> None:
        """The consumer leaves and will come back; the session goes on and waits for it.

        Raises:
            RealtimeError: `session_closed`, `unsupported_session_resume`, or `session_resume_conflict` when
                another consumer has attached since.
        """
        core, lease = self._core, self._core.state.lease
        self._check_resumable()
        if lease.detached_at_s is not None and expected_generation in (None, lease.generation):
            return
        lease.detach(core.now_s, expected_generation)
        core.delivery.detach()
        core.reset_lease_deadline()
        core.attendance_changed()
        core.log.info("session.detached", grace_s=lease.disconnect_grace_s)
        core.trace.event("detached", core.now_s, {})

    def lost(self, slow: bool) -> None:
        """A write found that the client is gone or, if slow, does not read; then it may still learn why."""
        self._leave(SLOW_READER if slow else SessionEnd("disconnect"))

    def disconnected(self, generation: int | None = None) -> None:
        """The consumer of a generation is gone; a session that cannot be resumed ends with it."""
        if generation in (None, self.generation):
            self._leave(SessionEnd("disconnect"))

    def resume(
        self,
        attachment: ResumableAttachment,
        *,
        expected_generation: int,
        control_id: str,
        last_seq: int,
    ) -> int:
        """Attach another consumer, also in place of one that is still there.

        Args:
            attachment: gets `session.resumed`, all events behind `last_seq`, and what follows.
            expected_generation: the lease generation that the caller knows.
            control_id: names this request; asking again with the same one changes nothing.
            last_seq: number of the last event that the client has.

        Returns:
            The new lease generation.

        Raises:
            RealtimeError: `session_closed`, `unsupported_session_resume`, or `session_resume_conflict` when
                another consumer was faster or `last_seq` is of no event. The session is unchanged.
            JournalGapError: events behind `last_seq` are no longer kept. The session is unchanged.
        """
        core, state = self._core, self._core.state
        if state.lease.is_replay(control_id):
            return self.generation
        self._check_resumable()
        assert core.delivery.journal is not None
        missed = core.delivery.journal.replay(last_seq, core.now_s)
        # All that may raise comes before the lease changes hands.
        grant = attachment.grant
        hello = SessionResumed(
            event_id=state.new_id("event_"),
            session_id=state.session_id,
            session=session_object(state),
            attachment_generation=grant.attachment_generation,
            resume_token=grant.resume_token,
            client_event_count=core.client_event_count,
            last_client_event_id=core.last_client_event_id,
        )
        generation = state.lease.resume(expected_generation, control_id, core.now_s)
        core.reset_lease_deadline()
        core.counters.lease_resumes += 1
        core.delivery.resume(attachment, hello, missed)
        core.attendance_changed()
        core.log.info("session.resumed", attachment=grant.attachment_generation, replayed=len(missed))
        core.trace.event("resumed", core.now_s, {"replayed": len(missed)})
        return generation

    def ack_events(self, seq: int) -> None:
        """The client has all events up to a number.

        Raises:
            RealtimeError: `invalid_event_ack` when no event has that number yet.
        """
        numbers = self._core.delivery.numbers
        if numbers is not None:
            numbers.ack(seq)
        elif seq > 0:
            raise RealtimeError(
                "invalid_event_ack",
                "no event of this session has a sequence number",
                param="server_event_seq",
            )

    def _leave(self, end: SessionEnd) -> None:
        core = self._core
        if core.closing:
            return
        if self.resumable:
            self.detach()
        else:
            core.delivery.detach()
            self._control.end(end)

    def _check_resumable(self) -> None:
        if self._core.closing:
            raise RealtimeError("session_closed", "the session is closing")
        if not self.resumable:
            raise RealtimeError("unsupported_session_resume", "this session cannot be resumed")
