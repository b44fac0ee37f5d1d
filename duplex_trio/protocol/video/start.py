"""The first message of a connection: the request of a video, in all the spellings that clients have for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast, get_args

import attrs
import orjson
from attrs import frozen

from duplex_trio.protocol.json_values import read_object
from duplex_trio.protocol.video.errors import VideoRefused
from duplex_trio.protocol.video.messages import SessionStart, VideoFormat
from duplex_trio.protocol.video.reading import (
    integer_in,
    number_in,
    one_of,
    read_long_text,
    read_prompt,
    read_seconds,
    read_size,
    read_text,
    take,
)

FPS_MIN, FPS_MAX = 1.0, 60.0
SEED_MIN, SEED_MAX = -(2**63), 2**63 - 1
"""Any of 64 bits, as in vLLM-Omni (video.md 1)."""
LEAD_S_MAX = 3600.0
"""Seconds that generation may be told to run ahead: as far as any video that is watched while it is made."""
_COUNT_MAX = 2**53
"""Beyond this, JSON readers disagree about integers (RFC 8259, section 6)."""

_CODE = "invalid_start"

T = TypeVar("T")
_LEAD_DEFAULT_S = 0.5
_FIELDS = frozenset(attribute.name for attribute in attrs.fields(SessionStart)) | {"size", "video_params"}


@frozen
class _Fields:
    """The fields of a start: those at its top, and behind them those in `sampling_params`."""

    top: Mapping[str, Any]
    sampling: Mapping[str, Any]

    def take(self, key: str, read: Callable[[Any], T]) -> T | None:
        if self.top.get(key) is not None:
            return take(self.top, key, read, code=_CODE)
        return take(self.sampling, key, read, code=_CODE, at="sampling_params")

    def __contains__(self, key: str) -> bool:
        return key in self.top or key in self.sampling


def read_start(message: Mapping[str, Any]) -> SessionStart:
    """The request in a `session.start`.

    A field of `sampling_params` counts as if it stood at the top, unless it is there as well; what is no field is
    a parameter that only the model knows, and goes to `extra_params`. `size` wins over `width` and `height`, and all
    of them over `video_params`. Keys at the top that nobody knows are ignored.

    Raises:
        VideoRefused: `invalid_start`, with the field in `param`.
    """
    sampling = take(message, "sampling_params", read_object, code=_CODE) or {}
    fields = _Fields(message, sampling)
    prompt = fields.take("prompt", read_prompt)
    if prompt is None:
        raise VideoRefused(_CODE, "prompt: it is missing.", param="prompt")
    shape = fields.take("video_params", read_object) or {}
    width, height = _sides(fields, shape)
    own = {key: value for key, value in sampling.items() if key not in _FIELDS}
    return SessionStart(
        prompt=prompt,
        model=fields.take("model", read_text),
        width=width,
        height=height,
        num_frames=_first(fields, shape, "num_frames", integer_in(1, _COUNT_MAX)),
        seconds=fields.take("seconds", read_seconds),
        fps=_first(fields, shape, "fps", number_in(FPS_MIN, FPS_MAX)),
        seed=fields.take("seed", integer_in(SEED_MIN, SEED_MAX)),
        num_inference_steps=fields.take("num_inference_steps", integer_in(1, 200)),
        guidance_scale=fields.take("guidance_scale", number_in(0, 20)),
        negative_prompt=fields.take("negative_prompt", read_long_text),
        extra_params=_free("extra_params", {**(fields.take("extra_params", read_object) or {}), **own}),
        lora=_free("lora", fields.take("lora", read_object)),
        image_reference=_free("image_reference", fields.take("image_reference", lambda value: value)),
        format=cast(VideoFormat, fields.take("format", one_of(*get_args(VideoFormat))) or "m4s"),
        streaming_buffer_seconds=_lead_s(fields),
    )


def _first(fields: _Fields, shape: Mapping[str, Any], key: str, read: Callable[[Any], T]) -> T | None:
    top = fields.take(key, read)
    below = take(shape, key, read, code=_CODE, at="video_params")
    return top if top is not None else below


def _sides(fields: _Fields, shape: Mapping[str, Any]) -> tuple[int | None, int | None]:
    pixels = integer_in(1, _COUNT_MAX)
    width = _first(fields, shape, "width", pixels)
    height = _first(fields, shape, "height", pixels)
    size = fields.take("size", read_size)
    return size if size is not None else (width, height)


def _free(param: str, value: Any) -> Any:
    """What only the model reads. It is told back to the client, so UTF-8 must be able to express it."""
    try:
        orjson.dumps(value)
    except TypeError:
        raise VideoRefused(_CODE, f"{param}: expected no lone surrogates.", param=param) from None
    return value


def _lead_s(fields: _Fields) -> float | None:
    name = "streaming_buffer_seconds"
    if name not in fields:
        return _LEAD_DEFAULT_S
    # Null is a value here: there is no bound.
    return None if fields.top.get(name, ...) is None else fields.take(name, number_in(0, LEAD_S_MAX))
