"""The tensors of a GGUF model: where each goes in a Hugging Face folder, in which shape and row order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from attrs import frozen

from duplex_trio.models.gguf_file import CorruptGgufError, UnsupportedGgufError

if TYPE_CHECKING:
    import torch

Rows = npt.NDArray[np.float32]

EMBEDDING, OUTPUT, ROPE_FACTORS = "token_embd.weight", "output.weight", "rope_freqs.weight"


@frozen
class Architecture:
    """One model family: what it is called in a model folder, and how its tensors lie in a GGUF file.

    With `interleaved_heads`, the two rows of each rotary pair of a query or key head are neighbours.
    """

    model_type: str
    class_name: str
    interleaved_heads: bool
    attention_biases: bool


ARCHITECTURES: Mapping[str, Architecture] = {
    known.model_type: known
    for known in (
        Architecture("llama", "LlamaForCausalLM", interleaved_heads=True, attention_biases=False),
        Architecture("qwen2", "Qwen2ForCausalLM", interleaved_heads=False, attention_biases=True),
    )
}


@frozen(kw_only=True)
class ModelShape:
    """Sizes of a model. `tied` means that the output layer is the embedding."""

    hidden: int
    inner: int
    layers: int
    heads: int
    key_value_heads: int
    head: int
    vocabulary: int
    tied: bool


@frozen
class Target:
    """Where a tensor goes: its name and shape there. With `heads` its rows need `separate_halves`."""

    name: str
    shape: tuple[int, ...]
    heads: int | None = None


def plan(architecture: Architecture, shape: ModelShape) -> Iterator[tuple[str, Target]]:
    """Say for each tensor of the file where it goes; layer by layer, for how many there are is not known yet."""
    hidden, inner = shape.hidden, shape.inner
    query, key = shape.heads * shape.head, shape.key_value_heads * shape.head
    ordered = architecture.interleaved_heads
    yield EMBEDDING, Target("model.embed_tokens.weight", (shape.vocabulary, hidden))
    yield "output_norm.weight", Target("model.norm.weight", (hidden,))
    if not shape.tied:
        yield OUTPUT, Target("lm_head.weight", (shape.vocabulary, hidden))
    projections: dict[str, tuple[str, tuple[int, int], int | None]] = {
        "attn_q": ("self_attn.q_proj", (query, hidden), shape.heads if ordered else None),
        "attn_k": ("self_attn.k_proj", (key, hidden), shape.key_value_heads if ordered else None),
        "attn_v": ("self_attn.v_proj", (key, hidden), None),
        "attn_output": ("self_attn.o_proj", (hidden, query), None),
        "ffn_gate": ("mlp.gate_proj", (inner, hidden), None),
        "ffn_up": ("mlp.up_proj", (inner, hidden), None),
        "ffn_down": ("mlp.down_proj", (hidden, inner), None),
    }
    norms = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
    for layer in range(shape.layers):
        there, here = f"model.layers.{layer}", f"blk.{layer}"
        for short, (long, size, heads) in projections.items():
            yield f"{here}.{short}.weight", Target(f"{there}.{long}.weight", size, heads)
            if architecture.attention_biases and short in ("attn_q", "attn_k", "attn_v"):
                yield f"{here}.{short}.bias", Target(f"{there}.{long}.bias", size[:1], heads)
        for short, long in norms.items():
            yield f"{here}.{short}.weight", Target(f"{there}.{long}.weight", (hidden,))


def check(tensors: Mapping[str, Any], planned: Iterable[tuple[str, Target]]) -> dict[str, Target]:
    """Compare the file's tensors with the plan, up to the first fault, and return the whole plan.

    Raises:
        CorruptGgufError: one is missing or has another shape than the metadata say.
        UnsupportedGgufError: one is not in the plan.
    """
    targets: dict[str, Target] = {}
    for name, target in planned:
        if name not in tensors:
            raise CorruptGgufError(f"tensor {name} is missing")
        found = tuple(int(size) for size in reversed(tensors[name].shape))
        if found != target.shape:
            raise CorruptGgufError(f"tensor {name} has shape {found}, the metadata say {target.shape}")
        targets[name] = target
    unknown = [name for name in tensors if name not in targets and name != ROPE_FACTORS]
    if unknown:
        raise UnsupportedGgufError(f"tensor {unknown[0]} is not known for this architecture")
    return targets


def write_weights(
    tensors: Mapping[str, Any],
    targets: Mapping[str, Target],
    path: Path,
    report: Callable[[float], None],
) -> None:
    """Dequantise every planned tensor to bfloat16 and write one safetensors file.

    Args:
        tensors: the file's tensors by name.
        targets: the plan for them.
        path: the file to write.
        report: called with the share done, from 0.0 to 1.0.
    """
    from safetensors.torch import save_file

    total = sum(tensors[name].n_bytes for name in targets)
    done = 0
    weights: dict[str, torch.Tensor] = {}
    for name, target in targets.items():
        weights[target.name] = _convert(tensors[name], target)
        done += tensors[name].n_bytes
        report(0.9 * done / total)  # the last tenth is writing
    save_file(weights, str(path), metadata={"format": "pt"})
    report(1.0)


def _convert(tensor: Any, target: Target) -> torch.Tensor:
    import torch
    from gguf import dequantize

    try:
        rows: Rows = dequantize(tensor.data, tensor.tensor_type).reshape(target.shape)
    except NotImplementedError as error:
        raise UnsupportedGgufError(f"tensor {tensor.name}: {error}") from error
    if target.heads is not None:
        rows = separate_halves(rows, target.heads)
    return torch.tensor(rows).to(torch.bfloat16)


def separate_halves(rows: Rows, heads: int) -> Rows:
    """Undo the interleaving of rotary pairs: of each head rows 0, 2, 4, ... come first, then 1, 3, 5, ...

    A `llama` model rotates row i of a head together with row i + head/2; GGUF stores them as neighbours.

    Args:
        rows: shape (heads * head, ...), head even.
        heads: how many heads the rows hold.
    """
    pairs = rows.reshape(heads, rows.shape[0] // heads // 2, 2, *rows.shape[1:])
    return pairs.swapaxes(1, 2).reshape(rows.shape)
