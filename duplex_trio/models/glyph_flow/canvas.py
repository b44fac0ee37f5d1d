"""From the network's pictures to frames: a plain background, and the picture scaled to the size that was asked for."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.nn import functional

from duplex_trio.models.glyph_flow.network import SIDE
from duplex_trio.plugin.video.plugin import Frame

BACKGROUNDS = (
    ((250, 250, 252), (226, 232, 242)),
    ((255, 249, 238), (246, 228, 204)),
    ((240, 250, 244), (208, 232, 220)),
    ((248, 243, 252), (226, 214, 240)),
    ((238, 247, 253), (202, 224, 242)),
)
"""Colours above and below, one pair for each video; bright, as the network's pictures are drawn over white."""


class Canvas:
    """Makes the frames of one video.

    Args:
        width: pixels.
        height: pixels.
        seed: chooses the background.
    """

    def __init__(self, width: int, height: int, seed: int) -> None:
        self._size = (height, width)
        unit = min(width, height) / SIDE
        rows, columns = max(SIDE, round(height / unit)), max(SIDE, round(width / unit))
        above, below = (
            torch.tensor(colour, dtype=torch.float32) for colour in BACKGROUNDS[seed % len(BACKGROUNDS)]
        )
        down = torch.linspace(0.0, 1.0, rows)[:, None, None]
        self._ground = (above * (1.0 - down) + below * down).expand(rows, columns, 3).permute(2, 0, 1) / 255.0
        top, left = (rows - SIDE) // 2, (columns - SIDE) // 2
        self._inside = (slice(top, top + SIDE), slice(left, left + SIDE))

    def frames(self, pictures: torch.Tensor) -> Iterator[Frame]:
        """Lay pictures over the background and scale them smoothly.

        Args:
            pictures: (frames, 4, 32, 32): colours over white and opacity, in [-1, 1].
        """
        scaled = pictures * 0.5 + 0.5
        colour, opacity = scaled[:, :3], scaled[:, 3:].clamp(0.0, 1.0)
        for number in range(len(pictures)):
            canvas = self._ground.clone()
            ground = canvas[:, *self._inside]
            # What is drawn over white becomes what is drawn over another ground by adding their difference where the
            # picture lets it through.
            canvas[:, *self._inside] = colour[number] + (1.0 - opacity[number]) * (ground - 1.0)
            small = (canvas.clamp(0.0, 1.0) * 255.0).round().to(torch.uint8)[None]
            small = small.contiguous(memory_format=torch.channels_last)
            large = functional.interpolate(small, self._size, mode="bicubic", align_corners=False)
            yield large[0].permute(1, 2, 0).contiguous().numpy()
