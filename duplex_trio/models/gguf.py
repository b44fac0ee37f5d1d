"""Converts a GGUF file into a Hugging Face model folder with bfloat16 weights.

Owns the order of the work, the model configuration and that the folder appears whole. Where the file comes
from, where the result is kept and whether its checksum is right is the caller's business.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from duplex_trio.models.gguf_file import (
    CorruptGgufError,
    GgufError,
    Metadata,
    UnsupportedGgufError,
    read_gguf,
)
from duplex_trio.models.gguf_tokenizer import TokenizerMetadata, read_tokenizer, write_tokenizer
from duplex_trio.models.gguf_weights import (
    ARCHITECTURES,
    OUTPUT,
    ROPE_FACTORS,
    Architecture,
    ModelShape,
    check,
    plan,
    write_weights,
)

__all__ = ["CorruptGgufError", "GgufError", "UnsupportedGgufError", "convert_gguf"]


def convert_gguf(path: Path, out_dir: Path, *, progress: Callable[[float], None] | None = None) -> Path:
    """Write the model in `path` as a Hugging Face folder.

    The folder (config.json, generation_config.json, model.safetensors, tokenizer.json, tokenizer_config.json)
    is made beside `out_dir` and then renamed, so `out_dir` is complete or absent. One that exists is returned
    as it is.

    Args:
        path: the GGUF file; architectures `llama` and `qwen2`.
        out_dir: the folder to make; its parent is made too.
        progress: called with the share done, from 0.0 to 1.0.

    Returns:
        `out_dir`.

    Raises:
        UnsupportedGgufError: the architecture, tokenizer, rotary scaling or a tensor is not known here.
        CorruptGgufError: the file is not GGUF, is cut short or contradicts itself.
        OSError: the file cannot be read or the folder not be written.
    """
    if out_dir.exists():
        return out_dir
    report = progress or (lambda _share: None)
    report(0.0)
    source = read_gguf(path)
    architecture = _architecture(source.metadata)
    shape = _shape(source.metadata, architecture, tied=OUTPUT not in source.tensors)
    tokenizer = read_tokenizer(source.metadata)
    targets = check(source.tensors, plan(architecture, shape))
    config = _config(source.metadata, architecture, shape, tokenizer)
    config["rope_parameters"] |= _rope_scaling(source.tensors, config["rope_parameters"]["rope_theta"], shape)

    out_dir.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out_dir.name}-", dir=out_dir.parent) as scratch:
        folder = Path(scratch) / "model"
        folder.mkdir()
        write_tokenizer(tokenizer, folder, context_length=config["max_position_embeddings"])
        _write_json(folder / "config.json", config)
        _write_json(folder / "generation_config.json", _generation_config(tokenizer))
        weights = folder / "model.safetensors"
        write_weights(source.tensors, targets, weights, report)
        weights.chmod((folder / "config.json").stat().st_mode)  # the library writes it for its owner alone
        _publish(folder, out_dir)
    return out_dir


def _architecture(metadata: Metadata) -> Architecture:
    name = metadata.text("general.architecture")
    if name not in ARCHITECTURES:
        raise UnsupportedGgufError(
            f"architecture {name!r} is not supported; supported: {', '.join(ARCHITECTURES)}"
        )
    scaling = metadata.text(f"{name}.rope.scaling.type", "none")
    if scaling != "none":
        raise UnsupportedGgufError(f"{name}.rope.scaling.type {scaling!r} is not supported")
    return ARCHITECTURES[name]


def _shape(metadata: Metadata, architecture: Architecture, *, tied: bool) -> ModelShape:
    name = architecture.model_type
    hidden, heads = metadata.count(f"{name}.embedding_length"), metadata.count(f"{name}.attention.head_count")
    tokens = len(metadata.texts("tokenizer.ggml.tokens"))
    shape = ModelShape(
        hidden=hidden,
        inner=metadata.count(f"{name}.feed_forward_length"),
        layers=metadata.count(f"{name}.block_count"),
        heads=heads,
        key_value_heads=metadata.count(f"{name}.attention.head_count_kv", heads),
        head=metadata.count(f"{name}.attention.key_length", hidden // heads),
        vocabulary=metadata.count(f"{name}.vocab_size", tokens),
        tied=tied,
    )
    if shape.vocabulary < tokens:
        raise CorruptGgufError(f"{tokens} tokens but a vocabulary of {shape.vocabulary}")
    if shape.head % 2:
        raise CorruptGgufError(f"the size of a head must be even, is {shape.head}")
    return shape


def _config(
    metadata: Metadata, architecture: Architecture, shape: ModelShape, tokenizer: TokenizerMetadata
) -> dict[str, Any]:
    name = architecture.model_type
    return {
        "architectures": [architecture.class_name],
        "model_type": name,
        "dtype": "bfloat16",
        "hidden_act": "silu",
        "hidden_size": shape.hidden,
        "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.key_value_heads,
        "head_dim": shape.head,
        "max_position_embeddings": metadata.count(f"{name}.context_length"),
        "vocab_size": shape.vocabulary,
        "rms_norm_eps": metadata.number(f"{name}.attention.layer_norm_rms_epsilon"),
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": metadata.number(f"{name}.rope.freq_base", 10000.0),
        },
        "tie_word_embeddings": shape.tied,
        "bos_token_id": tokenizer.bos_id,
        "eos_token_id": tokenizer.eos_id,
        "pad_token_id": tokenizer.padding_id,
    }


def _rope_scaling(tensors: Mapping[str, Any], rope_theta: float, shape: ModelShape) -> dict[str, Any]:
    """Recognise the rotary scaling of Llama 3.1 and later, stored as one divisor for each frequency.

    The formula is that of `rope_type` "llama3" in transformers; between models only its `factor` differs.
    """
    if ROPE_FACTORS not in tensors:
        return {}
    stored = np.asarray(tensors[ROPE_FACTORS].data, dtype=np.float64).ravel()
    low, high, original = 1.0, 4.0, 8192
    factor = float(stored.max(initial=1.0))
    wavelength = 2 * math.pi * rope_theta ** (np.arange(0, shape.head, 2) / shape.head)
    smooth = np.clip((original / wavelength - low) / (high - low), 0.0, 1.0)
    if stored.shape != smooth.shape or not np.allclose(
        stored, 1 / ((1 - smooth) / factor + smooth), rtol=1e-3
    ):
        raise UnsupportedGgufError(f"the rotary scaling in tensor {ROPE_FACTORS} is not known")
    return {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": low,
        "high_freq_factor": high,
        "original_max_position_embeddings": original,
    }


def _generation_config(tokenizer: TokenizerMetadata) -> dict[str, Any]:
    return {
        "bos_token_id": tokenizer.bos_id,
        "eos_token_id": list(tokenizer.end_ids),
        "pad_token_id": tokenizer.padding_id,
    }


def _publish(folder: Path, out_dir: Path) -> None:
    try:
        folder.rename(out_dir)
    except OSError:
        if not out_dir.exists():
            raise
        # Another process finished the same conversion first; its folder is as good as this one.


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2), "utf-8")
