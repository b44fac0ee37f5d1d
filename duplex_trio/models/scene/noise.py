"""Smooth noise, from a seed and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Field = npt.NDArray[np.floating[Any]]
"""Numbers over columns, or over rows and columns; of single precision wherever there are many."""


def dice(seed: int, *purpose: int) -> np.random.Generator:
    """The source of everything random for one purpose of one video."""
    return np.random.Generator(np.random.PCG64([seed & 0xFFFFFFFFFFFFFFFF, *purpose]))


def curve(
    source: np.random.Generator, length: int, *, waves: float, octaves: int, fall: float = 0.5
) -> Field:
    """A rough line of `length` values around 0, about in -1..1.

    Args:
        source: where the roughness comes from.
        length: how many values.
        waves: ups and downs of the coarsest octave.
        octaves: how many times it is refined.
        fall: how much less each octave moves than the one before.
    """
    total = np.zeros(length, np.float32)
    size = 1.0
    whole = 0.0
    for octave in range(octaves):
        count = max(2, round(waves * 2**octave)) + 3
        knots = source.uniform(-1.0, 1.0, count)
        at = np.linspace(0.0, count - 2.001, length)
        low = at.astype(int)
        share = at - low
        share = share * share * (3 - 2 * share)
        total += size * (knots[low] * (1 - share) + knots[low + 1] * share).astype(np.float32)
        whole += size
        size *= fall
    return total / whole * 1.6


def field(
    source: np.random.Generator,
    height: int,
    width: int,
    *,
    rows: float,
    columns: float,
    octaves: int,
    wraps: bool = False,
) -> Field:
    """Smooth noise over a plane, in 0..1; with `wraps` the left edge continues the right one."""
    total = np.zeros((height, width), np.float32)
    size = 1.0
    whole = 0.0
    for octave in range(octaves):
        high, wide = max(2, round(rows * 2**octave)), max(2, round(columns * 2**octave))
        knots = source.uniform(0.0, 1.0, (high + 2, wide + 2)).astype(np.float32)
        if wraps:
            knots[:, -2:] = knots[:, :2]
        total += size * _stretched(knots, height, width, high, wide)
        whole += size
        size *= 0.5
    total /= whole
    low, top = total.min(), total.max()
    scaled: Field = (total - low) / max(1e-6, float(top - low))
    return scaled


def _stretched(knots: Field, height: int, width: int, high: int, wide: int) -> Field:
    def steps(count: int, cells: int) -> tuple[npt.NDArray[np.int64], Field]:
        at = np.arange(count) * (cells / count)
        low = at.astype(np.int64)
        share = (at - low).astype(np.float32)
        return low, share * share * (3 - 2 * share)

    top, down = steps(height, high)
    left, right = steps(width, wide)
    lines = knots[top] * (1 - down)[:, None] + knots[top + 1] * down[:, None]
    stretched: Field = lines[:, left] * (1 - right) + lines[:, left + 1] * right
    return stretched
