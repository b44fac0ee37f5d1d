"""Which replica a request goes to."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.stages.pool.choice import ReplicaLoad, least_loaded


def chosen(*loads: tuple[int, int]) -> int | None:
    """The choice among replicas of so many requests and commands."""
    return least_loaded(ReplicaLoad(live, queued, index) for index, (live, queued) in enumerate(loads))


def test_fewer_requests_come_first_and_fewer_commands_second() -> None:
    assert chosen((2, 0), (1, 9), (3, 0)) == 1
    assert chosen((1, 2), (1, 1), (1, 3)) == 1


def test_of_equal_ones_the_first_is_taken() -> None:
    assert chosen((1, 1), (0, 0), (0, 0)) == 1
    assert chosen((0, 0), (0, 0)) == 0


def test_there_may_be_none() -> None:
    assert chosen() is None


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1), st.randoms())
def test_the_order_in_which_they_are_looked_at_does_not_matter(
    loads: list[tuple[int, int]], random: object
) -> None:
    listed = [ReplicaLoad(live, queued, index) for index, (live, queued) in enumerate(loads)]
    index = least_loaded(listed)
    assert index is not None
    assert loads[index] == min(loads)
    assert least_loaded(reversed(listed)) == index
