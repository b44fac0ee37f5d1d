"""From a client's text to JSON: how long it may be, how deep, and what of JSON is not taken."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import orjson

from duplex_trio.protocol.video.errors import VideoRefused

START_BYTES_MAX = 64 * 1024
"""UTF-8 bytes of the first message (video.md 1)."""
MESSAGE_BYTES_MAX = 128 * 1024
"""UTF-8 bytes of any later message (video.md 1)."""
DEPTH_MAX = 32
"""Nesting of objects and lists (video.md 3.3)."""

_HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")


def read_message(text: str, bytes_max: int) -> dict[str, Any]:
    """The object in one text message. Of a key that is there twice, the last one counts.

    Raises:
        VideoRefused: `message_too_large`, `invalid_json` or `invalid_message`.
    """
    if len(text) > bytes_max or (
        4 * len(text) > bytes_max and len(text.encode("utf-8", "surrogatepass")) > bytes_max
    ):
        raise VideoRefused("message_too_large", f"A message has at most {bytes_max} bytes here.")
    value = _parse(text)
    if _is_deep(value):
        raise VideoRefused("invalid_json", f"A message is nested at most {DEPTH_MAX} deep.")
    if type(value) is not dict:
        raise VideoRefused("invalid_message", "A message is a JSON object.")
    return value


def message_type(message: dict[str, Any]) -> str:
    """The `type` of a message.

    Raises:
        VideoRefused: `invalid_message`: there is none.
    """
    kind = message.get("type")
    if type(kind) is not str:
        raise VideoRefused("invalid_message", "type: expected a string.", param="type")
    return kind


def _parse(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        fault = VideoRefused("invalid_json", f"The message is not JSON: {error}.")
    if _HALF_PAIR.search(text) is None:
        raise fault
    # JSON allows half a surrogate pair in a string and orjson does not. Which field has it is told only by reading on.
    try:
        return json.loads(
            text, parse_constant=_refuse_constant, parse_float=_finite_float, parse_int=_integer
        )
    except (ValueError, RecursionError):
        raise fault from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large")
    return number


def _integer(text: str) -> int | float:
    """As orjson reads it: beyond 64 bits it is a float."""
    number = int(text)
    return number if -(2**63) <= number < 2**64 else _finite_float(text)


def _is_deep(value: Any) -> bool:
    level = [value] if type(value) in (dict, list) else []
    for _ in range(DEPTH_MAX):
        if not level:
            return False
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) is dict or type(inner) is list
        ]
    return bool(level)
