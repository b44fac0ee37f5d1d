"""The training: it learns, can go on where it was, and writes weights that can be loaded."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from duplex_trio.models.glyph_flow import train as script
from duplex_trio.models.glyph_flow.captions import ALIASES
from duplex_trio.models.glyph_flow.glyphs import (
    SOURCE_SIDE,
    FontMissingError,
    find_font,
    font_glyphs,
    generated_glyphs,
)
from duplex_trio.models.glyph_flow.phrased import Phrased, phrase
from duplex_trio.testing.video_models import vector_of

torch = pytest.importorskip("torch")

from duplex_trio.models.glyph_flow.network import GlyphNet, placed  # noqa: E402
from duplex_trio.models.glyph_flow.training import Trainer, TrainingSettings  # noqa: E402
from duplex_trio.models.glyph_flow.weights import load_network, save_network  # noqa: E402

GLYPHS = generated_glyphs()
SETTINGS = TrainingSettings(batch=8, sketch_steps=2, sketch_batch=16, warm_up=2)


def phrased() -> Phrased:
    return phrase(GLYPHS.captions, lambda texts: np.stack([vector_of(text) for text in texts]))


def trainer() -> Trainer:
    return Trainer(GLYPHS, phrased(), SETTINGS)


def steps(training: Trainer, count: int) -> list[float]:
    return [training.train_step(0.1) for _ in range(count)]


def loss_of(training: Trainer) -> float:
    """On the same eight batches whenever it is asked."""
    with torch.no_grad():
        return float(np.mean([training.flow_loss(torch.Generator().manual_seed(n)).item() for n in range(8)]))


def test_ten_steps_lower_the_loss_and_the_weights_load(tmp_path: Path) -> None:
    settings = TrainingSettings(batch=8, sketch_steps=40, sketch_batch=16, warm_up=5)
    training = Trainer(GLYPHS, phrased(), settings)
    before = loss_of(training)
    errors = [error for _, error in script.train(training, script.Length(steps=10))]
    assert (training.sketched, training.step, len(errors)) == (40, 10, 50)
    assert errors[39] < 0.8 * errors[0], "of the sketches"
    assert loss_of(training) < 0.8 * before
    path = tmp_path / "w.safetensors"
    save_network(training.kept, path, script.card(training, GLYPHS, "a command"))
    loaded = load_network(path)
    for name, tensor in training.kept.state_dict().items():
        assert torch.allclose(loaded.state_dict()[name], tensor, rtol=2e-3, atol=1e-3), name
    told = json.loads(path.with_suffix(".json").read_text())
    assert (told["steps"], told["command"]) == (10, "a command")
    assert told["bytes"] == path.stat().st_size


def test_a_resumed_training_takes_the_very_same_steps(tmp_path: Path) -> None:
    through = trainer()
    whole = [through.sketch_step() for _ in range(2)] + steps(through, 4)
    first = trainer()
    parts = [first.sketch_step() for _ in range(2)] + steps(first, 2)
    first.save(tmp_path / "state.pt")
    second = trainer()
    second.restore(tmp_path / "state.pt")
    assert (second.sketched, second.step) == (2, 2)
    assert parts + steps(second, 2) == whole


def test_it_does_not_go_on_with_other_data(tmp_path: Path) -> None:
    first = trainer()
    first.save(tmp_path / "state.pt")
    fewer = generated_glyphs(4)
    vectors = np.stack([vector_of(caption) for caption in fewer.captions])
    other = Trainer(fewer, Phrased(vectors, np.arange(4)), SETTINGS)
    with pytest.raises(ValueError, match="other pictures"):
        other.restore(tmp_path / "state.pt")


def test_a_training_has_the_length_that_was_asked_for(tmp_path: Path) -> None:
    training, resume = trainer(), tmp_path / "state.pt"
    seen = list(script.train(training, script.Length(steps=3), resume))
    sketches, flow = [1 / 2, 1.0], [1 / 3, 2 / 3, 1.0]
    assert [progress for progress, _ in seen] == pytest.approx(sketches + flow)
    assert (training.sketched, training.step) == (2, 3)
    assert resume.is_file()
    assert list(script.train(training, script.Length(steps=3))) == [], "nothing is left to do"


@pytest.mark.parametrize(
    ("minutes", "count", "progress"), [(2.0, None, 0.5), (None, 30, 2 / 3), (2.0, 30, 2 / 3), (0.5, 30, 1.0)]
)
def test_what_is_reached_first_ends_it(minutes: float | None, count: int | None, progress: float) -> None:
    length = script.Length(minutes=minutes, steps=count)
    assert length.progress(60.0, 20) == pytest.approx(progress)


def test_phrasings_are_encoded_once(tmp_path: Path) -> None:
    asked: list[str] = []

    def encode(texts: tuple[str, ...]) -> np.ndarray:
        asked.extend(texts)
        return np.stack([vector_of(text) for text in texts])

    cache = tmp_path / "embeddings.npz"
    first = phrase(("cat", "rocket"), encode, cache=cache)
    count = len(asked)
    again = phrase(("cat", "rocket"), encode, cache=cache)
    assert len(asked) == count == len(first.vectors)
    assert np.array_equal(first.vectors, again.vectors)
    assert list(first.owners) == [0] * 4 + [1] * (4 + len(ALIASES["rocket"]))
    phrase(("cat", "dog"), encode, cache=cache)
    assert len(asked) > count, "other texts are not taken from the file"


def test_generated_glyphs_are_all_different() -> None:
    assert GLYPHS.pictures.shape == (16, 4, SOURCE_SIDE, SOURCE_SIDE)
    assert GLYPHS.pictures.dtype == np.float32
    flat = GLYPHS.pictures.reshape(16, -1)
    apart = np.abs(flat[:, None] - flat[None]).mean(-1) + np.eye(16)
    assert apart.min() > 0.05
    assert np.abs(GLYPHS.pictures).max() <= 1.0


def test_a_place_moves_and_scales() -> None:
    """To the right and down by half a side, and to half the size."""
    dot = torch.zeros(1, 1, 64, 64)
    dot[..., 24:40, 24:40] = 1.0
    middle = (torch.arange(32) - 15.5) / 16.0

    def centre(place: list[float]) -> tuple[float, float, float]:
        moved = placed(dot, torch.tensor([place]))[0, 0]
        mass = moved.sum()
        across, down = (moved.sum(0) * middle).sum() / mass, (moved.sum(1) * middle).sum() / mass
        return float(across), float(down), float(mass)

    assert centre([0.0, 0.0, 0.0]) == pytest.approx((0.0, 0.0, 64.0), abs=0.01)
    assert centre([0.5, 0.25, 0.0]) == pytest.approx((0.5, 0.25, 64.0), abs=0.01)
    assert centre([0.0, 0.0, float(np.log(0.5))]) == pytest.approx((0.0, 0.0, 16.0), abs=0.5)


def test_without_the_font_one_is_told_where_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(FontMissingError, match=r"no such font: /no/font\.ttf"):
        find_font("/no/font.ttf")
    broken = tmp_path / "broken.ttf"
    broken.write_bytes(b"no font")
    with pytest.raises(FontMissingError, match="fonts-noto-color-emoji"):
        font_glyphs(broken)


def test_the_command_ends_without_a_traceback_where_there_is_no_font(tmp_path: Path) -> None:
    assert script.main(["--font", "/no/font.ttf", "--out", str(tmp_path)]) == 2


@pytest.mark.models
@pytest.mark.slow
def test_the_command_trains_resumes_and_writes(tmp_path: Path) -> None:
    """On the font's first glyphs, or on shapes where there is no font."""
    try:
        find_font()
        data = ["--glyphs", "16"]
    except FontMissingError:
        data = ["--generated"]
    common = [*data, "--batch", "4", "--sketch-steps", "3", "--out", str(tmp_path)]
    assert script.main([*common, "--steps", "2"]) == 0
    assert script.main([*common, "--steps", "4"]) == 0
    told = json.loads((tmp_path / "glyph_flow.json").read_text())
    assert told["steps"] == 4
    assert told["data"]["pictures"] == 16
    assert isinstance(load_network(tmp_path / "glyph_flow.safetensors"), GlyphNet)
    assert script.main([*common, "--steps", "4", "--seed", "8"]) == 2, "the folder is another training's"
