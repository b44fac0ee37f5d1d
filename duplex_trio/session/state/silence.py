"""When a model that is speaking gets a unit of silence because the user sends nothing.

A resumable model speaks only while it is fed. If its turn is not over and no sound comes from the client,
silence is fed in its place, at the pace of the units: each unit has a deadline one period after the last. A
schedule that has fallen more than one period behind starts anew from now instead of catching up.

What the model has said in answer to units that came early lasts for a while, so silence is due only when that
is over, and a little later if the user is just being late. A client that stutters thereby costs at most as
much silence as its longest stutter, however long it goes on, and the model does not drift away from it.

The number of silent units in a row is bounded, so that a model that never ends its turn is stopped.
"""

from __future__ import annotations

from collections import deque

from attrs import define, field, frozen

LATE_S_MAX = 0.025
"""How late sound may be before silence takes its place; at most a quarter of a unit."""


@frozen
class SilenceSlot:
    """The next silent unit: wait so long, and then the one after it is due at `next_deadline_s`."""

    wait_s: float
    next_deadline_s: float


def schedule_silence(
    now_s: float, *, period_s: float, last_submit_s: float | None, deadline_s: float | None
) -> SilenceSlot:
    """When the next silent unit is due.

    Args:
        now_s: the time.
        period_s: length of a unit.
        last_submit_s: when the last unit with sound was accepted.
        deadline_s: the deadline that the last silent unit left behind.
    """
    due_s = deadline_s
    if due_s is None:
        due_s = now_s if last_submit_s is None else last_submit_s + period_s
    if now_s - due_s > period_s:
        due_s = now_s
    return SilenceSlot(max(0.0, due_s - now_s), due_s + period_s)


@define
class SpeechClock:
    """How long what the model has said lasts, by the units it has answered.

    Args:
        period_s: length of a unit.

    Attributes:
        due_s: when the model needs its next unit to go on speaking; None when it does not speak.
    """

    period_s: float
    due_s: float | None = field(default=None, init=False)
    _accepted_s: deque[float] = field(factory=deque, init=False)
    _late_s: float = field(default=0.0, init=False)

    def submitted(self, at_s: float, *, silent: bool) -> None:
        """The model gets a unit, at `at_s`; that of a silent one is when it was due."""
        self._accepted_s.append(at_s)
        self._late_s = 0.0 if silent else min(self.period_s / 4, LATE_S_MAX)

    def spoke(self, now_s: float) -> None:
        """It said something in answer to the oldest unit without an answer."""
        at_s = self._accepted_s.popleft() if self._accepted_s else now_s
        self.due_s = max(at_s, self.due_s or at_s) + self.period_s

    def fell_silent(self) -> None:
        """It listens in answer to the oldest unit without an answer, or its turn ended with that."""
        if self._accepted_s:
            self._accepted_s.popleft()
        self.due_s = None

    def reset(self) -> None:
        """The request is over: it answers nothing more."""
        self._accepted_s.clear()
        self.due_s = None

    @property
    def unanswered(self) -> int:
        """Units that the model took and has not answered."""
        return len(self._accepted_s)

    @property
    def grace_s(self) -> float:
        """How long behind `due_s` sound may still come: nothing once it has been missing."""
        return self._late_s


@define
class SilenceBudget:
    """Silent units in a row used by one owner, which is a response or a turn of the model."""

    owner: str | None = None
    used: int = 0

    def take(self, owner: str, units_max: int) -> bool:
        """Use one unit for `owner`; false when it has used all of them."""
        if owner != self.owner:
            self.owner, self.used = owner, 0
        if self.used >= units_max:
            return False
        self.used += 1
        return True

    def restart(self) -> None:
        """Sound came: silence counts from here."""
        self.used = 0

    def is_last(self, units_max: int) -> bool:
        """Whether the unit just taken was the last one."""
        return self.used == units_max
