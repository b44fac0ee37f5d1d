"""Numbers of units: proposed, taken, and never given twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.protocol.duplex import RealtimeError
from duplex_trio.session.state.append_ledger import AppendLedger, AppendReservation
from duplex_trio.session.state.fence import DuplexFence


def fence(epoch: int, turn_id: int) -> DuplexFence:
    return DuplexFence("s", epoch, turn_id)


def take(ledger: AppendLedger, epoch: int, turn_id: int) -> tuple[int, int]:
    reserved = ledger.reserve(fence(epoch, turn_id))
    ledger.commit(reserved)
    return reserved.seq, reserved.turn_seq


def test_units_count_up_in_their_epoch_and_in_their_turn() -> None:
    """A new turn counts its units anew; a new epoch counts both anew."""
    ledger = AppendLedger(fence(0, 0))
    assert [take(ledger, 0, 0), take(ledger, 0, 0), take(ledger, 0, 1)] == [(1, 1), (2, 2), (3, 1)]
    ledger.raise_epoch(fence(1, 1))
    assert [take(ledger, 1, 1), take(ledger, 1, 1), take(ledger, 2, 1)] == [(1, 1), (2, 2), (1, 1)]


def test_a_proposal_changes_nothing() -> None:
    """A unit that the stage did not take leaves its number to the next one."""
    ledger = AppendLedger(fence(0, 0))
    take(ledger, 0, 0)
    ledger.reserve(fence(0, 3))
    assert (ledger.accepted, ledger.seq, ledger.turn_seq) == (fence(0, 0), 1, 1)


@pytest.mark.parametrize("meanwhile", ["a unit", "a cancellation"])
def test_a_proposal_is_stale_once_anything_was_accepted(meanwhile: str) -> None:
    """Its commit is refused and changes nothing."""
    ledger = AppendLedger(fence(0, 0))
    reserved = ledger.reserve(fence(0, 0))
    if meanwhile == "a unit":
        take(ledger, 0, 0)
    else:
        ledger.raise_epoch(fence(1, 0))
    before = (ledger.accepted, ledger.seq, ledger.turn_seq)
    with pytest.raises(RealtimeError) as caught:
        ledger.commit(reserved)
    assert caught.value.code == "stale_fence"
    assert (ledger.accepted, ledger.seq, ledger.turn_seq) == before


@pytest.mark.parametrize(
    ("call", "epoch", "turn_id"),
    [("reserve", 0, 9), ("reserve", 1, 1), ("raise_epoch", 0, 9), ("raise_epoch", 1, 9)],
)
def test_what_is_behind_is_refused(call: str, epoch: int, turn_id: int) -> None:
    """An older epoch whatever its turn, an older turn of the same epoch, and a cancellation that raises nothing."""
    ledger = AppendLedger(fence(0, 0))
    take(ledger, 1, 2)
    with pytest.raises(RealtimeError) as caught:
        getattr(ledger, call)(fence(epoch, turn_id))
    assert caught.value.code == "stale_fence"


_Step = tuple[str, int, int]


@given(
    st.lists(
        st.tuples(st.sampled_from(["reserve", "commit", "raise"]), st.integers(0, 3), st.integers(0, 3)),
        max_size=30,
    )
)
def test_no_two_units_have_one_number(steps: list[_Step]) -> None:
    """In any order of proposals, commits and cancellations, each (epoch, seq) is committed once at most, in order."""
    ledger = AppendLedger(fence(0, 0))
    open_ones: list[AppendReservation] = []
    committed: list[tuple[int, int]] = []
    for name, first, second in steps:
        try:
            if name == "reserve":
                open_ones.append(ledger.reserve(fence(first, second)))
            elif name == "raise":
                ledger.raise_epoch(fence(first, second))
            elif open_ones:
                reserved = open_ones.pop(first % len(open_ones))
                ledger.commit(reserved)
                committed.append((reserved.fence.epoch, reserved.seq))
        except RealtimeError:
            continue
    assert committed == sorted(set(committed))
