"""The keys of deployment files as a table, for `docs/deployments.md`: what the code says of each."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import attrs

from duplex_trio.deploy.checks import Check
from duplex_trio.deploy.keys import DOC, TAKEN, default_of, file_key

_NOUNS: Mapping[Any, str] = {
    int: "whole number",
    float: "number",
    bool: "true or false",
    str: "text",
    Any: "anything",
    type(None): "null",
}
_TAKEN = {"always": "", "engine": "", "never": "Accepted, without effect: "}


def key_table(cls: type[Any]) -> str:
    """The keys of a class as a table in Markdown, a line for each."""
    hints = get_type_hints(cls)
    lines = ["| key | value | default | what |", "|---|---|---|---|"]
    attribute: attrs.Attribute[Any]
    for attribute in attrs.fields(cls):
        default = default_of(attribute)
        shown = "required" if default is attrs.NOTHING else _default(default)
        doc = str(attribute.metadata.get(DOC, ""))
        what = f"{_TAKEN[attribute.metadata.get(TAKEN, 'always')]}{doc}"
        lines.append(
            f"| `{file_key(attribute)}` | {_value(hints[attribute.name], attribute.validator)} | {shown} | {what} |"
        )
    return "\n".join(lines) + "\n"


def _value(kind: Any, check: object) -> str:
    noun = _noun(kind)
    if isinstance(check, Check):
        rule = check.rule.removeprefix("must ").removeprefix("be ").replace("not be", "not")
        return f"{noun}, {rule}" if noun in ("whole number", "number", "text") else rule
    return noun


def _noun(kind: Any) -> str:
    origin = get_origin(kind)
    if origin is Literal:
        return ", ".join(f"`{one}`" for one in get_args(kind))
    if origin in (Union, types.UnionType):
        return " or ".join(_noun(one) for one in get_args(kind) if one is not type(None))
    if origin is tuple:
        return "list of mappings"
    if attrs.has(kind) or origin is not None:
        return "mapping"
    return _NOUNS.get(kind, str(kind))


def _default(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float | str):
        return f"{value:g}" if isinstance(value, float) else str(value)
    return "none" if isinstance(value, Mapping | tuple) else "its defaults"
