"""Many readings in little memory."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.session.state.histogram import Histogram

BOUNDS = (1.0, 2.0, 5.0)
READINGS = st.lists(st.integers(0, 10))


def histogram(readings: list[int]) -> Histogram:
    made = Histogram(BOUNDS)
    for reading in readings:
        made.observe(reading)
    return made


def test_a_reading_counts_for_the_first_bound_that_is_not_below_it() -> None:
    """The bound itself is inside; what is above all of them is counted too."""
    made = histogram([0, 1, 2, 3, 5, 6])
    assert made.counts == [2, 1, 2, 1]
    assert (made.count, made.total, made.mean) == (6, 17.0, 17 / 6)


def test_without_readings_nothing_is_kept() -> None:
    """A session that measures nothing costs no list."""
    made = Histogram(BOUNDS)
    assert (made.counts, made.count, made.mean) == ([], 0, None)
    made.add(Histogram(BOUNDS))
    assert made.counts == []


@pytest.mark.parametrize(
    ("share", "bound"),
    [(0.0, 1.0), (0.33, 1.0), (0.5, 2.0), (0.51, 5.0), (0.83, 5.0), (0.84, inf), (1.0, inf)],
)
def test_a_share_of_the_readings_lies_below_a_bound(share: float, bound: float) -> None:
    """As finely as the bounds are."""
    assert histogram([0, 1, 2, 3, 5, 6]).quantile(share) == bound
    assert Histogram(BOUNDS).quantile(share) is None


@given(READINGS, READINGS)
def test_what_came_since_is_what_was_added(earlier: list[int], later: list[int]) -> None:
    """The difference of two states of one histogram."""
    since = histogram(earlier + later).since(histogram(earlier))
    assert (since.count, since.total) == (len(later), sum(later))
    assert since.quantile(1.0) == histogram(later).quantile(1.0)


@given(READINGS, READINGS)
def test_adding_is_taking_all_readings(one: list[int], two: list[int]) -> None:
    """In either order, and without touching the other."""
    added, other = histogram(one), histogram(two)
    added.add(other)
    assert added == histogram(one + two)
    assert other == histogram(two)
