"""Which answers to units come too late."""

from __future__ import annotations

import pytest

from duplex_trio.session.state.unit_clock import UnitAnswered, UnitClock


def clock() -> UnitClock:
    """Units of one second, answers up to half a second late."""
    return UnitClock(1.0, 0.5)


@pytest.mark.parametrize(("answered_s", "missed"), [(1.0, False), (1.5, False), (1.501, True)])
def test_an_answer_may_take_the_length_of_a_unit_and_a_budget(answered_s: float, missed: bool) -> None:
    """Counted from when the unit was whole."""
    made = clock()
    made.submitted(0.0)
    assert made.answered(answered_s) == UnitAnswered(pytest.approx(answered_s * 1000), missed)


def test_answers_go_to_units_in_order() -> None:
    """Two units of a fast client: the second is due a unit later."""
    made = clock()
    made.submitted(0.0)
    made.submitted(0.0)
    assert made.answered(1.4) == UnitAnswered(1400.0, False)
    assert made.answered(2.4) == UnitAnswered(2400.0, False)
    assert made.answered(2.5) is None


def test_a_model_that_falls_behind_misses_every_deadline() -> None:
    """Each unit comes in time and each answer takes a little longer than a unit."""
    made = clock()
    missed = []
    for k in range(10):
        made.submitted(float(k))
        answered = made.answered((k + 1) * 1.1)
        assert answered is not None
        missed.append(answered.missed)
    assert missed == [False] * 5 + [True] * 5


def test_sound_that_comes_late_is_not_the_models_fault() -> None:
    """After a pause of the client the line begins anew, and what was late once gives the next ones no less time."""
    made = clock()
    for whole_s in (0.0, 7.0, 7.2):
        made.submitted(whole_s)
    assert made.answered(0.1) == UnitAnswered(pytest.approx(100.0), False)
    assert made.answered(8.4) == UnitAnswered(pytest.approx(1400.0), False)
    assert made.answered(9.4) == UnitAnswered(pytest.approx(2200.0), False)


def test_another_request_owes_nothing() -> None:
    """A cancelled request answers no more, and its line is over."""
    made = clock()
    made.submitted(0.0)
    made.reset()
    assert made.answered(0.1) is None
    made.submitted(0.5)
    assert made.answered(2.0) == UnitAnswered(1500.0, False)
