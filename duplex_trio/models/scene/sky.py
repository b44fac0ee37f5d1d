"""The sky: its colours, sun, moon and stars, clouds that move, northern lights, a rainbow."""

from __future__ import annotations

import math

import numpy as np
from attrs import frozen

from duplex_trio.models.scene.noise import Field, dice, field
from duplex_trio.models.scene.palette import Colour, Palette, mix, rgb
from duplex_trio.models.scene.reading import Amounts
from duplex_trio.models.scene.stack import Canvas, Layer, Part, Picture, Window


def sky_layer(canvas: Canvas, seed: int, amounts: Amounts, palette: Palette) -> Layer:
    """The opaque ground of the picture."""
    rows = np.linspace(0.0, 1.0, canvas.height, dtype=np.float32) * (canvas.height / max(1, canvas.horizon))
    top, middle, low = palette.sky
    share = np.clip(rows, 0.0, 1.0)[:, None]
    upper = np.clip(share / 0.55, 0, 1)
    lower = np.clip((share - 0.45) / 0.55, 0, 1) ** 1.2
    column = top + (middle - top) * upper
    column = column + (low - column) * lower
    paint = np.repeat(column[:, None, :], canvas.wide, axis=1).astype(np.float32)
    covered = min(
        1.0,
        amounts.clouds * 0.8
        + amounts.rain * 0.7
        + amounts.storm
        + 0.6 * amounts.snowfall
        + 0.5 * amounts.fog,
    )
    dark = amounts.night
    starry = max(dark * 0.6, amounts.stars) * (1.0 - 0.9 * covered) * (1 - 0.85 * amounts.day)
    if starry > 0.02:
        _add_stars(paint, canvas, seed, starry)
    if amounts.stars * dark > 0.05:
        _add_milky_way(paint, canvas, seed, amounts.stars * (1 - covered))
    sun = (1.0 - dark) * (1.0 - 0.85 * covered)
    if sun > 0.02:
        _add_sun(paint, canvas, amounts, palette.sun, sun, max(0.0, sun * (1 - 1.4 * covered)))
    hidden = max(covered, amounts.stars, amounts.aurora, 0.7 * amounts.neon)
    moon = max(min(1.0, 8.0 * max(0.0, dark - hidden - 0.45)), amounts.moon * (1.0 - 0.8 * covered))
    if moon > 0.02:
        _add_moon(paint, canvas, seed, moon, 0.042 + 0.030 * amounts.moon)
    if amounts.rainbow > 0.02:
        _add_rainbow(paint, canvas, amounts.rainbow)
    np.clip(paint, 0, 255, out=paint)
    return Layer(canvas, 0, paint, None, 0.0)


def _grid(canvas: Canvas) -> tuple[Field, Field]:
    return np.arange(canvas.height, dtype=np.float32)[:, None], np.arange(canvas.wide, dtype=np.float32)[
        None, :
    ]


def _add_stars(paint: Picture, canvas: Canvas, seed: int, amount: float) -> None:
    source = dice(seed, 11)
    count = canvas.few(520)
    x = (source.uniform(0, 1, count) * canvas.wide).astype(int)
    y = (source.uniform(0, 1, count) ** 1.2 * canvas.horizon).astype(int)
    bright = (source.uniform(0.15, 1.0, count) ** 2.5 * 235 * amount).astype(np.float32)
    warmth = source.uniform(0.82, 1.0, (count, 3)).astype(np.float32)
    np.add.at(paint, (y, x), bright[:, None] * warmth)
    large = bright > 110 * amount
    for across, down in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        yy = np.clip(y[large] + down, 0, canvas.height - 1)
        xx = np.clip(x[large] + across, 0, canvas.wide - 1)
        np.add.at(paint, (yy, xx), bright[large, None] * warmth[large] * np.float32(0.35))


def _add_milky_way(paint: Picture, canvas: Canvas, seed: int, amount: float) -> None:
    y, x = _grid(canvas)
    along = (x / canvas.wide - 0.5) * 0.9 + (y / canvas.horizon - 0.42)
    cloud = field(dice(seed, 12), canvas.height, canvas.wide, rows=6, columns=6, octaves=5)
    band = np.exp(-((along / 0.20) ** 2)) * np.clip(cloud * 1.6 - 0.35, 0, 1) * (y < canvas.horizon)
    paint += (band * 95 * amount)[:, :, None].astype(np.float32) * rgb(0.75, 0.72, 1.0)


