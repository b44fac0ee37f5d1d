"""Texts to vectors: the tokenizer and the network of one folder, together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from duplex_trio.models.errors import ModelFormatError
from duplex_trio.models.text_encoder.bert import BertNetwork, read_weights
from duplex_trio.models.text_encoder.files import EncoderShape, read_shape

Vectors = npt.NDArray[np.float32]


class SentenceEncoder:
    """A sentence encoder, loaded. Used by one thread at a time.

    Args:
        folder: `config.json`, `tokenizer.json` and `*.safetensors` of a BERT sentence encoder.

    Raises:
        ModelFormatError: a file is missing, damaged, or of another kind of network.
    """

    def __init__(self, folder: Path) -> None:
        self.shape: EncoderShape = read_shape(folder)
        self._network = BertNetwork(read_weights(folder), self.shape)
        self._tokenizer = _tokenizer(folder, self.shape)
        if self._tokenizer.get_vocab_size() > self._network.vocabulary:
            raise ModelFormatError(f"{folder}: the tokenizer has more tokens than the weights.")

    def encode(self, texts: Sequence[str]) -> Vectors:
        """One vector for each text, whatever else is in the batch.

        Args:
            texts: one or more; what is beyond the most tokens is cut.

        Returns:
            Shape (texts, hidden size), each of unit length.

        Raises:
            ValueError: a text cannot be written as UTF-8.
        """
        import torch

        for text in texts:
            text.encode()  # a lone surrogate: the tokenizer says of it that it is no text
        encodings = self._tokenizer.encode_batch(list(texts))
        ids = torch.tensor([encoding.ids for encoding in encodings])
        mask = torch.tensor([encoding.attention_mask for encoding in encodings]).bool()
        vectors: Vectors = self._network.vectors(ids, mask).numpy()
        return vectors


def _tokenizer(folder: Path, shape: EncoderShape) -> Any:
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise ModelFormatError(f"{folder} holds no tokenizer.json.")
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exceptions
        raise ModelFormatError(f"{path} cannot be read: {error}.") from error
    # Files come with the cut and the filling of somebody's training: 128 tokens each, whatever the text.
    tokenizer.enable_truncation(shape.tokens_max)
    tokenizer.enable_padding(pad_id=shape.pad_token_id)
    return tokenizer
