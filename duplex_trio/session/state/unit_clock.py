"""Whether a model that owns its turns keeps up: how long each unit waits for its answer, and which answers miss
their deadline.

Unit k of an unbroken line is whole at t0 + k periods; its answer is late after t0 + (k + 1) periods and a budget.
A client that pauses, or whose sound comes late, moves the line behind it: what counts is when a unit was whole,
so that the network's delays are not the model's. A client that sends faster than real time has its units due at
the pace of their sound.
"""

from __future__ import annotations

from collections import deque

from attrs import define, field, frozen


@frozen
class UnitAnswered:
    """The answer to one unit: how long the unit waited for it, and whether it came after its deadline."""

    latency_ms: float
    missed: bool


@define
class UnitClock:
    """The units of one request that are not answered.

    Args:
        period_s: length of a unit.
        budget_s: how late an answer may be.
    """

    period_s: float
    budget_s: float
    _line_s: float | None = field(default=None, init=False)
    _waiting: deque[tuple[float, float]] = field(factory=deque, init=False)

    def submitted(self, whole_s: float) -> None:
        """The model gets a unit that was whole at `whole_s`."""
        due_s = whole_s if self._line_s is None else max(whole_s, self._line_s + self.period_s)
        self._line_s = due_s
        self._waiting.append((whole_s, due_s + self.period_s + self.budget_s))

    def answered(self, now_s: float) -> UnitAnswered | None:
        """The oldest unit is answered; None for an answer to no unit."""
        if not self._waiting:
            return None
        whole_s, deadline_s = self._waiting.popleft()
        return UnitAnswered((now_s - whole_s) * 1000, now_s > deadline_s)

    def reset(self) -> None:
        """The request is over: it answers nothing more."""
        self._waiting.clear()
        self._line_s = None
