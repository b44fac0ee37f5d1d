"""How a broken invariant is reported."""

from __future__ import annotations

TOLERANCE_MS = 0.01
"""Sums of durations may differ by rounding."""


class InvariantBroken(AssertionError):
    """Something that must always hold does not; the message says what."""


def hold(condition: bool, message: str) -> None:
    """Report unless the condition holds.

    Raises:
        InvariantBroken: it does not.
    """
    if not condition:
        raise InvariantBroken(message)
