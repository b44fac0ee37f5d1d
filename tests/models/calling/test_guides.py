"""Grammars of calls: what a schema's plain parts come to, and whether anything is left to be checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from duplex_trio.models.calling.guides import PARTS_MAX, call_guide

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
LOOK_UP = {"type": "function", "name": "look_up", "parameters": CITY}
HANG_UP = {"type": "function", "name": "hang_up"}


def guided(*tools: Mapping[str, Any], choice: Any = "auto", **how: Any) -> tuple[Mapping[str, Any], bool]:
    guide = call_guide(tools, choice, **{"parallel": True, "tagged": True, **how})
    assert guide is not None
    made = json.loads(guide.structural_tag)
    assert made["type"] == "structural_tag"
    return made["format"], guide.exact


def schema_of(parameters: Any) -> tuple[Mapping[str, Any], bool]:
    """What the arguments of a function come to."""
    rule, exact = guided({"name": "f", "parameters": parameters})
    (tag,) = rule["tags"]
    return tag["content"]["json_schema"], exact


def test_an_answer_that_may_call() -> None:
    """Anything, until a tag opens: then a declared function with its arguments."""
    rule, exact = guided(LOOK_UP, HANG_UP)
    assert (rule["type"], rule["triggers"]) == ("triggered_tags", ["<tool_call>"])
    assert (rule["at_least_one"], rule["stop_after_first"]) == (False, False)
    first, second = rule["tags"]
    assert first["begin"] == '<tool_call>{"name": "look_up", "arguments": '
    assert first["end"] == "}</tool_call>"
    assert first["content"]["json_schema"] == {**CITY, "additionalProperties": False}
    assert second["content"]["json_schema"] == {"type": "object"}
    assert exact


@pytest.mark.parametrize(
    ("choice", "parallel", "at_least_one", "stop_after_first"),
    [
        ("auto", True, False, False),
        ("auto", False, False, True),
        ("required", True, True, True),
        ({"type": "function", "name": "look_up"}, True, True, True),
    ],
)
def test_one_that_must(choice: Any, parallel: bool, at_least_one: bool, stop_after_first: bool) -> None:
    """One call, of the named function if one is named; of several that may be, any number."""
    rule, _ = guided(LOOK_UP, HANG_UP, choice=choice, parallel=parallel)
    assert (rule["at_least_one"], rule["stop_after_first"]) == (at_least_one, stop_after_first)
    assert len(rule["tags"]) == (1 if isinstance(choice, dict) else 2)


def test_a_model_without_tags_is_guided_when_it_must_call() -> None:
    """A JSON object with the function's name; nothing can be said of an answer that may call."""
    rule, _ = guided(LOOK_UP, HANG_UP, choice="required", tagged=False)
    first, second = rule["json_schema"]["anyOf"]
    assert first["properties"]["name"] == {"const": "look_up"}
    assert second["required"] == ["name", "arguments"]
    assert call_guide((LOOK_UP,), "auto", parallel=True, tagged=False) is None
    assert call_guide((), "required", parallel=True, tagged=True) is None


@pytest.mark.parametrize(
    ("schema", "plain"),
    [
        (None, {"type": "object"}),
        ({}, {"type": "object"}),
        ({"type": "object"}, {"type": "object"}),
        ({"type": "object", "properties": {}}, {"type": "object"}),
        (
            {"type": "object", "title": "T", "properties": {"a": {"type": "string", "description": "d"}}},
            {
                "type": "object",
                "properties": {"a": {"type": "string"}},
                "required": [],
                "additionalProperties": False,
            },
        ),
        (
            {"properties": {"a": {"enum": ["x", 1]}, "b": {"const": True}, "c": {}, "d": True}},
            {
                "type": "object",
                "properties": {"a": {"enum": ["x", 1]}, "b": {"enum": [True]}, "c": {}, "d": {}},
                "required": [],
                "additionalProperties": False,
            },
        ),
        (
            {
                "type": "object",
                "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 7}},
                "required": ["n"],
            },
            {
                "type": "object",
                "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 7}},
                "required": ["n"],
                "additionalProperties": False,
            },
        ),
        (
            {"type": "object", "properties": {"l": {"type": "array", "items": {"type": "number"}}}},
            {
                "type": "object",
                "properties": {"l": {"type": "array", "items": {"type": "number"}}},
                "required": [],
                "additionalProperties": False,
            },
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"type": ["string", "null"]}, "b": {"anyOf": [{"type": "null"}]}},
            },
            {
                "type": "object",
                "properties": {
                    "a": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                    "b": {"anyOf": [{"type": "null"}]},
                },
                "required": [],
                "additionalProperties": False,
            },
        ),
    ],
)
def test_plain_schemas_are_obeyed_to_the_letter(schema: Any, plain: Mapping[str, Any]) -> None:
    """What is written under them cannot but fit."""
    assert schema_of(schema) == (plain, True)


def wide(count: int) -> Mapping[str, Any]:
    return {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(count)}}


def deep(count: int) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = {"type": "string"}
    for _ in range(count):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}},
        {"type": "object", "properties": {"a": {"type": "string", "minLength": 100_000}}},
        {"type": "object", "properties": {"a": {"type": "array", "minItems": 10_000}}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "string"}}},
        {"type": "object", "properties": {"a": {"type": "integer", "minimum": 10**30}}},
        {"type": "object", "properties": {"a": {"type": "number", "multipleOf": 0.1}}},
        {"type": "object", "properties": {"a": False}},
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["b"]},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"a": {"oneOf": [{"type": "string"}]}}},
        {"allOf": [{"type": "object"}]},
        {"type": "string"},
        wide(PARTS_MAX),
        deep(20),
    ],
    ids=lambda schema: json.dumps(schema)[:60],
)
def test_what_is_costly_to_obey_is_left_to_be_checked(schema: Any) -> None:
    """The grammar is small whatever is declared, and says that it is not all."""
    plain, exact = schema_of(schema)
    assert not exact
    assert plain["type"] == "object"
    assert len(json.dumps(plain)) <= 40 * PARTS_MAX
    for left_out in ("pattern", "minLength", "minItems", "$ref", "multipleOf", "allOf", "1000000000000"):
        assert left_out not in json.dumps(plain)
