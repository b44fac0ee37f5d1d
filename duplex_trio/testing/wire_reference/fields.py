"""What an attrs class of the protocol says about itself: its fields with types, defaults and meanings."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import attrs
import orjson
from attrs import frozen

from duplex_trio.protocol.duplex.structure import fields_of as wire_fields_of

_NOUNS: Mapping[Any, str] = {
    int: "integer",
    float: "number",
    bool: "boolean",
    str: "string",
    bytes: "base64",
    Any: "anything",
    type(None): "null",
}
_SECTION = re.compile(r"^(Attributes|Raises|Args|Returns):$", flags=re.MULTILINE)


@frozen(kw_only=True)
class FieldRow:
    """One field of a message.

    Attributes:
        name: its key.
        aliases: other keys that are read.
        kind: its type, with links to the objects it may be.
        default: what it is when it is left out, in Markdown; empty for what is always there.
        what: its meaning and its unit.
        code: the error of a value that is wrong, for what clients send.
        duplex_only: only the duplex dialect has it.
    """

    name: str
    aliases: tuple[str, ...]
    kind: str
    default: str
    what: str
    code: str
    duplex_only: bool


def summary_of(cls: type) -> str:
    """What a class is for: its docstring without the sections, in one paragraph."""
    return " ".join(_SECTION.split(inspect.getdoc(cls) or "")[0].split())


def meanings_of(cls: type) -> dict[str, str]:
    """What the section `Attributes` of a class and of those that it extends says, by the field's name."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        sections = _SECTION.split(inspect.cleandoc(base.__doc__ or ""))
        for title, text in zip(sections[1::2], sections[2::2], strict=True):
            if title == "Attributes":
                entries = re.findall(r"^    (\w+): (.*(?:\n {6,}.*)*)", text, flags=re.MULTILINE)
                found |= {name: " ".join(what.split()) for name, what in entries}
    return found


def fields_of(cls: type, *, shown_null: bool = False) -> list[FieldRow]:
    """The fields of a class in order, those first that every message has.

    Args:
        cls: a class of the protocol.
        shown_null: say `null` of a field that is written when it is None, as servers do.

    Raises:
        KeyError: a field whose meaning nobody has written down.
    """
    return list(_rows(cls, get_type_hints(cls), meanings_of(cls), shown_null))


def _rows(
    cls: type, hints: Mapping[str, Any], meanings: Mapping[str, str], shown_null: bool
) -> Iterator[FieldRow]:
    attribute: attrs.Attribute[Any]
    wire_fields = wire_fields_of(cls)
    for attribute in attrs.fields(cls):
        how = wire_fields[attribute.name]
        if how.flat:
            inner = type(attribute.default)
            yield from fields_of(inner)
            continue
        omitted = bool(attribute.metadata.get("omit_null", False))
        yield FieldRow(
            name=how.name or attribute.name,
            aliases=how.aliases,
            kind=kind_of(hints[attribute.name], nullable=shown_null and not omitted),
            default=_default(attribute, omitted=omitted, shown_null=shown_null),
            what=meanings[attribute.name],
            code=how.code,
            duplex_only=bool(attribute.metadata.get("duplex_only", False)),
        )


def kind_of(kind: Any, *, nullable: bool) -> str:
    """A type in words; objects of the protocol are links to where they stand."""
    if kind in _NOUNS:
        return _NOUNS[kind]
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " or ".join(f'`"{one}"`' for one in inner)
    if origin in (Union, types.UnionType):
        some = [one for one in inner if one is not type(None)]
        words = [kind_of(one, nullable=nullable) for one in some]
        return " or ".join([*words, *(["null"] if nullable and len(some) < len(inner) else [])])
    if origin is tuple:
        return f"list of {kind_of(inner[0], nullable=nullable)}"
    if inspect.isclass(kind) and attrs.has(kind):
        return f"[{kind.__name__}](objects.md#{kind.__name__.lower()})"
    return "object"


def _default(attribute: attrs.Attribute[Any], *, omitted: bool, shown_null: bool) -> str:
    default: Any = attribute.default
    if default is None and omitted:
        return "left out when null"
    if shown_null:
        return ""
    if default is attrs.NOTHING:
        return "required"
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]  # a class, whatever its stub says
        return "" if default.takes_self else "`{}`"
    if default is None:
        return "null"
    return (
        ""
        if attrs.has(type(default)) or isinstance(default, bytes)
        else f"`{orjson.dumps(default).decode()}`"
    )


def objects_in(classes: list[type]) -> list[type]:
    """The classes of the objects inside of messages, each once, in the order in which they are met."""
    found: dict[type, None] = {}
    waiting = [kind for cls in classes for kind in _inner(cls)]
    while waiting:
        kind = waiting.pop(0)
        if kind not in found:
            found[kind] = None
            waiting += _inner(kind)
    return list(found)


def _inner(cls: type) -> list[type]:
    hints = get_type_hints(cls)
    return [
        kind for name, how in wire_fields_of(cls).items() if not how.flat for kind in _classes(hints[name])
    ]


def _classes(kind: Any) -> Iterator[type]:
    if inspect.isclass(kind) and attrs.has(kind):
        yield kind
    for inner in get_args(kind):
        yield from _classes(inner)
