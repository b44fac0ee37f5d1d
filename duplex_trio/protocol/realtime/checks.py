"""Checks of single JSON values: each returns the value as the type it promises or raises the wire error.

Every check takes the dotted `param` under which the client finds the fault (`session.audio.output.speed`).
The types are those of `readers.py`; what the values mean is left to the callers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import orjson

from duplex_trio.protocol.json_values import read_boolean, read_number, read_object, read_string
from duplex_trio.protocol.realtime.errors import RealtimeError
from duplex_trio.protocol.realtime.readers import read_integer

T = TypeVar("T")

MAX_ACCUMULATED_BYTES = 1 << 20
"""Most JSON bytes of a mapping that grows by merging (unknown keys, `extra_body`)."""

_SHOWN_CHARS = 64


def shown(value: object) -> str:
    """Give a client's value as it may appear in an error message: its repr, cut to 64 characters."""
    if isinstance(value, list | tuple | Mapping) and len(value) > _SHOWN_CHARS:
        return f"a {type(value).__name__} of {len(value)} entries"
    if isinstance(value, str | bytes):
        value = value[: _SHOWN_CHARS + 1]
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."


def below(param: str, key: object) -> str:
    """Return the path of a key that the client named, cut to 64 characters and printable."""
    text = str(key)[: _SHOWN_CHARS + 1].encode("ascii", "backslashreplace").decode()
    return f"{param}.{text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + '...'}"


def invalid(value: object, param: str, expected: str, *, code: str = "invalid_value") -> RealtimeError:
    """Build the error that says what `param` must be and what it was."""
    return RealtimeError(code=code, message=f"{param} must be {expected}, not {shown(value)}.", param=param)


def text(value: object, param: str, *, code: str = "invalid_value") -> str:
    """Return `value` if it is a string (possibly empty) that UTF-8 can express."""
    result = _read(read_string, value, param, "a string", code)
    try:
        result.encode()
    except UnicodeEncodeError:
        raise invalid(value, param, "a string without lone surrogates", code=code) from None
    return result


def name(value: object, param: str) -> str:
    """Return `value` if it is a string that names something: not empty, not only white space."""
    result = text(value, param)
    if not result.strip():
        raise invalid(value, param, "a non-empty string")
    return result


def flag(value: object, param: str, *, code: str = "invalid_value") -> bool:
    """Return `value` if it is true or false; numbers and strings are refused."""
    return _read(read_boolean, value, param, "true or false", code)


def number(
    value: object,
    param: str,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    above: bool = False,
    code: str = "invalid_value",
) -> float:
    """Return `value` as a finite float in [low, high], or (low, high] with `above`; no booleans."""
    expected = f"a number{_interval(low, high, above)}"
    result = _read(read_number, value, param, expected, code)
    if not low <= result <= high or (above and result == low):
        raise invalid(value, param, expected, code=code)
    return result


def integer(value: object, param: str, *, low: int, high: int, code: str = "invalid_value") -> int:
    """Return `value` as an int in [low, high]; a whole float is taken, a boolean is not."""
    expected = f"a whole number{_interval(low, high, False)}"
    result = _read(read_integer, value, param, expected, code)
    if not low <= result <= high:
        raise invalid(value, param, expected, code=code)
    return result


def choice(value: object, param: str, allowed: Iterable[str], *, code: str = "invalid_value") -> str:
    """Return `value` if it is one of the strings `allowed`."""
    options = tuple(allowed)
    if not isinstance(value, str) or value not in options:
        raise invalid(value, param, f"one of {', '.join(options)}", code=code)
    return value


def mapping(value: object, param: str, *, code: str = "invalid_value") -> Mapping[str, Any]:
    """Return `value` if it is a JSON object."""
    return _read(read_object, value, param, "an object", code)


def sequence(value: object, param: str) -> list[Any]:
    """Return `value` as a list if it is a JSON array."""
    if not isinstance(value, list | tuple):
        raise invalid(value, param, "a list")
    return list(value)


def strings(value: object, param: str) -> list[str]:
    """Return `value` if it is a list of strings."""
    return [text(entry, f"{param}[{index}]") for index, entry in enumerate(sequence(value, param))]


def json_copy(value: object, param: str, *, max_bytes: int | None = None) -> Any:
    """Return a deep copy of `value` made of plain JSON types, so that nobody else can change it later.

    Values that JSON cannot express, and values of more than `max_bytes` of JSON, are refused.
    """
    try:
        encoded = orjson.dumps(value)
    except TypeError:
        raise invalid(value, param, "expressible in JSON") from None
    if max_bytes is not None and len(encoded) > max_bytes:
        message = f"{param} would hold {len(encoded)} bytes of JSON; the most is {max_bytes}."
        raise RealtimeError(code="invalid_value", message=message, param=param)
    return orjson.loads(encoded)


def _read(read: Callable[[Any], T], value: object, param: str, expected: str, code: str) -> T:
    try:
        return read(value)
    except (ValueError, OverflowError):
        raise invalid(value, param, expected, code=code) from None


def _interval(low: float, high: float, above: bool) -> str:
    parts = []
    if low > -math.inf:
        parts.append(f"greater than {low:g}" if above else f"at least {low:g}")
    if high < math.inf:
        parts.append(f"at most {high:g}")
    return f" {' and '.join(parts)}" if parts else ""
