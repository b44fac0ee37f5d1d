"""What is remembered of interactions, and for how long."""

from __future__ import annotations

import pytest

from duplex_trio.video.state.interactions import InteractionLedger, LedgerFullError


def test_failed_ones_are_remembered_only_where_there_is_room() -> None:
    """They cost no entry its place, and go first."""
    ledger = InteractionLedger(2)
    ledger.admit("a", b"1")
    ledger.move("a", "failed")
    ledger.admit("b", b"2")
    ledger.move("b", "failed")
    assert ledger.outcomes() == {"a": "failed", "b": "failed"}
    assert (ledger.digest("a"), ledger.state("a")) == (None, "failed")
    ledger.admit("c", b"3")
    assert ledger.outcomes() == {"c": "queued", "b": "failed"}
    ledger.admit("d", b"4")
    assert ledger.outcomes() == {"c": "queued", "d": "queued"}
    assert ledger.counts() == {"failed": 2, "queued": 2}


def test_the_oldest_that_is_over_goes_first() -> None:
    """Not the one that was over first."""
    ledger = InteractionLedger(3)
    for name in "abc":
        ledger.admit(name, b"")
    ledger.move("c", "completed")
    ledger.move("b", "superseded")
    ledger.admit("d", b"")
    assert [ledger.state(name) for name in "abcd"] == ["preparing", None, "completed", "preparing"]


@pytest.mark.parametrize("live", ["preparing", "ready", "started"])
def test_a_live_one_never_goes(live: str) -> None:
    ledger = InteractionLedger(1)
    ledger.admit("a", b"")
    ledger.move("a", live)  # type: ignore[arg-type]
    with pytest.raises(LedgerFullError):
        ledger.admit("b", b"")
    assert (ledger.state("a"), ledger.state("b")) == (live, None)


@pytest.mark.parametrize("over", ["completed", "superseded", "interrupted", "unfinished"])
def test_one_that_is_over_makes_room(over: str) -> None:
    """And is counted still."""
    ledger = InteractionLedger(1)
    ledger.admit("a", b"")
    ledger.move("a", over)  # type: ignore[arg-type]
    ledger.admit("b", b"")
    assert ledger.outcomes() == {"b": "queued"}
    assert ledger.counts() == {over: 1, "queued": 1}


def test_it_stays_as_large_as_it_may_get() -> None:
    """Whatever comes of many."""
    ledger = InteractionLedger(100)
    for number in range(1000):
        ledger.admit(f"i{number}", b"")
        ledger.move(f"i{number}", "failed" if number % 3 else "completed")
    assert len(ledger.outcomes()) == 100
    assert ledger.counts() == {"failed": 666, "completed": 334}
