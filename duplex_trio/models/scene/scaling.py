"""Large pictures are painted at half of their size and grown, which is smooth and a fraction of the work."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from attrs import frozen

PIXELS_MAX = 640 * 640
"""Pictures of more pixels are painted at half of their width and height."""


@frozen
class Scaling:
    """The size that is painted, and the one that is wanted, in pixels."""

    inner_width: int
    inner_height: int
    width: int
    height: int

    @classmethod
    def of(cls, width: int, height: int) -> Scaling:
        """The scaling for a wanted size."""
        if width * height <= PIXELS_MAX:
            return cls(width, height, width, height)
        return cls((width + 1) // 2, (height + 1) // 2, width, height)

    def grown(self, pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """The picture in the wanted size: shape (height, width, 3)."""
        if (self.inner_width, self.inner_height) == (self.width, self.height):
            return pixels
        import torch

        # Bytes with the channels last have a path of their own in torch, five times as fast as numpy or Pillow.
        planes = torch.from_numpy(pixels).permute(2, 0, 1)[None]
        grown = torch.nn.functional.interpolate(planes, size=(self.height, self.width), mode="bilinear")
        large: npt.NDArray[np.uint8] = grown[0].permute(1, 2, 0).numpy()
        return large
