"""Captions with what they speak of, joined from the vocabulary: what the readout is fitted to."""

from __future__ import annotations

import random
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from duplex_trio.models.scene.vocabulary import EXTRAS, IMPLIED, NAMES, NOTHING, PLACES, TIMES, TINTS

Labels = npt.NDArray[np.float32]

_OPENINGS = ("", "", "", "a picture of ", "a view of ", "a video of ", "a scene with ", "cinematic shot of ")
_SKY_WORDS = ("{} sky", "{} light", "everything is {}", "{} clouds", "in {} tones")
_ALONE_REPEATS = 2
_PHRASES: dict[str, tuple[str, ...]] = {**TIMES, **PLACES, **EXTRAS}
_SECOND_PLACES = {
    "mountains": ("lake", "forest", "village", "meadow", "sea", "castle", "ice"),
    "sea": ("city", "lighthouse", "boat", "mountains", "castle", "volcano"),
    "beach": ("jungle", "boat", "volcano", "sea"),
    "lake": ("mountains", "forest", "boat", "village", "castle", "ice"),
    "city": ("street", "sea"),
    "street": ("village", "city"),
    "village": ("meadow", "mountains", "street"),
    "meadow": ("castle", "balloon", "mountains", "birds"),
    "forest": ("castle", "lake", "mountains"),
    "desert": ("balloon", "castle"),
    "underwater": ("fish",),
    "space": ("spaceship", "planet"),
    "ice": ("boat", "mountains"),
    "jungle": ("volcano", "lake"),
    "volcano": ("sea",),
}
_NOT_THERE = {
    "underwater": {
        "rain",
        "snowfall",
        "snow",
        "fog",
        "storm",
        "clouds",
        "aurora",
        "rainbow",
        "fireworks",
        "birds",
    },
    "space": {
        "rain",
        "snowfall",
        "snow",
        "fog",
        "storm",
        "autumn",
        "blossom",
        "rainbow",
        "birds",
        "fireflies",
        "lanterns",
    },
}
"""What nobody says of a place."""


def captions(count: int, *, seed: int = 7) -> tuple[list[str], Labels]:
    """At least `count` captions, each with how much it speaks of each thing.

    Returns:
        The captions, and labels of shape (captions, things) in 0..1.
    """
    dice = random.Random(seed)  # noqa: S311  captions, not secrets
    made: list[tuple[str, dict[str, float]]] = []
    for text in NOTHING:
        made.extend([(text, {})] * _ALONE_REPEATS)
    for name, phrases in _PHRASES.items():
        for phrase in phrases:
            made.extend([(phrase, _of(name, phrase))] * _ALONE_REPEATS)
    for name, words in TINTS.items():
        for word in words:
            made.extend((pattern.format(word), {name: 1.0}) for pattern in _SKY_WORDS)
    while len(made) < count:
        made.append(_compose(dice))
    texts = [text for text, _ in made]
    labels = np.zeros((len(made), len(NAMES)), np.float32)
    for row, (_, weights) in enumerate(made):
        for name, weight in weights.items():
            labels[row, NAMES.index(name)] = weight
    return texts, labels


def _of(name: str, phrase: str) -> dict[str, float]:
    return {name: 1.0} | IMPLIED.get(phrase, {})


def _compose(dice: random.Random) -> tuple[str, dict[str, float]]:
    place = dice.choice(list(PLACES))
    names = [place]
    if dice.random() < 0.3:
        names.append(dice.choice(_SECOND_PLACES[place]))
    extras = [name for name in EXTRAS if name not in _NOT_THERE.get(place, ())]
    later = dice.sample(extras, dice.choice((0, 0, 1, 1, 1, 2)))
    if dice.random() < 0.6 and place not in ("underwater", "space"):
        later.append(dice.choice(list(TIMES)))
    dice.shuffle(later)
    phrases = [(name, dice.choice(_PHRASES[name])) for name in [*names, *later]]
    weights = _merged(phrases)
    text = _joined(phrases, len(names), dice)
    if dice.random() < 0.12:
        tint = dice.choice(list(TINTS))
        text += f", {dice.choice(_SKY_WORDS).format(dice.choice(TINTS[tint]))}"
        weights[tint] = 1.0
    return text, weights


def _merged(phrases: Iterable[tuple[str, str]]) -> dict[str, float]:
    weights: dict[str, float] = {}
    for name, phrase in phrases:
        for key, value in _of(name, phrase).items():
            weights[key] = max(weights.get(key, 0.0), value)
    return weights


def _joined(phrases: list[tuple[str, str]], subjects: int, dice: random.Random) -> str:
    subject = dice.choice((" and ", " with ", " near ", ", ")).join(
        phrase for _, phrase in phrases[:subjects]
    )
    rest = [phrase for _, phrase in phrases[subjects:]]
    match dice.randrange(3):
        case 0:
            return dice.choice(_OPENINGS) + " ".join([subject, *rest])
        case 1:
            return ", ".join([subject, *rest])
        case _:
            return " ".join([*rest[:1], subject, *rest[1:]])
