"""What moves in a video: the noise that pictures are drawn from turns slowly, and so does their place in the frame.

Both depend on the seed and on the frame's time alone, so a chunk is the same however the frames before it were cut
into chunks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from duplex_trio.models.glyph_flow.network import CHANNELS, SIDE

TURN_S = 12.0
"""Playback seconds in which the noise turns once around: slow enough that a picture never jumps."""

SWAY = 0.05
"""How far a glyph moves about the middle, in half sides; the network was trained up to 0.14."""

SIZE, BREATH = -0.16, 0.04
"""The logarithm of a glyph's size, and how far it goes up and down."""


class Motion:
    """The motion of one video.

    Args:
        seed: decides everything.
        fps: frames for a second of playback.
    """

    def __init__(self, seed: int, fps: float) -> None:
        self._fps = fps
        self._draw = torch.Generator().manual_seed(seed)
        self._phases = (torch.rand(3, generator=self._draw) * math.tau).tolist()
        self.anchor()

    def anchor(self) -> None:
        """Draw new noise to turn from: nothing of the pictures so far is left in those to come."""
        self._noise = torch.randn(2, CHANNELS, SIDE, SIDE, generator=self._draw)

    def noise(self, frames: Sequence[int]) -> torch.Tensor:
        """Normally distributed noise for frames, counted from the start of the video; shape (frames, 4, 32, 32).

        It goes round the circle through two independent draws, so its variance is 1 everywhere.
        """
        angle = torch.tensor([math.tau * frame / self._fps / TURN_S for frame in frames])[:, None, None, None]
        return angle.cos() * self._noise[0] + angle.sin() * self._noise[1]

    def place(self, frames: Sequence[int]) -> torch.Tensor:
        """Where the glyph is in each frame; shape (frames, 3), see `network.PLACE`."""
        rows = []
        for frame in frames:
            time_s = frame / self._fps
            across = SWAY * math.sin(math.tau * time_s / 5.3 + self._phases[0])
            down = SWAY * math.sin(math.tau * time_s / 2.9 + self._phases[1])
            rows.append([across, down, SIZE + BREATH * math.sin(math.tau * time_s / 4.1 + self._phases[2])])
        return torch.tensor(rows)
