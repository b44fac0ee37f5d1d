"""Many readings in short."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import frozen


@frozen
class Distribution:
    """Readings summed up. Percentiles are readings themselves (nearest rank), not values between two."""

    count: int
    mean: float
    p50: float
    p90: float
    p99: float
    max: float


def distribution_summary(readings: Sequence[float]) -> Distribution | None:
    """Sum readings up; None if there are none."""
    if not readings:
        return None
    p50, p90, p99 = np.percentile(readings, (50, 90, 99), method="inverted_cdf")
    return Distribution(
        len(readings), float(np.mean(readings)), float(p50), float(p90), float(p99), float(max(readings))
    )
