"""Shapes of what grows: pines, round trees, palms, grass and flowers."""

from __future__ import annotations

import itertools
import math

import numpy as np

from duplex_trio.models.scene.drawing import Sketch
from duplex_trio.models.scene.noise import curve, dice
from duplex_trio.models.scene.stack import Canvas, Shape


def pines(
    canvas: Canvas,
    seed: int,
    *,
    purpose: int,
    count: int,
    tall: float,
    base: float,
    open_middle: bool = False,
) -> Shape:
    """A row of pines that stand on a wavy line.

    Args:
        canvas: the size.
        seed: of the video.
        purpose: which row.
        count: how many.
        tall: their height as a share of the picture's.
        base: where they stand, likewise.
        open_middle: whether the view between them is kept free.
    """
    source = dice(seed, purpose)
    sketch = Sketch(canvas)
    ground = curve(source, canvas.wide, waves=2.0, octaves=2) * 0.02
    line = [(0.0, canvas.height * 1.0)]
    line += [
        (float(x), float((base + ground[min(x, canvas.wide - 1)]) * canvas.height))
        for x in range(0, canvas.wide + 8, 8)
    ]
    line.append((float(canvas.wide + 8), canvas.height * 1.0))
    places = (np.arange(count) + source.uniform(0.1, 0.9, count)) / count
    for place in source.permutation(places):
        if open_middle and abs(place - 0.5) < 0.24:
            continue
        x = place * canvas.wide
        foot = (base + float(ground[min(int(x), canvas.wide - 1)]) + 0.01) * canvas.height
        _pine(
            sketch,
            x,
            foot,
            canvas.height * tall * float(source.uniform(0.6, 1.15)),
            float(source.uniform(0.8, 1.15)),
            source,
        )
    sketch.polygon(line, 0.92)
    return sketch.shape()


def _pine(
    sketch: Sketch, x: float, foot: float, tall: float, grey: float, source: np.random.Generator
) -> None:
    half = tall * 0.21
    sketch.box(x - tall * 0.018, foot - tall * 0.2, x + tall * 0.018, foot + 1, grey * 0.5)
    tiers = 6
    for tier in range(tiers):
        low = foot - tall * (0.025 + 0.90 * tier / tiers * 0.95)
        high = min(low - tall * 0.26, foot - tall * (0.3 + 0.7 * (tier + 1) / tiers))
        wide = half * (1 - 0.85 * tier / tiers) * float(source.uniform(0.88, 1.12))
        tone = grey * (0.82 + 0.06 * tier)
        sketch.polygon(
            [(x - wide, low), (x - wide * 0.45, low - tall * 0.02), (x, low - tall * 0.035), (x, high)],
            tone * 0.85,
        )
        sketch.polygon(
            [(x + wide, low), (x + wide * 0.45, low - tall * 0.02), (x, low - tall * 0.035), (x, high)],
            tone * 1.12,
        )


def round_trees(
    canvas: Canvas, seed: int, *, purpose: int, places: list[tuple[float, float, float]]
) -> tuple[Shape, Shape]:
    """Broad-leaved trees: their trunks and their crowns.

    Args:
        canvas: the size.
        seed: of the video.
        purpose: which trees.
        places: of each the column, the row of its foot and its height, as shares of the picture.
    """
    source = dice(seed, purpose)
    trunks, crowns = Sketch(canvas), Sketch(canvas)
    for column, foot, tall in places:
        x, y, high = column * canvas.wide, foot * canvas.height, tall * canvas.height
        thick = high * 0.045
        trunks.polygon(
            [
                (x - thick, y),
                (x + thick, y),
                (x + thick * 0.5, y - high * 0.55),
                (x - thick * 0.5, y - high * 0.55),
            ],
            0.9,
        )
        for side in (-1, 1):
            tip = (x + side * high * 0.20, y - high * 0.72)
            trunks.line(
                [(x, y - high * 0.36), (x + side * high * 0.09, y - high * 0.52), tip], thick * 0.8, 0.85
            )
        puffs = [
            (float(source.uniform(-1, 1)), float(source.uniform(-1, 1)), float(source.uniform(0.5, 1.0)))
            for _ in range(280)
        ]
        for across, up, size in puffs:
            if across**2 + up**2 > 1.05:
                continue
            radius = high * 0.052 * size
            grey = 0.98 + 0.20 * -up * 0.9 + 0.10 * float(source.uniform(-1, 1)) + 0.07 * across
            crowns.round(
                x + across * high * 0.36, y - high * 0.72 + up * high * 0.26, radius * 1.2, radius, grey
            )
    return trunks.shape(), crowns.shape()


