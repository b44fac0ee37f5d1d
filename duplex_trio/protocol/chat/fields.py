"""Reading the fields of a chat request: values are checked as they are, and a fault names its field by its path."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from duplex_trio.protocol.chat.errors import ChatError, invalid, missing
from duplex_trio.protocol.json_values import read_number, read_object
from duplex_trio.protocol.realtime.errors import RealtimeError
from duplex_trio.protocol.realtime.readers import read_integer

Reader = Callable[[Any], Any]
"""Turns a JSON value into a field's value; raises `ValueError` saying what is expected, or a `ChatError`."""


def join(at: str, key: str) -> str:
    """The path of a field from that of the object it is in."""
    return f"{at}.{key}" if at else key


def take(source: Mapping[str, Any], key: str, read: Reader, at: str = "", *, required: bool = False) -> Any:
    """The value of a field as `read` makes it; None when it is absent or null.

    Raises:
        ChatError: it is wrong, or missing though `required`.
    """
    value = source.get(key)
    if value is None:
        if required:
            raise missing(join(at, key))
        return None
    return checked(value, read, join(at, key))


def checked(value: Any, read: Reader, at: str) -> Any:
    """A value as `read` makes it.

    Raises:
        ChatError: it is wrong.
    """
    try:
        return read(value)
    except RealtimeError as error:
        raise invalid(join(at, error.param) if error.param else at, error.message) from None
    except ValueError as error:
        raise invalid(at, str(error)) from None


def object_at(value: Any, at: str) -> Mapping[str, Any]:
    """A JSON object.

    Raises:
        ChatError: it is none.
    """
    found: Mapping[str, Any] = checked(value, read_object, at)
    return found


def only(source: Mapping[str, Any], at: str, *known: str) -> None:
    """Refuse what an object says beside its known fields; null says nothing.

    Raises:
        ChatError: `unknown_parameter`.
    """
    for name, value in source.items():
        if name not in known and value is not None:
            path = join(at, name[:64])
            raise ChatError(400, "unknown_parameter", f"there is no parameter {path!r}", param=path)


def one_of(*allowed: str) -> Reader:
    """A reader of one of some words."""

    def read(value: Any) -> str:
        if value not in allowed or type(value) is not str:
            raise ValueError(f"expected one of {', '.join(allowed)}")
        return value

    return read


def number_in(low: float, high: float, *, above: bool = False) -> Reader:
    """A reader of numbers from `low`, or from above it, to `high`."""

    def read(value: Any) -> float:
        number = read_number(value)
        if not low <= number <= high or (above and number == low):
            raise ValueError(f"expected a number {'above' if above else 'from'} {low:g} to {high:g}")
        return number

    return read


def integer_from(low: int) -> Reader:
    """A reader of integers that are not below `low`."""

    def read(value: Any) -> int:
        number = read_integer(value)
        if number < low:
            raise ValueError(f"expected an integer of at least {low}")
        return number

    return read
