"""The forward pass of a BERT network over its safetensors, and nothing else of it.

The weights have the names that Hugging Face's `BertModel` gives them, with or without a prefix `bert.`. Everything is
computed in float32. Source of the arithmetic: Devlin et al. 2019, and for the vector of a sentence Reimers and Gurevych
2019 (the mean over the tokens, brought to unit length).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from duplex_trio.models.errors import ModelFormatError
from duplex_trio.models.text_encoder.files import EncoderShape

_PREFIX = "bert."


def read_weights(folder: Path) -> dict[str, Any]:
    """All tensors of the folder's safetensors, in float32, without the prefix.

    Raises:
        ModelFormatError: there are none, or a file is damaged.
    """
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    weights: dict[str, Any] = {}
    for path in sorted(folder.glob("*.safetensors")):
        try:
            tensors = load_file(path)
        except (SafetensorError, OSError) as error:
            raise ModelFormatError(f"{path} cannot be read: {error}.") from error
        for name, tensor in tensors.items():
            if tensor.is_floating_point():
                weights[name.removeprefix(_PREFIX)] = tensor.to(torch.float32)
    if not weights:
        raise ModelFormatError(f"{folder} holds no weights (*.safetensors).")
    return weights


class BertNetwork:
    """A BERT of any size.

    Args:
        weights: its tensors by name.
        shape: its sizes.

    Raises:
        ModelFormatError: a tensor is missing, or has another size than the shape says.
    """

    def __init__(self, weights: Mapping[str, Any], shape: EncoderShape) -> None:
        self._weights = weights
        self._shape = shape
        size = shape.hidden_size
        names = [
            "embeddings.LayerNorm",
            *(f"encoder.layer.{n}.output.LayerNorm" for n in range(shape.layers)),
        ]
        for name in ("word", "position", "token_type"):
            self._check(f"embeddings.{name}_embeddings.weight", size)
        for name in names:
            self._check(f"{name}.weight", size)

    @property
    def vocabulary(self) -> int:
        """How many tokens there are."""
        return int(self._weights["embeddings.word_embeddings.weight"].shape[0])

    def vectors(self, token_ids: Any, mask: Any) -> Any:
        """One vector of unit length for each text.

        Args:
            token_ids: shape (texts, tokens), whole numbers.
            mask: the same shape; true for tokens, false for what fills up.

        Returns:
            Shape (texts, hidden size), float32.
        """
        import torch
        from torch.nn import functional

        with torch.inference_mode():
            hidden = self._embed(token_ids)
            attended = mask[:, None, None, :]
            for layer in range(self._shape.layers):
                hidden = self._layer(f"encoder.layer.{layer}", hidden, attended)
            if self._shape.pooling == "cls":
                pooled = hidden[:, 0]
            else:
                kept = mask[:, :, None].to(hidden.dtype)
                pooled = (hidden * kept).sum(1) / kept.sum(1).clamp(min=1e-9)
            return functional.normalize(pooled, dim=1)

    def _embed(self, token_ids: Any) -> Any:
        length = token_ids.shape[1]
        words = self._weights["embeddings.word_embeddings.weight"][token_ids]
        positions = self._weights["embeddings.position_embeddings.weight"][:length]
        kind = self._weights["embeddings.token_type_embeddings.weight"][0]
        return self._norm("embeddings.LayerNorm", words + positions + kind)

    def _layer(self, name: str, hidden: Any, attended: Any) -> Any:
        from torch.nn import functional

        texts, length, size = hidden.shape
        heads = self._shape.heads

        def split(part: str) -> Any:
            values = self._linear(f"{name}.attention.self.{part}", hidden)
            return values.view(texts, length, heads, size // heads).transpose(1, 2)

        mixed = functional.scaled_dot_product_attention(
            split("query"), split("key"), split("value"), attn_mask=attended
        )
        mixed = self._linear(
            f"{name}.attention.output.dense", mixed.transpose(1, 2).reshape(texts, length, size)
        )
        hidden = self._norm(f"{name}.attention.output.LayerNorm", mixed + hidden)
        inner = functional.gelu(self._linear(f"{name}.intermediate.dense", hidden))
        return self._norm(f"{name}.output.LayerNorm", self._linear(f"{name}.output.dense", inner) + hidden)

    def _linear(self, name: str, values: Any) -> Any:
        from torch.nn import functional

        return functional.linear(values, self._weights[f"{name}.weight"], self._weights[f"{name}.bias"])

    def _norm(self, name: str, values: Any) -> Any:
        from torch.nn import functional

        return functional.layer_norm(
            values,
            (self._shape.hidden_size,),
            self._weights[f"{name}.weight"],
            self._weights[f"{name}.bias"],
            self._shape.norm_epsilon,
        )

    def _check(self, name: str, size: int) -> None:
        tensor = self._weights.get(name)
        if tensor is None:
            raise ModelFormatError(f"The weights have no tensor {name}: they are not those of the config.")
        if tensor.shape[-1] != size:
            raise ModelFormatError(f"{name} has {tensor.shape[-1]} values a row; the config says {size}.")
