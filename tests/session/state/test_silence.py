"""The pace of silent units and their budget."""

from __future__ import annotations

import pytest

from duplex_trio.session.state.silence import SilenceBudget, schedule_silence


@pytest.mark.parametrize(
    ("now_s", "last_submit_s", "deadline_s", "wait_s", "next_s"),
    [
        (10.2, 10.0, None, 0.8, 12.0),
        (12.0, None, 11.0, 0.0, 12.0),
        (12.01, None, 11.0, 0.0, 13.01),
        (5.0, None, None, 0.0, 6.0),
        (11.5, 10.0, 11.0, 0.0, 12.0),
        (10.5, 10.0, 11.0, 0.5, 12.0),
    ],
)
def test_cadence(
    now_s: float, last_submit_s: float | None, deadline_s: float | None, wait_s: float, next_s: float
) -> None:
    """One unit a period behind the last sound; more than a period late, the schedule starts anew."""
    slot = schedule_silence(now_s, period_s=1.0, last_submit_s=last_submit_s, deadline_s=deadline_s)
    assert slot.wait_s == pytest.approx(wait_s)
    assert slot.next_deadline_s == pytest.approx(next_s)


def test_each_owner_has_its_own_budget() -> None:
    """An owner gets so many units and no more; another one begins anew."""
    budget = SilenceBudget()
    assert [budget.take("a", 2) for _ in range(3)] == [True, True, False]
    assert budget.is_last(2)
    assert budget.take("b", 2)
    assert not budget.is_last(2)
