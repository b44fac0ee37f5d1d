"""What a scripted video does besides being rendered: how slow it is, and where it breaks.

A deployment says it for all videos, in the `engine_args` of its stage; a client for its own, in `extra_params`:

    {"type": "session.start", "prompt": "red", "extra_params": {"frame_delay_s": 0.05, "failing_word": "bad"}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from attrs import frozen

VALUE_MAX = 100_000
_KINDS: Mapping[str, type] = {
    "frame_delay_s": float,
    "encode_delay_s": float,
    "fail_at_chunk": int,
    "failing_word": str,
    "dying_word": str,
    "refused_word": str,
}


@frozen(kw_only=True)
class VideoScript:
    """One video's script, or that of all videos of a model.

    Attributes:
        frame_delay_s: how long a frame takes.
        encode_delay_s: how long a prompt takes.
        fail_at_chunk: the chunk at which the model breaks.
        failing_word: a word that the encoder of prompts fails at.
        dying_word: a word that it breaks at altogether.
        refused_word: a word that the model says it cannot do.
    """

    frame_delay_s: float = 0.0
    encode_delay_s: float = 0.0
    fail_at_chunk: int | None = None
    failing_word: str | None = None
    dying_word: str | None = None
    refused_word: str | None = None

    def changed_by(self, values: Mapping[str, Any], where: str) -> VideoScript:
        """This script, with some values of another source.

        Raises:
            ValueError: there is no such key, or a value is not of its kind.
        """
        for key, value in values.items():
            kind = _KINDS.get(key)
            if kind is None:
                raise ValueError(f"{where} has no {key!r}, but {', '.join(_KINDS)}")
            number = isinstance(value, int if kind is int else int | float) and not isinstance(value, bool)
            if kind is str and not isinstance(value, str):
                raise ValueError(f"{where}.{key} must be a word, not {value!r}")
            if kind is not str and not (number and 0 <= value <= VALUE_MAX):
                raise ValueError(f"{where}.{key} must be a number in 0..{VALUE_MAX}, not {value!r}")
        return attrs.evolve(self, **values)
