"""Times and sizes as a command line has them."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError

_TIME = re.compile(r"\s*(?P<value>\d+(\.\d*)?|\.\d+)\s*(?P<unit>ms|s|m|min)?\s*", re.ASCII)
_SECONDS = {None: 1.0, "s": 1.0, "ms": 0.001, "m": 60.0, "min": 60.0}
_SIZE = re.compile(r"(?P<width>\d{1,5})[xX](?P<height>\d{1,5})", re.ASCII)
LONGEST_S = 24 * 3600.0


def parse_time(text: str) -> float:
    """Seconds of playback from `3s`, `1.5`, `500ms` or `2m`.

    Raises:
        ArgumentTypeError: it is none of these.
    """
    found = _TIME.fullmatch(text)
    if found is None:
        raise ArgumentTypeError(f"{text!r} is no time; write it as 3s, 1.5 or 500ms")
    seconds = float(found["value"]) * _SECONDS[found["unit"]]
    if seconds > LONGEST_S:
        raise ArgumentTypeError(f"{text!r} is longer than a day")
    return seconds


def parse_length(text: str) -> float:
    """A time that is not nothing.

    Raises:
        ArgumentTypeError: it is no time, or nothing.
    """
    seconds = parse_time(text)
    if seconds <= 0:
        raise ArgumentTypeError("a clip has to be longer than nothing")
    return seconds


def parse_size(text: str) -> tuple[int, int]:
    """Width and height in pixels from `512x512`.

    Raises:
        ArgumentTypeError: it is none.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ArgumentTypeError(f"{text!r} is no size; write it as 512x512")
    return int(found["width"]), int(found["height"])


def shown_time(seconds: float) -> str:
    """A time for people."""
    return f"{seconds:.2f}".rstrip("0").rstrip(".") + " s"
