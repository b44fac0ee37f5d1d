"""Outlines to shapes: the only file of the renderer that knows Pillow, which draws them twice as large."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from duplex_trio.models.scene.noise import Field
from duplex_trio.models.scene.stack import Canvas, Picture, Shape

_FINE = 2
"""Drawn this much larger, and made smaller again for smooth edges."""

Point = tuple[float, float]


class Sketch:
    """A sheet to draw on. Coordinates are pixels of a sheet, the picture's rows; grey is 1.0 for as it is lit.

    Args:
        canvas: the size.
        lights: whether something on it shines.
    """

    def __init__(self, canvas: Canvas, *, lights: bool = False) -> None:
        from PIL import Image, ImageDraw

        self._canvas = canvas
        size = (canvas.wide * _FINE, canvas.height * _FINE)
        self._cover = Image.new("L", size, 0)
        self._shade = Image.new("L", size, 128)
        self._light = Image.new("RGB", size, 0) if lights else None
        self._on_cover = ImageDraw.Draw(self._cover)
        self._on_shade = ImageDraw.Draw(self._shade)
        self._on_light = ImageDraw.Draw(self._light) if self._light is not None else None

    def polygon(self, points: Sequence[Point], grey: float = 1.0) -> None:
        """Cover what is within the points."""
        fine = [(x * _FINE, y * _FINE) for x, y in points]
        self._on_cover.polygon(fine, fill=255)
        self._on_shade.polygon(fine, fill=_grey(grey))
        if self._on_light is not None:
            self._on_light.polygon(fine, fill=(0, 0, 0))

    def box(self, left: float, top: float, right: float, bottom: float, grey: float = 1.0) -> None:
        """Cover a rectangle."""
        self.polygon([(left, top), (right, top), (right, bottom), (left, bottom)], grey)

    def round(self, x: float, y: float, across: float, down: float, grey: float = 1.0) -> None:
        """Cover an ellipse of these radii."""
        fine = [(x - across) * _FINE, (y - down) * _FINE, (x + across) * _FINE, (y + down) * _FINE]
        self._on_cover.ellipse(fine, fill=255)
        self._on_shade.ellipse(fine, fill=_grey(grey))

    def line(self, points: Sequence[Point], thick: float, grey: float = 1.0) -> None:
        """Cover a line."""
        fine = [(x * _FINE, y * _FINE) for x, y in points]
        wide = max(1, round(thick * _FINE))
        self._on_cover.line(fine, fill=255, width=wide, joint="curve")
        self._on_shade.line(fine, fill=_grey(grey), width=wide, joint="curve")

    def lamp(self, points: Sequence[Point], colour: Iterable[float]) -> None:
        """Make what is within the points shine."""
        assert self._on_light is not None
        self._on_light.polygon([(x * _FINE, y * _FINE) for x, y in points], fill=_bytes(colour))

    def lamp_round(self, x: float, y: float, radius: float, colour: Iterable[float]) -> None:
        """Make a disc shine."""
        assert self._on_light is not None
        fine = [(x - radius) * _FINE, (y - radius) * _FINE, (x + radius) * _FINE, (y + radius) * _FINE]
        self._on_light.ellipse(fine, fill=_bytes(colour))

    def lamp_line(self, points: Sequence[Point], thick: float, colour: Iterable[float]) -> None:
        """Make a line shine."""
        assert self._on_light is not None
        fine = [(x * _FINE, y * _FINE) for x, y in points]
        self._on_light.line(fine, fill=_bytes(colour), width=max(1, round(thick * _FINE)), joint="curve")

    def shape(self, *, halo: float = 0.0) -> Shape:
        """What was drawn, cut to the rows that have something.

        Args:
            halo: radius in pixels of the light around what shines.
        """
        cover = _array(self._cover.reduce(_FINE)) / 255.0
        shade = _array(self._shade.reduce(_FINE)) / 128.0
        light = None if self._light is None else _with_halo(self._light.reduce(_FINE), halo)
        used = np.flatnonzero(
            cover.any(axis=1) if light is None else cover.any(axis=1) | (light > 2).any(axis=(1, 2))
        )
        if not len(used):
            used = np.array([self._canvas.height - 1])
        rows = slice(int(used[0]), int(used[-1]) + 1)
        return Shape(rows.start, cover[rows], shade[rows], None if light is None else light[rows])


def halo_of(light: Picture, radius: float) -> Picture:
    """The light with a halo around it."""
    from PIL import Image

    return _with_halo(Image.fromarray(np.clip(light, 0, 255).astype(np.uint8)), radius)


def _with_halo(light: Any, radius: float) -> Picture:
    from PIL import ImageFilter

    sharp = _array(light)
    if radius <= 0:
        return sharp
    near = _array(light.filter(ImageFilter.GaussianBlur(radius)))
    small = light.reduce(4)
    far = _array(small.filter(ImageFilter.GaussianBlur(radius * 0.9)).resize(light.size, 2))
    lit: Picture = sharp + 1.3 * near + 1.2 * far
    return lit


def _array(image: Any) -> Field:
    return np.asarray(image, np.float32).copy()


def _grey(value: float) -> int:
    return max(0, min(255, round(128 * value)))


def _bytes(colour: Iterable[float]) -> tuple[int, int, int]:
    red, green, blue = (max(0, min(255, round(float(value)))) for value in colour)
    return red, green, blue
