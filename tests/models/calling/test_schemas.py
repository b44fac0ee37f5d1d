"""Arguments are held to their schema, and no schema holds up the loop."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from duplex_trio.models.calling import schemas
from duplex_trio.models.calling.schemas import ArgumentsError, SchemaError, check_arguments, check_schema

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
    "required": ["city"],
    "additionalProperties": False,
}


def check(schema: Mapping[str, Any] | None, arguments: Any) -> None:
    tool = {"type": "function", "name": "f", **({} if schema is None else {"parameters": schema})}
    check_schema(tool)
    check_arguments([{"name": "other"}, tool], "f", json.dumps(arguments))


@pytest.mark.parametrize("arguments", [{"city": "Paris"}, {"city": "", "days": 2}])
def test_what_fits(arguments: Any) -> None:
    """Nothing is said of it."""
    check(CITY, arguments)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "the arguments of f do not fit: 'city' is a required property"),
        ({"city": 1}, "the arguments of f do not fit: city: 1 is not of type 'string'"),
        (
            {"city": "Paris", "days": 0},
            "the arguments of f do not fit: days: 0 is less than the minimum of 1",
        ),
    ],
)
def test_what_does_not_fit_is_named(arguments: Any, told: str) -> None:
    """In words for the model: which property, and what is wrong with it."""
    with pytest.raises(ArgumentsError, match=told):
        check(CITY, arguments)


def test_long_faults_are_told_in_short() -> None:
    """Three of them at most, each cut, because the model reads them."""
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in "abcde"}}
    with pytest.raises(ArgumentsError) as error:
        check(schema, {name: ["x" * 1000] for name in "abcde"})
    assert str(error.value).count(";") == 2
    assert len(str(error.value)) < 800


def test_without_a_schema_any_object_fits() -> None:
    """As OpenAI's functions without parameters."""
    check(None, {"anything": [1]})
    check({}, {"anything": [1]})


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "objekt"},
        {"properties": {"a": {"enum": 5}}},
        {"pattern": "("},
        {"description": "x" * schemas.SCHEMA_CHARS_MAX},
        json.loads('{"properties":{"a":' * 400 + "{}" + "}}" * 400),
    ],
    ids=["type", "enum", "pattern", "long", "deep"],
)
def test_what_is_no_schema(schema: Mapping[str, Any]) -> None:
    """It is refused when it is declared."""
    with pytest.raises(SchemaError, match="parameters"):
        check_schema({"name": "f", "parameters": schema})


def test_old_schemas_are_understood() -> None:
    """Clients write the draft that they know."""
    old = {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"n": {"type": "integer"}}}
    check(old, {"n": 1})
    with pytest.raises(ArgumentsError):
        check(old, {"n": "one"})


CATASTROPHIC, VICTIM = "(a+)+$", "a" * 60 + "!"


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ({"properties": {"a": {"pattern": CATASTROPHIC}}}, {"a": VICTIM}),
        ({"patternProperties": {CATASTROPHIC: {}}, "additionalProperties": False}, {VICTIM: 1}),
        ({"patternProperties": {CATASTROPHIC: {}}, "unevaluatedProperties": False}, {VICTIM: 1}),
        ({"$ref": "http://127.0.0.1:1/schema.json"}, {}),
        ({"$ref": "#"}, {}),
        (
            {
                "$defs": {str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(40)}
                | {"40": {}},
                "$ref": "#/$defs/0",
            },
            {},
        ),
        ({"properties": {"a": {"items": {"not": {"anyOf": [{"const": -1}] * 500}}}}}, {"a": [0] * 5000}),
    ],
    ids=["pattern", "names", "unevaluated", "elsewhere", "circle", "doubling", "broad"],
)
@pytest.mark.slow
def test_no_schema_keeps_the_loop_busy(schema: Mapping[str, Any], arguments: Any) -> None:
    """Each of these would take for ever, or reach for the network; a test that hangs is the failure."""
    check(schema, arguments)
