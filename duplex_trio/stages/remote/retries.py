"""How long to wait before an engine is asked again."""

from __future__ import annotations

import random

from attrs import Factory, define

from duplex_trio.stages.waits import growing_wait_s

FIRST_WAIT_S = 0.1
"""A connection that the engine had just given up is replaced at once, for somebody is waiting to be answered."""
LONGEST_WAIT_S = 5.0
"""Longest wait of our own, and longest that an engine may ask for: one that wants more is as good as gone for a
conversation, and its request fails."""


@define(eq=False)
class Backoff:
    """The waits between tries: each about twice the one before, with jitter so that many do not come back at once.

    Args:
        first_s: the first one's middle.
        longest_s: none is longer.
        dice: what the jitter is drawn from.
    """

    first_s: float = FIRST_WAIT_S
    longest_s: float = LONGEST_WAIT_S
    dice: random.Random = Factory(random.Random)
    _tries: int = 0

    def next_s(self) -> float:
        """The next wait in seconds."""
        middle = growing_wait_s(self._tries, first_s=self.first_s, longest_s=self.longest_s)
        self._tries += 1
        return min(middle * self.dice.uniform(0.5, 1.5), self.longest_s)
