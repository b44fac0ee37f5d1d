"""What a folder with a sentence encoder says of itself, read and checked before any weight is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from attrs import frozen

from duplex_trio.models.errors import ModelFormatError

TOKENS_MAX = 256
"""Tokens of a text that are read; the rest is cut. What all-MiniLM-L6-v2's card says of its training."""

Pooling = Literal["mean", "cls"]


@frozen(kw_only=True)
class EncoderShape:
    """The sizes of a BERT network and how its output becomes one vector.

    Attributes:
        hidden_size: values of a token, and of the vector of a text.
        layers: how many.
        heads: attention heads of a layer.
        norm_epsilon: of the layer norms.
        pad_token_id: what shorter texts of a batch are filled up with.
        tokens_max: tokens that are read of a text, the two around it included.
        pooling: the mean over a text's tokens, or the first one's values.
    """

    hidden_size: int
    layers: int
    heads: int
    norm_epsilon: float
    pad_token_id: int
    tokens_max: int
    pooling: Pooling


def read_shape(folder: Path) -> EncoderShape:
    """Read `config.json`, and beside it `sentence_bert_config.json` and `1_Pooling/config.json` where they are.

    Raises:
        ModelFormatError: a file is missing or damaged, or it tells of a network that cannot be run here.
    """
    config = _read(folder / "config.json")
    if config.get("model_type") != "bert":
        raise ModelFormatError(
            f"{folder} holds a model of the type {config.get('model_type')!r}; only `bert` is a sentence encoder here."
        )
    for key, wanted in (("hidden_act", "gelu"), ("position_embedding_type", "absolute")):
        if config.get(key, wanted) != wanted:
            raise ModelFormatError(f"{folder}: {key} is {config[key]!r}; only {wanted!r} can be run here.")
    hidden_size = _count(folder, config, "hidden_size")
    heads = _count(folder, config, "num_attention_heads")
    if hidden_size % heads:
        raise ModelFormatError(f"{folder}: {heads} heads do not divide a hidden_size of {hidden_size}.")
    sentences = _read(folder / "sentence_bert_config.json", optional=True)
    wanted_tokens = sentences.get("max_seq_length")
    tokens_max = wanted_tokens if isinstance(wanted_tokens, int) and wanted_tokens > 2 else TOKENS_MAX
    return EncoderShape(
        hidden_size=hidden_size,
        layers=_count(folder, config, "num_hidden_layers"),
        heads=heads,
        norm_epsilon=float(config.get("layer_norm_eps", 1e-12)),
        pad_token_id=int(config.get("pad_token_id") or 0),
        tokens_max=min(tokens_max, _count(folder, config, "max_position_embeddings")),
        pooling=_pooling(folder),
    )


def _pooling(folder: Path) -> Pooling:
    config = _read(folder / "1_Pooling" / "config.json", optional=True)
    modes = [name for name, value in config.items() if name.startswith("pooling_mode_") and value is True]
    match modes:
        case [] | ["pooling_mode_mean_tokens"]:
            return "mean"
        case ["pooling_mode_cls_token"]:
            return "cls"
        case _:
            raise ModelFormatError(
                f"{folder}: the pooling {', '.join(modes)} is not known here; mean and cls are."
            )


def _read(path: Path, *, optional: bool = False) -> dict[str, Any]:
    if optional and not path.is_file():
        return {}
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise ModelFormatError(f"{path} cannot be read ({error.strerror}).") from error
    except ValueError as error:
        raise ModelFormatError(f"{path} is no JSON: {error}.") from error
    if not isinstance(value, dict):
        raise ModelFormatError(f"{path} holds no JSON object.")
    return value


def _count(folder: Path, config: dict[str, Any], key: str) -> int:
    value = config.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ModelFormatError(
            f"{folder / 'config.json'}: {key} must be a whole number from 1, not {value!r}."
        )
    return value
