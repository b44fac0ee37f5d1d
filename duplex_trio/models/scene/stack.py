"""Layers of a picture and how they are laid over each other. Numbers are float32 in 0..255, rows from the top.

A sheet of a layer is wider than the picture by a margin on both sides, in which the camera sways: near layers move more
than far ones. Colours are premultiplied, and what a layer keeps of the picture below is stored for each colour, so
that laying it down is one multiplication and one addition over unbroken rows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import frozen

from duplex_trio.models.scene.noise import Field
from duplex_trio.models.scene.palette import Colour

Picture = npt.NDArray[np.floating[Any]]
"""Shape (height, width, 3), of single precision."""

SWAY_S = 21.0
"""Seconds of one sway of the camera."""
QUARTERS = 4
"""Steps from one column to the next."""


@frozen
class Canvas:
    """The size of a picture and of its sheets, in pixels.

    Attributes:
        width: of the picture.
        height: of the picture.
        margin: of a sheet, on each side.
    """

    width: int
    height: int
    margin: int

    @classmethod
    def of(cls, width: int, height: int) -> Canvas:
        """The canvas of a picture."""
        return cls(width, height, max(2, round(0.045 * width)))

    @property
    def wide(self) -> int:
        """The width of a sheet."""
        return self.width + 2 * self.margin

    @property
    def horizon(self) -> int:
        """The row at which land begins."""
        return round(0.58 * self.height)

    def few(self, count: int) -> int:
        """How many of small things: `count` in 512 columns, fewer in a small picture, where each is as large."""
        return max(1, round(count * min(1.0, max(0.3, self.width / 512))))

    def left(self, depth: float, seconds: float) -> float:
        """Where in a sheet the picture begins; `depth` is 0 for the sky and 1 for what is nearest.

        A column less than the margin at most, so that there is one more to the right of what is seen.
        """
        sway = math.sin(2 * math.pi * seconds / SWAY_S)
        return self.margin + (self.margin - 1) * depth * sway


class Window:
    """What is seen of a wide sheet, between its columns too: a slow sway in whole columns would be seen to jump.

    It moves in quarters of a column. What was mixed for one is kept until the next: most layers stay for a few frames.

    Args:
        sheet: shape (rows, columns, 3).
        width: columns that are seen.
    """

    def __init__(self, sheet: Picture, width: int) -> None:
        self._sheet = sheet
        self._width = width
        self._mixed: Picture | None = None
        self._mixed_at = -1

    def at(self, left: float) -> Picture:
        """The columns from `left` on; not to be changed, and void at the next call."""
        quarter = round(left * QUARTERS)
        column, share = divmod(quarter, QUARTERS)
        if not share:
            return self._sheet[:, column : column + self._width]
        if self._mixed is None:
            self._mixed = np.empty((len(self._sheet), self._width, 3), np.float32)
        if self._mixed_at != quarter:
            right = np.float32(share / QUARTERS)
            np.multiply(
                self._sheet[:, column : column + self._width], np.float32(1.0) - right, out=self._mixed
            )
            self._mixed += self._sheet[:, column + 1 : column + 1 + self._width] * right
            self._mixed_at = quarter
        return self._mixed


class Part(ABC):
    """Something that is drawn into every frame."""

    @abstractmethod
    def draw(self, out: Picture, frame: int, seconds: float) -> None:
        """Change the picture in place; the same arguments always change it likewise."""


class Layer(Part):
    """A sheet that covers.

    Args:
        canvas: the size.
        top: its first row in the picture.
        paint: premultiplied colours, shape (rows, wide, 3).
        keeps: share that is kept of what is below, the same shape; None for an opaque sheet.
        depth: 0..1, how much it moves.
    """

    def __init__(self, canvas: Canvas, top: int, paint: Picture, keeps: Picture | None, depth: float) -> None:
        self._canvas, self._top, self._depth = canvas, top, depth
        self._paint = Window(paint, canvas.width)
        self._keeps = None if keeps is None else Window(keeps, canvas.width)
        self._rows = len(paint)

    def draw(self, out: Picture, frame: int, seconds: float) -> None:
        """Lay it over the picture."""
        left = self._canvas.left(self._depth, seconds)
        rows = out[self._top : self._top + self._rows]
        if self._keeps is None:
            rows[...] = self._paint.at(left)
            return
        rows *= self._keeps.at(left)
        rows += self._paint.at(left)


class Glow(Part):
    """Light that is added, and that flickers.

    Args:
        canvas: the size.
        top: its first row.
        light: shape (rows, wide, 3).
        depth: as of a layer.
        flicker: share by which it grows and shrinks.
        hertz: how often.
    """

    def __init__(
        self,
        canvas: Canvas,
        top: int,
        light: Picture,
        depth: float,
        *,
        flicker: float = 0.0,
        hertz: float = 1.0,
    ) -> None:
        self._canvas, self._top, self._depth = canvas, top, depth
        self._light = Window(light, canvas.width)
        self._rows = len(light)
        self._flicker, self._hertz = flicker, hertz

    def draw(self, out: Picture, frame: int, seconds: float) -> None:
        """Add it to the picture."""
        rows = out[self._top : self._top + self._rows]
        seen = self._light.at(self._canvas.left(self._depth, seconds))
        if self._flicker:
            turn = 2 * math.pi * self._hertz * seconds
            waver = 0.6 * math.sin(turn) + 0.4 * math.sin(2.7 * turn + 1.0)
            seen = seen * np.float32(1.0 + self._flicker * waver)
        rows += seen


@frozen(eq=False)
class Shape:
    """Where something is and how it is lit, before it has a colour.

    Attributes:
        top: its first row.
        cover: 0..1, shape (rows, wide).
        shade: about 0.5..1.3, the same shape.
        light: what shines by itself, in 0..255, shape (rows, wide, 3); None if nothing does.
    """

    top: int
    cover: Field
    shade: Field
    light: Picture | None = None


def coloured(
    canvas: Canvas, shape: Shape, colour: Colour, *, haze: Colour, fade: float, amount: float, depth: float
) -> Layer:
    """A layer from a shape.

    Args:
        canvas: the size.
        shape: what.
        colour: lit already.
        haze: what distance makes of it ...
        fade: ... and how much of that.
        amount: how much of it is shown.
        depth: of the layer.
    """
    # A number for each colour of each pixel lets what follows run through; kept so, shapes would take thrice as much.
    cover, shaded = (np.repeat(numbers, 3, axis=1) for numbers in (shape.cover, shape.cover * shape.shade))
    paint = shaded
    paint *= np.tile((colour * (amount * (1.0 - fade))).astype(np.float32), canvas.wide)
    if fade > 0.0:
        paint += cover * np.tile((haze * (amount * fade)).astype(np.float32), canvas.wide)
    keeps = cover
    keeps *= np.float32(-amount)
    keeps += np.float32(1.0)
    size = (*shape.cover.shape, 3)
    return Layer(canvas, shape.top, paint.reshape(size), keeps.reshape(size), depth)


def as_pixels(out: Picture, pixels: npt.NDArray[np.uint8]) -> None:
    """Write a picture as bytes; what is too bright is white."""
    np.clip(out, 0.0, 255.0, out=out)
    np.copyto(pixels, out, casting="unsafe")
