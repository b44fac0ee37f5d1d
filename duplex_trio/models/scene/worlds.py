"""The two places that are no land: under water, and space."""

from __future__ import annotations

import math

import numpy as np

from duplex_trio.models.scene.drawing import Sketch
from duplex_trio.models.scene.ground import dunes
from duplex_trio.models.scene.noise import Field, dice, field
from duplex_trio.models.scene.palette import Colour, mix, rgb
from duplex_trio.models.scene.reading import Amounts
from duplex_trio.models.scene.stack import Canvas, Glow, Layer, Part, Picture, Shape, coloured

_CORALS = (
    rgb(255, 96, 110),
    rgb(255, 150, 70),
    rgb(236, 92, 190),
    rgb(255, 206, 92),
    rgb(150, 100, 230),
    rgb(90, 210, 190),
)


def tinted(colour: Colour, amounts: Amounts) -> Colour:
    """A colour of these worlds under the colour words of a prompt."""
    for name, other in (
        ("red", rgb(230, 60, 50)), ("orange", rgb(250, 170, 70)), ("green", rgb(60, 200, 110)),
        ("purple", rgb(170, 80, 230)), ("pink", rgb(250, 140, 200)),
    ):  # fmt: skip
        bright = float(colour.max()) / 255
        colour = mix(colour, other * bright, 0.6 * getattr(amounts, name))
    return colour


def coral_shapes(canvas: Canvas, seed: int) -> list[tuple[Shape, Colour, float]]:
    """Corals of several colours; each with its depth."""
    source = dice(seed, 71)
    made = []
    for number, colour in enumerate(_CORALS):
        sketch = Sketch(canvas)
        near = number % 3 / 2
        for _ in range(4):
            x = float(source.uniform(0.0, 1.0)) * canvas.wide
            foot = canvas.height * (0.80 + 0.16 * near + 0.05 * float(source.uniform(-1, 1)))
            size = canvas.height * (0.09 + 0.10 * near) * float(source.uniform(0.7, 1.3))
            kind = int(source.integers(3))
            if kind == 0:
                _branch(sketch, (x, foot), -math.pi / 2, size * 0.42, size * 0.11, 4, source)
            elif kind == 1:
                for lobe in range(7):
                    off = (lobe - 3) * size * 0.16
                    sketch.round(
                        x + off,
                        foot - size * 0.22 * float(source.uniform(0.5, 1.2)),
                        size * 0.17,
                        size * 0.22,
                        0.8 + 0.07 * lobe,
                    )
                sketch.round(x, foot, size * 0.62, size * 0.22, 0.9)
            else:
                for tube in range(6):
                    left = x + (tube - 3) * size * 0.15
                    high = size * float(source.uniform(0.4, 1.0))
                    sketch.box(left, foot - high, left + size * 0.11, foot + size * 0.1, 0.8 + 0.06 * tube)
                    sketch.round(left + size * 0.055, foot - high, size * 0.075, size * 0.04, 1.25)
        made.append((sketch.shape(), colour, 0.45 + 0.5 * near))
    return sorted(made, key=lambda one: one[2])


def _branch(
    sketch: Sketch,
    foot: tuple[float, float],
    angle: float,
    length: float,
    thick: float,
    left: int,
    source: np.random.Generator,
) -> None:
    tip = (foot[0] + math.cos(angle) * length, foot[1] + math.sin(angle) * length)
    sketch.line([foot, tip], thick, 0.75 + 0.1 * (4 - left))
    sketch.round(tip[0], tip[1], thick * 0.5, thick * 0.5, 0.8 + 0.1 * (4 - left))
    if left:
        for turn in (-0.5, 0.45):
            spread = turn * float(source.uniform(0.7, 1.3))
            _branch(sketch, tip, angle + spread, length * 0.78, thick * 0.72, left - 1, source)


