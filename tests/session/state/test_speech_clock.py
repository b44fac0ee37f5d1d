"""How long what a model said lasts, by the units that it answered."""

from __future__ import annotations

import pytest

from duplex_trio.session.state.silence import SilenceBudget, SpeechClock

PERIOD_S = 0.08


def answered(clock: SpeechClock, at_s: float, *, silent: bool = False) -> float:
    clock.submitted(at_s, silent=silent)
    clock.spoke(at_s + 0.01)
    assert clock.due_s is not None
    return clock.due_s


def test_a_steady_client_needs_no_silence() -> None:
    """Each unit lasts until the next one is there, however late the answers are."""
    clock = SpeechClock(PERIOD_S)
    for number in range(1000):
        assert answered(clock, number * PERIOD_S) == pytest.approx((number + 1) * PERIOD_S)


def test_units_that_came_early_last_longer() -> None:
    """Three at once are three periods of speech."""
    clock = SpeechClock(PERIOD_S)
    for _ in range(3):
        clock.submitted(1.0, silent=False)
    assert clock.unanswered == 3
    for _ in range(3):
        clock.spoke(1.5)
    assert clock.due_s == pytest.approx(1.0 + 3 * PERIOD_S)
    assert clock.unanswered == 0


def test_a_stutter_costs_silence_once() -> None:
    """After silence took the place of late sound, sound that is as late again finds the model still speaking."""
    clock = SpeechClock(PERIOD_S)
    due_s = answered(clock, 0.0)
    due_s = answered(clock, due_s, silent=True)
    for number in range(1, 20):
        late_s = number * PERIOD_S + 0.05
        assert late_s < due_s
        due_s = answered(clock, late_s)


def test_sound_may_be_a_little_late_but_silence_is_not() -> None:
    """A quarter of a unit, at most 25 ms; no wait once sound has been missing."""
    assert SpeechClock(PERIOD_S).grace_s == 0
    for period_s, grace_s in ((PERIOD_S, 0.02), (1.0, 0.025)):
        clock = SpeechClock(period_s)
        clock.submitted(0.0, silent=False)
        assert clock.grace_s == pytest.approx(grace_s)
        clock.submitted(1.0, silent=True)
        assert clock.grace_s == 0


def test_a_model_that_listens_needs_nothing() -> None:
    """What it is given next is not an answer that lasts; nor is anything after its request is over."""
    clock = SpeechClock(PERIOD_S)
    answered(clock, 0.0)
    clock.submitted(PERIOD_S, silent=False)
    clock.fell_silent()
    assert (clock.due_s, clock.unanswered) == (None, 0)
    assert answered(clock, 5.0) == pytest.approx(5.0 + PERIOD_S)
    clock.submitted(6.0, silent=False)
    clock.reset()
    assert (clock.due_s, clock.unanswered) == (None, 0)
    clock.fell_silent()
    assert clock.unanswered == 0


def test_silence_counts_in_a_row() -> None:
    """Sound in between starts the count anew."""
    budget = SilenceBudget()
    assert [budget.take("one", 2) for _ in range(3)] == [True, True, False]
    budget.restart()
    assert budget.take("one", 2)
    assert budget.take("one", 2)
    assert budget.is_last(2)
