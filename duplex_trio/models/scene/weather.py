"""What moves in front of a scene: snow, rain, petals, leaves, sparks, bubbles, fog, flames."""

from __future__ import annotations

import numpy as np

from duplex_trio.models.scene.geometry import Geometry
from duplex_trio.models.scene.land import SEEN, glow_colours
from duplex_trio.models.scene.palette import AUTUMN_LEAVES, BLOSSOM, SAND, WARM, Palette, mix, rgb
from duplex_trio.models.scene.particles import Drift, Fire, Fog, Rain
from duplex_trio.models.scene.reading import Amounts
from duplex_trio.models.scene.stack import Part


def weather_parts(geometry: Geometry, amounts: Amounts, palette: Palette) -> list[Part]:
    """The parts of a landscape's foreground."""
    canvas, seed = geometry.canvas, geometry.seed
    parts: list[Part] = []
    if amounts.fire > SEEN:
        parts.append(Fire(canvas, seed, amounts.fire))
    if amounts.fog > SEEN:
        white = mix(palette.haze, rgb(255, 255, 255) * palette.light, 0.35)
        parts.append(Fog(canvas, geometry.get("billows"), white, 0.3 * amounts.fog))
    if amounts.desert > SEEN:
        dust = np.stack([mix(SAND, rgb(255, 240, 210), 0.4) * np.maximum(palette.light, 0.4)])
        parts.append(
            Drift(
                canvas,
                seed,
                purpose=117,
                count=130,
                amount=amounts.desert * (1 - amounts.snowfall),
                colours=dust,
                radius=0.0035,
                fall=0.006,
                blow=0.16,
                sway=0.01,
                top=0.5,
            )
        )
    if amounts.rain > SEEN:
        parts.append(
            Rain(canvas, geometry.get("rain"), amounts.rain, 60.0 + 75.0 * float(palette.light.mean()))
        )
    if amounts.snowfall > SEEN:
        white = np.stack([rgb(250, 252, 255) * np.maximum(palette.light, 0.62)])
        parts.append(
            Drift(
                canvas,
                seed,
                purpose=111,
                count=420,
                amount=amounts.snowfall,
                colours=white,
                radius=0.0075,
                fall=0.13,
                blow=0.03,
            )
        )
    for purpose, amount, hues, count in (
        (112, amounts.blossom, (BLOSSOM, rgb(255, 214, 228), rgb(244, 140, 178)), 70),
        (113, amounts.autumn, (AUTUMN_LEAVES, rgb(196, 70, 30), rgb(236, 176, 60)), 60),
    ):
        if amount > SEEN:
            colours = np.stack(hues) * np.maximum(palette.light, 0.4)
            parts.append(
                Drift(
                    canvas,
                    seed,
                    purpose=purpose,
                    count=count,
                    amount=amount,
                    colours=colours,
                    radius=0.0085,
                    fall=0.075,
                    blow=0.05,
                    sway=0.035,
                )
            )
    # Where there are no posts to hang them on, lanterns float.
    afloat = amounts.lanterns * (1 - max(amounts.street, amounts.village, amounts.city))
    if afloat > SEEN:
        parts.append(
            Drift(
                canvas,
                seed,
                purpose=118,
                count=70,
                amount=afloat,
                colours=np.stack([WARM, rgb(255, 150, 62), rgb(255, 206, 130)]),
                radius=0.022,
                fall=-0.012,
                blow=0.006,
                sway=0.008,
                adds=palette.dark > 0.5,
                top=0.30,
                twinkle=0.15,
            )
        )
    shining = max(amounts.fireflies, 0.9 * amounts.volcano, 0.5 * amounts.fire)
    if shining > SEEN:
        rises = amounts.volcano > amounts.fireflies or amounts.fire > amounts.fireflies
        parts.append(
            Drift(
                canvas,
                seed,
                purpose=114,
                count=90,
                amount=shining,
                colours=glow_colours(amounts),
                radius=0.0085 if rises else 0.012,
                fall=-0.09 if rises else -0.012,
                blow=0.01,
                sway=0.03,
                adds=True,
                top=0.15 if rises else 0.42,
                twinkle=0.9,
            )
        )
    return parts


def bubble_parts(geometry: Geometry, amounts: Amounts) -> list[Part]:
    """Bubbles and what floats under water."""
    pale = np.stack([rgb(200, 240, 250)])

    def floating(purpose: int, count: int, radius: float, fall: float, sway: float, twinkle: float) -> Part:
        return Drift(
            geometry.canvas,
            geometry.seed,
            purpose=purpose,
            count=count,
            amount=1.0,
            colours=pale,
            radius=radius,
            fall=fall,
            sway=sway,
            adds=True,
            twinkle=twinkle,
        )

    return [floating(115, 46, 0.008, -0.16, 0.012, 0.5), floating(116, 130, 0.003, 0.012, 0.02, 0.7)]