def underwater_parts(
    canvas: Canvas, seed: int, amounts: Amounts, corals: list[tuple[Shape, Colour, float]]
) -> list[Part]:
    """The parts of a reef, from back to front."""
    dim = 1.0 - 0.55 * amounts.night
    top, low = tinted(rgb(70, 196, 214) * dim, amounts), tinted(rgb(6, 44, 96) * dim, amounts)
    share = np.linspace(0, 1, canvas.height, dtype=np.float32)[:, None] ** 0.8
    column = top + (low - top) * share
    parts: list[Part] = [
        Layer(canvas, 0, np.repeat(column[:, None, :], canvas.wide, axis=1).astype(np.float32), None, 0.0)
    ]
    parts.append(Rays(canvas, seed, tinted(rgb(150, 230, 235), amounts) * dim))
    haze = mix(top, low, 0.55)
    floor = rgb(196, 190, 150) * dim
    for purpose, rise, base, fade, depth in ((72, 0.10, 0.78, 0.72, 0.3), (73, 0.10, 0.88, 0.45, 0.7)):
        shape = dunes(canvas, seed, purpose=purpose, rise=rise, base=base, waves=1.4)
        parts.append(
            coloured(
                canvas, shape, floor * rgb(0.6, 0.85, 0.9), haze=haze, fade=fade, amount=1.0, depth=depth
            )
        )
    for shape, colour, depth in corals:
        parts.append(
            coloured(canvas, shape, colour * dim, haze=haze, fade=0.62 - 0.5 * depth, amount=1.0, depth=depth)
        )
    return parts


