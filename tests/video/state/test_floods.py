"""Bounds in time, each at its edge."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.video.state.floods import ErrorBudget, StallClock, TokenBucket


def test_a_bucket_gives_its_burst_and_then_its_rate() -> None:
    bucket = TokenBucket(4.0, 3)
    assert [bucket.take(10.0) for _ in range(4)] == [True, True, True, False]
    assert not bucket.take(10.2)
    assert bucket.take(10.25)
    assert not bucket.take(10.25)
    assert [bucket.take(10.75) for _ in range(3)] == [True, True, False]


def test_a_bucket_holds_no_more_than_its_burst() -> None:
    bucket = TokenBucket(4.0, 2)
    bucket.take(0.0)
    assert [bucket.take(1000.0) for _ in range(3)] == [True, True, False]


def test_a_time_that_goes_back_is_as_if_it_stood_still() -> None:
    """It neither takes tokens away nor gives some twice."""
    bucket = TokenBucket(1.0, 1)
    assert bucket.take(10.0)
    assert not bucket.take(5.0)
    assert not bucket.take(10.5)
    assert bucket.take(11.0)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=60))
def test_no_time_sees_more_than_its_share(steps: list[int]) -> None:
    """Of any length: the burst, and the rate times the length."""
    bucket, now_s, taken = TokenBucket(2.0, 3), 0.0, []
    for step in steps:
        now_s += step / 16
        if bucket.take(now_s):
            taken.append(now_s)
    for first, start_s in enumerate(taken):
        for last in range(first, len(taken)):
            assert last - first + 1 <= 3 + 2.0 * (taken[last] - start_s)


def test_the_twentieth_error_within_ten_seconds_is_one_too_many() -> None:
    budget = ErrorBudget()
    assert not any(budget.spend(number * 0.5) for number in range(19))
    assert budget.spend(9.999)


def test_errors_are_forgotten_after_their_time() -> None:
    """An error that is ten seconds old is no longer one."""
    budget = ErrorBudget()
    assert not any(budget.spend(0.0) for _ in range(19))
    assert not budget.spend(10.0)
    assert not any(budget.spend(10.0) for _ in range(18))
    assert budget.spend(19.999)


def test_a_steady_trickle_of_errors_is_borne() -> None:
    budget = ErrorBudget(errors_max=3, within_s=1.0)
    assert not any(budget.spend(number * 0.5) for number in range(100))


def test_a_stall_is_counted_from_the_last_sign_of_life() -> None:
    clock = StallClock(60.0, now_s=100.0)
    assert (clock.left_s(100.0), clock.stalled(159.9)) == (60.0, False)
    assert clock.stalled(160.0)
    clock.touch(150.0)
    assert (clock.left_s(160.0), clock.stalled(160.0), clock.stalled(210.0)) == (50.0, False, True)
    assert clock.left_s(1000.0) == 0


def test_a_sign_of_life_that_comes_late_is_not_counted_back() -> None:
    clock = StallClock(1.0, now_s=10.0)
    clock.touch(9.0)
    assert clock.left_s(10.5) == pytest.approx(0.5)
