"""Many readings in little memory: how many fall below each of a few bounds, and their sum."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import inf

from attrs import define, field


@define
class Histogram:
    """Readings by size.

    Args:
        bounds: upper bounds in rising order; a reading counts for the first that is not below it.

    Attributes:
        counts: readings for each bound, and last those above all of them; empty while there are none.
        total: the sum of all readings.
    """

    bounds: Sequence[float]
    counts: list[int] = field(factory=list, init=False)
    total: float = field(default=0.0, init=False)

    @property
    def count(self) -> int:
        """How many readings there are."""
        return sum(self.counts)

    @property
    def mean(self) -> float | None:
        """Their mean; None without any."""
        count = self.count
        return self.total / count if count else None

    def observe(self, value: float) -> None:
        """Take a reading."""
        if not self.counts:
            self.counts = [0] * (len(self.bounds) + 1)
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def quantile(self, share: float) -> float | None:
        """The bound up to which that share of the readings lies; infinity beyond all bounds, None without readings."""
        wanted, so_far = share * self.count, 0
        for bound, count in zip((*self.bounds, inf), self.counts, strict=False):
            so_far += count
            if so_far and so_far >= wanted:
                return bound
        return None

    def since(self, earlier: Histogram) -> Histogram:
        """The readings that came after an earlier state of this histogram."""
        made = Histogram(self.bounds)
        if self.counts:
            before = earlier.counts or [0] * len(self.counts)
            made.counts = [now - then for now, then in zip(self.counts, before, strict=True)]
            made.total = self.total - earlier.total
        return made

    def add(self, other: Histogram) -> None:
        """Take all readings of another histogram with the same bounds."""
        if other.counts:
            mine = self.counts or [0] * len(other.counts)
            self.counts = [one + two for one, two in zip(mine, other.counts, strict=True)]
            self.total += other.total