class Rays(Part):
    """Light that falls through waves."""

    def __init__(self, canvas: Canvas, seed: int, colour: Colour) -> None:
        self._canvas = canvas
        source = dice(seed, 74)
        high, wide = canvas.height // 2 + 1, canvas.wide
        noise = field(source, 2, wide * 2, rows=1, columns=22, octaves=3, wraps=True)[0]
        self._noise = noise
        rows = np.arange(high, dtype=np.float32)[:, None]
        self._slant = rows * 0.55
        self._fade = np.clip(1 - rows / high, 0, 1) ** 1.3
        self._columns = np.arange((canvas.width + 1) // 2, dtype=np.float32)[None, :]
        self._colour = colour

    def draw(self, out: Picture, frame: int, seconds: float) -> None:
        """Add the rays; computed at half size, since they are soft."""
        size = len(self._noise)
        scale = self._canvas.height / 512
        base = (self._columns * 2 + self._slant * 2).astype(np.int32)
        one = self._noise[(base + int(seconds * 8 * scale)) % size]
        two = self._noise[(base * 2 - int(seconds * 11 * scale) + 77) % size]
        light = np.clip(one * two * 3.2 - 0.75, 0, 1) * self._fade * 0.55
        grown = np.repeat(np.repeat(light.astype(np.float32), 2, axis=0), 2, axis=1)[
            : self._canvas.height, : self._canvas.width
        ]
        for channel in range(3):
            out[:, :, channel] += grown * self._colour[channel]


def space_parts(canvas: Canvas, seed: int, amounts: Amounts, shapes: SpaceShapes) -> list[Part]:
    """The parts of space, from back to front."""
    hues = [tinted(colour, amounts) for colour in (rgb(66, 40, 150), rgb(170, 44, 120), rgb(30, 100, 170))]
    paint = np.zeros((canvas.height, canvas.wide, 3), np.float32)
    paint += rgb(5, 6, 18)
    strength = 0.75 - 0.40 * amounts.planet
    for cloud, hue in zip(shapes.clouds, hues, strict=True):
        paint += (np.clip(cloud * 1.9 - 0.75, 0, 1) * strength)[:, :, None].astype(np.float32) * hue
    paint += shapes.stars[:, :, None]
    parts: list[Part] = [Layer(canvas, 0, paint, None, 0.1)]
    spiral = 1.0 - amounts.planet
    if spiral > 0.02:
        light = shapes.galaxy * np.float32(spiral)
        parts.append(Glow(canvas, 0, light, 0.25, flicker=0.03, hertz=0.2))
    if amounts.planet > 0.02:
        parts.append(_planet(canvas, shapes, amounts))
    parts.append(
        Glow(canvas, 0, np.repeat(shapes.near_stars[:, :, None], 3, axis=2), 0.9, flicker=0.12, hertz=0.5)
    )
    return parts


class SpaceShapes:
    """What is in space of a video."""

    def __init__(self, canvas: Canvas, seed: int) -> None:
        high, wide = canvas.height, canvas.wide
        self.clouds = [
            field(dice(seed, 80, number), high, wide, rows=3, columns=3, octaves=5) for number in range(3)
        ]
        self.stars = _dots(canvas, seed, 81, 700, 2.8)
        self.near_stars = _dots(canvas, seed, 82, 60, 1.6, cross=True)
        self.galaxy = _galaxy(canvas, seed)
        y, x = np.mgrid[0:high, 0:wide].astype(np.float32)
        self.radius = 0.40 * high
        self.centre = (wide * 0.62, high * 0.86)
        across, down = (x - self.centre[0]) / self.radius, (y - self.centre[1]) / self.radius
        self.away = np.sqrt(across**2 + down**2)
        depth = np.sqrt(np.clip(1 - self.away**2, 0, 1))
        self.lit = np.clip(-0.55 * across - 0.60 * down + 0.55 * depth, 0.0, 1.0)
        land = field(dice(seed, 83), high, wide, rows=5, columns=5, octaves=5)
        cloud = field(dice(seed, 84), high, wide, rows=14, columns=6, octaves=5)
        self.land, self.cloud = land, cloud


def _planet(canvas: Canvas, shapes: SpaceShapes, amounts: Amounts) -> Layer:
    cover = np.clip((1 - shapes.away) * shapes.radius + 0.5, 0, 1)
    sea, soil, ice = rgb(24, 84, 170), rgb(74, 128, 70), rgb(245, 248, 255)
    sea, soil = tinted(sea, amounts), tinted(soil, amounts)
    on_land = np.clip((shapes.land - 0.52) / 0.03, 0, 1)[:, :, None]
    surface = sea + (soil - sea) * on_land
    white = np.clip((shapes.cloud - 0.50) / 0.22, 0, 1)[:, :, None] * 0.85
    surface = surface + (ice - surface) * white
    surface = surface * (0.05 + 1.10 * shapes.lit[:, :, None])
    rim = np.clip((shapes.away - 0.86) / 0.14, 0, 1)[:, :, None] * shapes.lit[:, :, None]
    surface = surface + (rgb(130, 190, 255) - surface) * rim * 0.55
    air = np.exp(-np.maximum(0, shapes.away - 1.0) * 26) * (shapes.away >= 1.0) * (0.15 + shapes.lit)
    amount = np.float32(amounts.planet)
    paint = (surface * cover[:, :, None] + (air * 0.75)[:, :, None] * rgb(90, 150, 240)) * amount
    keeps = np.repeat((1 - cover * amount)[:, :, None], 3, axis=2)
    return Layer(canvas, 0, paint.astype(np.float32), keeps.astype(np.float32), 0.5)


def _dots(canvas: Canvas, seed: int, purpose: int, count: int, power: float, *, cross: bool = False) -> Field:
    count = canvas.few(count)
    source = dice(seed, purpose)
    sky = np.zeros((canvas.height, canvas.wide), np.float32)
    y = source.integers(1, canvas.height - 1, count)
    x = source.integers(1, canvas.wide - 1, count)
    bright = (source.uniform(0.1, 1.0, count) ** power * 255).astype(np.float32)
    np.add.at(sky, (y, x), bright)
    if cross:
        for across, down in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            np.add.at(sky, (y + down, x + across), bright * np.float32(0.4))
    return sky


def _galaxy(canvas: Canvas, seed: int) -> Picture:
    y, x = np.mgrid[0 : canvas.height, 0 : canvas.wide].astype(np.float32)
    across = (x - canvas.wide * 0.5) / canvas.height
    down = (y - canvas.height * 0.46) / canvas.height
    tilt = -0.45
    one = across * math.cos(tilt) - down * math.sin(tilt)
    two = (across * math.sin(tilt) + down * math.cos(tilt)) / 0.48
    away = np.sqrt(one**2 + two**2) + 1e-4
    angle = np.arctan2(two, one)
    arms = 0.5 + 0.5 * np.cos(2 * (angle - np.log(away + 0.02) * 2.6))
    grain = field(dice(seed, 85), canvas.height, canvas.wide, rows=18, columns=18, octaves=4)
    disc = np.exp(-away * 5.6) * (0.20 + 1.25 * arms**2.2 * (0.35 + 1.1 * grain)) * np.clip(away / 0.03, 0, 1)
    core = np.exp(-((away / 0.055) ** 2)) + 0.6 * np.exp(-away * 15)
    light = disc[:, :, None] * rgb(150, 165, 255) * 1.55 + core[:, :, None] * rgb(255, 226, 180)
    pink = np.clip(arms**3 * grain * 2 - 0.8, 0, 1) * np.exp(-away * 5)
    light += pink[:, :, None] * rgb(210, 60, 130)
    glow: Picture = light.astype(np.float32)
    return glow
