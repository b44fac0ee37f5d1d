"""`turn.signal`: what a client says about turns, for those who keep them.

Signals that name another command were turned into it before they come here, so what is left moves the turn
state, acknowledges playback, or means nothing to the server; each is answered with the turn state. The state
informs and gates nothing, so a signal cannot put a session into disorder: an answer in progress stays in
progress whatever the client says about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from duplex_trio.protocol.duplex import RealtimeError, SignalTurn, TurnEvent, signalled_playback
from duplex_trio.session.control import SessionControl
from duplex_trio.session.core import SessionCore
from duplex_trio.session.state.engine_session import TurnState

PLAYBACK_ACK: Final = "playback_ack"
_STATES: Final[Mapping[str, TurnState]] = {
    "user_started": "user_speaking",
    "user_committed": "user_committed",
    "assistant_started": "assistant_generating",
    "assistant_done": "idle",
}


class TurnSignals:
    """Signals of one session's client."""

    def __init__(self, core: SessionCore, control: SessionControl) -> None:
        self._core = core
        self._control = control

    def acknowledge(self, signal: SignalTurn) -> None:
        """`playback_ack`: its payload is a `playback.ack`, and acts at once as that does.

        Raises:
            RealtimeError: as of `playback.ack`; fields of the payload are named as such.
        """
        command = signalled_playback(signal)
        try:
            self._control.ack_playback(command)
        except RealtimeError as error:
            raise error.with_param(f"payload.{error.param}" if error.param else None) from None
        self._answer(signal)

    def perform(self, signal: SignalTurn) -> None:
        """Any other signal; its place among the commands counts."""
        state = self._core.state
        moved = _STATES.get(signal.event)
        if moved is not None and not (moved == "idle" and state.active is not None):
            state.turn_state = moved
        self._answer(signal)

    def _answer(self, signal: SignalTurn) -> None:
        state = self._core.state
        event = TurnEvent(
            event_id=state.new_id("event_"),
            session_id=state.session_id,
            event=signal.event,
            turn_state=state.turn_state,
            epoch=state.epoch,
        )
        self._core.emit([event])
