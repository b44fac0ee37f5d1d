"""From what a prompt speaks of to what is shown: the rules between the things, and the state that is blended."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from duplex_trio.models.scene.vocabulary import NAMES, PLACES, TIMES

State = npt.NDArray[np.float32]
"""How much of each thing is shown, in 0..1, in the order of `NAMES`; the times of day add up to 1."""

INDEX = {name: index for index, name in enumerate(NAMES)}

_SURE, _DOUBTFUL = 0.60, 0.30
"""Probabilities from which a thing is shown in full, and below which it is not at all."""
_ORDINARY = 0.3
"""How likely a time of day must be to be shown instead of an ordinary day."""
_SOLID = frozenset(
    {*PLACES, "castle", "lighthouse", "boat", "balloon", "spaceship", "planet", "moon", "rainbow", "birds"}
)
"""Things that are there or not: half of one would be a ghost."""
_WORLDS = ("underwater", "space")
_LANDS = tuple(name for name in PLACES if name not in _WORLDS)
_NIGHTLY = {
    "stars": 0.9,
    "aurora": 1.0,
    "neon": 1.0,
    "fireworks": 1.0,
    "moon": 0.9,
    "fireflies": 0.7,
    "lanterns": 0.8,
    "fire": 0.5,
}
"""How much each of these speaks for night where no time of day is named."""
_SETTINGS = {
    "boat": "sea",
    "lighthouse": "sea",
    "fish": "underwater",
    "planet": "space",
    "spaceship": "space",
    "aurora": "lake",
    "neon": "city",
    "fireworks": "city",
    "lanterns": "street",
    "fire": "forest",
    "fireflies": "forest",
}
"""Where each of these is shown to advantage: its place where a prompt names it, and no place. Of several the first
counts: what needs its place comes before lights, which are seen anywhere."""
_FALLBACK = {"meadow": 1.0, "mountains": 1.0, "birds": 1.0, "clouds": 0.25}
"""What is shown where a prompt speaks of no place at all."""


class Amounts:
    """A state by names: `amounts.snow` is how much snow is shown."""

    def __init__(self, state: State) -> None:
        self._state = state

    def __getattr__(self, name: str) -> float:
        try:
            return float(self._state[INDEX[name]])
        except KeyError:
            raise AttributeError(name) from None


def state_of(probabilities: State) -> State:
    """What is shown for these probabilities of the readout. Distinct steps are wanted here: morphs mix states."""
    shown = _sharpened(probabilities)

    def get(name: str) -> float:
        return float(shown[INDEX[name]])

    def put(name: str, value: float) -> None:
        shown[INDEX[name]] = value

    likely = _settled({name: float(probabilities[INDEX[name]]) for name in NAMES})
    world = max(_WORLDS, key=likely.__getitem__)
    land = max(_LANDS, key=likely.__getitem__)
    elsewhere = likely[world] > max(0.4, likely[land] if world == "space" else 0.8 * likely[land])
    for name in _WORLDS:
        put(name, 1.0 if elsewhere and name == world else 0.0)
    if elsewhere:
        for name in _LANDS:
            put(name, 0.0)
    else:
        _place(shown, likely, land)
    if elsewhere and likely["planet"] > 0.3:
        put("planet", 1.0)
    put("fish", get("fish") if elsewhere and world == "underwater" else 0.0)
    _set_time(shown, likely)
    _sober(shown)
    return shown


def _settled(likely: dict[str, float]) -> dict[str, float]:
    """Give what is named alone a place of its own: in any other it might be small, or not to be seen at all."""
    thing = next((name for name in _SETTINGS if likely[name] >= 0.5), None)
    if thing is None or max(likely[name] for name in (*PLACES, "castle")) >= 0.35:
        return likely
    return likely | {_SETTINGS[thing]: 1.0}


def _sharpened(probabilities: State) -> State:
    share = np.clip((probabilities - _DOUBTFUL) / (_SURE - _DOUBTFUL), 0.0, 1.0)
    shown = share * share * (3.0 - 2.0 * share)
    for name in _SOLID:
        shown[INDEX[name]] = probabilities[INDEX[name]] >= 0.5
    return shown.astype(np.float32)


def _place(shown: State, likely: dict[str, float], land: str) -> None:
    """A picture needs a place: the likeliest one in full, where nothing is certain; and what belongs to it."""
    hints = max(likely[name] for name in ("castle", "birds"))
    if likely[land] > 0.2:
        shown[INDEX[land]] = 1.0
    else:
        for name, amount in _FALLBACK.items():
            known = amount if hints < 0.4 or name in PLACES else 0.0
            shown[INDEX[name]] = max(float(shown[INDEX[name]]), known)
    if shown[INDEX["lighthouse"]] > 0.5 and shown[INDEX["beach"]] < 0.5:
        shown[INDEX["sea"]] = 1.0
    water = max(float(shown[INDEX[name]]) for name in ("sea", "beach", "lake"))
    if shown[INDEX["boat"]] > 0.5 and water < 0.5:
        shown[INDEX["sea"]] = 1.0
    if shown[INDEX["beach"]] > 0.5:
        shown[INDEX["sea"]] = 1.0
    if shown[INDEX["city"]] > 0.5 and shown[INDEX["street"]] > 0.5:
        shown[INDEX["city" if likely["street"] > likely["city"] else "street"]] = 0.0
    if shown[INDEX["ice"]] > 0.5:
        shown[INDEX["snow"]] = max(0.8, float(shown[INDEX["snow"]]))
    if shown[INDEX["desert"]] > 0.5:
        for name in ("meadow", "sea", "lake"):
            if likely[name] < 0.7:
                shown[INDEX[name]] = 0.0


def _set_time(shown: State, likely: dict[str, float]) -> None:
    weights = np.array([likely[name] for name in TIMES], np.float32)
    implied = max(amount * float(shown[INDEX[name]]) for name, amount in _NIGHTLY.items())
    if weights.max() < 0.45 or (likely["day"] < 0.7 and weights.argmax() == 0):
        night = list(TIMES).index("night")
        weights[night] = max(float(weights[night]), implied)
    weights[0] = max(float(weights[0]), _ORDINARY)
    # One time of day alone: half of two would have a sun and a moon.
    shown[: len(TIMES)] = np.arange(len(TIMES)) == weights.argmax()


def _sober(shown: State) -> None:
    """Leave out what cannot be together."""
    day = float(shown[INDEX["day"]])
    for name in ("stars", "aurora", "fireflies"):
        shown[INDEX[name]] *= 1.0 - 0.9 * day
    storm = float(shown[INDEX["storm"]])
    shown[INDEX["rain"]] = max(float(shown[INDEX["rain"]]), 0.7 * storm)
    shown[INDEX["rain"]] *= 1.0 - float(shown[INDEX["snowfall"]])
    if shown[INDEX["snow"]] > 0.5 and shown[INDEX["snowfall"]] < 0.5 and shown[INDEX["street"]] > 0.5:
        shown[INDEX["snowfall"]] = 0.5
    for name in ("autumn", "blossom"):
        shown[INDEX[name]] *= 1.0 - 0.8 * float(shown[INDEX["snow"]])
