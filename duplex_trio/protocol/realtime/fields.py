"""What a command field says about its form on the wire, kept in the field's own metadata.

Owns the metadata only; the converter in `protocol.duplex` reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import Attribute, field, frozen

Reader = Callable[[Any], Any]
"""Turns a JSON value into a field's value; raises `ValueError` saying what is expected, or an error."""


@frozen(kw_only=True)
class WireField:
    """How one field is read and written.

    `name` is its key, by default the field's own name. `aliases` are other keys, read when the first is
    absent or null; a dotted one reaches into nested objects. `code` is the error code when the value is
    missing or wrong. A `flat` field is an object whose own fields stand beside it in the message.
    """

    name: str | None = None
    aliases: tuple[str, ...] = ()
    code: str = "bad_event"
    read: Reader | None = field(default=None, eq=False)
    flat: bool = False


_KEY = "wire"
_PLAIN = WireField()


def wire(
    *aliases: str,
    name: str | None = None,
    code: str = "bad_event",
    read: Reader | None = None,
    flat: bool = False,
) -> Mapping[str, WireField]:
    """Metadata for an attrs field."""
    return {_KEY: WireField(name=name, aliases=aliases, code=code, read=read, flat=flat)}


def wire_field(attribute: Attribute[Any]) -> WireField:
    """What `attribute` says about the wire; the plain rules when it says nothing."""
    found = attribute.metadata.get(_KEY, _PLAIN)
    assert isinstance(found, WireField)
    return found
