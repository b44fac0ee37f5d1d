"""The colours of a landscape: what time, weather, season and colour words do to light, sky and ground.

Colours are red, green and blue in 0..255, light is a factor for each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import frozen

from duplex_trio.models.scene.reading import Amounts

Colour = npt.NDArray[np.floating[Any]]


def rgb(*values: float) -> Colour:
    """A colour."""
    return np.array(values, np.float32)


def mix(one: Colour, other: Colour, share: float) -> Colour:
    """The colour on the way from `one` (0) to `other` (1)."""
    return one + (other - one) * np.float32(min(1.0, max(0.0, share)))


_TIMES = ("day", "sunset", "night", "dawn")
_SKY_TOP = [rgb(44, 108, 200), rgb(58, 44, 110), rgb(5, 8, 26), rgb(82, 104, 172)]
_SKY_MIDDLE = [rgb(112, 172, 236), rgb(216, 92, 96), rgb(18, 29, 72), rgb(214, 150, 172)]
_SKY_LOW = [rgb(206, 230, 246), rgb(255, 184, 98), rgb(52, 70, 120), rgb(255, 216, 172)]
_SUN = [rgb(255, 250, 226), rgb(255, 214, 130), rgb(226, 234, 255), rgb(255, 226, 176)]
_LIGHT = [rgb(1.0, 1.0, 0.98), rgb(0.86, 0.60, 0.56), rgb(0.31, 0.37, 0.58), rgb(0.86, 0.76, 0.80)]

_TINTS = {
    "red": rgb(1.45, 0.45, 0.40),
    "orange": rgb(1.35, 0.85, 0.40),
    "green": rgb(0.55, 1.30, 0.65),
    "blue": rgb(0.45, 0.75, 1.50),
    "purple": rgb(1.05, 0.55, 1.40),
    "pink": rgb(1.35, 0.80, 1.05),
}

GRASS, DRY_GRASS = rgb(92, 146, 62), rgb(176, 142, 66)
SAND, ROCK, ROAD = rgb(232, 194, 128), rgb(70, 58, 56), rgb(98, 96, 104)
SNOW, ICE = rgb(236, 242, 252), rgb(186, 220, 240)
LEAVES, AUTUMN_LEAVES, BLOSSOM = rgb(54, 104, 54), rgb(216, 112, 34), rgb(248, 170, 198)
WARM = rgb(255, 176, 84)
LAVA = rgb(255, 96, 24)


@frozen(eq=False)
class Palette:
    """The colours of one state.

    Attributes:
        sky: of the top, the middle and the horizon.
        sun: of sun or moon.
        light: factor of everything that is lit.
        haze: what far things fade into.
        dark: how much of a night it is, 0..1.
        leaves: of trees.
        grass: of the ground where things grow.
    """

    sky: tuple[Colour, Colour, Colour]
    sun: Colour
    light: Colour
    haze: Colour
    dark: float
    leaves: Colour
    grass: Colour


def palette_of(amounts: Amounts) -> Palette:
    """Mix the colours for a state."""
    shares = [getattr(amounts, name) for name in _TIMES]
    sky = [_mixed(colours, shares) for colours in (_SKY_TOP, _SKY_MIDDLE, _SKY_LOW)]
    light = _mixed(_LIGHT, shares)
    grey = min(1.0, 0.8 * amounts.clouds + 0.55 * amounts.rain + 0.5 * amounts.snowfall + 0.9 * amounts.storm)
    dull = 1.0 - 0.45 * max(amounts.storm, 0.5 * amounts.rain)
    sky = [_greyed(colour, grey) * dull for colour in sky]
    light = _greyed(light, 0.5 * grey) * dull
    fog = amounts.fog
    sky = [mix(colour, _greyed(sky[2], 0.6) * 0.92, 0.7 * fog) for colour in sky]
    if amounts.volcano > 0:
        sky[2] = mix(sky[2], rgb(150, 52, 30), 0.6 * amounts.volcano)
        sky[1] = mix(sky[1], rgb(70, 32, 38), 0.45 * amounts.volcano)
        light = light * (1 - 0.25 * amounts.volcano)
    if amounts.neon > 0:
        sky[2] = mix(sky[2], rgb(120, 44, 130), 0.6 * amounts.neon)
    for name, factor in _TINTS.items():
        amount = getattr(amounts, name)
        if amount > 0:
            sky = [_tinted(colour, factor, amount) for colour in sky]
            light = light * mix(rgb(1, 1, 1), factor, 0.45 * amount)
    leaves = mix(mix(LEAVES, AUTUMN_LEAVES, amounts.autumn), BLOSSOM, amounts.blossom)
    grass = mix(mix(GRASS, DRY_GRASS, 0.8 * amounts.autumn), SNOW, amounts.snow)
    return Palette(
        sky=(sky[0], sky[1], sky[2]),
        sun=_mixed(_SUN, shares),
        light=light,
        haze=mix(sky[2], sky[1], 0.35),
        dark=amounts.night,
        leaves=mix(leaves, SNOW, 0.55 * amounts.snow),
        grass=grass,
    )


def _mixed(colours: Sequence[Colour], shares: Sequence[float]) -> Colour:
    total = np.zeros(3, np.float32)
    for colour, share in zip(colours, shares, strict=True):
        total += colour * np.float32(share)
    return total


def _greyed(colour: Colour, share: float) -> Colour:
    return mix(colour, np.full(3, colour @ rgb(0.30, 0.55, 0.15), np.float32), share)


def _tinted(colour: Colour, factor: Colour, amount: float) -> Colour:
    bright = float(colour @ rgb(0.30, 0.55, 0.15))
    return mix(colour, np.clip((0.25 * bright + 40) * factor + 0.6 * bright * factor, 0, 255), 0.75 * amount)
