"""The first message of a connection: the request of a video, in all the spellings that clients have for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import attrs
import orjson

from duplex_trio.protocol.video.errors import VideoRefused
from duplex_trio.protocol.video.messages import SessionStart, VideoFormat
from duplex_trio.protocol.video.reading import (
    integer_in,
    number_in,
    one_of,
    read_long_text,
    read_object,
    read_prompt,
    read_seconds,
    read_size,
    read_text,
    take,
)

FPS_MIN, FPS_MAX = 1.0, 60.0
SEED_MAX = 2**63 - 1
LEAD_S_MAX = 3600.0
"""Seconds that generation may be told to run ahead: as far as any video that is watched while it is made."""
_COUNT_MAX = 2**53
"""Beyond this, JSON readers disagree about integers (RFC 8259, section 6)."""

_CODE = "invalid_start"

T = TypeVar("T")
_LEAD_DEFAULT_S = 0.5
_FIELDS = frozenset(attribute.name for attribute in attrs.fields(SessionStart)) | {"size", "video_params"}


def read_start(message: Mapping[str, Any]) -> SessionStart:
    """The request in a `session.start`.

    A field of `sampling_params` counts as if it stood at the top, unless it is there as well; what is no field is
    a parameter that only the model knows, and goes to `extra_params`. `size` wins over `width` and `height`, and all of
    them over `video_params`. Keys at the top that nobody knows are ignored.

    Raises:
        VideoRefused: `invalid_start`, with the field in `param`.
    """
    fields, extra = _flattened(message)
    shape = take(fields, "video_params", read_object, code=_CODE) or {}
    width, height = _sides(fields, shape)
    prompt = take(fields, "prompt", read_prompt, code=_CODE)
    if prompt is None:
        raise VideoRefused(_CODE, "prompt: it is missing.", param="prompt")
    frames = integer_in(1, _COUNT_MAX)
    rate = number_in(FPS_MIN, FPS_MAX)
    return SessionStart(
        prompt=prompt,
        model=take(fields, "model", read_text, code=_CODE),
        width=width,
        height=height,
        num_frames=_first(fields, shape, "num_frames", frames),
        seconds=take(fields, "seconds", read_seconds, code=_CODE),
        fps=_first(fields, shape, "fps", rate),
        seed=take(fields, "seed", integer_in(0, SEED_MAX), code=_CODE),
        num_inference_steps=take(fields, "num_inference_steps", integer_in(1, 200), code=_CODE),
        guidance_scale=take(fields, "guidance_scale", number_in(0, 20), code=_CODE),
        negative_prompt=take(fields, "negative_prompt", read_long_text, code=_CODE),
        extra_params=_free("extra_params", extra),
        lora=_free("lora", take(fields, "lora", read_object, code=_CODE)),
        image_reference=_free("image_reference", fields.get("image_reference")),
        format=cast(VideoFormat, take(fields, "format", one_of("m4s", "webm"), code=_CODE) or "m4s"),
        streaming_buffer_seconds=_lead_s(fields),
    )


def _flattened(message: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The fields with those of `sampling_params` among them, and the parameters that are no field."""
    sampling = take(message, "sampling_params", read_object, code=_CODE) or {}
    fields = {**{key: value for key, value in sampling.items() if key in _FIELDS}}
    fields.update((key, value) for key, value in message.items() if value is not None or key not in fields)
    extra = dict(take(fields, "extra_params", read_object, code=_CODE) or {})
    extra.update((key, value) for key, value in sampling.items() if key not in _FIELDS)
    return fields, extra


def _first(
    fields: Mapping[str, Any], shape: Mapping[str, Any], key: str, read: Callable[[Any], T]
) -> T | None:
    top = take(fields, key, read, code=_CODE)
    below = take(shape, key, read, code=_CODE, at="video_params")
    return top if top is not None else below


def _sides(fields: Mapping[str, Any], shape: Mapping[str, Any]) -> tuple[int | None, int | None]:
    pixels = integer_in(1, _COUNT_MAX)
    width = _first(fields, shape, "width", pixels)
    height = _first(fields, shape, "height", pixels)
    size = take(fields, "size", read_size, code=_CODE)
    return size if size is not None else (width, height)


def _free(param: str, value: Any) -> Any:
    """What only the model reads. It is told back to the client, so UTF-8 must be able to express it."""
    try:
        orjson.dumps(value)
    except TypeError:
        raise VideoRefused(_CODE, f"{param}: expected no lone surrogates.", param=param) from None
    return value


def _lead_s(fields: Mapping[str, Any]) -> float | None:
    lead_s = take(fields, "streaming_buffer_seconds", number_in(0, LEAD_S_MAX), code=_CODE)
    return lead_s if "streaming_buffer_seconds" in fields else _LEAD_DEFAULT_S
