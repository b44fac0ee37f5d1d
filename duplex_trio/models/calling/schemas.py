"""Holds the arguments of a call to the JSON schema with which its function was declared.

Schemas come from clients and are tried on the loop, so a schema that could keep it busy is not obeyed to the
letter: regular expressions are not tried (some take for ever on short texts), what lies elsewhere is not
fetched, and the work for one call comes to an end. A grammar that holds the engine to the schema (`guides`)
has none of these limits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jsonschema
import referencing
from attrs import define, field
from jsonschema.validators import extend
from referencing.exceptions import Unresolvable

STEPS_MAX = 5_000
"""Keywords tried on the arguments of one call: more than any honest schema needs, and some 100 ms at most."""
SCHEMA_CHARS_MAX = 64 * 1024
"""The schema of one function as JSON text.

The prompt holds it too, and the context of a large model ends there.
"""

FAULTS_MAX = 3
"""Faults of a call that are told."""

_EVERYTHING: Mapping[str, Any] = {"type": "object"}


class ArgumentsError(ValueError):
    """The arguments of a call are not what was declared; the message says why, in words for the model."""


class SchemaError(ValueError):
    """The declared parameters are no JSON schema."""


class _TooMuchError(Exception):
    """The schema asks for more work than it is given."""


def check_schema(tool: Mapping[str, Any]) -> None:
    """Refuse a function whose `parameters` are no JSON schema.

    Raises:
        SchemaError: they are none, or too long.
    """
    schema = tool.get("parameters")
    if schema is None:
        return
    if len(json.dumps(schema)) > SCHEMA_CHARS_MAX:
        raise SchemaError(f"the parameters have more than {SCHEMA_CHARS_MAX} characters")
    try:
        _Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        at = "".join(f".{step}" for step in error.absolute_path)
        raise SchemaError(
            f"the parameters are no JSON schema: {at.lstrip('.') or 'they'}: {error.message}"
        ) from None
    except RecursionError:
        raise SchemaError("the parameters are nested too deeply") from None


def check_arguments(tools: Sequence[Mapping[str, Any]], name: str, arguments: str) -> None:
    """Refuse arguments that the schema of their function does not allow.

    Args:
        tools: the declared functions; `name` is one of them.
        name: the function.
        arguments: JSON text of an object.

    Raises:
        ArgumentsError: naming the first faults.
    """
    tool = next(tool for tool in tools if tool.get("name") == name)
    schema = tool.get("parameters") or _EVERYTHING
    validator = extend(_Validator, _Counted().keywords())
    try:
        found = validator(schema, registry=referencing.Registry()).iter_errors(json.loads(arguments))
        faults = [fault for _, fault in zip(range(FAULTS_MAX), found, strict=False)]
    except (Unresolvable, RecursionError, _TooMuchError):
        # The schema asks for more than can be found out; what it allows is for the client to judge.
        return
    if faults:
        told = "; ".join(_worded(fault) for fault in faults)
        raise ArgumentsError(f"the arguments of {name} do not fit: {told}")


def _worded(fault: jsonschema.ValidationError) -> str:
    at = ".".join(str(step) for step in fault.absolute_path)
    message = fault.message if len(fault.message) <= 200 else f"{fault.message[:200]}..."
    return f"{at}: {message}" if at else message


_Keyword = Callable[[Any, Any, Any, Any], Iterator[Any] | None]


@define
class _Counted:
    """The keywords of a schema, tried so many times and no more."""

    steps: int = field(default=0, init=False)

    def keywords(self) -> Mapping[str, _Keyword]:
        """Each keyword, counted."""
        return {name: self._counted(try_) for name, try_ in _Validator.VALIDATORS.items()}

    def _counted(self, try_: _Keyword) -> _Keyword:
        def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any] | None:
            self.steps += 1
            if self.steps > STEPS_MAX:
                raise _TooMuchError
            return try_(validator, value, instance, schema)

        return counted


def _allowed(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any] | None:
    return None


def _unless_patterns(keyword: str) -> _Keyword:
    """A keyword that tries the patterns of its schema, where there are none."""
    try_: _Keyword = jsonschema.Draft202012Validator.VALIDATORS[keyword]

    def without(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any] | None:
        return None if "patternProperties" in schema else try_(validator, value, instance, schema)

    return without


_Validator = extend(
    jsonschema.Draft202012Validator,
    {
        "pattern": _allowed,
        "patternProperties": _allowed,
        "additionalProperties": _unless_patterns("additionalProperties"),
        "unevaluatedProperties": _allowed,
    },
)
