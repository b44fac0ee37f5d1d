"""Shapes of what people built: skylines, streets, houses, castles, lighthouses."""

from __future__ import annotations

import numpy as np

from duplex_trio.models.scene.drawing import Sketch
from duplex_trio.models.scene.noise import dice
from duplex_trio.models.scene.stack import Canvas, Shape

_WINDOW = ((255, 206, 128), (255, 226, 170), (196, 220, 255), (255, 180, 96))
_NEON = ((255, 40, 150), (40, 230, 255), (170, 60, 255), (255, 90, 60), (60, 255, 170))


def skyline(
    canvas: Canvas, seed: int, *, purpose: int, tall: float, base: float, broad: float, lit: float
) -> Shape:
    """A row of towers with windows, some of them lit."""
    source = dice(seed, purpose)
    sketch = Sketch(canvas, lights=True)
    foot = base * canvas.height
    x = -0.02 * canvas.wide
    pitch = max(2.5, canvas.height * 0.0135)
    while x < canvas.wide:
        wide = canvas.wide * broad * float(source.uniform(0.6, 1.3))
        middle = 1.0 - 0.5 * abs((x + wide / 2) / canvas.wide - 0.5) * 2
        high = canvas.height * tall * float(source.uniform(0.35, 1.0)) * middle
        top = foot - high
        grey = float(source.uniform(0.8, 1.15))
        sketch.box(x, top, x + wide * 0.55, foot + 2, grey * 1.06)
        sketch.box(x + wide * 0.55, top, x + wide * 0.94, foot + 2, grey * 0.82)
        if source.uniform() < 0.35:
            sketch.box(x + wide * 0.25, top - high * 0.10, x + wide * 0.62, top + 1, grey)
            sketch.line(
                [(x + wide * 0.44, top - high * 0.10), (x + wide * 0.44, top - high * 0.26)],
                max(0.8, wide * 0.03),
                grey,
            )
        warm = _WINDOW[int(source.integers(len(_WINDOW)))]
        for row in _steps(top + pitch, foot - pitch * 0.5, pitch):
            for column in _steps(x + pitch * 0.5, x + wide * 0.92 - pitch * 0.5, pitch):
                if source.uniform() < lit:
                    sketch.lamp(
                        _frame(column, row, pitch * 0.5, pitch * 0.55),
                        np.array(warm) * float(source.uniform(0.35, 0.9)),
                    )
        x += wide
    return sketch.shape(halo=0.004 * canvas.height)


def neon_signs(canvas: Canvas, seed: int, *, purpose: int, base: float, tall: float, count: int) -> Shape:
    """Signs and edges in the colours of gas tubes, with their halo. Covers nothing."""
    source = dice(seed, purpose)
    sketch = Sketch(canvas, lights=True)
    for _ in range(count):
        x = float(source.uniform(0.02, 0.98)) * canvas.wide
        y = (base - tall * float(source.uniform(0.05, 0.85))) * canvas.height
        colour = _NEON[int(source.integers(len(_NEON)))]
        wide, high = (
            canvas.wide * float(source.uniform(0.008, 0.022)),
            canvas.height * float(source.uniform(0.03, 0.11)),
        )
        match int(source.integers(3)):
            case 0:
                box = [(x, y), (x + wide, y), (x + wide, y + high), (x, y + high), (x, y)]
                sketch.lamp_line(box, max(1.0, canvas.wide * 0.003), colour)
                for mark in _steps(y + high * 0.15, y + high * 0.9, high * 0.22):
                    sketch.lamp_line(
                        [(x + wide * 0.25, mark), (x + wide * 0.75, mark)],
                        max(1.0, canvas.wide * 0.003),
                        colour,
                    )
            case 1:
                sketch.lamp(_frame(x, y, wide * 2.2, high * 0.28), np.array(colour) * 0.9)
            case _:
                sketch.lamp_line([(x, y), (x, y + high * 1.5)], max(1.0, canvas.wide * 0.0035), colour)
    return sketch.shape(halo=0.011 * canvas.height)


def street(canvas: Canvas, seed: int) -> tuple[Shape, Shape, Shape]:
    """Houses on both sides of a road that runs to the horizon with their lit windows, the road, and the roofs."""
    source = dice(seed, 61)
    houses, road, roofs = Sketch(canvas, lights=True), Sketch(canvas), Sketch(canvas)
    middle, horizon = canvas.wide * 0.5, canvas.height * 0.60
    edge = canvas.wide * 0.60
    road.polygon(
        [
            (0, canvas.height),
            (0, horizon + 2),
            (middle, horizon),
            (canvas.wide, horizon + 2),
            (canvas.wide, canvas.height),
        ],
        1.25,
    )
    road.polygon(
        [
            (middle - edge * 0.62, canvas.height),
            (middle - 3, horizon),
            (middle + 3, horizon),
            (middle + edge * 0.62, canvas.height),
        ],
        0.9,
    )
    for side in (-1, 1):
        cuts = 1.0 / np.array([1.0, 1.32, 1.75, 2.35, 3.2, 4.5, 6.5, 10.0]) * 1.25
        for number in range(len(cuts) - 2, -1, -1):
            near, far = float(cuts[number]), float(cuts[number + 1])
            storeys = 0.52 + 0.20 * float(source.uniform(-1, 1))
            grey = float(source.uniform(0.75, 1.2)) * (0.75 + 0.25 * near)
            _facade(houses, roofs, canvas, (middle, horizon), side, near, far, storeys, grey, source)
    return houses.shape(halo=0.008 * canvas.height), road.shape(), roofs.shape()


