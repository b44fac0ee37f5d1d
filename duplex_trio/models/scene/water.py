"""Water: a mirror of what is above it, waves, glitter, and a shore with foam."""

from __future__ import annotations

import math

import numpy as np

from duplex_trio.models.scene.noise import Field, dice, field
from duplex_trio.models.scene.palette import Palette, mix, rgb
from duplex_trio.models.scene.reading import Amounts
from duplex_trio.models.scene.stack import Canvas, Part, Picture


class Water(Part):
    """Water from the horizon down.

    Args:
        canvas: the size.
        ripples: smooth noise of `ripples_of`.
        amounts: what is shown.
        palette: its colours.
        amount: how much the water covers.
    """

    def __init__(
        self, canvas: Canvas, ripples: Field, amounts: Amounts, palette: Palette, amount: float
    ) -> None:
        self._canvas = canvas
        self._top = round(0.60 * canvas.height)
        self._rows = canvas.height - self._top
        calm = amounts.lake * (1 - 0.6 * amounts.sea)
        frozen = min(1.0, amounts.lake * amounts.snow * (1 - amounts.sea))
        self._ripples = ripples
        self._rough = (0.35 + 0.65 * (1 - calm)) * (1 - 0.95 * frozen) * (1 + 1.1 * amounts.storm)
        self._near = np.linspace(0.0, 1.0, self._rows, dtype=np.float32)
        deep = rgb(16, 62, 104)
        deep = mix(deep, rgb(30, 158, 176), amounts.beach * (1 - palette.dark) * (1 - amounts.storm))
        deep = deep * (palette.light * 1.05 + 0.04)
        deep = mix(deep, rgb(178, 204, 222) * palette.light, 0.75 * frozen)
        mirror = (
            (0.74 - 0.36 * self._near * (1 - 0.7 * calm)) * (0.9 - 0.35 * frozen) * (1 - 0.35 * amounts.beach)
        )
        # Water gives back the colour of the sky's lower part, also of a sun that is white itself.
        warmth = mix(rgb(1, 1, 1), palette.sky[2] / max(1.0, float(palette.sky[2].max())), 0.6).astype(
            np.float32
        )
        tinted = (mirror * amount)[:, None, None].astype(np.float32) * warmth
        self._mirror = np.repeat(tinted, canvas.width, axis=1)
        body = deep[None, :] * (1 - mirror)[:, None] * (0.85 + 0.25 * (1 - self._near))[:, None] * amount
        self._body = np.repeat(body[:, None, :], canvas.width, axis=1).astype(np.float32)
        self._spark = (
            mix(palette.sun, palette.sky[2], 0.4) * (0.55 + 0.25 * (1 - palette.dark)) * amount * (1 - frozen)
        ).astype(np.float32)
        self._amount = amount
        self._crest = 0.62 - 0.04 * amounts.storm
        self._bright = _glitter(canvas, amounts)

    def draw(self, out: Picture, frame: int, seconds: float) -> None:
        """Mirror the rows above, then add waves."""
        rows, top = self._rows, self._top
        index = np.arange(rows, dtype=np.float32)
        near = self._near
        length = 0.9 + 26 * near
        swing = np.sin(index * (40.0 / length) * (512 / self._canvas.height) * 0.55 - seconds * 2.6)
        swing += 0.6 * np.sin(index * 0.83 * (512 / self._canvas.height) + seconds * 1.7)
        offset = index * 1.04 + swing * self._rough * (0.006 + 0.022 * near) * self._canvas.height
        mirrored = out[np.clip(top - 2 - offset, 0, top - 1).astype(int)]
        mirrored *= self._mirror
        mirrored += self._body
        below = out[top:]
        if self._amount < 1.0:
            below *= np.float32(1.0 - self._amount)
            below += mirrored
        else:
            below[...] = mirrored
        if self._rough > 0.05:
            self._add_waves(below, seconds)

    def _add_waves(self, below: Picture, seconds: float) -> None:
        wide = self._canvas.width
        scale = self._canvas.height / 512
        one = int(seconds * 11 * scale) % (self._ripples.shape[1] // 2)
        two = int(seconds * 7 * scale) % (self._ripples.shape[1] // 2)
        first = self._ripples[:, one : one + wide]
        second = self._ripples[:, self._ripples.shape[1] // 2 - two :][:, :wide]
        crest = first * second[::, ::-1]
        crest -= np.float32(self._crest**2)
        np.maximum(crest, 0.0, out=crest)
        crest *= np.float32(2.6 * min(1.3, self._rough + 0.25))
        np.minimum(crest, 1.0, out=crest)
        crest *= self._bright
        for channel in range(3):
            below[:, :, channel] += crest * self._spark[channel]


def _glitter(canvas: Canvas, amounts: Amounts) -> Field:
    """How bright waves are in each column: most under a low sun or the moon."""
    columns = np.arange(canvas.width, dtype=np.float32) / canvas.width
    low = max(amounts.sunset, amounts.dawn)
    sun = (0.30 + 0.33 * amounts.sunset + 0.06 * amounts.dawn) * (
        canvas.wide / canvas.width
    ) - canvas.margin / canvas.width
    moon = 0.74 * (canvas.wide / canvas.width) - canvas.margin / canvas.width
    path = low * np.exp(-(((columns - sun) / 0.10) ** 2)) + amounts.moon * np.exp(
        -(((columns - moon) / 0.08) ** 2)
    )
    clear = 1 - max(amounts.storm, amounts.clouds, amounts.rain)
    bright: Field = (0.55 + 0.25 * amounts.day * clear + 1.5 * path * clear).astype(np.float32)
    return bright


def ripples_of(canvas: Canvas, seed: int) -> Field:
    """Noise that is stretched along the horizon and finer the farther it is; twice as wide as it comes round."""
    source = dice(seed, 21)
    rows = canvas.height - round(0.60 * canvas.height)
    flat = field(source, 4 * rows, canvas.wide, rows=44, columns=9, octaves=3, wraps=True)
    near = np.linspace(0, 1, rows) ** 0.55
    squeezed = flat[np.clip((near * (4 * rows - 1)), 0, 4 * rows - 1).astype(int)]
    return np.ascontiguousarray(np.concatenate([squeezed, squeezed, squeezed[:, : canvas.width]], axis=1))


class Shore(Part):
    """Sand in front of the sea, with foam that comes and goes.

    Args:
        canvas: the size.
        sand: of the whole shore, shape (rows, wide, 3); its last row is the picture's.
        line: the row of the water's edge at high water, for each column of a sheet.
        amount: how much it covers.
        foam: noise of `ripples_of`.
    """

    def __init__(self, canvas: Canvas, sand: Picture, line: Field, amount: float, foam: Field) -> None:
        self._canvas, self._sand, self._line, self._amount = canvas, sand, line, np.float32(amount)
        high = canvas.height
        first = high - len(sand)
        self._from = max(first, int(line.min() - 0.09 * high))
        self._to = min(high, int(line.max() + 0.05 * high))
        self._start = self._from - first
        self._rows = np.arange(self._from, self._to, dtype=np.float32)[:, None]
        self._foam = foam[-(self._to - self._from) :]
        self._white = np.float32(0.92 * sand.max())

    def draw(self, out: Picture, frame: int, seconds: float) -> None:
        """Lay dry sand, and mix sand, foam and water where they meet."""
        wide, high = self._canvas.width, self._canvas.height
        left = int(self._canvas.left(0.8, seconds))
        seen = slice(left, left + wide)
        dry = self._start + self._to - self._from
        beyond = out[self._to :]
        beyond += self._amount * (self._sand[dry:, seen] - beyond)
        line = self._line[seen]
        edge = line - (0.5 + 0.5 * math.sin(seconds * 0.75)) * 0.035 * high
        below = self._rows - edge
        cover = np.clip(below * np.float32(0.5), 0, 1) * self._amount
        wet = np.clip((line + 0.036 * high - self._rows) * np.float32(1 / (0.03 * high)), 0, 1)
        froth = np.exp(-np.square(below * np.float32(1 / (0.006 * high))))
        trail = np.exp(-np.square((below + np.float32(0.022 * high)) * np.float32(1 / (0.010 * high))))
        white = (0.9 * froth + 0.5 * trail * self._foam[:, seen]) * self._amount
        band = out[self._from : self._to]
        keeps = np.repeat((1 - cover) * (1 - white), 3, axis=1).reshape(band.shape)
        lays = np.repeat(cover * (1 - 0.30 * wet) * (1 - white), 3, axis=1).reshape(band.shape)
        band *= keeps
        band += self._sand[self._start : dry, seen] * lays
        band += np.repeat(white * self._white, 3, axis=1).reshape(band.shape)


class Gloss(Part):
    """Wet ground that mirrors the lights above it, drawn out downwards.

    Args:
        canvas: the size.
        top: where the ground begins, as a share of the height.
        strength: share of the light that comes back.
    """

    def __init__(self, canvas: Canvas, top: float, strength: float) -> None:
        self._canvas = canvas
        self._top = round(top * canvas.height)
        rows = canvas.height - self._top
        fade = (np.linspace(1.0, 0.25, rows) * strength).astype(np.float32)
        self._fade = np.repeat(np.repeat(fade[:, None, None], canvas.width, 1), 3, 2)

    def draw(self, out: Picture, frame: int, seconds: float) -> None:
        """Add the mirrored light to the ground."""
        rows = len(self._fade)
        index = np.arange(rows, dtype=np.float32)
        waver = (
            np.sin(index * 0.55 * 512 / self._canvas.height - seconds * 3.1)
            * (0.004 + 0.010 * index / rows)
            * self._canvas.height
        )
        mirrored = out[np.clip(self._top - 2 - index * 1.2 - waver, 0, self._top - 1).astype(int)]
        mirrored *= self._fade
        below = out[self._top :]
        below *= np.float32(0.86)
        below += mirrored
