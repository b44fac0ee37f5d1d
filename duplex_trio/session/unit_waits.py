"""What a session measures about the units of a model that owns its turns, and where the wait for its answers begins.

The wait for an answer runs from the latest unit that the model got before it spoke; an answer that follows
another one without a unit between them takes the first unit behind its beginning. If the detector heard the
user fall silent, the wait is known from there too.
"""

from __future__ import annotations

from duplex_trio.session.figures import SessionFigures
from duplex_trio.session.state.response import Response
from duplex_trio.session.state.unit_clock import UnitClock
from duplex_trio.session.turn import Turn, TurnTiming


class UnitWaits:
    """The waits of one session.

    Args:
        figures: take what is measured.
        clock: the deadlines of units.
    """

    def __init__(self, figures: SessionFigures, clock: UnitClock) -> None:
        self._figures = figures
        self._clock = clock
        self._asked_s: float | None = None
        self._speech_end_s: float | None = None

    def speech_ended(self, at_s: float | None) -> None:
        """The user has fallen silent."""
        self._speech_end_s = at_s

    def submitted(
        self, turn: Turn | None, response: Response | None, *, whole_s: float, now_s: float
    ) -> None:
        """The model gets a unit.

        Args:
            turn: whose request it goes to.
            response: the one that is being spoken.
            whole_s: when the unit was whole; a silent one, when it was to be handed over.
            now_s: the time.
        """
        self._clock.submitted(whole_s)
        if response is None or turn is None or turn.response is not response:
            self._asked_s = now_s
        elif turn.timing.opened_s is None:
            turn.timing.opened_s = now_s

    def silence_submitted(self, planned_s: float, now_s: float) -> None:
        """The unit was silent and to be handed over at `planned_s`."""
        self._figures.counters.silence_continuation_jitter_ms.observe((now_s - planned_s) * 1000)

    def answered(self, response: Response | None, now_s: float) -> None:
        """The model has answered its oldest unit."""
        answered = self._clock.answered(now_s)
        if answered is not None:
            self._figures.unit_answered(answered, response)

    def begin_answer(self) -> TurnTiming:
        """A response begins; the times it is measured from."""
        timing = TurnTiming(opened_s=self._asked_s, speech_end_s=self._speech_end_s)
        self._asked_s = self._speech_end_s = None
        return timing

    def reset(self) -> None:
        """Another request begins."""
        self._clock.reset()
        self._asked_s = None
