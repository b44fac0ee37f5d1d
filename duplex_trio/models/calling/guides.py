"""Grammars that hold an engine to calls of the declared functions, in the form of xgrammar's structural tags.

A grammar is made of a schema's plain parts only: types, properties, values, alternatives. That is what it
costs little to obey, whatever a client declares; what is left out (lengths, patterns, conditions) is checked
when the call is whole. A guide that leaves nothing out is `exact`: what is written under it cannot but fit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field, frozen

from duplex_trio.models.calling.wording import CALL_CLOSES, CALL_OPENS, ToolChoice

PARTS_MAX = 500
"""Parts of the schemas of all functions that a grammar is made of; further ones may be anything."""
DEPTH_MAX = 12
BOUND_MAX = 1_000_000_000
"""Numbers with larger bounds have none in the grammar."""

_TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")
_NOTHING_TO_OBEY = frozenset(
    {"title", "description", "default", "examples", "$schema", "$id", "$comment", "$defs"}
)


@frozen
class Guide:
    """A structural tag as JSON text."""

    structural_tag: str
    exact: bool


def call_guide(
    tools: Sequence[Mapping[str, Any]], choice: ToolChoice, *, parallel: bool, tagged: bool
) -> Guide | None:
    """The grammar of an answer that may call functions, or must; None if anything may be written.

    Args:
        tools: the functions.
        choice: `auto`, `required`, or an object with the `name` of the one that must be called.
        parallel: whether several may be called.
        tagged: whether the model writes calls in tags; without them only a call that must be can be guided.
    """
    if isinstance(choice, Mapping):
        tools = [tool for tool in tools if tool.get("name") == choice.get("name")]
    named = {str(tool["name"]): tool for tool in tools}
    if not named or (choice == "auto" and not tagged):
        return None
    plain = _Plain()
    schemas = {name: plain.arguments(tool.get("parameters")) for name, tool in named.items()}
    if tagged:
        rule: Mapping[str, Any] = {
            "type": "triggered_tags",
            "triggers": [CALL_OPENS],
            "tags": [_tag(name, schema) for name, schema in schemas.items()],
            "at_least_one": choice != "auto",
            "stop_after_first": not parallel or choice != "auto",
        }
    else:
        rule = _json({"anyOf": [_object(name, schema) for name, schema in schemas.items()]})
    return Guide(json.dumps({"type": "structural_tag", "format": rule}), plain.exact)


def _tag(name: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "type": "tag",
        "begin": f'{CALL_OPENS}{{"name": {json.dumps(name)}, "arguments": ',
        "content": _json(schema),
        "end": f"}}{CALL_CLOSES}",
    }


def _object(name: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "type": "object",
        "properties": {"name": {"const": name}, "arguments": schema},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _json(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    # With white space free, a small model fills its answer with it.
    return {"type": "json_schema", "json_schema": schema, "max_whitespace_cnt": 1}


@define
class _Plain:
    """Makes schemas plain, and notes whether anything was left out."""

    exact: bool = True
    _parts: int = field(default=0, init=False)

    def arguments(self, schema: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """The schema of the arguments of a function, which are an object in any case."""
        if not schema:
            return {"type": "object"}
        plain = self._part(schema, 0)
        if plain.get("type") != "object":
            self.exact = False
            return {"type": "object"}
        return plain

    def _part(self, schema: Any, depth: int) -> Mapping[str, Any]:
        self._parts += 1
        if schema is True or schema == {}:
            return {}
        if not isinstance(schema, Mapping) or self._parts > PARTS_MAX or depth > DEPTH_MAX:
            return self._anything()
        for form in (self._values, self._alternatives, self._typed):
            plain, obeyed = form(schema, depth)
            if obeyed:
                self._note_rest(schema, obeyed)
                return plain
        return self._anything()

    def _anything(self) -> Mapping[str, Any]:
        self.exact = False
        return {}

    def _note_rest(self, schema: Mapping[str, Any], obeyed: frozenset[str]) -> None:
        if set(schema) - obeyed - _NOTHING_TO_OBEY:
            self.exact = False

    def _values(self, schema: Mapping[str, Any], depth: int) -> tuple[Mapping[str, Any], frozenset[str]]:
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if not values or not isinstance(values, list):
            return {}, frozenset()
        self._parts += len(values)
        # The values have their types.
        return {"enum": values}, frozenset({"enum", "const", "type"})

    def _alternatives(
        self, schema: Mapping[str, Any], depth: int
    ) -> tuple[Mapping[str, Any], frozenset[str]]:
        kinds = schema.get("type")
        if isinstance(kinds, list):
            options: Any = [{**schema, "type": kind} for kind in kinds]
            obeyed = frozenset(schema)
        else:
            options, obeyed = schema.get("anyOf", schema.get("oneOf")), frozenset({"anyOf"})
        if not options or not isinstance(options, list):
            return {}, frozenset()
        return {"anyOf": [self._part(option, depth + 1) for option in options]}, obeyed

    def _typed(self, schema: Mapping[str, Any], depth: int) -> tuple[Mapping[str, Any], frozenset[str]]:
        kind = schema.get("type", "object" if "properties" in schema else None)
        if kind not in _TYPES:
            return {}, frozenset()
        plain: dict[str, Any] = {"type": kind}
        obeyed = {"type"}
        if kind == "object":
            obeyed |= self._object_of(schema, plain, depth)
        elif kind == "array" and "items" in schema:
            plain["items"] = self._part(schema["items"], depth + 1)
            obeyed.add("items")
        elif kind == "integer":
            bounds = {key: schema[key] for key in ("minimum", "maximum") if _is_bound(schema.get(key))}
            plain |= bounds
            obeyed |= bounds.keys()
        return plain, frozenset(obeyed)

    def _object_of(self, schema: Mapping[str, Any], plain: dict[str, Any], depth: int) -> set[str]:
        properties = schema.get("properties")
        if not isinstance(properties, Mapping) or not properties:
            return (
                set()
                if schema.get("additionalProperties") not in (None, True)
                else {"properties", "additionalProperties"}
            )
        plain["properties"] = {name: self._part(part, depth + 1) for name, part in properties.items()}
        required = [name for name in schema.get("required", ()) if name in properties]
        plain["required"] = required
        # What is not declared is not called for, though it were allowed.
        plain["additionalProperties"] = False
        known = {"properties", "additionalProperties"}
        return known | ({"required"} if len(required) == len(schema.get("required", ())) else set())


def _is_bound(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= BOUND_MAX
