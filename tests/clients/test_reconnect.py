from __future__ import annotations

import random
from typing import Any

import pytest

from duplex_trio.clients import ReconnectPolicy


@pytest.mark.parametrize(
    ("attempt", "low", "high"),
    [(0, 0.25, 0.25), (1, 0.25, 0.5), (2, 0.25, 1), (4, 0.25, 4), (9_999, 0.25, 4)],
)
def test_the_wait_grows_up_to_a_bound(attempt: int, low: float, high: float) -> None:
    asked: list[tuple[float, float]] = []

    def uniform(least: float, most: float) -> float:
        asked.append((least, most))
        return most

    assert ReconnectPolicy().delay_s(attempt, uniform) == high
    assert asked == [(low, high)]


def test_the_wait_is_random() -> None:
    draws = {ReconnectPolicy().delay_s(3, random.Random(seed).uniform) for seed in range(20)}
    assert len(draws) == 20
    assert all(0.25 <= delay_s <= 2 for delay_s in draws)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_attempts": -1},
        {"backoff_s": (2.0, 1.0)},
        {"backoff_s": (-1.0, 1.0)},
        {"attempt_timeout_s": 0},
        {"buffer_bytes_max": 0},
        {"when_full": "drop"},
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        ReconnectPolicy(**wrong)
