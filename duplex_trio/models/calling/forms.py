"""Which calls a JSON value makes: the forms in which language models write them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from attrs import frozen

from duplex_trio.models.calling.json_scan import ARGUMENTS_KEYS, NAME_KEYS


class CallFormError(ValueError):
    """The text makes no call that can be made; the message says why, in words for the model.

    Attributes:
        meant: whether it is a call all the same, and not something else in JSON.
    """

    def __init__(self, message: str, *, meant: bool) -> None:
        super().__init__(message)
        self.meant = meant


@frozen
class WrittenCall:
    """A call of a declared function; `arguments` is the JSON text of an object."""

    name: str
    arguments: str


def read_calls(text: str, names: Collection[str]) -> Sequence[WrittenCall]:
    """The calls that a text in JSON makes, at least one.

    Args:
        text: an object for one call, or an array of them: `{"name", "arguments"}`, with `parameters` for
            arguments, `function` or `tool` for name, OpenAI's `{"function": {...}}` and `{"tool_calls":
            [...]}`.
        names: the functions that there are.

    Raises:
        CallFormError: it makes none that can be made.
    """
    try:
        value = json.loads(text, parse_constant=_no_number)
    except RecursionError:
        raise CallFormError("the call is nested too deeply", meant=False) from None
    except ValueError as error:
        raise CallFormError(f"the call is not JSON: {error}", meant=False) from None
    calls = list(_calls(value, names))
    if not calls:
        raise CallFormError("there is no call", meant=False)
    return calls


def _calls(value: Any, names: Collection[str]) -> Iterator[WrittenCall]:
    match value:
        case [*elements]:
            for element in elements:
                yield from _calls(element, names)
        case {"tool_calls": [*elements]}:
            yield from _calls(elements, names)
        case {"function": dict() as function}:
            yield from _calls(function, names)
        case dict() as call:
            yield _call(call, names)
        case _:
            raise CallFormError("a call is a JSON object", meant=False)


def _call(call: Mapping[str, Any], names: Collection[str]) -> WrittenCall:
    given = next((call[key] for key in ARGUMENTS_KEYS if key in call), None)
    name = next((call[key] for key in NAME_KEYS if isinstance(call.get(key), str)), None)
    if name not in names:
        known = ", ".join(sorted(names))
        raise CallFormError(
            f"there is no function {name!r}, but {known}", meant=isinstance(given, dict | str)
        )
    assert isinstance(name, str)
    return WrittenCall(name, _arguments(name, given))


def _arguments(name: str, given: Any) -> str:
    if isinstance(given, str):
        # OpenAI's own form: JSON within JSON.
        try:
            given = json.loads(given or "{}", parse_constant=_no_number)
        except (ValueError, RecursionError):
            raise CallFormError(f"the arguments of {name} are not JSON", meant=True) from None
    if given is None:
        given = {}
    if not isinstance(given, dict):
        raise CallFormError(f"the arguments of {name} are not a JSON object", meant=True)
    return json.dumps(given)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")
