"""What a command field says about its form on the wire, kept in the field's own metadata.

Owns the metadata only; `duplex.structure` reads it. A field's wire name is its Python name. `aliases` are
other names for it, read when the first is absent or null; a dotted alias reaches into nested objects. `code`
is the error code when the value is missing or wrong. `read` turns the JSON value into the field's value and
raises `ValueError` saying what was expected, or a `RealtimeError` of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import Attribute, field, frozen

Reader = Callable[[Any], Any]


@frozen(kw_only=True)
class WireField:
    """How one field is read from a message."""

    aliases: tuple[str, ...] = ()
    code: str = "bad_event"
    read: Reader | None = field(default=None, eq=False)


_KEY = "wire"
_PLAIN = WireField()


def wire(*aliases: str, code: str = "bad_event", read: Reader | None = None) -> Mapping[str, WireField]:
    """Metadata for an attrs field."""
    return {_KEY: WireField(aliases=aliases, code=code, read=read)}


def wire_field(attribute: Attribute[Any]) -> WireField:
    """What `attribute` says about the wire; the plain rules when it says nothing."""
    found = attribute.metadata.get(_KEY, _PLAIN)
    assert isinstance(found, WireField)
    return found
