"""Single things that move by themselves: boats, balloons, birds, fish, spaceships."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from attrs import frozen

from duplex_trio.models.scene.noise import Field, dice
from duplex_trio.models.scene.palette import Colour, rgb
from duplex_trio.models.scene.particles import stamp
from duplex_trio.models.scene.stack import Canvas, Part, Picture


@frozen(eq=False)
class Sprite:
    """A small picture: premultiplied colours (0..255) and cover (0..1), shapes (rows, columns, 3)."""

    paint: Picture
    cover: Picture

    def mirrored(self) -> Sprite:
        """The same, looking the other way."""
        return Sprite(self.paint[:, ::-1], self.cover[:, ::-1])


def sprite(wide: float, high: float, draw: Callable[..., None]) -> Sprite:
    """Have a sprite drawn in a unit square, which becomes `wide` x `high` pixels; `draw` gets a pen."""
    from PIL import Image, ImageDraw

    columns, rows = max(2, round(wide)), max(2, round(high))
    image = Image.new("RGBA", (columns * 4, rows * 4), (0, 0, 0, 0))
    draw(_Pen(ImageDraw.Draw(image), columns * 4, rows * 4))
    small = np.asarray(image.convert("RGBa").reduce(4), np.float32)
    cover = np.repeat(small[:, :, 3:] / 255.0, 3, axis=2).astype(np.float32)
    return Sprite(np.ascontiguousarray(small[:, :, :3]), cover)


class _Pen:
    """Draws in a unit square."""

    def __init__(self, draw: object, wide: int, high: int) -> None:
        self._draw = draw
        self._size = (wide, high)

    def polygon(self, points: list[tuple[float, float]], colour: Colour) -> None:
        self._draw.polygon(self._fine(points), fill=_fill(colour))  # type: ignore[attr-defined]

    def round(self, x: float, y: float, across: float, down: float, colour: Colour) -> None:
        box = self._fine([(x - across, y - down), (x + across, y + down)])
        self._draw.ellipse([*box[0], *box[1]], fill=_fill(colour))  # type: ignore[attr-defined]

    def line(self, points: list[tuple[float, float]], thick: float, colour: Colour) -> None:
        wide = max(1, round(thick * self._size[1]))
        self._draw.line(self._fine(points), fill=_fill(colour), width=wide)  # type: ignore[attr-defined]

    def _fine(self, points: list[tuple[float, float]]) -> list[tuple[float, float]]:
        return [(x * self._size[0], y * self._size[1]) for x, y in points]


def _fill(colour: Colour) -> tuple[int, int, int, int]:
    red, green, blue = (int(max(0.0, min(255.0, float(value)))) for value in colour)
    return red, green, blue, 255


def blit(out: Picture, picture: Sprite, x: float, y: float, amount: float) -> None:
    """Lay a sprite over the picture with its middle at a place; what is beyond the edges is left out."""
    high, wide = picture.paint.shape[:2]
    left, top = round(x - wide / 2), round(y - high / 2)
    x0, y0 = max(0, left), max(0, top)
    x1, y1 = min(out.shape[1], left + wide), min(out.shape[0], top + high)
    if x0 >= x1 or y0 >= y1:
        return
    cut = (slice(y0 - top, y1 - top), slice(x0 - left, x1 - left))
    seen = out[y0:y1, x0:x1]
    weight = np.float32(amount)
    seen *= 1 - picture.cover[cut] * weight
    seen += picture.paint[cut] * weight


class Boat(Part):
    """A sailing boat that rocks."""

    def __init__(self, canvas: Canvas, light: Colour, amount: float) -> None:
        size = 0.22 * canvas.height
        self._canvas, self._amount = canvas, amount

        def draw(pen: _Pen) -> None:
            pen.line([(0.48, 0.05), (0.48, 0.82)], 0.014, rgb(90, 66, 48) * light)
            pen.polygon([(0.50, 0.06), (0.50, 0.74), (0.92, 0.74)], rgb(250, 246, 236) * light)
            pen.polygon([(0.46, 0.14), (0.46, 0.74), (0.12, 0.74)], rgb(226, 220, 206) * light)
            pen.polygon([(0.06, 0.80), (0.96, 0.80), (0.82, 0.95), (0.20, 0.95)], rgb(126, 58, 44) * light)
            pen.polygon([(0.06, 0.80), (0.96, 0.80), (0.94, 0.83), (0.08, 0.83)], rgb(236, 226, 210) * light)

        self._sprite = sprite(size, size, draw)

    def draw(self, out: Picture, frame: int, seconds: float) -> None:
        """Draw it where it rocks."""
        x = self._canvas.width * (0.36 + 0.05 * math.sin(seconds * 0.13))
        y = self._canvas.height * (0.555 + 0.006 * math.sin(seconds * 1.3))
        blit(out, self._sprite, x, y, self._amount)


class Balloons(Part):
    """Hot air balloons at several distances."""

    def __init__(self, canvas: Canvas, seed: int, light: Colour, amount: float) -> None:
        self._canvas, self._amount = canvas, amount
        source = dice(seed, 101)
        hues = [rgb(226, 62, 58), rgb(246, 176, 52), rgb(64, 132, 214), rgb(120, 80, 190), rgb(68, 168, 120)]
        self._fleet = []
        for number, (x, y, size) in enumerate(
            (
                (0.30, 0.27, 0.27),
                (0.72, 0.20, 0.17),
                (0.52, 0.42, 0.11),
                (0.12, 0.44, 0.09),
                (0.88, 0.40, 0.08),
            )
        ):
            hue = hues[(number + int(source.integers(5))) % 5]
            drawn = sprite(
                size * canvas.height * 0.78,
                size * canvas.height,
                _balloon(hue * light, rgb(250, 240, 220) * light),
            )
            self._fleet.append((x, y, drawn, float(source.uniform(0, 6))))

    def draw(self, out: Picture, frame: int, seconds: float) -> None:
        """Draw them, the far ones first."""
        for x, y, drawn, turn in reversed(self._fleet):
            across = self._canvas.width * (x + 0.02 * math.sin(seconds * 0.11 + turn))
            down = self._canvas.height * (y + 0.016 * math.sin(seconds * 0.4 + turn))
            blit(out, drawn, across, down, self._amount)


def _balloon(hue: Colour, other: Colour) -> Callable[[_Pen], None]:
    def draw(pen: _Pen) -> None:
        pen.polygon([(0.16, 0.50), (0.84, 0.50), (0.60, 0.78), (0.40, 0.78)], hue * 0.8)
        pen.round(0.5, 0.38, 0.48, 0.37, hue * 0.85)
        pen.round(0.47, 0.37, 0.40, 0.365, other * 0.95)
        pen.round(0.46, 0.37, 0.29, 0.365, hue)
        pen.round(0.45, 0.37, 0.15, 0.365, other)
        pen.round(0.45, 0.37, 0.05, 0.365, hue * 1.05)
        pen.line([(0.42, 0.77), (0.45, 0.90)], 0.008, rgb(60, 50, 44))
        pen.line([(0.58, 0.77), (0.55, 0.90)], 0.008, rgb(60, 50, 44))
        pen.polygon(
            [(0.43, 0.89), (0.57, 0.89), (0.55, 0.99), (0.45, 0.99)], rgb(120, 82, 50) * (other / 250)
        )

    return draw


class Flock(Part):
    """Birds that beat their wings and cross the sky."""

    def __init__(self, canvas: Canvas, seed: int, colour: Colour, amount: float) -> None:
        source = dice(seed, 102)
        count = 9
        self._canvas, self._amount = canvas, amount
        self._off = np.stack([source.uniform(-0.14, 0.14, count), source.uniform(-0.07, 0.07, count)], axis=1)
        self._turn = source.uniform(0, 2 * math.pi, count)
        self._size = source.uniform(0.7, 1.2, count)
        self._steps = [_bird(0.048 * canvas.height, beat, colour) for beat in np.linspace(-1, 1, 7)]

    def draw(self, out: Picture, frame: int, seconds: float) -> None:
        """Draw each in the phase of its wings."""
        across = (0.15 + seconds * 0.035) % 1.4 - 0.2
        for (x, y), turn in zip(self._off, self._turn, strict=True):
            beat = math.sin(seconds * 7 + turn)
            picture = self._steps[round((beat + 1) * 3)]
            lift = 0.012 * math.sin(seconds * 0.9 + turn)
            blit(
                out,
                picture,
                (across + x) * self._canvas.width,
                (0.24 + y + lift) * self._canvas.height,
                self._amount,
            )


def _bird(size: float, beat: float, colour: Colour) -> Sprite:
    def draw(pen: _Pen) -> None:
        tip = 0.5 - 0.36 * beat
        for side in (-1, 1):
            knee = (0.5 + side * 0.24, 0.5 - 0.22 * beat - 0.06)
            pen.line([(0.5, 0.54), knee, (0.5 + side * 0.48, tip)], 0.085, colour)
        pen.round(0.5, 0.55, 0.10, 0.055, colour)

    return sprite(size, size, draw)


class Shoal(Part):
    """Fish that swim through a reef."""

    def __init__(self, canvas: Canvas, seed: int, dim: float, amount: float) -> None:
        source = dice(seed, 103)
        self._canvas, self._amount = canvas, amount
        hues = (rgb(255, 150, 40), rgb(255, 214, 64), rgb(90, 170, 255), rgb(240, 240, 250))
        self._fish = []
        for number in range(16):
            size = canvas.height * float(source.uniform(0.035, 0.085))
            hue = hues[number % len(hues)] * dim
            right = bool(source.uniform() < 0.6)
            drawn = sprite(
                size, size * 0.6, _fish(hue, hue * 0.55 if number % 2 else rgb(250, 250, 250) * dim)
            )
            self._fish.append(
                (
                    drawn if right else drawn.mirrored(),
                    float(source.uniform(0, 1)),
                    float(source.uniform(0.16, 0.78)),
                    (1 if right else -1) * float(source.uniform(0.03, 0.075)),
                    float(source.uniform(0, 6.3)),
                )
            )

    def draw(self, out: Picture, frame: int, seconds: float) -> None:
        """Draw each on its way."""
        for drawn, x, y, speed, turn in self._fish:
            across = ((x + seconds * speed) % 1.2 - 0.1) * self._canvas.width
            down = (y + 0.02 * math.sin(seconds * 0.9 + turn)) * self._canvas.height
            blit(out, drawn, across, down, self._amount)


class Whale(Part):
    """A whale that passes slowly behind the fish."""

    def __init__(self, canvas: Canvas, dim: float, amount: float) -> None:
        self._canvas, self._amount = canvas, 0.85 * amount
        size = 0.62 * canvas.height
        back, belly = rgb(44, 92, 128) * dim, rgb(120, 168, 186) * dim

        def draw(pen: _Pen) -> None:
            pen.polygon([(0.20, 0.50), (0.02, 0.22), (0.10, 0.52), (0.0, 0.72), (0.22, 0.60)], back * 0.9)
            pen.polygon(
                [
                    (0.14, 0.52),
                    (0.40, 0.30),
                    (0.72, 0.24),
                    (0.92, 0.36),
                    (0.99, 0.52),
                    (0.88, 0.66),
                    (0.60, 0.76),
                    (0.34, 0.68),
                ],
                back,
            )
            pen.polygon(
                [(0.99, 0.54), (0.88, 0.67), (0.60, 0.77), (0.40, 0.70), (0.66, 0.64), (0.86, 0.56)], belly
            )
            pen.polygon([(0.58, 0.68), (0.44, 0.98), (0.70, 0.72)], back * 0.8)
            pen.round(0.86, 0.50, 0.012, 0.025, rgb(10, 20, 30))

        self._sprite = sprite(size, size * 0.42, draw)

    def draw(self, out: Picture, frame: int, seconds: float) -> None:
        """Draw it on its way."""
        across = (0.42 + seconds * 0.012) % 1.6 - 0.3
        down = 0.36 + 0.025 * math.sin(seconds * 0.5)
        blit(out, self._sprite, across * self._canvas.width, down * self._canvas.height, self._amount)


def _fish(hue: Colour, band: Colour) -> Callable[[_Pen], None]:
    def draw(pen: _Pen) -> None:
        pen.polygon([(0.24, 0.5), (0.02, 0.16), (0.10, 0.5), (0.02, 0.84)], hue * 0.85)
        pen.polygon([(0.42, 0.28), (0.62, 0.04), (0.74, 0.30)], hue * 0.8)
        pen.round(0.58, 0.5, 0.38, 0.31, hue)
        pen.round(0.62, 0.5, 0.07, 0.28, band)
        pen.round(0.42, 0.5, 0.05, 0.22, band)
        pen.round(0.84, 0.42, 0.045, 0.075, rgb(255, 255, 255))
        pen.round(0.85, 0.42, 0.025, 0.045, rgb(10, 10, 20))

    return draw


class Spaceship(Part):
    """A ship with a burning engine on its way past."""

    def __init__(self, canvas: Canvas, amount: float, light: float) -> None:
        size = 0.30 * canvas.height
        self._canvas, self._amount = canvas, amount
        self._sprite = sprite(size * 1.6, size * 0.62, _ship(light))
        y, x = np.mgrid[0 : max(4, round(size * 0.30)), 0 : max(4, round(size * 0.62))].astype(np.float32)
        across, down = x / x.shape[1], (y / x.shape[0] - 0.5) * 2
        flame = np.exp(-((down / (0.10 + 0.32 * across)) ** 2)) * across**1.6
        self._flame = (flame[:, :, None] * rgb(90, 190, 255) * 1.15).astype(np.float32)

    def draw(self, out: Picture, frame: int, seconds: float) -> None:
        """Draw its flame and itself."""
        x = self._canvas.width * (0.40 + 0.07 * math.sin(seconds * 0.16))
        y = self._canvas.height * (0.30 + 0.018 * math.sin(seconds * 0.55))
        high, wide = self._flame.shape[:2]
        size = self._sprite.paint.shape[1]
        right = int(x - size * 0.42)
        top = int(y + self._sprite.paint.shape[0] * 0.08 - high / 2)
        left = max(0, right - wide)
        rows = out[max(0, top) : top + high, left : max(left, right)]
        waver = np.float32(self._amount * (0.85 + 0.15 * math.sin(seconds * 21)))
        rows += self._flame[: len(rows), -rows.shape[1] or wide :][:, : rows.shape[1]] * waver
        blit(out, self._sprite, x, y, self._amount)


def _ship(light: float) -> Callable[[_Pen], None]:
    def draw(pen: _Pen) -> None:
        hull, dark = rgb(206, 212, 224) * light, rgb(118, 126, 146) * light
        pen.polygon([(0.10, 0.30), (0.34, 0.46), (0.30, 0.60), (0.06, 0.12)], dark)
        pen.polygon([(0.14, 0.92), (0.36, 0.66), (0.52, 0.70), (0.22, 0.99)], dark * 0.8)
        pen.polygon([(0.08, 0.46), (0.60, 0.40), (0.99, 0.60), (0.60, 0.72), (0.08, 0.72)], hull)
        pen.polygon([(0.08, 0.60), (0.99, 0.60), (0.60, 0.72), (0.08, 0.72)], dark * 1.05)
        pen.polygon([(0.52, 0.44), (0.64, 0.28), (0.80, 0.50), (0.56, 0.50)], rgb(70, 140, 190) * light)
        pen.polygon([(0.57, 0.42), (0.64, 0.31), (0.69, 0.38), (0.60, 0.46)], rgb(170, 220, 250) * light)
        for window in range(5):
            pen.round(0.20 + 0.07 * window, 0.545, 0.011, 0.026, rgb(255, 216, 130))
        pen.round(0.085, 0.59, 0.02, 0.12, rgb(150, 220, 255))

    return draw


class Beam(Part):
    """The beam of a lighthouse, turning."""

    def __init__(self, canvas: Canvas, amount: float) -> None:
        high, wide = canvas.height, canvas.width
        self._canvas, self._amount = canvas, amount
        y, x = np.mgrid[0 : high // 2 : 2, 0:wide:2].astype(np.float32)
        # The lamp of `buildings.lighthouse`, in the picture.
        across, down = x - (canvas.wide * 0.70 - canvas.margin), y - 0.278 * high
        self._angle: Field = np.arctan2(down, across)
        self._fade: Field = np.exp(-np.sqrt(across**2 + down**2) / (0.55 * wide)).astype(np.float32)

    def draw(self, out: Picture, frame: int, seconds: float) -> None:
        """Add the two rays."""
        lean = 0.16 * math.sin(seconds * 0.9)
        reach = abs(math.cos(seconds * 0.9)) ** 0.7
        one = np.exp(-(((self._angle - lean) / 0.085) ** 2)) * reach
        two = np.exp(-(((np.abs(self._angle) - math.pi) / 0.085 + lean * 6) ** 2)) * reach
        light = ((one + two) * self._fade * 105 * self._amount).astype(np.float32)
        grown = np.repeat(np.repeat(light, 2, axis=0), 2, axis=1)[:, : self._canvas.width]
        out[: len(grown)] += grown[:, :, None] * rgb(1.0, 0.95, 0.75)


class Plume(Part):
    """Smoke over a crater, and what is thrown out of it."""

    def __init__(self, canvas: Canvas, seed: int, light: Colour, amount: float) -> None:
        source = dice(seed, 104)
        self._canvas, self._amount = canvas, amount
        size = max(6, round(0.17 * canvas.height))
        y, x = np.mgrid[-1 : 1 : size * 1j, -1 : 1 : size * 1j].astype(np.float32)
        soft = np.clip(1 - np.sqrt(x**2 + y**2), 0, 1) ** 1.3 * 0.55
        cover = np.repeat(soft[:, :, None], 3, axis=2).astype(np.float32)
        grey = np.clip(rgb(104, 92, 94) * (light + 0.1) + rgb(34, 8, 0), 0, 255)
        hot = rgb(168, 74, 40)
        self._puffs = [
            Sprite(cover * (grey + (hot - grey) * share), cover) for share in (0.8, 0.35, 0.1, 0.0)
        ]
        self._phase = np.sort(source.uniform(0, 1, 30))
        self._side = source.uniform(-1, 1, 30)
        self._sparks = source.uniform(0, 1, (46, 3)).astype(np.float32)

    def draw(self, out: Picture, frame: int, seconds: float) -> None:
        """Draw the puffs on their way up, and the sparks."""
        wide, high = self._canvas.width, self._canvas.height
        for phase, side in zip(self._phase, self._side, strict=True):
            age = (phase + seconds * 0.055) % 1.0
            x = wide * (0.5 + 0.16 * age**1.3 + side * (0.025 + 0.085 * age))
            y = high * (0.235 - 0.28 * age + 0.02 * side)
            fade = min(1.0, age * 8) * (1 - age) ** 0.6
            blit(out, self._puffs[min(3, int(age * 5))], x, y, self._amount * fade)
        age = (self._sparks[:, 0] + seconds * 0.55) % 1.0
        x = wide * (0.5 + (self._sparks[:, 1] - 0.5) * 0.30 * age)
        y = high * (0.25 - (0.26 + 0.22 * self._sparks[:, 2]) * age + 0.42 * age**2)
        alpha = (self._amount * np.clip(1.1 - age, 0, 1)).astype(np.float32)
        stamp(
            out,
            x.astype(np.float32),
            y.astype(np.float32),
            alpha,
            rgb(255, 140, 46),
            max(0.9, 0.006 * high),
            adds=True,
        )
