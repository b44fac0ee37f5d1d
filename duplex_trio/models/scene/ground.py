"""Shapes of the land: ranges, hills, dunes, plains and the cone of a volcano."""

from __future__ import annotations

import numpy as np

from duplex_trio.models.scene.noise import Field, curve, dice, field
from duplex_trio.models.scene.stack import Canvas, Picture, Shape


def mountains(canvas: Canvas, seed: int, *, purpose: int, rise: float, base: float) -> tuple[Shape, Shape]:
    """A range of peaks, and the snow on them.

    Args:
        canvas: the size.
        seed: of the video.
        purpose: which range.
        rise: how high the peaks are, as a share of the picture's height.
        base: the row at which the range ends, as a share of the height.
    """
    source = dice(seed, purpose)
    rough = curve(source, canvas.wide, waves=3.2, octaves=6, fall=0.48)
    peaks = 1.0 - np.abs(rough) * 1.4
    broad = curve(source, canvas.wide, waves=1.6, octaves=2)
    line = (base - rise * np.clip(0.35 + 0.55 * peaks + 0.25 * broad, 0.1, 1.25)) * canvas.height
    shape, depth = _below(canvas, line, bottom=base + 0.06)
    columns = np.arange(canvas.wide)
    slope = np.gradient(_smoothed(line, max(2, canvas.wide // 40)))
    at = np.clip(
        columns[None, :] + (depth * 0.55 * np.tanh(slope * 3.0)[None, :]).astype(int), 0, canvas.wide - 1
    )
    folds = curve(source, canvas.wide, waves=14, octaves=4, fall=0.6)
    shade = 0.92 + 0.34 * np.tanh(-slope * 1.4)[at] + 0.22 * folds[at]
    grain = field(source, *shape.cover.shape, rows=10, columns=18, octaves=3)
    shade = np.clip(shade + 0.25 * (grain - 0.5), 0.35, 1.5).astype(np.float32)
    limit = canvas.height * rise * (0.34 + 0.30 * grain + 0.12 * folds[None, :])
    white = shape.cover * np.clip((limit - depth) / (0.02 * canvas.height), 0.0, 1.0)
    return Shape(shape.top, shape.cover, shade), Shape(
        shape.top, white.astype(np.float32), 0.55 + 0.5 * shade
    )


def hills(canvas: Canvas, seed: int, *, purpose: int, rise: float, base: float, waves: float = 1.8) -> Shape:
    """Soft hills down to the lower edge of the picture."""
    source = dice(seed, purpose)
    line = (
        base - rise * (0.5 + 0.5 * curve(source, canvas.wide, waves=waves, octaves=3, fall=0.35))
    ) * canvas.height
    shape, depth = _below(canvas, line, bottom=1.0)
    grain = field(source, *shape.cover.shape, rows=26, columns=9, octaves=3)
    lit = 1.08 - 0.35 * np.clip(depth / (0.5 * canvas.height), 0, 1) + 0.22 * (grain - 0.5)
    return Shape(shape.top, shape.cover, lit.astype(np.float32))


def dunes(canvas: Canvas, seed: int, *, purpose: int, rise: float, base: float, waves: float) -> Shape:
    """A dune: a sharp crest, one side in the light and one in shadow, and ripples."""
    source = dice(seed, purpose)
    soft = curve(source, canvas.wide, waves=waves, octaves=2, fall=0.3)
    crest = np.abs(soft) ** 0.8 * np.sign(soft)
    line = (base - rise * (0.5 + 0.55 * crest)) * canvas.height
    shape, depth = _below(canvas, line, bottom=1.0)
    rows = np.arange(shape.cover.shape[0], dtype=np.float32)[:, None]
    columns = np.arange(canvas.wide, dtype=np.float32)[None, :]
    edge = curve(source, canvas.wide, waves=waves * 1.5, octaves=3) * 0.10 * canvas.wide
    snake = np.sin((columns + edge[None, :] + 0.9 * depth) / canvas.wide * 2 * np.pi * waves * 0.8)
    side = 0.5 + 0.5 * np.tanh(snake * 7.0)
    ripple = np.sin(rows * (2.6 * 512 / canvas.height) * 0.22 + 5 * np.sin(columns / canvas.wide * 9.0))
    shade = 0.66 + 0.44 * side + 0.03 * ripple - 0.10 * np.clip(depth / (0.35 * canvas.height), 0, 1)
    rim = np.exp(-depth / (0.012 * canvas.height)) * 0.16
    return Shape(shape.top, shape.cover, (shade + rim).astype(np.float32))


def plain(canvas: Canvas, seed: int, *, purpose: int, base: float) -> Shape:
    """Flat ground to the lower edge, with patches that are larger the nearer they are."""
    source = dice(seed, purpose)
    line = (base + 0.006 * curve(source, canvas.wide, waves=3, octaves=2)) * canvas.height
    shape, _ = _below(canvas, line, bottom=1.0)
    rows, wide = shape.cover.shape
    grain = field(source, rows, wide, rows=12, columns=7, octaves=4)
    near = (np.arange(rows, dtype=np.float32) / max(1, rows))[:, None] ** 0.6
    fine = source.uniform(-1, 1, (rows, wide)).astype(np.float32)
    shade = 1.02 + 0.36 * (grain - 0.5) * (0.4 + 0.6 * near) + 0.06 * fine * near - 0.12 * near
    return Shape(shape.top, shape.cover, shade.astype(np.float32))


def volcano(canvas: Canvas, seed: int) -> Shape:
    """A cone with a crater and rivers of lava; what shines is the lava with its halo."""
    from duplex_trio.models.scene.drawing import halo_of

    source = dice(seed, 41)
    columns = np.arange(canvas.wide, dtype=np.float32)
    middle = canvas.wide * 0.5
    off = np.abs(columns - middle) / canvas.wide
    rough = curve(source, canvas.wide, waves=9, octaves=4)
    peak, foot = 0.24, 0.64
    flank = peak + (foot - peak) * np.clip((off - 0.055) / 0.42, 0, 1) ** 0.62
    line = (flank + 0.012 * rough) * canvas.height
    line = np.where(off < 0.055, (peak + 0.012 + 0.010 * np.cos(off * 57)) * canvas.height, line)
    # Above the crater is room for its light.
    shape, _ = _below(canvas, line, bottom=0.70, above=0.16 * canvas.height)
    rows = np.arange(shape.cover.shape[0], dtype=np.float32)[:, None] + shape.top
    folds = curve(source, canvas.wide, waves=22, octaves=4)
    spread = (columns[None, :] - middle) / np.maximum(
        0.25, (rows / canvas.height - peak + 0.12) * 2.2
    ) + middle
    at = np.clip(spread, 0, canvas.wide - 1).astype(int)
    shade = np.clip(0.85 + 0.5 * folds[at] - 0.2 * np.sign(columns - middle)[None, :], 0.3, 1.5)
    light = np.zeros((*shape.cover.shape, 3), np.float32)
    for stream in range(5):
        start = middle + canvas.wide * 0.05 * float(source.uniform(-1, 1))
        lean = canvas.wide * float(source.uniform(-0.34, 0.34))
        wander = curve(source, len(rows), waves=4, octaves=4) * 0.022 * canvas.wide
        way = np.clip((rows[:, 0] / canvas.height - peak) / (0.70 - peak), 0, 1)
        x = start + lean * way**1.25 + wander * way
        thick = canvas.wide * (0.004 + 0.010 * way * float(source.uniform(0.4, 1.0)) * (stream % 2 + 0.6))
        core = np.exp(-(((columns[None, :] - x[:, None]) / thick[:, None]) ** 2))
        heat = (core * shape.cover * (0.75 + 0.25 * np.sin(rows * 0.35))).astype(np.float32)
        light += heat[:, :, None] * np.array([255, 118, 30], np.float32)
    mouth = np.exp(-((off[None, :] / 0.042) ** 4) - (((rows / canvas.height - peak - 0.016) / 0.012) ** 2))
    light += mouth[:, :, None].astype(np.float32) * np.array([255, 190, 90], np.float32)
    lit: Picture = halo_of(light, 0.012 * canvas.wide)
    return Shape(shape.top, shape.cover, shade.astype(np.float32), lit)


def _below(canvas: Canvas, line: Field, *, bottom: float, above: float = 1.0) -> tuple[Shape, Field]:
    """Everything below a line, and how far below it each pixel is."""
    end = min(canvas.height, round(bottom * canvas.height))
    top = int(max(0, min(end - 1, np.floor(line.min() - above))))
    rows = np.arange(top, end, dtype=np.float32)[:, None]
    depth = rows - line[None, :]
    cover = np.clip(depth + 0.5, 0.0, 1.0).astype(np.float32)
    return Shape(top, cover, cover), np.maximum(depth, 0.0).astype(np.float32)


def _smoothed(line: Field, radius: int) -> Field:
    kernel = np.ones(2 * radius + 1, np.float32) / (2 * radius + 1)
    smooth: Field = np.convolve(np.pad(line, radius, mode="edge"), kernel, "valid").astype(np.float32)
    return smooth
