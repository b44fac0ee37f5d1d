"""Reads a GGUF file: its metadata with checked types and its tensors, still quantised. Owns the errors too.

What the keys and tensors mean is left to `gguf`, `gguf_tokenizer` and `gguf_weights`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen


class GgufError(ValueError):
    """The GGUF file cannot be converted."""


class UnsupportedGgufError(GgufError):
    """The file is sound, but holds an architecture, tokenizer or tensor that the converter does not know."""


class CorruptGgufError(GgufError):
    """The file is not GGUF, is cut short, or contradicts itself."""


@frozen
class Metadata:
    """The keys of a GGUF file.

    Every reader raises `CorruptGgufError` for a missing key or a value of another type.
    """

    values: Mapping[str, Any]

    def text(self, key: str, default: str | None = None) -> str:
        """Read a string; without a default the key must be there."""
        value = self._read(key, default)
        if not isinstance(value, str):
            raise CorruptGgufError(f"metadata key {key} must be a string, is {value!r}")
        return value

    def optional_text(self, key: str) -> str | None:
        """Read a string that need not be there."""
        return self.text(key) if key in self.values else None

    def count(self, key: str, default: int | None = None) -> int:
        """Read a positive whole number."""
        value = self._read(key, default)
        if not isinstance(value, int) or value < 1:
            raise CorruptGgufError(f"metadata key {key} must be a positive whole number, is {value!r}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """Read a positive number."""
        value = self._read(key, default)
        if not isinstance(value, int | float) or not value > 0:
            raise CorruptGgufError(f"metadata key {key} must be a positive number, is {value!r}")
        return float(value)

    def texts(self, key: str) -> list[str]:
        """Read a list of strings."""
        value = self._read(key, None)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise CorruptGgufError(f"metadata key {key} must be a list of strings")
        return value

    def counts(self, key: str, default: list[int]) -> list[int]:
        """Read a list of whole numbers."""
        value = self._read(key, default)
        if not isinstance(value, list) or not all(isinstance(item, int) for item in value):
            raise CorruptGgufError(f"metadata key {key} must be a list of whole numbers")
        return value

    def _read(self, key: str, default: Any) -> Any:
        value = self.values.get(key, default)
        if value is None:
            raise CorruptGgufError(f"metadata key {key} is missing")
        return value


@frozen
class GgufFile:
    """An open GGUF file. `tensors` are records (name, shape, tensor_type, n_bytes, data) by name."""

    metadata: Metadata
    tensors: Mapping[str, Any]


def read_gguf(path: Path) -> GgufFile:
    """Open a GGUF file; the tensors stay mapped from disk.

    Raises:
        CorruptGgufError: not GGUF, cut short, or unreadable metadata.
        OSError: the file cannot be opened.
    """
    if path.stat().st_size == 0:
        raise CorruptGgufError(f"{path} is empty")
    try:
        reader = _bounded_reader(path)
        values = {key: _plain(field.contents()) for key, field in reader.fields.items()}
    except (ValueError, LookupError, OverflowError, MemoryError) as error:
        raise CorruptGgufError(f"{path} is not a sound GGUF file: {error}") from error
    return GgufFile(Metadata(values), {tensor.name: tensor for tensor in reader.tensors})


def _bounded_reader(path: Path) -> Any:
    from gguf import GGUFReader

    class BoundedReader(GGUFReader):  # type: ignore[misc]  # an optional package, whose types are not followed
        """Refuses to read past the end, where the base class would return nothing and go on counting."""

        def _get(self, offset: int, dtype: Any, count: int = 1, **options: Any) -> Any:
            if int(offset) + int(count) * np.dtype(dtype).itemsize > len(self.data):
                raise ValueError("the file ends early")
            return super()._get(offset, dtype, count, **options)

    return BoundedReader(path)


def _plain(value: Any) -> Any:
    # Single precision prints as 9.999999747378752e-06 where the model's author wrote 1e-05.
    return float(str(np.float32(value))) if isinstance(value, float) else value
