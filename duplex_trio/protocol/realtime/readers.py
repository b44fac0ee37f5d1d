"""Strict readers of the values that speech messages hold, made of those of JSON's kinds (`json_values`).

Each returns the value or raises `ValueError` with a message that says what was expected and what came.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import pybase64

from duplex_trio.protocol.json_values import expected, read_number, read_object, read_string
from duplex_trio.protocol.realtime.errors import RealtimeError

MIN_SAMPLE_RATE_HZ = 8_000
MAX_SAMPLE_RATE_HZ = 192_000
MAX_EXACT_INTEGER = 2**53
"""Beyond this, JSON readers disagree about integers (RFC 8259, section 6)."""
_WHITESPACE = " \t\r\n"
MAX_METADATA_ENTRIES = 16
MAX_METADATA_KEY_CHARS = 64
MAX_METADATA_VALUE_CHARS = 512
"""OpenAI's limits for `metadata`."""


def read_name(value: Any) -> str:
    """A string that is not empty."""
    if not read_string(value):
        raise ValueError("expected a string that is not empty")
    return str(value)


def read_integer(value: Any) -> int:
    """An integer, also when written like 3.0."""
    number = read_milliseconds(value)
    if number != value:
        raise ValueError("expected an integer")
    return number


def read_count(value: Any) -> int:
    """An integer that is not negative."""
    count = read_integer(value)
    if count < 0:
        raise ValueError("expected an integer that is not negative")
    return count


def read_time_ms(value: Any) -> float:
    """A number; negative ones pass, those beyond `MAX_EXACT_INTEGER`, whose sums would not stay finite, do not."""
    number = read_number(value)
    if abs(number) > MAX_EXACT_INTEGER:
        raise ValueError("expected a smaller number")
    return number


def read_milliseconds(value: Any) -> int:
    """A number, cut to an integer; negative ones pass, those beyond `MAX_EXACT_INTEGER` do not."""
    read_time_ms(value)
    return int(value)


def read_position_ms(value: Any) -> int:
    """A number of milliseconds from a start, cut to an integer, not negative."""
    position = read_milliseconds(value)
    if position < 0:
        raise ValueError("expected a number that is not negative")
    return position


def read_sample_rate(value: Any) -> int | None:
    """A sample rate in Hz; 0 says that none is declared."""
    rate = read_integer(value)
    if rate == 0:
        return None
    if not MIN_SAMPLE_RATE_HZ <= rate <= MAX_SAMPLE_RATE_HZ:
        raise ValueError(f"expected a rate from {MIN_SAMPLE_RATE_HZ} to {MAX_SAMPLE_RATE_HZ} Hz")
    return rate


def read_text_or_object(value: Any) -> str | Mapping[str, Any]:
    """A string or an object."""
    if type(value) is str:
        return value
    return read_object(value)


def read_max_output_tokens(value: Any) -> int | Literal["inf"]:
    """A positive integer, or `inf` (also spelled `infinity` or `unlimited`) for no limit."""
    if value in ("inf", "infinity", "unlimited"):
        return "inf"
    limit = read_integer(value)
    if limit < 1:
        raise ValueError("expected a positive integer or inf")
    return limit


def read_metadata(value: Any) -> Mapping[str, str]:
    """A map of strings within OpenAI's limits."""
    entries = read_object(value)
    if len(entries) > MAX_METADATA_ENTRIES:
        raise ValueError(f"expected at most {MAX_METADATA_ENTRIES} entries")
    for key, entry in entries.items():
        if len(key) > MAX_METADATA_KEY_CHARS:
            raise ValueError(f"expected keys of at most {MAX_METADATA_KEY_CHARS} characters")
        if type(entry) is not str:
            raise RealtimeError("invalid_value", str(expected("a string", entry)), param=key)
        if len(entry) > MAX_METADATA_VALUE_CHARS:
            message = f"expected at most {MAX_METADATA_VALUE_CHARS} characters"
            raise RealtimeError("invalid_value", message, param=key)
    return entries


def read_audio(value: Any) -> bytes:
    """Sound in base64. A string that is not base64 is `bad_audio`, another kind of value a `ValueError`."""
    try:
        return read_base64(value)
    except ValueError as error:
        if type(value) is not str:
            raise
        raise RealtimeError("bad_audio", str(error)) from None


def read_base64(value: Any) -> bytes:
    """The bytes of strict base64 in the standard alphabet; ASCII whitespace may surround but not interrupt it."""
    text = read_string(value)
    try:
        return pybase64.b64decode(text.strip(_WHITESPACE), validate=True)
    except ValueError:
        raise ValueError("expected base64 in the standard alphabet with its padding") from None
