"""The readout: fitted to captions, kept in a file, and right about prompts that it never saw."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from duplex_trio.models.references import resolve_reference
from duplex_trio.models.scene.captions import captions
from duplex_trio.models.scene.readout import PROBE, load_readout, save_readout
from duplex_trio.models.scene.vocabulary import EXTRAS, IMPLIED, NAMES, PLACES, TIMES, TINTS
from duplex_trio.models.text_encoder.encoder import SentenceEncoder
from tests.models.scene.support import WordEncoder, word_readout

HELD_OUT = {
    "peaceful countryside with a windmill": "meadow",
    "the skyline of Chicago after dark": "city night",
    "old lighthouse in a gale": "lighthouse",
    "hot-air balloons drifting over Cappadocia at sunrise": "balloon dawn",
    "medieval citadel under a full moon": "castle moon",
    "dinghies sailing in the bay": "boat sea",
    "a lonely igloo in Antarctica": "ice",
    "deep jungle after a monsoon": "jungle rain",
    "people around a campfire in the woods at midnight": "fire forest night",
    "pyrotechnics for New Year above the harbour": "fireworks",
    "a barley field in summer": "meadow",
    "a pond with haze in the morning": "lake fog",
    "sharks swimming in the deep blue": "underwater fish",
    "Swiss alps in January": "mountains snow",
    "lava flowing down a hillside": "volcano",
    "golden sunset over the savannah": "sunset",
    "nebula with newborn suns": "space",
    "crimson heavens over the waves": "red",
    "a rainbow over green slopes": "rainbow",
    "glow worms in a dark wood": "fireflies forest",
    "plum trees in full flower": "blossom",
    "maple leaves turning colour in November": "autumn",
    "polar lights above Tromsø": "aurora",
    "a drizzly afternoon": "rain",
    "Christmas market with fairy lights": "lanterns",
    "seagulls circling": "birds",
    "camels crossing the Gobi": "desert",
    "waves lapping at white sand": "beach",
    "thick pea soup over the moor": "fog",
    "a lane between half-timbered houses": "street",
}
NOTHING_TO_SHOW = [
    "my favourite recipe",
    "stochastic gradient descent",
    "who won the match yesterday?",
    "a spoon",
    "an essay about taxes",
    "qwertz uiop",
    "a hamster eating",
    "please continue",
]


def test_names_are_unique_and_what_is_implied_is_known() -> None:
    assert len(set(NAMES)) == len(NAMES)
    phrases = {
        phrase for words in (TIMES, PLACES, EXTRAS, TINTS) for group in words.values() for phrase in group
    }
    assert set(IMPLIED) <= phrases
    assert {name for implied in IMPLIED.values() for name in implied} <= set(NAMES)


def test_captions_are_the_same_again_and_speak_of_everything() -> None:
    texts, labels = captions(1500)
    again, same = captions(1500)
    assert texts == again
    assert np.array_equal(labels, same)
    assert len(texts) >= 1500
    assert labels.max(axis=0).min() == 1
    assert captions(1500, seed=8)[0] != texts


def test_a_readout_learns_what_words_mean_and_outlives_a_file(tmp_path: Path) -> None:
    encoder = WordEncoder()
    readout = word_readout(encoder)
    texts, labels = captions(900)
    found = readout.read(np.stack([encoder.vector(text) for text in texts]))
    assert ((found > 0.5) == (labels > 0.5)).mean() > 0.97
    save_readout(readout, tmp_path / "readout.npz")
    kept = load_readout(tmp_path / "readout.npz")
    np.testing.assert_allclose(
        kept.read(encoder.vector("dunes")), readout.read(encoder.vector("dunes")), atol=2e-3
    )
    assert kept.suits(encoder.vector(PROBE))
    assert not kept.suits(encoder.vector("another text"))
    assert not kept.suits(WordEncoder(size=32).vector(PROBE))


def test_a_readout_of_another_vocabulary_is_refused(tmp_path: Path) -> None:
    with np.load(Path(load_readout.__code__.co_filename).parent / "readout.npz") as arrays:
        changed = {**arrays, "names": arrays["names"][::-1]}
    np.savez(tmp_path / "other.npz", **changed)
    with pytest.raises(ValueError, match="another vocabulary"):
        load_readout(tmp_path / "other.npz")


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    folder = resolve_reference("minilm-l6-v2", "text-encoder").path
    assert folder is not None
    return SentenceEncoder(folder)


@pytest.mark.models
def test_the_packaged_readout_is_that_of_the_packaged_encoder(encoder: SentenceEncoder) -> None:
    assert load_readout().suits(encoder.encode([PROBE])[0])


@pytest.mark.models
def test_prompts_that_it_was_not_fitted_to_are_read_right(encoder: SentenceEncoder) -> None:
    assert not set(HELD_OUT) & set(captions(3000)[0])
    readout = load_readout()
    wanted = found = claimed = 0
    for text, names in HELD_OUT.items():
        shares = readout.read(encoder.encode([text])[0])
        wanted += len(names.split())
        found += sum(shares[NAMES.index(name)] > 0.4 for name in names.split())
        claimed += int((shares > 0.5).sum())
    assert found >= 0.8 * wanted
    assert claimed < 2 * wanted


@pytest.mark.models
def test_texts_about_nothing_that_can_be_shown_say_nothing(encoder: SentenceEncoder) -> None:
    shares = load_readout().read(encoder.encode(NOTHING_TO_SHOW))
    assert (shares > 0.5).sum() <= 1
