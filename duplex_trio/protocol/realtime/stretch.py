"""Speech at another speed and the same pitch, as a stream: waveform similarity overlap-add (WSOLA).

Theory of operation. The output is a row of overlapping windowed pieces of the input, a fixed step apart.
Where the next piece would be taken `speed` times that step further on in the input, the best match for how
the last piece goes on is looked for nearby, so that the waves join. (Verhelst and Roelands, ICASSP 1993.)
Every choice depends on the sound alone and not on how it was cut.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

Pcm = npt.NDArray[np.float32]

STEP_S: Final = 0.012
"""Between two pieces of the output; a piece is twice as long and so holds two periods of a low voice."""
SEARCH_S: Final = 0.006
"""How far from its place, to either side, a piece is looked for: a period of 80 Hz from end to end."""

ROUGH_HZ: Final = 8000
"""Rate at which pieces are looked for first, about."""

_NOTHING: Pcm = np.zeros(0, dtype=np.float32)
_NOTHING.flags.writeable = False


class TimeStretcher:
    """Makes a sound that arrives in pieces `speed` times as fast; n samples become n / speed, to the sample.

    It holds back up to some 40 ms until more sound or `flush` comes. At speed 1 sound passes through
    untouched.

    Args:
        sample_rate_hz: of the sound, both ways.
        speed: greater than 0.
    """

    def __init__(self, sample_rate_hz: int, speed: float) -> None:
        self.speed = speed
        self._step = round(sample_rate_hz * STEP_S)
        self._search = round(sample_rate_hz * SEARCH_S)
        self._coarse = max(1, sample_rate_hz // ROUGH_HZ)
        ramp = np.arange(2 * self._step, dtype=np.float32) + 0.5
        self._window = (0.5 - 0.5 * np.cos(np.pi * ramp / self._step)).astype(np.float32)
        self.reset()

    def reset(self) -> None:
        """Forget the sound."""
        # The input begins with silence, so that its first piece can be looked for to the left too.
        self._held: Pcm = np.zeros(self._search, dtype=np.float32)
        self._begin = -self._search  # of what is held, in samples of the input
        self._taken = 0
        self._given = 0
        self._pieces = 0
        self._last = 0  # where the latest piece began
        self._tail: Pcm = np.zeros(self._step, dtype=np.float32)  # the second half of the latest piece

    def feed(self, pcm: Pcm) -> Pcm:
        """Take the next samples and return those ready, possibly none."""
        if self.speed == 1.0:
            return pcm
        self._taken += len(pcm)
        self._held = np.concatenate([self._held, pcm])
        return self._overlap_add()

    def flush(self) -> Pcm:
        """End the sound: return what is held back. What is fed next is a new sound."""
        if self.speed == 1.0:
            return _NOTHING
        wanted = round(self._taken / self.speed) - self._given
        silence = np.zeros(3 * self._step + 2 * self._search, dtype=np.float32)
        made = [_NOTHING]
        while sum(map(len, made)) < wanted:
            self._held = np.concatenate([self._held, silence])
            made.append(self._overlap_add())
        self.reset()
        return np.concatenate(made)[: max(0, wanted)]

    def _overlap_add(self) -> Pcm:
        made = []
        end = self._begin + len(self._held)
        while True:
            place = round(self._pieces * self._step * self.speed)
            begin = self._last + self._step  # where the last piece goes on
            if max(place + self._search + 2 * self._step, begin + 2 * self._step) > end:
                break
            found = place if self._pieces == 0 else self._match(place, begin)
            piece = self._at(found, 2 * self._step) * self._window
            if self._pieces == 0:
                piece[: self._step] = self._at(found, self._step)
            made.append(self._tail + piece[: self._step])
            self._tail = piece[self._step :]
            self._last = found
            self._pieces += 1
        self._forget()
        joined = np.concatenate(made) if made else _NOTHING
        self._given += len(joined)
        return joined

    def _at(self, position: int, count: int) -> Pcm:
        start = position - self._begin
        return self._held[start : start + count].copy()

    def _match(self, place: int, begin: int) -> int:
        """The place near `place` from where on the sound is most like that at `begin`."""
        goes_on = self._at(begin, 2 * self._step)
        low = max(place - self._search, self._begin)
        around = self._at(low, place + self._search - low + 2 * self._step)
        # What makes waves join is below 4 kHz; the place is found there, and then to the sample.
        rough = _likest(around[:: self._coarse], goes_on[:: self._coarse]) * self._coarse
        first = max(0, rough - self._coarse)
        near = around[first : rough + self._coarse + 2 * self._step]
        return low + first + _likest(near, goes_on)

    def _forget(self) -> None:
        next_place = round(self._pieces * self._step * self.speed) - self._search
        keep = min(next_place, self._last + self._step) - self._begin
        if keep > 0:
            self._held = self._held[keep:]
            self._begin += keep


def _likest(around: Pcm, wanted: Pcm) -> int:
    """Where in `around` the sound is most like `wanted`, whatever its loudness."""
    likeness = np.correlate(around, wanted, mode="valid")
    energy = np.concatenate([[0.0], np.cumsum(np.square(around, dtype=np.float64))])
    norms = np.sqrt(energy[len(wanted) :] - energy[: -len(wanted)] + 1e-9)
    return int(np.argmax(likeness / norms))
