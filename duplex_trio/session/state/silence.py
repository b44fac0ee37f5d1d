"""When a model that is speaking gets a unit of silence because the user sends nothing.

A resumable model speaks only while it is fed. If its turn is not over and no sound comes from the client,
silence is fed in its place, at the pace of the units: each unit has a deadline one period after the last. A
schedule that has fallen more than one period behind starts anew from now instead of catching up.

The number of silent units is bounded, so that a model that never ends its turn is stopped.
"""

from __future__ import annotations

from attrs import define, frozen

EXPLICIT_UNITS_MAX = 8
"""Silent units for a response that the client asked for."""
AUTO_UNITS_MAX = 64
"""Silent units for a response that the model began by itself."""


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
class SilenceBudget:
    """Silent units used by one owner, which is a response or a turn of the model."""

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

    def is_last(self, units_max: int) -> bool:
        """Whether the unit just taken was the last one."""
        return self.used == units_max
