"""The shapes of one video, each made when it is first shown and kept: they depend on the seed and the size alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from duplex_trio.models.scene import buildings, ground, particles, plants, sky, water, worlds
from duplex_trio.models.scene.noise import Field, curve, dice
from duplex_trio.models.scene.stack import Canvas, Shape

_PALM_PLACES = [(0.10, 0.99, 0.62), (0.20, 0.96, 0.46), (0.93, 1.0, 0.66)]
_TREE_PLACES = [(0.16, 0.93, 0.60), (0.86, 0.97, 0.68)]
_FAR_TREE_PLACES = [
    (0.04, 0.68, 0.15), (0.30, 0.665, 0.12), (0.42, 0.67, 0.14), (0.55, 0.66, 0.11), (0.64, 0.672, 0.15),
    (0.74, 0.665, 0.13), (0.97, 0.68, 0.16),
]  # fmt: skip


KEPT_MAX = 24
"""Shapes that are kept, some MB each: more than two states show together. What was not used for longest goes first."""


class Geometry:
    """Shapes by name.

    Args:
        canvas: the size.
        seed: of the video.
    """

    def __init__(self, canvas: Canvas, seed: int) -> None:
        self.canvas = canvas
        self.seed = seed
        self._made: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        """The shape, or the shapes that belong together.

        Raises:
            KeyError: nothing has that name.
        """
        # Taken out and put in again: the order is that of their last use.
        made = self._made.pop(name) if name in self._made else _MAKERS[name](self.canvas, self.seed)
        self._made[name] = made
        if len(self._made) > KEPT_MAX:
            del self._made[next(iter(self._made))]
        return made


def _sand(canvas: Canvas, seed: int) -> tuple[Shape, Field]:
    shape = ground.plain(canvas, seed, purpose=31, base=0.70)
    bend = np.linspace(1, 0, canvas.wide, dtype=np.float32) ** 1.5 * 0.085
    line = (0.775 + bend + 0.012 * curve(dice(seed, 32), canvas.wide, waves=2, octaves=3)) * canvas.height
    return shape, line.astype(np.float32)


_MAKERS: dict[str, Callable[[Canvas, int], Any]] = {
    "clouds": sky.cloud_density,
    "veil": sky.aurora_veil,
    "ripples": water.ripples_of,
    "far_range": lambda canvas, seed: ground.mountains(canvas, seed, purpose=51, rise=0.40, base=0.60),
    "near_range": lambda canvas, seed: ground.mountains(canvas, seed, purpose=52, rise=0.22, base=0.62),
    "icebergs": lambda canvas, seed: ground.mountains(canvas, seed, purpose=53, rise=0.15, base=0.61),
    "far_hills": lambda canvas, seed: ground.hills(canvas, seed, purpose=54, rise=0.07, base=0.59),
    "hills": lambda canvas, seed: ground.hills(canvas, seed, purpose=55, rise=0.09, base=0.66, waves=1.4),
    "near_hill": lambda canvas, seed: ground.hills(canvas, seed, purpose=56, rise=0.09, base=0.80, waves=1.1),
    "plain": lambda canvas, seed: ground.plain(canvas, seed, purpose=57, base=0.60),
    "shore": lambda canvas, seed: ground.hills(canvas, seed, purpose=58, rise=0.05, base=0.95, waves=1.2),
    "dunes": lambda canvas, seed: [
        ground.dunes(canvas, seed, purpose=33, rise=0.10, base=0.60, waves=2.6),
        ground.dunes(canvas, seed, purpose=34, rise=0.15, base=0.72, waves=1.7),
        ground.dunes(canvas, seed, purpose=35, rise=0.16, base=0.88, waves=1.2),
    ],
    "volcano": ground.volcano,
    "far_city": lambda canvas, seed: buildings.skyline(
        canvas, seed, purpose=62, tall=0.42, base=0.61, broad=0.050, lit=0.30
    ),
    "city": lambda canvas, seed: buildings.skyline(
        canvas, seed, purpose=63, tall=0.54, base=0.62, broad=0.095, lit=0.42
    ),
    "neon": lambda canvas, seed: buildings.neon_signs(
        canvas, seed, purpose=64, base=0.62, tall=0.42, count=34
    ),
    "street": buildings.street,
    "lamps": buildings.street_lamps,
    "village": lambda canvas, seed: buildings.village(
        canvas, seed, purpose=65, base=0.70, size=0.13, count=7
    ),
    "castle": buildings.castle,
    "lighthouse": buildings.lighthouse,
    "sand": _sand,
    "far_pines": lambda canvas, seed: plants.pines(canvas, seed, purpose=42, count=56, tall=0.15, base=0.60),
    "mid_pines": lambda canvas, seed: plants.pines(canvas, seed, purpose=43, count=26, tall=0.34, base=0.71),
    "near_pines": lambda canvas, seed: plants.pines(
        canvas, seed, purpose=44, count=9, tall=0.92, base=0.95, open_middle=True
    ),
    "palms": lambda canvas, seed: plants.palms(canvas, seed, purpose=45, places=_PALM_PLACES),
    "jungle": lambda canvas, seed: plants.palms(
        canvas,
        seed,
        purpose=46,
        places=[(x / 9 + 0.03, 0.70 + 0.02 * (x % 3), 0.30 + 0.05 * (x * 7 % 4)) for x in range(9)],
    ),
    "ferns": lambda canvas, seed: plants.ferns(canvas, seed, purpose=60, count=16),
    "trees": lambda canvas, seed: plants.round_trees(canvas, seed, purpose=47, places=_TREE_PLACES),
    "far_trees": lambda canvas, seed: plants.round_trees(canvas, seed, purpose=48, places=_FAR_TREE_PLACES),
    "grass": lambda canvas, seed: plants.grass(canvas, seed, purpose=49, base=0.86, tall=0.055, count=420),
    "flowers": lambda canvas, seed: plants.flowers(canvas, seed, purpose=50, base=0.70, count=520),
    "rain": particles.rain_curtains,
    "billows": particles.fog_billows,
    "corals": worlds.coral_shapes,
    "space": worlds.SpaceShapes,
}
