"""Embeddings of all phrasings of all captions, computed once and kept in a file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from attrs import frozen

from duplex_trio.models.glyph_flow.captions import phrasings

Vectors = npt.NDArray[np.float32]


@frozen(eq=False)
class Phrased:
    """What stands for each picture in training.

    Attributes:
        vectors: shape (phrasings, 384), unit length.
        owners: for each of them, the number of its picture.
    """

    vectors: Vectors
    owners: npt.NDArray[np.int64]


def phrase(
    captions: Sequence[str],
    encode: Callable[[Sequence[str]], Vectors],
    *,
    cache: Path | None = None,
    advance: Callable[[int], None] = lambda count: None,
) -> Phrased:
    """Encode every phrasing of every caption.

    Args:
        captions: of the pictures, in order.
        encode: a sentence encoder.
        cache: where the vectors are kept; read only if it holds those of the very same texts.
        advance: told how many captions more are done.
    """
    texts = [phrasings(caption) for caption in captions]
    owners = np.repeat(np.arange(len(captions)), [len(said) for said in texts])
    key = hashlib.sha256("\n".join(text for said in texts for text in said).encode()).hexdigest()
    vectors = _read(cache, key)
    if vectors is None:
        encoded = []
        for said in texts:
            encoded.append(encode(said))
            advance(1)
        vectors = np.concatenate(encoded).astype(np.float32)
        if cache is not None:
            np.savez(cache, key=np.array(key), vectors=vectors)
    return Phrased(vectors, owners)


def _read(cache: Path | None, key: str) -> Vectors | None:
    if cache is None or not cache.is_file():
        return None
    with np.load(cache) as kept:
        vectors: Vectors = kept["vectors"]
        return vectors if str(kept["key"]) == key else None
