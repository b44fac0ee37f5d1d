"""Values of JSON as a client sent them: taken as they are, and refused by the name of their field.

Readers return the value or raise `ValueError` saying what is expected; `take` makes that a `VideoRefused`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from duplex_trio.protocol.json_values import read_number, read_string
from duplex_trio.protocol.video.errors import VideoRefused

T = TypeVar("T")

PROMPT_CHARS_MAX = 4096
"""Code points of a prompt (video.md 3.3)."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_SIZE = re.compile(r"([0-9]{1,5})x([0-9]{1,5})")
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


def take(
    source: Mapping[str, Any], key: str, read: Callable[[Any], T], *, code: str, at: str = ""
) -> T | None:
    """The value of a field as `read` makes it; None when it is absent or null.

    Raises:
        VideoRefused: it is wrong: `code`, its `param` being `at` and `key`.
    """
    value = source.get(key)
    if value is None:
        return None
    param = f"{at}.{key}" if at else key
    try:
        return read(value)
    except ValueError as error:
        raise VideoRefused(code, f"{param}: {error}.", param=param) from None


def has_surrogates(text: str) -> bool:
    """Whether it has halves of surrogate pairs, which UTF-8 cannot express."""
    return _SURROGATE.search(text) is not None


def read_text(value: Any) -> str:
    """A string, the empty one included, that UTF-8 can express."""
    text = read_string(value)
    if has_surrogates(text):
        raise ValueError("expected a string without lone surrogates")
    return text


def read_long_text(value: Any) -> str:
    """A string as long as a prompt may be; it may be empty."""
    text = read_text(value)
    if len(text) > PROMPT_CHARS_MAX:
        raise ValueError(f"expected at most {PROMPT_CHARS_MAX} characters")
    return text


def read_prompt(value: Any) -> str:
    """A string that says something. It is returned as it is, blanks around it included."""
    text = read_long_text(value)
    if not text.strip():
        raise ValueError("expected a text that is not blank")
    return text


def read_integer(value: Any) -> int:
    """A whole number, also when it is written like 3.0; a boolean is none."""
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is not int:
        raise ValueError("expected a whole number")
    return value


def integer_in(low: int, high: int) -> Callable[[Any], int]:
    """A reader of whole numbers from `low` to `high`."""

    def read(value: Any) -> int:
        number = read_integer(value)
        if not low <= number <= high:
            raise ValueError(f"expected a whole number from {low} to {high}")
        return number

    return read


def number_in(low: float, high: float) -> Callable[[Any], float]:
    """A reader of numbers from `low` to `high`."""

    def read(value: Any) -> float:
        number = read_number(value)
        if not low <= number <= high:
            raise ValueError(f"expected a number from {low:g} to {high:g}")
        return number

    return read


def one_of(*allowed: str) -> Callable[[Any], str]:
    """A reader of one of some words."""

    def read(value: Any) -> str:
        if type(value) is not str or value not in allowed:
            raise ValueError(f"expected one of {', '.join(allowed)}")
        return value

    return read


def read_size(value: Any) -> tuple[int, int]:
    """Width and height in pixels, written like 512x288."""
    found = _SIZE.fullmatch(read_text(value))
    if found is None:
        raise ValueError("expected a width and a height, such as 512x512")
    return int(found[1]), int(found[2])


def read_seconds(value: Any) -> float:
    """A time above 0, as a number or as OpenAI's text of one, such as "4"."""
    if type(value) is str:
        if _SECONDS.fullmatch(value) is None:
            raise ValueError('expected seconds, such as "4"')
        value = float(value)
    seconds = read_number(value)
    if seconds <= 0:
        raise ValueError("expected more than 0 seconds")
    return seconds
