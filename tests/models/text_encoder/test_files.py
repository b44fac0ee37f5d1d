"""What a folder of a sentence encoder may say of itself, and what is said of one that cannot be run."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from duplex_trio.models.errors import ModelFormatError
from duplex_trio.models.references import resolve_reference
from duplex_trio.models.text_encoder.files import read_shape
from duplex_trio.models.text_encoder.worker import SentenceEncoderWorker

CONFIG = {
    "model_type": "bert",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
}


def write(folder: Path, name: str, value: object) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def test_sizes_are_read_and_the_rest_has_the_defaults_of_the_card(tmp_path: Path) -> None:
    write(tmp_path, "config.json", CONFIG | {"max_position_embeddings": 512})
    shape = read_shape(tmp_path)
    assert (shape.hidden_size, shape.layers, shape.heads) == (64, 2, 4)
    assert (shape.tokens_max, shape.pooling, shape.norm_epsilon) == (256, "mean", 1e-12)


def test_a_folder_may_say_how_much_is_read_and_what_is_pooled(tmp_path: Path) -> None:
    write(tmp_path, "config.json", CONFIG)
    write(tmp_path, "sentence_bert_config.json", {"max_seq_length": 500})
    write(
        tmp_path, "1_Pooling/config.json", {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    )
    shape = read_shape(tmp_path)
    assert (shape.tokens_max, shape.pooling) == (128, "cls")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"model_type": "mpnet"}, "'mpnet'; only `bert`"),
        ({"hidden_act": "relu"}, "hidden_act is 'relu'"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type is 'relative_key'"),
        ({"hidden_size": 66}, "4 heads do not divide a hidden_size of 66"),
        ({"num_hidden_layers": "six"}, "num_hidden_layers must be a whole number from 1, not 'six'"),
        ({"num_attention_heads": 0}, "num_attention_heads must be a whole number from 1, not 0"),
        ({"max_position_embeddings": None}, "max_position_embeddings must be a whole number"),
    ],
)
def test_a_network_that_cannot_be_run_is_told_by_what_it_says(
    tmp_path: Path, change: dict[str, object], told: str
) -> None:
    write(tmp_path, "config.json", CONFIG | change)
    with pytest.raises(ModelFormatError) as caught:
        read_shape(tmp_path)
    assert told in str(caught.value)


def test_pooling_of_another_kind_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "config.json", CONFIG)
    write(tmp_path, "1_Pooling/config.json", {"pooling_mode_max_tokens": True})
    with pytest.raises(ModelFormatError, match="pooling_mode_max_tokens is not known here"):
        read_shape(tmp_path)


@pytest.mark.parametrize(("text", "told"), [("{", "is no JSON"), ("[1]", "holds no JSON object")])
def test_a_damaged_config_is_told(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ModelFormatError, match=told):
        read_shape(tmp_path)


def test_a_reference_leads_to_a_folder_with_the_three_files_and_to_no_other(tmp_path: Path) -> None:
    write(tmp_path, "config.json", CONFIG)
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(ModelFormatError, match="is not a sentence encoder that can be used here"):
        resolve_reference(str(tmp_path), "text-encoder")
    write(tmp_path, "tokenizer.json", {})
    assert resolve_reference(str(tmp_path), "text-encoder").path == tmp_path


def test_a_worker_that_is_not_loaded_can_be_sent_to_another_process(tmp_path: Path) -> None:
    worker = pickle.loads(pickle.dumps(SentenceEncoderWorker(tmp_path, name="words")))
    assert worker.name == "words"
    with pytest.raises(ModelFormatError, match="cannot be read"):
        worker.load()
