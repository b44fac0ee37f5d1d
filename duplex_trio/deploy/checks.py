"""What values of keys may be. A validator raises `KeyFaultError` with the attribute's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import Attribute

from duplex_trio.deploy.errors import KeyFaultError


def positive(instance: object, attribute: Attribute[Any], value: float | None) -> None:
    """More than 0, or None where the key may be null."""
    if value is not None and not value > 0:
        raise KeyFaultError(attribute.name, "must be greater than 0", value)


def at_least(minimum: float) -> Callable[[object, Attribute[Any], float | None], None]:
    """Not less than `minimum`, or None where the key may be null."""

    def check(instance: object, attribute: Attribute[Any], value: float | None) -> None:
        if value is not None and value < minimum:
            raise KeyFaultError(attribute.name, f"must be at least {minimum:g}", value)

    return check


def fraction(instance: object, attribute: Attribute[Any], value: float | None) -> None:
    """More than 0 and at most 1, or None where the key may be null."""
    if value is not None and not 0 < value <= 1:
        raise KeyFaultError(attribute.name, "must be greater than 0 and at most 1", value)


def not_empty(instance: object, attribute: Attribute[Any], value: str | None) -> None:
    """Text that is not blank, or None where the key may be null."""
    if value is not None and not value.strip():
        raise KeyFaultError(attribute.name, "must not be empty", value)
