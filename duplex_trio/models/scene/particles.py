"""Many small things that move: snow, rain, petals, sparks, bubbles. Where each is follows from the time alone."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from duplex_trio.models.scene.noise import Field, dice, field
from duplex_trio.models.scene.palette import Colour
from duplex_trio.models.scene.stack import Canvas, Part, Picture, Window

Columns = npt.NDArray[np.int64]


def stamp(
    out: Picture, x: Field, y: Field, alpha: Field, colour: Colour, radius: float, *, adds: bool = False
) -> None:
    """Draw a soft dot at each place; what would be beyond the edges is left out.

    Args:
        out: the picture.
        x: columns of the middles.
        y: rows of the middles.
        alpha: how much of each is seen, 0..1.
        colour: of all of them, shape (3,), or of each, shape (dots, 3).
        radius: in pixels.
        adds: whether it is light that is added, or something that covers.
    """
    high, wide = out.shape[:2]
    reach = max(0, math.ceil(radius - 0.5))
    left, top = np.floor(x).astype(np.int32), np.floor(y).astype(np.int32)
    steps = np.arange(-reach, reach + 1, dtype=np.int32)
    xx = left[:, None, None] + steps[None, None, :]
    yy = top[:, None, None] + steps[None, :, None]
    if reach:
        away = (xx + np.float32(0.5) - x[:, None, None]) ** 2 + (yy + np.float32(0.5) - y[:, None, None]) ** 2
        share = np.clip(1.0 - away / np.float32(max(0.6, radius) ** 2), 0, 1) * alpha[:, None, None]
    else:
        share = np.broadcast_to(alpha[:, None, None], xx.shape)
    seen = (share > 0.01) & (xx >= 0) & (xx < wide) & (yy >= 0) & (yy < high)
    at = (yy * wide + xx)[seen]
    weight = share[seen][:, None].astype(np.float32)
    lit = np.broadcast_to(colour, (len(x), 3))[np.nonzero(seen)[0]]
    pixels = out.reshape(-1, 3)
    # Where two dots meet the later one is seen: `add.at` would cost ten times as much.
    old = pixels[at]
    pixels[at] = old + weight * (lit if adds else lit - old)


class Drift(Part):
    """Things that fall or rise and come round again: snow, petals, leaves, sparks, bubbles.

    Args:
        canvas: the size.
        seed: of the video.
        purpose: which things.
        count: how many at most; an amount below 1 shows the first ones.
        amount: 0..1.
        colours: shape (colours, 3); each thing has one of them.
        radius: of the nearest, as a share of the picture's height.
        fall: picture heights a second; below 0 they rise.
        blow: picture widths a second to the right.
        sway: how far they swing, as a share of the width.
        adds: whether they shine.
        top: the first row at which they are seen, as a share of the height.
        twinkle: how much they come and go.
    """

    def __init__(
        self,
        canvas: Canvas,
        seed: int,
        *,
        purpose: int,
        count: int,
        amount: float,
        colours: Colour,
        radius: float,
        fall: float,
        blow: float = 0.0,
        sway: float = 0.02,
        adds: bool = False,
        top: float = -0.05,
        twinkle: float = 0.0,
    ) -> None:
        source = dice(seed, purpose)
        count = canvas.few(count)
        shown = math.ceil(count * amount)
        self._canvas = canvas
        self._x = source.uniform(0, 1, count)[:shown].astype(np.float32)
        self._y = source.uniform(0, 1, count)[:shown].astype(np.float32)
        self._near = np.sort(source.uniform(0.25, 1.0, count).astype(np.float32))[source.permutation(count)][
            :shown
        ]
        self._turn = source.uniform(0, 2 * math.pi, count)[:shown].astype(np.float32)
        self._colours = colours[source.integers(len(colours), size=count)][:shown]
        # The last one comes in gradually, so that an amount may change without a jump.
        self._alpha = (0.35 + 0.6 * self._near) * np.clip(count * amount - np.arange(shown), 0, 1).astype(
            np.float32
        )
        self._radius, self._fall, self._blow, self._sway = radius, fall, blow, sway
        self._adds, self._top, self._twinkle = adds, top, twinkle

    def draw(self, out: Picture, frame: int, seconds: float) -> None:
        """Draw them where they are by now."""
        high, wide = self._canvas.height, self._canvas.width
        span = 1.05 - self._top
        y = (self._top + (self._y * span + seconds * self._fall * (0.4 + 0.6 * self._near)) % span) * high
        swing = self._sway * np.sin(self._turn + seconds * (0.8 + self._near))
        x = ((self._x + swing + seconds * self._blow * (0.4 + 0.6 * self._near)) % 1.0) * wide
        alpha = self._alpha
        if self._twinkle:
            alpha = alpha * (
                1 - self._twinkle * (0.5 + 0.5 * np.sin(self._turn * 3 + seconds * (1.5 + 2 * self._near)))
            )
        size = self._radius * high
        for low, reach in ((0.0, 0.5), (0.5, 0.75), (0.75, 1.0)):
            chosen = (self._near > low) & (self._near <= reach)
            if chosen.any():
                radius = max(0.75, size * (0.3 + 0.7 * reach))
                stamp(
                    out, x[chosen], y[chosen], alpha[chosen], self._colours[chosen], radius, adds=self._adds
                )


class Rain(Part):
    """Two curtains of streaks, the near one faster."""

    def __init__(self, canvas: Canvas, curtains: list[Picture], amount: float, bright: float) -> None:
        self._canvas = canvas
        self._curtains = [curtain * np.float32(amount * bright) for curtain in curtains]

    def draw(self, out: Picture, frame: int, seconds: float) -> None:
        """Add the streaks, moved down."""
        high = self._canvas.height
        for curtain, speed in zip(self._curtains, (1.3, 2.1), strict=True):
            rows = len(curtain)
            start = rows - int(seconds * speed * high) % rows
            first = min(high, rows - start)
            out[:first] += curtain[start : start + first]
            done = first
            while done < high:
                more = min(rows, high - done)
                out[done : done + more] += curtain[:more]
                done += more


def rain_curtains(canvas: Canvas, seed: int) -> list[Picture]:
    """The streaks of a video, in 0..1 of their brightness; shape (rows, width, 3), and rows come round."""
    made = []
    for number, (count, length, bright) in enumerate(((420, 0.055, 0.55), (150, 0.12, 1.0))):
        source = dice(seed, 91, number)
        rows = round(canvas.height * 1.25)
        curtain = np.zeros((rows, canvas.width), np.float32)
        streak = max(2, round(length * canvas.height))
        count = canvas.few(count)
        fade = np.linspace(0, 1, streak, dtype=np.float32)
        for x, y in zip(source.uniform(0, canvas.width, count), source.uniform(0, rows, count), strict=True):
            down = (int(y) + np.arange(streak)) % rows
            across = (int(x) - (np.arange(streak) * 0.10).astype(int)) % canvas.width
            curtain[down, across] += fade * bright * float(source.uniform(0.4, 1.0))
        made.append(np.repeat(np.clip(curtain, 0, 1)[:, :, None], 3, axis=2))
    return made


class Fog(Part):
    """Fog that lies over the land and moves slowly.

    Args:
        canvas: the size.
        billows: noise as wide as the picture whose edges meet.
        colour: of the fog.
        amount: 0..1.
    """

    def __init__(self, canvas: Canvas, billows: Field, colour: Colour, amount: float) -> None:
        self._canvas = canvas
        high = np.arange(canvas.height, dtype=np.float32)[:, None] / canvas.height
        thick = np.exp(-(((high - 0.62) / 0.22) ** 2)) * (0.25 + 0.9 * billows) * amount
        cover = np.clip(thick, 0, 0.9)
        cover = np.concatenate([cover, cover, cover[:, :1]], axis=1)
        self._paint = Window((cover[:, :, None] * colour).astype(np.float32), canvas.width)
        self._keeps = Window(np.repeat(1 - cover[:, :, None], 3, axis=2).astype(np.float32), canvas.width)
        self._wide = billows.shape[1]

    def draw(self, out: Picture, frame: int, seconds: float) -> None:
        """Lay it over the picture."""
        left = (seconds * 0.022 * self._canvas.height) % self._wide
        out *= self._keeps.at(left)
        out += self._paint.at(left)


def fog_billows(canvas: Canvas, seed: int) -> Field:
    """The billows of a video."""
    return field(dice(seed, 92), canvas.height, canvas.wide, rows=6, columns=3, octaves=4, wraps=True)


class Lightning(Part):
    """A flash now and then, at the same moments whenever the video is made again."""

    def __init__(self, canvas: Canvas, seed: int, amount: float) -> None:
        self._canvas = canvas
        self._seed = seed
        self._amount = amount

    def draw(self, out: Picture, frame: int, seconds: float) -> None:
        """Draw the bolt of this moment, if there is one, and brighten the rest."""
        beat = int(seconds / 1.7)
        source = dice(self._seed, 93, beat)
        begins = float(source.uniform(0.0, 1.2))
        since = seconds - beat * 1.7 - begins
        if not 0.0 <= since < 0.30 or source.uniform() < 0.2:
            return
        bright = self._amount * (1 - since / 0.30) * (1.0 if since < 0.09 or since > 0.14 else 0.45)
        out *= np.float32(1 + 0.55 * bright)
        out += np.float32(26 * bright)
        high, wide = self._canvas.height, self._canvas.width
        rows = np.arange(0, self._canvas.horizon, dtype=np.float32)
        steps = np.repeat(source.uniform(-1, 1, len(rows) // 6 + 1), 6)[: len(rows)]
        x = float(source.uniform(0.15, 0.85)) * wide + np.cumsum(steps) * wide / 512 * 0.9
        for off, alpha in ((0.0, 1.0), (1.0, 0.5), (-1.0, 0.5), (2.2, 0.2), (-2.2, 0.2)):
            light = np.full(len(rows), bright * alpha, np.float32)
            stamp(
                out,
                (x + off * high / 512).astype(np.float32),
                rows,
                light,
                np.array([230, 235, 255], np.float32),
                0.5,
            )


class Fire(Part):
    """Flames over logs, and their light: noise that rises through the outline of a flame."""

    def __init__(self, canvas: Canvas, seed: int, amount: float) -> None:
        self._canvas, self._amount = canvas, np.float32(amount)
        high, wide = canvas.height, canvas.width
        self._rows, self._columns = max(6, round(0.30 * high)), max(6, round(0.26 * high))
        self._noise = field(dice(seed, 94), 4 * self._rows, self._columns, rows=20, columns=5, octaves=3)
        up = np.linspace(1.0, 0.0, self._rows, dtype=np.float32)[:, None]
        across = np.linspace(-1.0, 1.0, self._columns, dtype=np.float32)[None, :]
        self._outline = (
            np.clip(1.25 - np.abs(across) / np.maximum(0.05, 0.62 * (1 - up) ** 0.8), 0, 1.25)
            - 0.85 * up
            - 0.45 * up**4
        )
        self._outline += np.clip(0.12 - up, 0, 1) * -4.0
        y, x = np.mgrid[0:high, 0:wide].astype(np.float32)
        away = np.sqrt(((x - 0.5 * wide) / 1.6) ** 2 + (y - 0.86 * high) ** 2) / high
        glow = np.exp(-away * 5.0) * 135 * amount
        self._glow = (glow[:, :, None] * np.array([1.0, 0.50, 0.15], np.float32)).astype(np.float32)

    def draw(self, out: Picture, frame: int, seconds: float) -> None:
        """Add the light and the flames of this moment."""
        high, wide = self._canvas.height, self._canvas.width
        waver = 1 + 0.12 * math.sin(seconds * 9.1) + 0.08 * math.sin(seconds * 14.7 + 1)
        out += self._glow * np.float32(waver)
        rows = (np.arange(self._rows) + int(seconds * 0.42 * high)) % len(self._noise)
        heat = np.clip(self._outline + 1.5 * (self._noise[rows] - 0.55), 0, 1) * self._amount
        top = round(0.90 * high) - self._rows
        left = max(0, wide // 2 - self._columns // 2)
        seen = out[max(0, top) : top + self._rows, left : left + self._columns]
        heat = heat[-len(seen) :, : seen.shape[1]]
        for channel, (bright, power) in enumerate(((330.0, 0.8), (250.0, 1.7), (120.0, 3.4))):
            seen[:, :, channel] += np.float32(bright) * heat**power


class Fireworks(Part):
    """Rockets that burst, one after the other."""

    def __init__(self, canvas: Canvas, seed: int, amount: float) -> None:
        self._canvas = canvas
        self._seed = seed
        self._amount = amount

    def draw(self, out: Picture, frame: int, seconds: float) -> None:
        """Draw the bursts that are in the air."""
        hues = np.array(
            [
                [255, 90, 90],
                [255, 200, 80],
                [110, 255, 150],
                [110, 170, 255],
                [240, 120, 255],
                [255, 255, 220],
            ],
            np.float32,
        )
        for beat in range(int(seconds / 0.4) - 6, int(seconds / 0.4) + 1):
            source = dice(self._seed, 95, beat & 0xFFFF)
            since = seconds - beat * 0.4
            if not 0 <= since < 2.2:
                continue
            x0, y0 = (
                float(source.uniform(0.12, 0.88)) * self._canvas.width,
                float(source.uniform(0.06, 0.27)) * self._canvas.height,
            )
            angle = source.uniform(0, 2 * math.pi, 90)
            speed = np.sqrt(source.uniform(0.15, 1, 90)) * 0.24 * self._canvas.height
            hue = hues[int(source.integers(len(hues)))]
            for trail, weight in ((0.0, 1.0), (0.05, 0.6), (0.10, 0.35), (0.15, 0.2)):
                age = max(0.0, since - trail)
                reach = 1 - math.exp(-2.2 * age)
                x = x0 + np.cos(angle) * speed * reach
                y = y0 + np.sin(angle) * speed * reach + 0.035 * self._canvas.height * age**2
                alpha = np.full(90, self._amount * weight * max(0.0, 1 - since / 2.2) ** 0.7, np.float32)
                stamp(
                    out,
                    x.astype(np.float32),
                    y.astype(np.float32),
                    alpha,
                    hue,
                    max(0.75, 0.0035 * self._canvas.height),
                    adds=True,
                )