def _add_sun(
    paint: Picture, canvas: Canvas, amounts: Amounts, colour: Colour, amount: float, seen: float
) -> None:
    low = max(amounts.sunset, amounts.dawn)
    y, x = _grid(canvas)
    centre_x = canvas.wide * (0.30 + 0.33 * amounts.sunset + 0.06 * amounts.dawn)
    centre_y = canvas.horizon * (0.22 + 0.56 * low)
    radius = canvas.height * (0.036 + 0.024 * low)
    away = np.sqrt((x - centre_x) ** 2 + (y - centre_y) ** 2)
    disc = np.clip(radius - away + 0.5, 0, 1)
    glow = np.exp(-away / (radius * 2.2)) * 0.55 + np.exp(-away / (radius * 8.0)) * (0.30 + 0.25 * low)
    paint += ((glow * 150 * amount)[:, :, None] * (colour / 255.0)).astype(np.float32)
    paint += (disc * seen)[:, :, None].astype(np.float32) * (mix(colour, rgb(255, 254, 240), 0.8) - paint)


def _add_moon(paint: Picture, canvas: Canvas, seed: int, amount: float, size: float) -> None:
    y, x = _grid(canvas)
    centre_x, centre_y, radius = canvas.wide * 0.74, canvas.horizon * 0.26, canvas.height * size
    away = np.sqrt((x - centre_x) ** 2 + (y - centre_y) ** 2)
    disc = np.clip(radius - away + 0.5, 0, 1)
    spots = field(dice(seed, 13), canvas.height, canvas.wide, rows=16, columns=16, octaves=3)
    face = 236 - 62 * np.clip(spots * 1.8 - 0.85, 0, 1)
    paint += (np.exp(-away / (radius * 2.2)) * 70 * amount)[:, :, None].astype(np.float32) * rgb(
        0.72, 0.82, 1.0
    )
    target = face[:, :, None] * rgb(0.98, 0.98, 1.02)
    paint += (disc * amount)[:, :, None].astype(np.float32) * (target - paint)


def _add_rainbow(paint: Picture, canvas: Canvas, amount: float) -> None:
    y, x = _grid(canvas)
    away = np.sqrt((x - canvas.wide * 0.52) ** 2 + (y - canvas.horizon * 1.10) ** 2) / canvas.height
    for number, colour in enumerate(
        (
            rgb(255, 60, 60),
            rgb(255, 150, 40),
            rgb(255, 235, 70),
            rgb(80, 220, 90),
            rgb(70, 140, 255),
            rgb(150, 80, 230),
        )
    ):
        band = np.exp(-(((away - 0.52 + 0.017 * number) / 0.010) ** 2)) * 0.62 * amount
        paint += band[:, :, None].astype(np.float32) * (colour - paint)


