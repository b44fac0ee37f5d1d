"""The input line as the detector of speech hears it: frames of 32 ms at 16 kHz, whatever the line's rate.

Owns the resampling and what positions in the two mean to each other. Each stretch of sound that is heard
without a gap has an anchor, one place in both; from there on the rates alone decide, so nothing drifts. A
line at 24 kHz is heard up to 21 ms late, which is what the resampler holds back.
"""

from __future__ import annotations

import numpy as np
from attrs import define, field

from duplex_trio.protocol.duplex.audio import StreamResampler
from duplex_trio.session.state.input_timeline import InputTimeline
from duplex_trio.stages.units import VAD_FRAME_SAMPLES, VAD_RATE_HZ, Pcm

_NOTHING: Pcm = np.zeros(0, np.float32)


@define
class DetectorSound:
    """What is left to hear of a line.

    Positions called `line` count samples of the line, those called `heard` samples at 16 kHz since the
    session began; both include what was skipped or heard before.

    Args:
        timeline: the line.
    """

    _timeline: InputTimeline
    _anchor_line: int = field(default=0, init=False)
    _anchor_heard: int = field(default=0, init=False)
    _fed: int = field(default=0, init=False)
    _rest: Pcm = field(default=_NOTHING, init=False)
    _resampler: StreamResampler = field(init=False)

    @_resampler.default
    def _make_resampler(self) -> StreamResampler:
        return StreamResampler(self._timeline.sample_rate_hz, VAD_RATE_HZ)

    @property
    def frames_waiting(self) -> int:
        """Whole frames that the line holds and nobody has taken; the last one may still be in the resampler."""
        unfed = (self._timeline.end - self._fed) * VAD_RATE_HZ // self._timeline.sample_rate_hz
        return (len(self._rest) + unfed) // VAD_FRAME_SAMPLES

    def take(self, frames_max: int) -> Pcm:
        """Take the next whole frames that are there, possibly none, shape (n * 512,)."""
        rate_hz = self._timeline.sample_rate_hz
        wanted = min(frames_max, self.frames_waiting) * VAD_FRAME_SAMPLES - len(self._rest)
        until = self._fed - (-max(0, wanted) * rate_hz // VAD_RATE_HZ)
        pcm = self._resampler.feed(self._timeline.read(self._fed, until))
        self._fed = min(until, self._timeline.end)
        if len(self._rest):
            pcm = np.concatenate([self._rest, pcm])
        whole = min(len(pcm) // VAD_FRAME_SAMPLES, frames_max) * VAD_FRAME_SAMPLES
        self._rest = pcm[whole:]
        return pcm[:whole]

    def skip_to_end(self, heard: int) -> None:
        """Hear nothing more of what the line holds now.

        Args:
            heard: how much was heard so far; what comes next follows it.
        """
        self._hear_from(self._timeline.end, heard)

    def rewind(self, heard: int) -> None:
        """Hear anew what was taken and came to nothing; the line must still hold it.

        Args:
            heard: how much was heard and judged.
        """
        self._hear_from(self.line_position(heard), heard)

    def _hear_from(self, line: int, heard: int) -> None:
        self._fed = self._anchor_line = line
        self._anchor_heard = heard
        self._rest = _NOTHING
        self._resampler.reset()

    def line_position(self, heard: int) -> int:
        """Where on the line a place since the last `skip_to_end` or `rewind` is."""
        since = (heard - self._anchor_heard) * self._timeline.sample_rate_hz
        return self._anchor_line + since // VAD_RATE_HZ
