"""Reading the still images that may ride on an append."""

from __future__ import annotations

from typing import Any

from duplex_trio.protocol.json_values import expected
from duplex_trio.protocol.pictures import picture_size
from duplex_trio.protocol.realtime.errors import RealtimeError
from duplex_trio.protocol.realtime.readers import read_base64

MAX_FRAMES = 2
"""Frames of one append: the base frame, then an optional composite."""
MAX_FRAME_CHARS = 4_000_000
"""Base64 characters of one frame."""


def read_video_frames(value: Any) -> tuple[bytes, ...]:
    """At most two JPEG or PNG files in bare base64; null elements are skipped.

    Raises:
        ValueError: no list, or too many frames.
        RealtimeError: `invalid_video_frames` with the element's index as `param`.
    """
    if type(value) is not list:
        raise expected("a list", value)
    if sum(element is not None for element in value) > MAX_FRAMES:
        raise ValueError(f"expected at most {MAX_FRAMES} frames")
    frames = []
    for index, element in enumerate(value):
        if element is None:
            continue
        try:
            frames.append(_read_frame(element))
        except ValueError as error:
            raise RealtimeError("invalid_video_frames", str(error), param=f"[{index}]") from None
    return tuple(frames)


def _read_frame(value: Any) -> bytes:
    if type(value) is str and len(value) > MAX_FRAME_CHARS:
        raise ValueError(f"expected at most {MAX_FRAME_CHARS} characters")
    data = read_base64(value)
    picture_size(data)
    return data