def _facade(
    sketch: Sketch, roofs: Sketch, canvas: Canvas, vanishing: tuple[float, float], side: int, near: float, far: float,
    tall: float, grey: float, source: np.random.Generator,
) -> None:  # fmt: skip
    """One house front in perspective; `near` and `far` scale its ends' distances from the vanishing point."""
    middle, horizon = vanishing

    def at(distance: float, up: float) -> tuple[float, float]:
        return middle + side * canvas.wide * 0.40 * distance, horizon + canvas.height * (0.30 - up) * distance

    roof = (near + far) / 2
    sketch.polygon([at(near, 0), at(near, tall), at(far, tall), at(far, 0)], grey)
    # House stands beside house, so no roof hides another wall.
    gable = 0.17 * (0.8 + 0.4 * grey)
    roofs.polygon([at(near, tall - 0.012), at(roof, tall + gable), at(far, tall - 0.012)], 0.75 + 0.3 * grey)
    panes = 3
    for storey in _steps(0.16, tall - 0.08, 0.15):
        for pane in range(panes):
            left = near + (far - near) * (pane + 0.25) / panes
            right = near + (far - near) * (pane + 0.72) / panes
            corners = [
                at(left, storey),
                at(left, storey + 0.085),
                at(right, storey + 0.085),
                at(right, storey),
            ]
            sketch.polygon(corners, grey * 0.5)
            if source.uniform() < 0.6:
                warm = _WINDOW[int(source.integers(len(_WINDOW)))]
                sketch.lamp(corners, np.array(warm) * float(source.uniform(0.5, 0.95)))


def street_lamps(canvas: Canvas, seed: int) -> Shape:
    """Lamp posts along the road and strings of lanterns over it."""
    sketch = Sketch(canvas, lights=True)
    middle, horizon = canvas.wide * 0.5, canvas.height * 0.60
    for distance in (0.16, 0.25, 0.40, 0.66):
        for side in (-1, 1):
            x, foot = (
                middle + side * canvas.wide * 0.33 * distance * 1.35,
                horizon + canvas.height * 0.32 * distance,
            )
            high = canvas.height * 0.62 * distance
            sketch.line([(x, foot), (x, foot - high)], max(1.0, high * 0.022), 0.35)
            sketch.line(
                [(x, foot - high), (x - side * high * 0.10, foot - high * 1.03)], max(1.0, high * 0.02), 0.35
            )
            sketch.lamp_round(
                x - side * high * 0.11, foot - high * 0.97, max(1.2, high * 0.042), (255, 196, 110)
            )
    for distance in (0.22, 0.36, 0.60):
        span, high = canvas.wide * 0.40 * distance, horizon - canvas.height * 0.36 * distance
        ends = [number / 4 - 1 for number in range(9)]
        rope = [(middle + span * end, high + canvas.height * 0.10 * distance * (1 - end**2)) for end in ends]
        sketch.line(rope, max(0.7, distance * 1.5), 0.3)
        for x, y in rope[1:-1]:
            radius = max(1.2, canvas.height * 0.020 * distance)
            sketch.lamp_round(x, y + radius * 1.3, radius, (255, 150, 62))
    return sketch.shape(halo=0.020 * canvas.height)


def village(
    canvas: Canvas, seed: int, *, purpose: int, base: float, size: float, count: int
) -> tuple[Shape, Shape]:
    """Houses with gables on a slope; the walls with their lit windows, and the roofs."""
    source = dice(seed, purpose)
    walls, roofs = Sketch(canvas, lights=True), Sketch(canvas)
    places = sorted(
        (float(base + source.uniform(-0.03, 0.07)), (number + 0.5 + float(source.uniform(-0.3, 0.3))) / count)
        for number in range(count)
    )
    for foot, column in places:
        high = (
            canvas.height
            * size
            * float(source.uniform(0.75, 1.2))
            * (0.7 + 2.2 * max(0.0, foot - base + 0.03))
        )
        wide = high * float(source.uniform(1.0, 1.5))
        x, y = column * canvas.wide, foot * canvas.height
        grey = float(source.uniform(0.9, 1.15))
        walls.box(x - wide / 2, y - high * 0.55, x + wide / 2, y, grey)
        walls.polygon(
            [(x - wide / 2, y - high * 0.55), (x, y - high), (x + wide / 2, y - high * 0.55)], grey * 0.95
        )
        roofs.polygon(
            [
                (x - wide * 0.58, y - high * 0.5),
                (x, y - high * 1.06),
                (x, y - high * 0.93),
                (x - wide * 0.5, y - high * 0.46),
            ],
            1.1,
        )
        roofs.polygon(
            [
                (x + wide * 0.58, y - high * 0.5),
                (x, y - high * 1.06),
                (x, y - high * 0.93),
                (x + wide * 0.5, y - high * 0.46),
            ],
            0.85,
        )
        for off in (-0.25, 0.25):
            walls.lamp(
                _frame(x + off * wide - high * 0.07, y - high * 0.4, high * 0.14, high * 0.17),
                (255, 190, 100),
            )
    return walls.shape(halo=0.006 * canvas.height), roofs.shape()


