"""The waits before an engine is asked again."""

from __future__ import annotations

import random

from duplex_trio.stages.remote.retries import Backoff


def test_waits_grow_to_the_longest_and_stay_there_for_days() -> None:
    """An engine may be awaited for as long as its deployment says."""
    backoff = Backoff(0.25, 5.0, dice=random.Random(1))
    waits = [backoff.next_s() for _ in range(5000)]
    assert 0.125 <= waits[0] <= 0.375
    assert max(waits) == 5.0
    assert min(waits[10:]) >= 2.5
