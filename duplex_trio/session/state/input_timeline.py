"""The user's sound as one line of samples with absolute positions.

Appends grow the line at its end; commits cut a range out of it; what nobody can ask for any more is trimmed
from its start. Positions count samples at the model's input rate since the session opened and never restart,
so the voice-activity detector, which lags behind, and a commit, which does not, talk about the same places.

Sound is copied into blocks of one length, so that appends of any size cost what they hold and no more, and
a position finds its block by arithmetic.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque

import numpy as np
from attrs import define, field

from duplex_trio.protocol.duplex import RealtimeError
from duplex_trio.stages.units import Pcm

BYTES_PER_SAMPLE = 4
BLOCK_SAMPLES = 8192
"""Half a second at 16 kHz, 32 KiB: what a line may take beyond the sound it holds, at either end."""
_ARRIVAL_MS = 20
"""Appends that are shorter than this together share a time of arrival."""


@define
class InputTimeline:
    """Uncommitted sound of a session, bounded in bytes.

    Args:
        sample_rate_hz: rate of the samples.
        bytes_max: most bytes held (float32); see `require_room`.

    Attributes:
        start: position of the first sample held.
        end: position behind the last one.
        committed: position behind what was committed or cleared; sound that was only trimmed does not count.
    """

    sample_rate_hz: int
    bytes_max: int
    start: int = 0
    end: int = 0
    committed: int = 0
    _blocks: deque[Pcm] = field(factory=deque)
    _origin: int = 0
    _arrivals: deque[tuple[int, float]] = field(factory=deque)

    def require_room(self, samples: int, beside: int = 0) -> None:
        """Refuse sound that the line cannot hold, before anything is done with it.

        Args:
            samples: how much sound.
            beside: bytes of other input, which count too.

        Raises:
            RealtimeError: `input_backpressure` when the line would hold more than `bytes_max`.
        """
        held = self.held_bytes + beside
        if held + samples * BYTES_PER_SAMPLE > self.bytes_max:
            raise RealtimeError(
                code="input_backpressure",
                message=f"{held} bytes of uncommitted input are buffered; the limit is {self.bytes_max}",
                param="audio",
            )

    def append(self, pcm: Pcm, now_s: float) -> None:
        """Add sound at the end, which arrived now.

        It is taken in any case: what may be refused is refused by `require_room`, and the last milliseconds
        that a resampler held were admitted with the sound that they belong to.
        """
        taken = 0
        while taken < len(pcm):
            filled = (self.end - self._origin) % BLOCK_SAMPLES
            if self.end - self._origin == len(self._blocks) * BLOCK_SAMPLES:
                self._blocks.append(np.zeros(BLOCK_SAMPLES, np.float32))
            count = min(BLOCK_SAMPLES - filled, len(pcm) - taken)
            self._blocks[-1][filled : filled + count] = pcm[taken : taken + count]
            taken += count
            self.end += count
        if taken:
            self._note_arrival(now_s)

    def read(self, begin: int, end: int) -> Pcm:
        """Copy the samples in [begin, end), as far as they are still held."""
        begin, end = max(begin, self.start), min(end, self.end)
        if begin >= end:
            return np.zeros(0, np.float32)
        first, last = (begin - self._origin) // BLOCK_SAMPLES, (end - 1 - self._origin) // BLOCK_SAMPLES
        offset = begin - self._origin - first * BLOCK_SAMPLES
        if first == last:
            return self._blocks[first][offset : offset + end - begin].copy()
        joined = np.concatenate([self._blocks[index] for index in range(first, last + 1)])
        return joined[offset : offset + end - begin]

    def trim(self, before: int) -> None:
        """Forget sound before a position."""
        self._begin_at(min(before, self.end))

    def commit(self, end: int) -> None:
        """Forget what a commit took; sound after `end` belongs to the next one."""
        self._begin_at(min(end, self.end))
        self.committed = max(self.committed, min(end, self.end))

    def clear(self) -> None:
        """Forget everything that is held."""
        self._begin_at(self.end)
        self.committed = self.end

    def arrival_s(self, position: int) -> float | None:
        """When the sample before `position` arrived, to 20 ms of sound.

        Known for what is held and for what the last commit took; None for anything else.
        """
        index = bisect_left(self._arrivals, (position, float("-inf")))
        return self._arrivals[index][1] if index < len(self._arrivals) else None

    def position_ms(self, position: int) -> int:
        """A position in milliseconds since the session opened."""
        return round(position * 1000 / self.sample_rate_hz)

    @property
    def held_bytes(self) -> int:
        """Bytes of sound held."""
        return (self.end - self.start) * BYTES_PER_SAMPLE

    def _begin_at(self, start: int) -> None:
        if start <= self.start:
            return
        # Whoever commits asks afterwards when the end of it arrived, so its arrivals go with the next step only.
        while self._arrivals and self._arrivals[0][0] <= self.start:
            self._arrivals.popleft()
        self.start = start
        if start == self.end:
            self._blocks.clear()
            self._origin = start
        while start - self._origin >= BLOCK_SAMPLES:
            self._blocks.popleft()
            self._origin += BLOCK_SAMPLES

    def _note_arrival(self, now_s: float) -> None:
        arrivals = self._arrivals
        shares = (
            len(arrivals) > 1 and (self.end - arrivals[-2][0]) * 1000 <= _ARRIVAL_MS * self.sample_rate_hz
        )
        if shares:
            arrivals.pop()
        arrivals.append((self.end, now_s))
