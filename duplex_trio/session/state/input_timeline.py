"""The user's sound as one line of samples with absolute positions.

Appends grow the line at its end; commits cut a range out of it; what nobody can ask for any more is trimmed
from its start. Positions count samples at the model's input rate since the session opened and never restart,
so the voice-activity detector, which lags behind, and a commit, which does not, talk about the same places.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque

import numpy as np
from attrs import define, field

from duplex_trio.protocol.duplex import RealtimeError
from duplex_trio.stages.units import Pcm

BYTES_PER_SAMPLE = 4
_ARRIVALS_MAX = 4096


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
    _chunks: deque[Pcm] = field(factory=deque)
    _arrivals: deque[tuple[int, float]] = field(factory=deque)

    def require_room(self, samples: int) -> None:
        """Refuse sound that the line cannot hold, before anything is done with it.

        Raises:
            RealtimeError: `input_backpressure` when the line would hold more than `bytes_max`.
        """
        held = (self.end - self.start) * BYTES_PER_SAMPLE
        if held + samples * BYTES_PER_SAMPLE > self.bytes_max:
            raise RealtimeError(
                code="input_backpressure",
                message=f"{held} bytes of uncommitted audio are buffered; the limit is {self.bytes_max}",
                param="audio",
            )

    def append(self, pcm: Pcm, now_s: float) -> None:
        """Add sound at the end, which arrived now.

        It is taken in any case: what may be refused is refused by `require_room`, and the last milliseconds
        that a resampler held were admitted with the sound that they belong to.
        """
        if not len(pcm):
            return
        self._chunks.append(pcm)
        self.end += len(pcm)
        self._arrivals.append((self.end, now_s))
        if len(self._arrivals) > _ARRIVALS_MAX:
            self._arrivals.popleft()

    def read(self, begin: int, end: int) -> Pcm:
        """Copy the samples in [begin, end), as far as they are still held."""
        begin, end = max(begin, self.start), min(end, self.end)
        if begin >= end:
            return np.zeros(0, np.float32)
        parts = []
        position = self.end
        # From the end: detection reads what came last, many times a second, while minutes may be held.
        for chunk in reversed(self._chunks):
            position -= len(chunk)
            low, high = max(begin, position), min(end, position + len(chunk))
            if low < high:
                parts.append(chunk[low - position : high - position])
            if position <= begin:
                break
        parts.reverse()
        return np.concatenate(parts) if len(parts) != 1 else parts[0].copy()

    def trim(self, before: int) -> None:
        """Forget sound before a position. Whole chunks only, so the line may keep a little more."""
        while self._chunks and self.start + len(self._chunks[0]) <= before:
            self.start += len(self._chunks.popleft())

    def commit(self, end: int) -> None:
        """Forget what a commit took; sound after `end` belongs to the next one."""
        while self._chunks and self.start < end:
            first = self._chunks.popleft()
            taken = min(len(first), end - self.start)
            self.start += taken
            if taken < len(first):
                self._chunks.appendleft(first[taken:])
        self.committed = max(self.committed, min(end, self.end))

    def clear(self) -> None:
        """Forget everything that is held."""
        self._chunks.clear()
        self.start = self.committed = self.end

    def arrival_s(self, position: int) -> float | None:
        """When the sample before `position` arrived, if that is still known."""
        index = bisect_left(self._arrivals, (position, float("-inf")))
        return self._arrivals[index][1] if index < len(self._arrivals) else None

    def position_ms(self, position: int) -> int:
        """A position in milliseconds since the session opened."""
        return round(position * 1000 / self.sample_rate_hz)

    @property
    def held_bytes(self) -> int:
        """Bytes of sound held."""
        return sum(chunk.nbytes for chunk in self._chunks)
