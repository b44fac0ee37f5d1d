"""Strict readers of the kinds of values that JSON has, for every wire. JSON's types are taken as they are: no text for
numbers, no numbers for booleans.

Each returns the value or raises `ValueError` with a message that says what was expected and what came.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case Mapping():
            return "an object"
        case Sequence():
            return "a list"
    return type(value).__name__


def expected(what: str, value: object) -> ValueError:
    """The error for a value of the wrong kind."""
    return ValueError(f"expected {what}, got {_kind(value)}")


def read_string(value: Any) -> str:
    """A string, the empty one included."""
    if type(value) is not str:
        raise expected("a string", value)
    return value


def read_boolean(value: Any) -> bool:
    """A JSON boolean."""
    if type(value) is not bool:
        raise expected("a boolean", value)
    return value


def read_number(value: Any) -> float:
    """A finite number."""
    if type(value) is not int and type(value) is not float:
        raise expected("a number", value)
    if not math.isfinite(value):
        raise ValueError("expected a finite number")
    return float(value)


def read_object(value: Any) -> Mapping[str, Any]:
    """A JSON object."""
    if not isinstance(value, Mapping):
        raise expected("an object", value)
    return value
