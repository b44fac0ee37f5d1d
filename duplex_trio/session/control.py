"""Transitions that act at once, whatever is queued: cancel, barge-in, clear, acknowledge, close.

Each is synchronous, so it is atomic and may be called by the socket's reader as well as by a task of the
session. What a cancellation does, in order: raise the epoch and end the response in the ledgers; abort the
old epoch's stage requests; drop its queued media and queue the terminal events ahead of everything; cancel
the epoch's scope.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from duplex_trio.protocol.duplex import (
    AckPlayback,
    BargeIn,
    CancelInput,
    CancelResponse,
    ClearInput,
    ClearOutputAudio,
    CloseSession,
    DuplexEvent,
    ErrorEvent,
    Heartbeat,
    RealtimeError,
    SessionHeartbeatAck,
)
from duplex_trio.session.core import SessionCore, SessionEnd
from duplex_trio.session.figures import BARGE_INS
from duplex_trio.session.state.engine_session import CancelReason
from duplex_trio.session.state.input import clear_input
from duplex_trio.session.state.items import ack_playback
from duplex_trio.session.state.response import Response

_CUT_THE_ANSWER_ONLY: frozenset[CancelReason] = frozenset({"output_audio_buffer_clear"})
"""Reasons that end the answer in progress and leave standing the one behind it."""


class SessionControl:
    """The control transitions of one session."""

    def __init__(self, core: SessionCore) -> None:
        self._core = core

    # ------------------------------------------------------------------ cancelling

    def cancel(
        self, reason: CancelReason, *, first: Sequence[DuplexEvent] = (), since_s: float | None = None
    ) -> None:
        """Cancel the current epoch.

        Args:
            reason: why; `turn_detected` is reported as such, the rest as `client_cancelled`.
            first: events to send before those of the cancellation.
            since_s: when the cause arrived; that of a command is known. Nobody waits for it when the session ends.
        """
        core, state, figures = self._core, self._core.state, self._core.figures
        if since_s is None and reason != "session_closed":
            since_s = figures.received_s
        if reason not in _CUT_THE_ANSWER_ONLY:
            self._discard_upcoming()
        started_s = core.now_s
        response = state.active
        figures.cancelling(response, since_s, core.egress.raise_epoch(state.epoch + 1))
        cancellation = state.cancel(reason, started_s)
        decided_s = core.now_s
        core.disarm_idle()
        self.discard_prepared()
        core.turns.discard_before(cancellation.epoch)
        old = [turn for turn in core.live_turns.values() if turn.epoch < cancellation.epoch]
        for turn in old:
            turn.discard()
        figures.epoch_ended(
            epoch=cancellation.epoch,
            by_speech=reason == "turn_detected",
            since_s=since_s,
            decided_s=decided_s,
            requests=[turn.request_id for turn in old],
            writing=core.egress.writing_sound,
        )
        core.emit([*first, *cancellation.events])
        core.playout_changed.unpark_all()
        if core.epoch_scope is not None:
            core.epoch_scope.cancel()
        core.counters.barge_ins += reason in BARGE_INS
        core.counters.responses_cancelled += response is not None
        if response is not None:
            figures.response_done(response, "cancelled", reason=reason)
        core.log.debug("epoch.raised", reason=reason, epoch=cancellation.epoch)
        owed = [
            turn
            for turn in core.transcribing.values()
            if turn.epoch < cancellation.epoch and turn is not core.upcoming
        ]
        for turn in owed if reason != "session_closed" else ():
            core.transcribe_again(turn)
        # Behind them: it may have to wait for their words, and turns are taken up one after another.
        core.begin_upcoming()

    def discard_prepared(self) -> None:
        """Throw away the turn that was prepared ahead of the end of speech, if there is one."""
        turn, self._core.prepared = self._core.prepared, None
        if turn is not None:
            turn.discard()
            self._core.counters.speculations_discarded += 1

    def _discard_upcoming(self) -> None:
        turn, self._core.upcoming = self._core.upcoming, None
        if turn is not None:
            turn.discard()

    def cancel_response(self, command: CancelResponse, seq: int) -> None:
        """`response.cancel`: nothing of what was said so far is answered by itself any more, but it stays
        said.

        Raises:
            RealtimeError: `response_cancel_not_active`.
        """
        core = self._core
        active = core.state.active
        if command.response_id is not None and (active is None or active.response_id != command.response_id):
            raise RealtimeError(
                "response_cancel_not_active",
                f"Cancellation failed: response {command.response_id!r} is not active",
                param="response_id",
            )
        if active is None and not core.asked:
            raise RealtimeError("response_cancel_not_active", "Cancellation failed: no active response found")
        core.cancel_floor = seq
        core.touch()
        if active is not None:
            self.cancel("client_cancelled")

    def require_barge_in(self, command: BargeIn | CancelInput) -> None:
        """Refuse what the model does not bear.

        Raises:
            RealtimeError: `barge_in_unsupported`.
        """
        if isinstance(command, BargeIn) and not self._core.state.capabilities.supports_barge_in:
            raise RealtimeError("barge_in_unsupported", "the model cannot be interrupted")

    def barge_in(self, command: BargeIn | CancelInput, seq: int) -> None:
        """`barge_in` and `input.cancel`, which the model bears: drop input, and cut what it set in motion.

        What became an item before stays said, and nothing answers it by itself any more.
        """
        core, state = self._core, self._core.state
        core.input_floor = core.cancel_floor = seq
        core.touch()
        interrupted = state.interruptible(core.now_s)
        dropped = clear_input(state)
        self.cancel("barge_in", first=dropped if not interrupted else dropped[:-1])

    def clear_output(self, command: ClearOutputAudio) -> None:
        """`output_audio_buffer.clear`: stop the sound of a response, and the response if it still makes it.

        Raises:
            RealtimeError: `response_not_active` when no recent response has the id that was given.
        """
        core, state = self._core, self._core.state
        response = self._target(command.response_id)
        if response is None:
            core.emit([state.cleared_event(None)])
            return
        unplayed = response in state.unplayed(core.now_s)
        if response is state.last_response and (unplayed or response is state.active):
            first = [] if unplayed else [state.stop_playing(response, core.now_s)]
            self.cancel("output_audio_buffer_clear", first=first)
        else:
            core.emit([state.stop_playing(response, core.now_s)])
            core.playout_changed.unpark_all()

    def _target(self, response_id: str | None) -> Response | None:
        state = self._core.state
        if response_id is None:
            return state.last_response
        response = state.find_response(response_id)
        if response is None:
            raise RealtimeError(
                "response_not_active", f"no recent response {response_id!r}", param="response_id"
            )
        return response

    # ------------------------------------------------------------------ the rest

    def clear_input(self, command: ClearInput, seq: int) -> None:
        """`input_audio_buffer.clear`."""
        self._core.input_floor = seq
        self.discard_prepared()
        self._core.emit(clear_input(self._core.state))

    def ack_playback(self, command: AckPlayback) -> None:
        """`playback.ack`."""
        self._core.emit(ack_playback(self._core.state, command))
        self._core.playout_changed.unpark_all()
        self._core.touch()

    def heartbeat(self, command: Heartbeat) -> None:
        """`session.heartbeat`."""
        core, state = self._core, self._core.state
        core.touch()
        core.emit(
            [
                SessionHeartbeatAck(
                    event_id=state.new_id("event_"),
                    session_id=state.session_id,
                    client_event_count=core.client_event_count,
                )
            ]
        )

    def fail_response(self, response: Response, error: RealtimeError) -> None:
        """A response ends because something failed: the error first, then the closing block."""
        core, state = self._core, self._core.state
        if response.status is not None:
            return
        core.egress.drop_response(response.response_id)
        report = ErrorEvent.from_error(error, event_id=state.new_id("event_"))
        core.emit([report, *state.fail_response(response, error, core.now_s)])
        core.playout_changed.unpark_all()
        core.counters.responses_failed += 1
        core.figures.response_done(response, "failed", code=error.code, message=error.message)
        core.begin_upcoming()

    def close(self, command: CloseSession) -> None:
        """`session.close`."""
        self.end(SessionEnd(command.reason))

    def expire(self, reason: str) -> None:
        """The lease ran out."""
        self._core.counters.lease_expiries += 1
        self.end(SessionEnd(reason, expired=True))

    def fail(self, error: RealtimeError) -> None:
        """The session cannot go on: the client is told why, a response in progress fails, the session ends.

        Raises nothing, like `end`.
        """
        core = self._core
        if core.end is not None:
            return
        self._attempt(lambda: self._tell_failure(error))
        self.end(SessionEnd(error.code, code=1011))

    def _tell_failure(self, error: RealtimeError) -> None:
        core, state = self._core, self._core.state
        self._discard_upcoming()
        if state.active is not None:
            self.fail_response(state.active, error)
        else:
            core.emit([ErrorEvent.from_error(error, event_id=state.new_id("event_"))])

    def end(self, end: SessionEnd) -> None:
        """End the session: cut the response, say goodbye once, and let the tasks go. Idempotent.

        Raises nothing, for whoever ends all sessions is no part of this one.
        """
        core, state = self._core, self._core.state
        if core.end is not None:
            return
        if state.active is not None or core.live_turns:
            self._attempt(lambda: self.cancel("session_closed"))
        core.finish(end)

    def _attempt(self, transition: Callable[[], None]) -> None:
        """Do what belongs to an end. The ledgers may be what broke; the session ends all the same."""
        try:
            transition()
        except Exception:
            self._core.log.exception("session.end_failed")
