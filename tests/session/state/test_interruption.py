"""How a cancellation takes hold: decided, silent, released."""

from __future__ import annotations

from typing import Any

from duplex_trio.session.state.interruption import Interruption, InterruptionLedger


def begin(ledger: InterruptionLedger, **changes: Any) -> Interruption:
    facts: dict[str, Any] = {
        "epoch": 1,
        "by_speech": False,
        "received_s": 10.0,
        "now_s": 10.001,
        "requests": (),
        "writing": False,
    }
    return ledger.begin(**facts | changes)


def test_where_nothing_is_under_way_it_has_taken_hold_at_once() -> None:
    """Silent at once; there is nothing to release. It is told once."""
    ledger = InterruptionLedger()
    made = begin(ledger)
    assert round(made.decide_ms, 6) == 1.0
    assert (made.silence_ms, made.abort_ms) == (0.0, None)
    assert ledger.take_settled() == [made]
    assert ledger.take_settled() == []


def test_it_is_silent_when_the_sound_in_flight_was_written() -> None:
    """Sound of the new epoch says nothing about that."""
    ledger = InterruptionLedger()
    made = begin(ledger, writing=True)
    assert ledger.sound_written(1, 10.1) == []
    assert ledger.take_settled() == []
    assert ledger.sound_written(0, 10.25) == [made]
    assert ledger.take_settled() == [made]
    assert made.silence_ms == 250.0


def test_it_is_released_with_the_last_request() -> None:
    """Others do not count, and the order does not matter."""
    ledger = InterruptionLedger()
    made = begin(ledger, requests=("a", "b"))
    for request_id, now_s in (("x", 10.1), ("b", 10.2), ("b", 10.3)):
        assert ledger.released(request_id, now_s) == []
        assert ledger.take_settled() == []
    assert ledger.released("a", 10.5) == [made]
    assert ledger.take_settled() == [made]
    assert made.abort_ms == 500.0


def test_cancellations_one_after_another_wait_each_for_their_own() -> None:
    """A slow release of the first holds up neither the figures of the second nor the other way round."""
    ledger = InterruptionLedger()
    first = begin(ledger, requests=("a",), writing=True)
    second = begin(ledger, epoch=2, received_s=11.0, now_s=11.0, requests=("b",), writing=True)
    assert ledger.sound_written(0, 11.5) == [first, second]
    assert ledger.sound_written(0, 11.9) == []
    assert ledger.released("b", 12.0) == [second]
    assert ledger.take_settled() == [second]
    assert (second.abort_ms, second.silence_ms) == (1000.0, 500.0)
    assert ledger.released("a", 13.0) == [first]
    assert ledger.take_settled() == [first]
    assert (first.abort_ms, first.silence_ms) == (3000.0, 1500.0)
