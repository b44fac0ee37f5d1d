"""How far generation may run ahead of what the viewer sees: a change shows the sooner the less is made in advance."""

from __future__ import annotations

import math

from attrs import define, field

REPORT_S = 1.0
"""How long a position that a client has reported is taken to move on by itself.

Long enough that one report a second paces as smoothly as the clock does, and that a player which stops a little
before the end of what it has got is given more; short enough that not much is made for one that is paused."""


@define(kw_only=True)
class PlaybackPace:
    """The pace of one video.

    Playback is taken to begin when the first chunk is sent and to go on without a break, unless the client
    reports where it is: from then on that is what counts.

    Args:
        fps: frames for a second of playback.
        lead_s: how many seconds of playback may be generated in advance; None for any number.
    """

    fps: float
    lead_s: float | None
    _began_s: float | None = field(default=None, init=False)
    _generated_s: float = field(default=0.0, init=False)
    _report: tuple[float, float] | None = field(default=None, init=False)
    """The last position that was reported, and when that was."""

    def first_sent(self, now_s: float) -> None:
        """The first chunk has been sent. Later calls change nothing."""
        if self._began_s is None:
            self._began_s = now_s

    def generated(self, frames: int) -> None:
        """So many frames have been generated in all: playback may have come as far."""
        self._generated_s = max(self._generated_s, frames / self.fps)

    def playback(self, position_s: float, now_s: float) -> None:
        """The client says where it is. Going back is ignored, and it cannot be beyond what has been generated."""
        position_s = min(position_s, self._generated_s)
        if self._report is None or position_s >= self._report[0]:
            self._report = (position_s, now_s)

    def wait_s(self, first_frame: int, now_s: float) -> float:
        """How long to wait before a chunk is begun; 0 for not at all, infinite if only a report can end it.

        To be asked again after that time, and whenever something was reported or the first chunk has been sent.

        Args:
            first_frame: of the chunk: so many have been generated.
            now_s: the time.
        """
        self.generated(first_frame)
        if self.lead_s is None:
            return 0.0
        due_s = first_frame / self.fps - self.lead_s
        if self._report is not None:
            position_s, told_s = self._report
            wait_s = due_s - position_s - (now_s - told_s)
            return max(0.0, wait_s) if due_s <= position_s + REPORT_S else math.inf
        elapsed_s = now_s - self._began_s if self._began_s is not None else 0.0
        return max(0.0, due_s - elapsed_s)
