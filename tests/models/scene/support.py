"""States without an encoder, and videos made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from duplex_trio.models.scene.captions import captions
from duplex_trio.models.scene.reading import INDEX, State, state_of
from duplex_trio.models.scene.readout import PROBE, Readout, fit_readout
from duplex_trio.models.scene.session import SceneSession
from duplex_trio.models.scene.vocabulary import NAMES
from duplex_trio.plugin.video.plugin import Frame, StageCaller
from duplex_trio.plugin.video.request import VideoRequest
from duplex_trio.stages.units import TextEmbedding, TextToEmbed


class WordEncoder(StageCaller):
    """An encoder that only counts words: texts with the same words are near. Says how often it was asked."""

    def __init__(self, size: int = 96) -> None:
        self._size = size
        self.asked = 0

    def call(self, stage_id: int, unit: Any) -> Sequence[Any]:
        assert stage_id == 0
        assert isinstance(unit, TextToEmbed)
        self.asked += 1
        return [TextEmbedding(vector=self.vector(unit.text))]

    def vector(self, text: str) -> npt.NDArray[np.float32]:
        total = np.full(self._size, 1e-3, np.float32)
        for word in text.lower().replace(",", " ").split():
            seed = int.from_bytes(word.encode()[:24].ljust(24, b"."), "big")
            total += np.random.default_rng(seed).normal(size=self._size).astype(np.float32)
        return total / np.linalg.norm(total)


def word_readout(encoder: WordEncoder, count: int = 900) -> Readout:
    texts, labels = captions(count)
    return fit_readout(np.stack([encoder.vector(text) for text in texts]), labels, encoder.vector(PROBE))


def state(**amounts: float) -> State:
    """The state of a prompt that surely speaks of these things."""
    probabilities = np.full(len(NAMES), 0.02, np.float32)
    for name, amount in amounts.items():
        probabilities[INDEX[name]] = amount
    return state_of(probabilities)


STATES: dict[str, State] = {
    "snowy street": state(street=1, snow=1, lanterns=1, night=1, snowfall=1),
    "volcano": state(volcano=1, night=1),
    "neon city": state(city=1, neon=1, rain=1, night=1),
    "dunes": state(desert=1, sunset=1),
    "beach": state(beach=1, day=1, jungle=1),
    "forest": state(forest=1, fog=1, dawn=1),
    "reef": state(underwater=1, fish=1),
    "aurora": state(lake=1, aurora=1, night=1, snow=1),
    "blossoms": state(meadow=1, blossom=1, day=1),
    "space": state(space=1, spaceship=1, planet=1),
    "storm": state(sea=1, storm=1, clouds=1, lighthouse=1),
    "everything else": state(
        village=1, castle=1, balloon=1, fire=1, fireworks=1, autumn=1, lighthouse=1, boat=1, rainbow=1, moon=1,
        mountains=1, sea=1, ice=1, fireflies=1, stars=1, purple=1,
    ),
}  # fmt: skip
_NO_READOUT = Readout(
    np.zeros((1, len(NAMES)), np.float32), np.zeros(len(NAMES), np.float32), np.zeros(1, np.float32)
)


def session(
    *, width: int = 96, height: int = 96, fps: float = 24.0, seed: int = 3, stages: StageCaller | None = None,
    readout: Readout = _NO_READOUT,
) -> SceneSession:  # fmt: skip
    request = VideoRequest(request_id="test", prompt="", width=width, height=height, fps=fps, seed=seed)
    return SceneSession(request, stages or WordEncoder(), readout)


def chunk(
    video: SceneSession,
    index: int,
    shown: State,
    *,
    changed: bool = False,
    hard: bool = False,
    n_frames: int = 9,
) -> list[Frame]:
    frames = video.render_chunk(
        index, shown, changed=changed, hard=hard, n_frames=n_frames, cancelled=lambda: False
    )
    return list(frames)


def distance(one: Frame, other: Frame) -> float:
    """Mean difference of the bytes of two pictures."""
    return float(np.abs(one.astype(np.int16) - other).mean())