class Clouds(Part):
    """Clouds that drift and come round again."""

    def __init__(self, canvas: Canvas, seed: int, amounts: Amounts, palette: Palette, density: Field) -> None:
        self._canvas = canvas
        rows, wide = density.shape
        much = min(
            1.0,
            0.40 + 0.6 * amounts.clouds + 0.4 * amounts.rain + 0.7 * amounts.storm + 0.35 * amounts.snowfall,
        )
        much *= 1.0 - 0.75 * max(amounts.stars, amounts.aurora, 0.5 * amounts.desert) * (1 - amounts.clouds)
        edge = 0.72 - 0.42 * much
        high = np.linspace(0, 1, rows, dtype=np.float32)[:, None]
        fall = np.clip((1.0 - high) * 3.0, 0, 1) * (0.75 + 0.25 * np.clip(high * 4, 0, 1))
        cover = np.clip((density - edge) / 0.22, 0, 1) ** 1.2 * fall * (0.35 + 0.6 * much)
        lower = np.roll(density, -max(1, rows // 26), axis=0)
        relief = np.clip(0.5 + 2.6 * (density - lower), 0, 1)
        top, middle, low = palette.sky
        lit = mix(rgb(255, 255, 255) * (palette.light + 0.06), palette.sun, 0.25 * (1 - palette.dark))
        if amounts.sunset + amounts.dawn > 0:
            lit = mix(lit, mix(low, palette.sun, 0.4), 0.75 * (amounts.sunset + amounts.dawn))
        shaded = mix(
            mix(middle, top, 0.5) * 0.92,
            rgb(70, 74, 84) * palette.light,
            0.5 * max(amounts.storm, amounts.rain),
        )
        gloom = max(amounts.storm, 0.7 * amounts.rain)
        lit = mix(lit, mix(shaded, rgb(176, 182, 192) * palette.light, 0.5), 0.8 * gloom)
        shaded = shaded * (1 - 0.4 * gloom)
        colour = shaded + (lit - shaded) * relief[:, :, None]
        # Once more and a column: what goes out on one side comes in on the other.
        twice = np.concatenate([cover, cover, cover[:, :1]], axis=1)
        paint = colour * cover[:, :, None]
        self._paint = Window(
            np.concatenate([paint, paint, paint[:, :1]], axis=1).astype(np.float32), canvas.width
        )
        self._keeps = Window(np.repeat(1 - twice[:, :, None], 3, axis=2).astype(np.float32), canvas.width)
        self._rows = rows
        self._wide = wide
        self._speed = 0.010 + 0.02 * amounts.storm

    def draw(self, out: Picture, frame: int, seconds: float) -> None:
        """Lay the clouds over the sky."""
        left = (seconds * self._speed * self._canvas.height) % self._wide
        seen = out[: self._rows]
        seen *= self._keeps.at(left)
        seen += self._paint.at(left)


def cloud_density(canvas: Canvas, seed: int) -> Field:
    """Where clouds are thick: the sky's rows, as wide as the picture, and its edges meet."""
    wide = canvas.wide
    return field(dice(seed, 14), canvas.horizon, wide, rows=4.5, columns=3, octaves=5, wraps=True)


@frozen(eq=False)
class AuroraVeil:
    """What northern lights are made of: rays, and their colour from the lower edge up."""

    rays: Field
    slow: Field
    rows: int


def aurora_veil(canvas: Canvas, seed: int) -> AuroraVeil:
    """The veil of a video, at half of its size."""
    source = dice(seed, 15)
    rows, wide = max(8, round(canvas.horizon * 0.96) // 2), canvas.wide
    rays = field(source, 2, wide, rows=1, columns=26, octaves=4, wraps=True)[0]
    slow = field(source, 2, wide, rows=1, columns=4, octaves=2, wraps=True)[0]
    return AuroraVeil(rays, slow, rows)


class Aurora(Part):
    """Two curtains of light that wander along the sky."""

    def __init__(self, canvas: Canvas, veil: AuroraVeil, amount: float) -> None:
        self._canvas = canvas
        self._veil = veil
        self._amount = amount
        self._x = np.arange((canvas.width + 1) // 2, dtype=np.float32) * 2
        self._y = np.arange(veil.rows, dtype=np.float32)[:, None] / veil.rows

    def draw(self, out: Picture, frame: int, seconds: float) -> None:
        """Add the light; computed at half size, since it is soft."""
        wide = self._canvas.width
        rows = 2 * self._veil.rows
        total = np.zeros((self._veil.rows, len(self._x), 3), np.float32)
        for number, (foot, tall, speed) in enumerate(((0.66, 0.50, 1.0), (0.86, 0.42, -0.7))):
            turn = self._x / wide * 2 * math.pi
            line = (
                foot
                + 0.10 * np.sin(turn * 0.9 + 0.21 * speed * seconds + number)
                + 0.04 * np.sin(turn * 2.3 - 0.34 * speed * seconds)
            )
            at = ((self._x + seconds * 9 * speed * wide / 512) % len(self._veil.rays)).astype(int)
            at_slow = (
                (self._x - seconds * 5 * speed * wide / 512 + 200 * number) % len(self._veil.slow)
            ).astype(int)
            ray = (0.5 + 1.0 * self._veil.rays[at]) * np.clip(self._veil.slow[at_slow] * 1.9 - 0.2, 0.3, 1.2)
            up = (line[None, :] - self._y) / tall
            body = np.where(up > 0, np.exp(-up * 2.0), np.exp(up * 16.0)) * ray[None, :]
            high = np.clip(up * 0.8, 0, 1)
            total[:, :, 0] += body * (35 + 150 * high)
            total[:, :, 1] += body * (235 - 165 * high)
            total[:, :, 2] += body * (120 + 80 * high)
        total *= np.float32(0.85 * self._amount)
        sky = out[:rows]
        grown = np.repeat(np.repeat(total, 2, axis=0), 2, axis=1)[:, :wide]
        sky += grown[: len(sky)]
