"""A state to pictures: builds the parts of a state once, and draws them for each frame.

Three worlds share a picture: land, the sea's floor, and space. On the way from one to another both are drawn and mixed,
as pictures of two states are while one becomes the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from duplex_trio.models.scene.geometry import Geometry
from duplex_trio.models.scene.land import SEEN, Landscape
from duplex_trio.models.scene.palette import palette_of
from duplex_trio.models.scene.reading import Amounts, State
from duplex_trio.models.scene.stack import Canvas, Part, Picture
from duplex_trio.models.scene.things import Shoal, Spaceship, Whale
from duplex_trio.models.scene.weather import bubble_parts, weather_parts
from duplex_trio.models.scene.worlds import space_parts, underwater_parts


class Scene:
    """The parts of one state: worlds, and how much of the picture each has.

    Args:
        geometry: the shapes of the video.
        state: what is shown.
    """

    def __init__(self, geometry: Geometry, state: State) -> None:
        amounts = Amounts(state)
        deep, far = amounts.underwater, amounts.space
        land = max(0.0, 1.0 - deep - far)
        self._worlds: list[tuple[float, Sequence[Part]]] = []
        if land > SEEN:
            palette = palette_of(amounts)
            parts = [
                *Landscape(geometry, amounts, palette).parts(),
                *weather_parts(geometry, amounts, palette),
            ]
            if amounts.spaceship > SEEN:
                parts.append(
                    Spaceship(geometry.canvas, amounts.spaceship, 0.45 + 0.55 * float(palette.light.mean()))
                )
            self._worlds.append((land, parts))
        if deep > SEEN:
            parts = underwater_parts(geometry.canvas, geometry.seed, amounts, geometry.get("corals"))
            if amounts.fish > SEEN:
                parts.append(Whale(geometry.canvas, 1.0 - 0.4 * amounts.night, amounts.fish))
            parts.append(
                Shoal(geometry.canvas, geometry.seed, 1.0 - 0.4 * amounts.night, max(0.8, amounts.fish))
            )
            self._worlds.append((deep, [*parts, *bubble_parts(geometry, amounts)]))
        if far > SEEN:
            parts = space_parts(geometry.canvas, geometry.seed, amounts, geometry.get("space"))
            if amounts.spaceship > SEEN:
                parts.append(Spaceship(geometry.canvas, amounts.spaceship, 1.0))
            self._worlds.append((far, parts))
        total = sum(share for share, _ in self._worlds)
        self._worlds = [(share / total, parts) for share, parts in self._worlds]

    @property
    def drawn(self) -> int:
        """How many parts are drawn for a frame: what a frame costs, in a number that no clock changes."""
        return sum(len(parts) for _, parts in self._worlds)

    def draw(self, out: Picture, spare: Picture, frame: int, seconds: float) -> None:
        """Draw a frame.

        Args:
            out: where to; what is there does not matter.
            spare: of the same shape; is overwritten.
            frame: its number.
            seconds: its time.
        """
        for number, (share, parts) in enumerate(self._worlds):
            target = out if number == 0 else spare
            for part in parts:
                part.draw(target, frame, seconds)
            if number == 0:
                if share < 1.0:
                    out *= np.float32(share)
            else:
                spare *= np.float32(share)
                out += spare


def picture(canvas: Canvas) -> Picture:
    """An empty picture."""
    return np.zeros((canvas.height, canvas.width, 3), np.float32)