def castle(canvas: Canvas, seed: int) -> Shape:
    """A castle with towers on a hill."""
    sketch = Sketch(canvas, lights=True)
    x, y, unit = canvas.wide * 0.56, canvas.height * 0.52, canvas.height * 0.055

    def tower(left: float, wide: float, high: float, grey: float, *, spire: bool = True) -> None:
        sketch.box(x + left * unit, y - high * unit, x + (left + wide) * unit, y + 3 * unit, grey)
        if spire:
            tip = (x + (left + wide / 2) * unit, y - (high + 1.5 * wide) * unit)
            sketch.polygon(
                [
                    (x + (left - 0.15) * unit, y - high * unit),
                    tip,
                    (x + (left + wide + 0.15) * unit, y - high * unit),
                ],
                grey * 0.6,
            )
        else:
            for notch in _steps(left, left + wide, 0.5):
                sketch.box(
                    x + notch * unit,
                    y - (high + 0.28) * unit,
                    x + (notch + 0.28) * unit,
                    y - high * unit,
                    grey,
                )
        for row in _steps(1.0, high - 0.4, 1.25):
            middle = x + (left + wide / 2) * unit
            sketch.lamp(
                _frame(middle - 0.10 * unit, y - (row + 0.45) * unit, 0.2 * unit, 0.42 * unit), (255, 190, 96)
            )

    hill = [
        (x + a * unit, y + b * unit)
        for a, b in ((-7, 5), (-4.4, 1.6), (-3.2, 0.4), (3.6, 0.4), (5, 1.8), (8, 5))
    ]
    sketch.polygon(hill, 0.7)
    tower(-2.6, 5.6, 1.5, 0.95, spire=False)
    tower(-0.7, 1.5, 4.4, 1.08)
    tower(-3.1, 1.0, 2.7, 1.0)
    tower(2.5, 1.1, 3.1, 0.92)
    tower(0.95, 0.8, 3.4, 0.85)
    return sketch.shape(halo=0.006 * canvas.height)


def lighthouse(canvas: Canvas, seed: int) -> tuple[Shape, Shape]:
    """A lighthouse on its rock, and its red bands; the lamp shines."""
    tower, bands = Sketch(canvas, lights=True), Sketch(canvas)
    x, foot, high = canvas.wide * 0.70, canvas.height * 0.60, canvas.height * 0.36
    rock = ((-0.50, 0.10), (-0.36, -0.02), (-0.12, -0.07), (0.14, -0.05), (0.40, 0.0), (0.62, 0.10))
    tower.polygon([(x + a * high, foot + b * high) for a, b in rock], 0.42)

    def half(up: float) -> float:
        return high * (0.085 - 0.035 * up)

    tower.polygon(
        [
            (x - half(0), foot),
            (x + half(0), foot),
            (x + half(0.82), foot - high * 0.82),
            (x - half(0.82), foot - high * 0.82),
        ],
        1.1,
    )
    for up in (0.12, 0.44):
        low, top = foot - high * up, foot - high * (up + 0.17)
        bands.polygon(
            [
                (x - half(up), low),
                (x + half(up), low),
                (x + half(up + 0.17), top),
                (x - half(up + 0.17), top),
            ],
            1.0,
        )
    tower.box(x - high * 0.065, foot - high * 0.85, x + high * 0.065, foot - high * 0.82, 0.5)
    tower.box(x - high * 0.038, foot - high * 0.94, x + high * 0.038, foot - high * 0.85, 0.8)
    tower.polygon(
        [
            (x - high * 0.055, foot - high * 0.94),
            (x, foot - high * 1.02),
            (x + high * 0.055, foot - high * 0.94),
        ],
        0.5,
    )
    tower.lamp_round(x, foot - high * 0.895, high * 0.036, (255, 240, 190))
    return tower.shape(halo=0.018 * canvas.height), bands.shape()


def _frame(x: float, y: float, wide: float, high: float) -> list[tuple[float, float]]:
    return [(x, y), (x + wide, y), (x + wide, y + high), (x, y + high)]


def _steps(first: float, end: float, step: float) -> list[float]:
    return [float(value) for value in np.arange(first, end, step)]
