"""Cuts long sound where it is quietest.

Owns where the cuts are; a recogniser with a bounded window transcribes the pieces in order.
"""

from __future__ import annotations

import numpy as np

from duplex_trio.stages.units import Pcm

_STEP_S = 0.02
_QUIET_S = 0.2


def split_at_quiet(pcm: Pcm, rate_hz: int, *, longest_s: float) -> list[Pcm]:
    """Cut sound into pieces of at most `longest_s`, in order and without loss.

    Each cut lies in the second half of the window that it ends, in the middle of the 200 ms with the least
    energy there.

    Args:
        pcm: the sound, of any length.
        rate_hz: its sample rate.
        longest_s: the longest piece, in seconds.
    """
    longest = int(longest_s * rate_hz)
    pieces: list[Pcm] = []
    rest = pcm
    while rest.size > longest:
        cut = _quietest(rest[longest // 2 : longest], rate_hz) + longest // 2
        pieces.append(rest[:cut])
        rest = rest[cut:]
    pieces.append(rest)
    return pieces


def _quietest(pcm: Pcm, rate_hz: int) -> int:
    step = max(1, int(_STEP_S * rate_hz))
    steps = pcm.size // step
    span = min(int(_QUIET_S / _STEP_S), steps)
    if span == 0:
        return pcm.size
    energy = np.square(pcm[: steps * step]).reshape(steps, step).sum(axis=1, dtype=np.float64)
    sums = np.convolve(energy, np.ones(span), mode="valid")
    return int((sums.argmin() + span / 2) * step)