def palms(
    canvas: Canvas, seed: int, *, purpose: int, places: list[tuple[float, float, float]]
) -> tuple[Shape, Shape]:
    """Palms: trunks and leaves. `places` as of round trees; they lean towards the middle."""
    source = dice(seed, purpose)
    trunks, leaves = Sketch(canvas), Sketch(canvas)
    for column, foot, tall in places:
        x, y, high = column * canvas.wide, foot * canvas.height, tall * canvas.height
        lean = high * (0.28 if column < 0.5 else -0.28) * float(source.uniform(0.6, 1.1))
        spine = [(x + lean * (share**1.7), y - high * share) for share in np.linspace(0, 1, 12)]
        for number, (one, two) in enumerate(itertools.pairwise(spine)):
            trunks.line([one, two], high * (0.045 - 0.0022 * number), 0.9 + 0.12 * (number % 2))
        head = spine[-1]
        for leaf in range(11):
            angle = -math.pi / 2 + (leaf - 5) * 0.52 + float(source.uniform(-0.12, 0.12))
            length = high * float(source.uniform(0.36, 0.5))
            _palm_leaf(leaves, head, angle, length, 0.8 + 0.35 * float(source.uniform(0, 1)))
    return trunks.shape(), leaves.shape()


def _palm_leaf(sketch: Sketch, head: tuple[float, float], angle: float, length: float, grey: float) -> None:
    spine = []
    for share in np.linspace(0, 1, 9):
        drop = length * 0.62 * share**2.2
        spine.append(
            (
                head[0] + math.cos(angle) * length * share,
                head[1] + math.sin(angle) * length * share * 0.75 + drop,
            )
        )
    for number in range(1, 9):
        x, y = spine[number]
        back = spine[number - 1]
        hang = length * 0.20 * math.sin(math.pi * number / 9.5) + length * 0.03
        sketch.polygon([back, (x, y), (x + math.cos(angle) * hang * 0.15, y + hang)], grey * 0.9)
        sketch.polygon([back, (x, y), (x + math.cos(angle) * hang * 0.3, y - hang * 0.35)], grey * 1.15)
    sketch.line(spine, length * 0.02, grey * 0.8)


def ferns(canvas: Canvas, seed: int, *, purpose: int, count: int) -> Shape:
    """Large leaves that spring up from the lower edge."""
    source = dice(seed, purpose)
    sketch = Sketch(canvas)
    for place in source.permutation(count):
        x = (place + float(source.uniform(0, 1))) / count * canvas.wide
        aside = abs(x / canvas.wide - 0.5) * 2
        head = (x, canvas.height * float(source.uniform(0.97, 1.04)))
        length = canvas.height * (0.10 + 0.17 * aside) * float(source.uniform(0.7, 1.2))
        for leaf in range(7):
            angle = -math.pi / 2 + (leaf - 3) * 0.36 + float(source.uniform(-0.1, 0.1))
            _palm_leaf(sketch, head, angle, length, float(source.uniform(0.6, 1.2)))
    return sketch.shape()


def grass(canvas: Canvas, seed: int, *, purpose: int, base: float, tall: float, count: int) -> Shape:
    """Blades along the lower edge."""
    source = dice(seed, purpose)
    sketch = Sketch(canvas)
    for _ in range(count):
        x = float(source.uniform(0, canvas.wide))
        foot = canvas.height * float(source.uniform(base, 1.04))
        high = canvas.height * tall * float(source.uniform(0.5, 1.2)) * (0.5 + foot / canvas.height - base)
        lean = high * float(source.uniform(-0.5, 0.5))
        wide = max(0.6, high * 0.06)
        sketch.polygon(
            [(x - wide, foot), (x + wide, foot), (x + lean, foot - high)], float(source.uniform(0.7, 1.25))
        )
    return sketch.shape()


def flowers(canvas: Canvas, seed: int, *, purpose: int, base: float, count: int) -> Shape:
    """Blossoms over a field, larger towards the viewer."""
    source = dice(seed, purpose)
    sketch = Sketch(canvas)
    for place in np.sort(source.uniform(0, 1, count)):
        near = float(place) ** 1.4
        y = canvas.height * (base + (1.0 - base) * near)
        radius = canvas.height * (0.0022 + 0.008 * near)
        sketch.round(
            float(source.uniform(0, canvas.wide)), y, radius, radius * 0.75, float(source.uniform(0.8, 1.25))
        )
    return sketch.shape()
