"""Whether pictures show what prompts say: paraphrases are told apart by their pictures alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from duplex_trio.models.references import resolve_reference
from duplex_trio.models.scene.reading import INDEX, State, state_of
from duplex_trio.models.scene.readout import load_readout
from duplex_trio.models.scene.vocabulary import EXTRAS
from duplex_trio.models.text_encoder.encoder import SentenceEncoder
from duplex_trio.plugin.video.plugin import Frame
from tests.models.scene.support import chunk, session

pytestmark = pytest.mark.models

PARAPHRASES = {
    "a snowy street illuminated by warm lanterns": (
        "winter evening in an alley lit by glowing lamps",
        "snow-covered lane with candle light",
    ),
    "volcano at night": ("molten rock bursting from a crater after dark", "nocturnal eruption of Mount Etna"),
    "rainy neon city": (
        "Blade Runner skyline in a downpour",
        "wet megacity with glowing billboards at night",
    ),
    "dunes at sunset": ("evening glow over the Sahara", "the sun setting behind hills of sand"),
    "tropical beach at noon": (
        "Maldives seashore with palms in bright sun",
        "sunny white sand coast in the Caribbean",
    ),
    "a starry night over mountains": (
        "alpine peaks beneath constellations",
        "the Milky Way above the Rockies at night",
    ),
    "foggy forest at dawn": ("misty woods early in the morning", "fir trees in the haze at sunrise"),
    "underwater coral reef": ("snorkelling above colourful corals", "life at the bottom of the Red Sea"),
    "northern lights over a frozen lake": (
        "aurora borealis above an icy lake",
        "green polar lights reflected in a frozen tarn",
    ),
    "cherry blossoms in spring": ("sakura trees blooming in a park", "pink flowering orchard in April"),
    "a spaceship above the earth": (
        "a rocket orbiting our planet",
        "space shuttle with the blue globe below",
    ),
    "a spiral galaxy": ("Andromeda seen through a telescope", "a nebula full of young stars"),
}


@pytest.fixture(scope="module")
def read() -> Callable[[str], State]:
    folder = resolve_reference("minilm-l6-v2", "text-encoder").path
    assert folder is not None
    encoder, readout = SentenceEncoder(folder), load_readout()
    return lambda text: state_of(readout.read(encoder.encode([text])[0]))


def picture_of(shown: State, *, seed: int) -> Frame:
    return chunk(session(seed=seed), 0, shown, n_frames=1)[0]


def look(frame: Frame) -> np.ndarray:
    """A coarse look at a picture: the mean colour of each of 8 x 8 fields."""
    high, wide = frame.shape[:2]
    return frame.reshape(8, high // 8, 8, wide // 8, 3).mean(axis=(1, 3)).ravel()


def test_pictures_of_paraphrases_are_nearest_to_the_picture_of_their_own_prompt(
    read: Callable[[str], State],
) -> None:
    # Another seed, another picture: what is alike is what was said.
    prototypes = {prompt: look(picture_of(read(prompt), seed=1)) for prompt in PARAPHRASES}
    wrong = {}
    for prompt, others in PARAPHRASES.items():
        for text in others:
            seen = look(picture_of(read(text), seed=2))
            nearest = min(prototypes, key=lambda name: float(np.linalg.norm(prototypes[name] - seen)))
            if nearest != prompt:
                wrong[text] = nearest
    assert len(wrong) <= 6, wrong  # five when this was written; by chance it would be 22


def test_pictures_of_different_prompts_are_far_from_each_other(read: Callable[[str], State]) -> None:
    looks = [look(picture_of(read(prompt), seed=1)) for prompt in PARAPHRASES]
    apart = [np.abs(one - two).mean() for number, one in enumerate(looks) for two in looks[:number]]
    assert min(apart) > 6
    assert np.median(apart) > 40


@pytest.mark.parametrize(
    "thing",
    [
        "warm lanterns",
        "lanterns in a forest",
        "neon signs",
        "fireworks",
        "a campfire",
        "a castle",
        "a lighthouse",
        "a boat",
        "hot air balloons",
        "fish",
        "a planet",
        "a spaceship",
        "northern lights",
        "cherry blossoms",
        "snow",
        "rain",
        "fog",
        "candles",
    ],
)
def test_a_thing_that_is_named_alone_is_seen(read: Callable[[str], State], thing: str) -> None:
    shown = read(thing)
    without = shown.copy()
    without[[INDEX[name] for name in EXTRAS]] = 0
    one, other = (picture_of(what, seed=4).astype(np.int16) for what in (shown, without))
    assert (np.abs(one - other).max(axis=2) > 30).mean() > 0.01


@pytest.mark.parametrize(
    "prompt",
    ["x", "?!", "雪の夜", "ein verschneiter Wald", "🌋", "the", "lorem ipsum " * 80, "a cat on a sofa"],
)
def test_whatever_is_said_there_is_a_picture(read: Callable[[str], State], prompt: str) -> None:
    frame = picture_of(read(prompt), seed=4)
    assert frame.std() > 12
    assert 15 < frame.mean() < 240
