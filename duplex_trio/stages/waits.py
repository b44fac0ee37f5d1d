"""Waits between tries that grow from one to the next. Pure."""

from __future__ import annotations


def growing_wait_s(tries: int, *, first_s: float, longest_s: float, factor: float = 2.0) -> float:
    """How long to wait after so many tries before this one, in seconds, without any chance in it.

    Args:
        tries: how many waits there were before, however many.
        first_s: the first wait.
        longest_s: none is longer.
        factor: by how much each is longer than the one before, at least 1.
    """
    wait_s = first_s
    # No power is taken of a number that grows for ever.
    for _ in range(tries):
        if wait_s >= longest_s or factor == 1:
            break
        wait_s *= factor
    return min(wait_s, longest_s)
