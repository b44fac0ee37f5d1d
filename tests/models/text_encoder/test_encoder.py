"""The packaged sentence encoder: its figures, another implementation's, and its stage."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
import trio

from duplex_trio.models.errors import ModelFormatError
from duplex_trio.models.references import resolve_reference
from duplex_trio.models.text_encoder.encoder import SentenceEncoder
from duplex_trio.models.text_encoder.worker import SentenceEncoderWorker
from duplex_trio.stages.port import StageFailed, StageOutput, StageRequest
from duplex_trio.stages.process.run import ProcessStage
from duplex_trio.stages.units import TextToEmbed
from duplex_trio.testing.stage_script import GUARD_S
from duplex_trio.testing.workers import RecordingContext

pytestmark = pytest.mark.models

TEXTS = [
    "A snowy street illuminated by warm lanterns",
    "a winter street with lanterns",
    "ocean waves",
    "",
    "ein verschneiter Wald 雪 ❄ مرحبا",
    "rain " * 400,
]


@pytest.fixture(scope="module")
def folder() -> Path:
    path = resolve_reference("minilm-l6-v2", "text-encoder").path
    assert path is not None
    return path


@pytest.fixture(scope="module")
def encoder(folder: Path) -> SentenceEncoder:
    return SentenceEncoder(folder)


def test_like_sentences_are_near_and_others_far(encoder: SentenceEncoder) -> None:
    """The figures of video.md 6: 0.87 and 0.05."""
    street, winter, ocean = encoder.encode(TEXTS[:3])
    assert float(street @ winter) == pytest.approx(0.87, abs=0.01)
    assert float(street @ ocean) == pytest.approx(0.05, abs=0.01)


def test_vectors_are_those_of_the_library_that_the_weights_were_made_with(
    encoder: SentenceEncoder, folder: Path
) -> None:
    import torch
    from transformers import BertModel, PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), pad_token="[PAD]")
    model = BertModel.from_pretrained(str(folder)).eval()
    batch = tokenizer(TEXTS, padding=True, truncation=True, max_length=256, return_tensors="pt")
    with torch.inference_mode():
        hidden = model(**batch).last_hidden_state
    kept = batch["attention_mask"][:, :, None].float()
    expected = torch.nn.functional.normalize((hidden * kept).sum(1) / kept.sum(1), dim=1).numpy()
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=1e-5)


def test_a_text_has_the_same_vector_alone_and_among_longer_ones(encoder: SentenceEncoder) -> None:
    together = encoder.encode(TEXTS)
    for text, vector in zip(TEXTS, together, strict=True):
        np.testing.assert_allclose(encoder.encode([text])[0], vector, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-6)


def test_what_is_beyond_256_tokens_is_not_read(encoder: SentenceEncoder) -> None:
    # The two tokens around a text count.
    same, other = encoder.encode(["rain " * 254 + "sun", "rain " * 254 + "moon"])
    assert np.array_equal(same, other)
    same, other = encoder.encode(["rain " * 253 + "sun", "rain " * 253 + "moon"])
    assert not np.array_equal(same, other)


def test_missing_and_foreign_weights_are_told(folder: Path, tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer.json"):
        shutil.copy(folder / name, tmp_path)
    with pytest.raises(ModelFormatError, match="holds no weights"):
        SentenceEncoder(tmp_path)
    import torch
    from safetensors.torch import save_file

    save_file({"something.weight": torch.zeros(2)}, tmp_path / "model.safetensors")
    with pytest.raises(ModelFormatError, match=r"no tensor embeddings\.word_embeddings\.weight"):
        SentenceEncoder(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(ModelFormatError, match="cannot be read"):
        SentenceEncoder(tmp_path)


def test_the_stage_answers_each_text_once_and_outlives_what_is_no_text(folder: Path) -> None:
    worker = SentenceEncoderWorker(folder)
    outputs = RecordingContext()
    threads = []

    def work() -> None:
        import torch

        worker.load()
        threads.append(torch.get_num_threads())
        for number, text in enumerate(("ocean waves", "\ud800", "ocean waves")):
            request_id = f"r{number}"
            worker.open(StageRequest(request_id=request_id, owner="test"), outputs)
            worker.submit(request_id, TextToEmbed(text=text), True, outputs)
            while worker.step(outputs):
                pass
        worker.close()

    import torch

    before = torch.get_num_threads()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    first, refused, again = outputs.outputs
    assert isinstance(first, StageOutput)
    assert first.finished
    assert isinstance(again, StageOutput)
    assert np.array_equal(first.data.vector, again.data.vector)
    assert first.data.vector.dtype == np.float32
    assert isinstance(refused, StageFailed)
    assert refused.code == "invalid_value"
    assert threads == [1]
    assert torch.get_num_threads() == before


async def test_a_stage_in_a_process_of_its_own_gives_the_same_vectors(
    folder: Path, encoder: SentenceEncoder
) -> None:
    with trio.fail_after(GUARD_S):
        async with trio.open_nursery() as nursery:
            stage = ProcessStage(SentenceEncoderWorker(folder))
            await nursery.start(stage.run)
            stream = stage.open(StageRequest(request_id="r", owner="test"))
            await stream.submit(TextToEmbed(text="ocean waves"), final=True)
            outputs = [output.data async for output in stream.outputs]
            await stream.wait_released()
            nursery.cancel_scope.cancel()
    np.testing.assert_allclose(outputs[0].vector, encoder.encode(["ocean waves"])[0], atol=1e-6)
