"""A landscape from back to front: which parts a state has, in which colours."""

from __future__ import annotations

import numpy as np

from duplex_trio.models.scene.geometry import Geometry
from duplex_trio.models.scene.palette import (
    BLOSSOM,
    GRASS,
    ICE,
    LAVA,
    ROAD,
    ROCK,
    SAND,
    SNOW,
    WARM,
    Colour,
    Palette,
    mix,
    rgb,
)
from duplex_trio.models.scene.particles import Fireworks, Fog, Lightning
from duplex_trio.models.scene.reading import Amounts
from duplex_trio.models.scene.sky import Aurora, Clouds, sky_layer
from duplex_trio.models.scene.stack import Glow, Layer, Part, Shape, coloured
from duplex_trio.models.scene.things import Balloons, Beam, Boat, Flock, Plume
from duplex_trio.models.scene.water import Gloss, Shore, Water

SEEN = 0.02
"""An amount below it is not drawn."""


class Landscape:
    """Collects the parts of one state.

    Args:
        geometry: the shapes of the video.
        amounts: what is shown.
        palette: its colours.
    """

    def __init__(self, geometry: Geometry, amounts: Amounts, palette: Palette) -> None:
        self._geometry = geometry
        self._canvas = geometry.canvas
        self._amounts = amounts
        self._palette = palette
        self._parts: list[Part] = []

    def parts(self) -> list[Part]:
        """All of them, from back to front; weather comes after."""
        self._sky()
        self._far()
        self._ground()
        self._water()
        self._near()
        return self._parts

    def _add(
        self,
        name: str,
        colour: Colour,
        *,
        fade: float,
        amount: float,
        depth: float,
        part: int | None = None,
        own: bool = False,
    ) -> None:
        if amount < SEEN:
            return
        shape: Shape = self._geometry.get(name)
        if part is not None:
            shape = self._geometry.get(name)[part]
        self._lay(shape, colour, fade=fade, amount=amount, depth=depth, own=own)

    def _lay(
        self, shape: Shape, colour: Colour, *, fade: float, amount: float, depth: float, own: bool = False
    ) -> None:
        """Add a layer; with `own` the colour is already as it is lit."""
        fade = fade + (1 - fade) * 0.62 * self._amounts.fog * (1 - depth) ** 1.3
        lit = colour if own else colour * self._palette.light
        self._parts.append(
            coloured(self._canvas, shape, lit, haze=self._palette.haze, fade=fade, amount=amount, depth=depth)
        )

    def _shine(
        self,
        name: str,
        *,
        amount: float,
        depth: float,
        part: int | None = None,
        flicker: float = 0.04,
        hertz: float = 0.7,
    ) -> None:
        if amount < SEEN:
            return
        made = self._geometry.get(name)
        shape: Shape = made if part is None else made[part]
        assert shape.light is not None
        light = shape.light * np.float32(amount)
        self._parts.append(Glow(self._canvas, shape.top, light, depth, flicker=flicker, hertz=hertz))

    def _sky(self) -> None:
        amounts, canvas, geometry, palette = self._amounts, self._canvas, self._geometry, self._palette
        self._parts.append(sky_layer(canvas, geometry.seed, amounts, palette))
        if amounts.aurora > SEEN:
            self._parts.append(Aurora(canvas, geometry.get("veil"), amounts.aurora))
        self._parts.append(Clouds(canvas, geometry.seed, amounts, palette, geometry.get("clouds")))
        if amounts.storm > SEEN:
            self._parts.append(Lightning(canvas, geometry.seed, amounts.storm))
        if amounts.fireworks > SEEN:
            self._parts.append(Fireworks(canvas, geometry.seed, amounts.fireworks))

    def _far(self) -> None:
        amounts, palette = self._amounts, self._palette
        flat = max(amounts.sea, amounts.beach, amounts.city, amounts.desert, amounts.street)
        rocky = max(
            amounts.mountains, 0.55 * amounts.lake * (1 - amounts.city), 0.5 * amounts.aurora * (1 - flat)
        )
        stone = mix(rgb(104, 108, 122), rgb(150, 104, 80), 0.5 * amounts.desert)
        white = min(1.0, 0.85 + amounts.snow) * (1 - 0.9 * max(amounts.desert, amounts.jungle))
        for name, fade, depth in (("far_range", 0.42, 0.12), ("near_range", 0.22, 0.25)):
            self._add(name, stone, fade=fade, amount=rocky, depth=depth, part=0)
            self._add(
                name,
                SNOW,
                fade=0.6 * fade,
                amount=rocky * (white if name == "far_range" else amounts.snow),
                depth=depth,
                part=1,
            )
        gentle = (1 - flat) * (1 - 0.7 * rocky)
        self._add("far_hills", mix(palette.grass, rgb(90, 120, 130), 0.4), fade=0.5, amount=gentle, depth=0.2)
        if amounts.volcano > SEEN:
            self._parts.append(Plume(self._canvas, self._geometry.seed, palette.light, amounts.volcano))
            self._add("volcano", rgb(92, 74, 74), fade=0.18, amount=amounts.volcano, depth=0.15)
            self._shine("volcano", amount=amounts.volcano, depth=0.15, flicker=0.12, hertz=0.5)
        self._city()
        if amounts.balloon > SEEN:
            light = np.maximum(palette.light, 0.42)
            self._parts.append(Balloons(self._canvas, self._geometry.seed, light, amounts.balloon))
        if amounts.birds > SEEN:
            colour = mix(rgb(30, 32, 40), rgb(240, 240, 245), 0.6 * amounts.sea * amounts.day)
            self._parts.append(Flock(self._canvas, self._geometry.seed, colour, amounts.birds))

    def _city(self) -> None:
        amounts, palette = self._amounts, self._palette
        if amounts.city < SEEN:
            return
        bright = amounts.city * min(
            1.0, 0.06 + 0.95 * palette.dark + 0.55 * amounts.sunset + 0.25 * amounts.dawn + 0.5 * amounts.neon
        )
        walls = mix(rgb(132, 140, 158) * palette.light, rgb(46, 48, 84), palette.dark)
        walls = mix(walls, rgb(58, 38, 92), 0.7 * amounts.neon)
        self._add("far_city", walls, fade=0.5, amount=amounts.city, depth=0.2, own=True)
        self._shine("far_city", amount=0.75 * bright, depth=0.2)
        self._add("city", walls * 0.8, fade=0.14, amount=amounts.city, depth=0.38, own=True)
        self._shine("city", amount=bright, depth=0.38)
        self._shine("neon", amount=amounts.city * amounts.neon, depth=0.38, flicker=0.10, hertz=1.1)

    def _ground(self) -> None:
        amounts, palette = self._amounts, self._palette
        green = mix(palette.grass, SNOW, amounts.ice)
        wooded = max(amounts.forest, 0.5 * amounts.village * amounts.snow)
        dry = max(amounts.desert, amounts.beach)
        soil = mix(mix(green, ROCK, max(amounts.volcano, 0.35 * amounts.city)), SAND, dry)
        soil = mix(soil, mix(ROAD * 0.7, SNOW, 0.8 * amounts.snow), max(amounts.city, amounts.street))
        rolling = max(
            amounts.meadow,
            amounts.forest,
            amounts.village,
            amounts.castle,
            amounts.jungle,
            0.7 * amounts.mountains,
        )
        rolling *= (1 - max(amounts.city, amounts.street, amounts.desert, amounts.sea)) * (
            1 - 0.8 * amounts.lake
        )
        self._add("plain", soil, fade=0.10, amount=1.0, depth=0.45)
        if amounts.volcano > SEEN:
            self._parts.append(Gloss(self._canvas, 0.64, 0.45 * amounts.volcano))
        self._add(
            "far_pines",
            palette.leaves * 0.85,
            fade=0.42,
            amount=max(wooded, 0.8 * amounts.lake * (1 - amounts.ice)),
            depth=0.3,
        )
        self._add("hills", green, fade=0.22, amount=rolling, depth=0.45)
        if amounts.castle > SEEN:
            self._add(
                "castle",
                mix(rgb(168, 160, 156), SNOW, 0.25 * amounts.snow),
                fade=0.10,
                amount=amounts.castle,
                depth=0.42,
            )
            self._shine(
                "castle", amount=amounts.castle * min(1.0, palette.dark + 0.5 * amounts.sunset), depth=0.42
            )
        leafy = max(amounts.meadow, amounts.village, amounts.autumn, amounts.blossom) * rolling
        self._add("far_trees", rgb(84, 62, 48), fade=0.2, amount=leafy, depth=0.5, part=0)
        self._add("far_trees", palette.leaves, fade=0.2, amount=leafy, depth=0.5, part=1)
        if amounts.desert > SEEN:
            for number, shape in enumerate(self._geometry.get("dunes")):
                hue = mix(SAND, SNOW, 0.8 * amounts.snow) * (1.0 - 0.06 * number)
                depth, fade = 0.25 + 0.3 * number, 0.30 - 0.13 * number
                self._lay(shape, hue, fade=fade, amount=amounts.desert, depth=depth)

    def _water(self) -> None:
        amounts, canvas, geometry, palette = self._amounts, self._canvas, self._geometry, self._palette
        much = max(amounts.sea, amounts.lake, amounts.beach)
        if amounts.ice > SEEN:
            much = max(much, amounts.ice)
        if much > SEEN:
            if amounts.ice > SEEN:
                self._add("icebergs", ICE, fade=0.12, amount=amounts.ice, depth=0.35, part=0)
                self._add("icebergs", SNOW, fade=0.05, amount=amounts.ice, depth=0.35, part=1)
            self._parts.append(Water(canvas, geometry.get("ripples"), amounts, palette, much))
        glossy = max(amounts.city * (1 - much), amounts.street * max(amounts.rain, 0.15 * palette.dark))
        if amounts.city * (1 - much) > SEEN:
            self._parts.append(Gloss(canvas, 0.62, 0.62 * glossy))
        if amounts.lighthouse > SEEN:
            self._add(
                "lighthouse", rgb(236, 234, 228), fade=0.04, amount=amounts.lighthouse, depth=0.4, part=0
            )
            self._add("lighthouse", rgb(204, 48, 44), fade=0.04, amount=amounts.lighthouse, depth=0.4, part=1)
            shining = amounts.lighthouse * min(
                1.0, 0.25 + palette.dark + 0.6 * amounts.storm + 0.5 * amounts.sunset
            )
            self._shine("lighthouse", amount=shining, depth=0.4, part=0)
            if palette.dark + amounts.storm + amounts.fog > 0.2:
                self._parts.append(
                    Beam(
                        canvas,
                        amounts.lighthouse * min(1.0, palette.dark + amounts.storm + 0.6 * amounts.fog),
                    )
                )
        if amounts.boat > SEEN:
            self._parts.append(Boat(canvas, np.maximum(palette.light, 0.25), amounts.boat))

    def _near(self) -> None:
        amounts, palette = self._amounts, self._palette
        if amounts.fog > SEEN:
            white = mix(palette.haze, rgb(255, 255, 255) * palette.light, 0.35)
            self._parts.append(Fog(self._canvas, self._geometry.get("billows"), white, 0.7 * amounts.fog))
        green = mix(palette.grass, SNOW, amounts.ice)
        if amounts.beach > SEEN:
            self._beach()
        if amounts.village > SEEN:
            self._add(
                "near_hill",
                green,
                fade=0.08,
                amount=amounts.village * (1 - amounts.street) * (1 - amounts.sea),
                depth=0.6,
            )
            self._add(
                "village",
                rgb(226, 208, 184),
                fade=0.08,
                amount=amounts.village * (1 - amounts.street),
                depth=0.55,
                part=0,
            )
            roof = mix(rgb(150, 72, 54), SNOW, amounts.snow)
            self._add(
                "village", roof, fade=0.06, amount=amounts.village * (1 - amounts.street), depth=0.55, part=1
            )
            lit = palette.dark + 0.6 * amounts.sunset + 0.5 * amounts.lanterns + 0.2 * amounts.snow
            self._shine(
                "village", amount=amounts.village * (1 - amounts.street) * min(1.0, lit), depth=0.55, part=0
            )
        bank = max(amounts.lake * (1 - amounts.sea), 0.0)
        self._add("shore", green * 0.9, fade=0.0, amount=max(bank, amounts.ice), depth=0.8)
        open_field = amounts.meadow * (1 - max(amounts.sea, amounts.lake, amounts.street, amounts.city))
        self._add("near_hill", green * 0.94, fade=0.05, amount=open_field * (1 - amounts.village), depth=0.62)
        petals = rgb(236, 82, 92) if amounts.blossom < 0.5 else BLOSSOM
        spring = open_field * (1 - amounts.snow) * (1 - amounts.autumn)
        self._add(
            "flowers", mix(petals, rgb(250, 214, 70), amounts.day * 0.5), fade=0.0, amount=spring, depth=0.75
        )
        self._street()
        self._woods()
        lush = max(open_field, amounts.forest, bank) * (1 - 0.8 * amounts.snow) * (1 - amounts.street)
        self._add("grass", mix(palette.grass * 0.72, GRASS * 0.6, 0.3), fade=0.0, amount=lush, depth=0.95)

    def _beach(self) -> None:
        amounts, palette = self._amounts, self._palette
        shape, line = self._geometry.get("sand")
        sand = (shape.shade[:, :, None] * (mix(SAND, rgb(250, 232, 190), 0.5) * palette.light)).astype(
            np.float32
        )
        self._parts.append(Shore(self._canvas, sand, line, amounts.beach, self._geometry.get("ripples")))
        palms = max(amounts.jungle, 0.75 * amounts.beach * (1 - amounts.snow))
        self._add("palms", rgb(126, 96, 66), fade=0.0, amount=palms, depth=1.0, part=0)
        self._add("palms", rgb(58, 122, 52), fade=0.0, amount=palms, depth=1.0, part=1)

    def _street(self) -> None:
        amounts, palette = self._amounts, self._palette
        if amounts.street < SEEN:
            self._lamps(0.8 * max(amounts.village, amounts.city) * amounts.lanterns)
            return
        cobbles = mix(ROAD, SNOW, 0.82 * amounts.snow)
        self._add("street", cobbles, fade=0.05, amount=amounts.street, depth=0.5, part=1)
        walls = mix(rgb(170, 132, 112), rgb(74, 66, 96), max(amounts.neon, 0.3 * palette.dark))
        self._add(
            "street",
            mix(walls, SNOW, 0.14 * amounts.snow),
            fade=0.08,
            amount=amounts.street,
            depth=0.5,
            part=0,
        )
        tiles = mix(rgb(122, 84, 70), rgb(52, 46, 72), max(amounts.neon, 0.3 * palette.dark))
        tiles = mix(tiles, SNOW, 0.9 * amounts.snow)
        self._add("street", tiles, fade=0.08, amount=amounts.street, depth=0.5, part=2)
        lit = palette.dark + 0.55 * amounts.sunset + 0.4 * amounts.lanterns + 0.3 * amounts.rain
        self._shine("street", amount=amounts.street * min(1.0, 0.05 + lit), depth=0.5, part=0)
        self._shine(
            "neon",
            amount=amounts.street * amounts.neon * (1 - amounts.city),
            depth=0.5,
            flicker=0.10,
            hertz=1.1,
        )
        self._lamps(amounts.street * max(amounts.lanterns, 0.75 * palette.dark * (1 - amounts.neon)))
        wet = amounts.street * max(amounts.rain, 0.18 + 0.3 * palette.dark, 0.5 * amounts.lanterns)
        wet *= 1 - 0.5 * amounts.snow
        self._parts.append(Gloss(self._canvas, 0.63, 0.5 * wet))

    def _lamps(self, amount: float) -> None:
        if amount < SEEN:
            return
        self._add("lamps", rgb(120, 110, 110), fade=0.0, amount=amount, depth=0.5)
        self._shine("lamps", amount=amount, depth=0.5, flicker=0.07, hertz=1.3)

    def _woods(self) -> None:
        amounts, palette = self._amounts, self._palette
        pines = palette.leaves if amounts.blossom < 0.5 else rgb(60, 104, 60)
        evergreen = mix(pines, rgb(48, 88, 62), 0.5 * (1 - amounts.autumn))
        self._add("mid_pines", evergreen * 0.9, fade=0.22, amount=amounts.forest, depth=0.55)
        self._add("near_pines", evergreen * 0.62, fade=0.04, amount=amounts.forest, depth=1.0)
        inland = amounts.jungle * (1 - amounts.beach)
        palm = rgb(48, 118, 50)
        self._add("mid_pines", rgb(36, 92, 54), fade=0.34, amount=inland * (1 - amounts.desert), depth=0.5)
        for fade, name, depth in ((0.18, "jungle", 0.6), (0.0, "palms", 1.0)):
            self._add(name, rgb(104, 82, 58), fade=fade, amount=inland, depth=depth, part=0)
            self._add(name, palm, fade=fade, amount=inland, depth=depth, part=1)
        self._add("ferns", palm * 0.8, fade=0.0, amount=inland * (1 - amounts.desert), depth=1.0)
        flowering = max(amounts.blossom, amounts.autumn * (1 - 0.7 * amounts.forest))
        flowering *= (1 - 0.8 * max(amounts.city, amounts.sea)) * (1 - 0.5 * amounts.street)
        self._add("trees", rgb(74, 52, 44), fade=0.0, amount=flowering, depth=0.95, part=0)
        self._add("trees", palette.leaves, fade=0.0, amount=flowering, depth=0.95, part=1)


def glow_colours(amounts: Amounts) -> Colour:
    """What sparks and fireflies shine in, shape (colours, 3)."""
    if amounts.volcano > amounts.fireflies:
        return np.stack([LAVA, rgb(255, 170, 60)])
    return np.stack([rgb(255, 236, 120), rgb(190, 255, 130), WARM])


__all__ = ["SEEN", "Landscape", "Layer", "glow_colours"]
