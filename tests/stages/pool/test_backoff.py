"""How long a replica that broke waits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.stages.pool.backoff import Backoff, RestartPolicy


def waits(count: int, *, ran_s: float = 0.0, chance: float = 0.0, **policy: Any) -> list[float | None]:
    backoff = Backoff(RestartPolicy(**policy))
    return [backoff.broke(ran_s, chance) for _ in range(count)]


def test_the_wait_doubles_up_to_the_cap() -> None:
    assert waits(9) == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]


def test_chance_takes_away_up_to_half() -> None:
    assert waits(3, chance=0.5) == [0.375, 0.75, 1.5]
    assert waits(3, chance=0.5, jitter=0.0) == [0.5, 1, 2]


def test_a_replica_that_ran_well_starts_from_the_beginning() -> None:
    backoff = Backoff(RestartPolicy())
    assert [backoff.broke(ran_s, 0.0) for ran_s in (3600, 0, 59, 60, 1)] == [0.5, 1, 2, 0.5, 1]
    assert backoff.breaks == 2


def test_a_replica_is_given_up_after_so_many_restarts_in_a_row() -> None:
    assert waits(4, max_restarts=2) == [0.5, 1, None, None]
    assert waits(1, max_restarts=0) == [None]
    assert waits(4, max_restarts=1, ran_s=100) == [0.5] * 4, "breaks that are far apart are no row"


def test_it_goes_on_for_ever() -> None:
    backoff = Backoff(RestartPolicy(), breaks=10**9)
    assert backoff.broke(0.0, 0.0) == 30


@pytest.mark.parametrize(
    "wrong",
    [
        {"first_s": 0.0},
        {"cap_s": -1.0},
        {"factor": 0.5},
        {"jitter": 1.0},
        {"steady_s": 0.0},
        {"max_restarts": -1},
    ],
)
def test_numbers_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        RestartPolicy(**wrong)


@given(
    st.lists(st.tuples(st.floats(0, 200), st.floats(0, 1, exclude_max=True)), min_size=1, max_size=80),
    st.floats(1, 10),
)
def test_a_wait_is_never_longer_than_the_cap_nor_nothing(
    breaks: list[tuple[float, float]], factor: float
) -> None:
    """However often it breaks, and whenever."""
    policy = RestartPolicy(factor=factor)
    backoff = Backoff(policy)
    for ran_s, chance in breaks:
        wait_s = backoff.broke(ran_s, chance)
        assert wait_s is not None
        assert policy.first_s * (1 - policy.jitter) <= wait_s <= policy.cap_s
