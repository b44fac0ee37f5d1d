"""Frames a second as an exact number, so that the clock of a long video does not drift."""

from __future__ import annotations

from fractions import Fraction

DENOMINATOR_MAX = 65_535
"""Keeps what comes of a rate within 32 bits; 24000/1001 and its relatives are found among such fractions."""


def exact_rate(fps: float) -> Fraction:
    """The fraction that a rate was written for: 23.976 is 2997/125, and 24000/1001 is found in its digits.

    Any other rate is off by less than 1/65,535 frames a second: in ten minutes by a hundredth of a frame.

    Raises:
        ValueError: it is not a rate.
    """
    if not 0 < fps < float("inf"):
        raise ValueError(f"not a rate of frames: {fps}")
    return Fraction(fps).limit_denominator(DENOMINATOR_MAX)


def start_ms(frame: int, rate: Fraction) -> int:
    """When a frame is shown, in whole milliseconds from the start. Rounded for each anew, so nothing adds up."""
    return round(frame * 1000 / rate)
