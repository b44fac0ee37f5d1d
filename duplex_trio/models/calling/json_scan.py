"""Follows one JSON value character by character, to know where it ends and which call it makes.

It looks at brackets and strings only: whether the value is JSON at all is for a parser to say once it is
whole. What it can tell before that is the name and the beginning of the arguments of a call that is written
as an object with its name in front, `{"name": ..., "arguments": {...}}`.
"""

from __future__ import annotations

import json

from attrs import define, field

NAME_KEYS = frozenset({"name", "function", "tool"})
ARGUMENTS_KEYS = frozenset({"arguments", "parameters", "args"})
CALL_KEYS = NAME_KEYS | ARGUMENTS_KEYS | {"tool_calls", "type", "id", "call_id"}
"""Keys with which a call may begin."""

_OPEN, _CLOSE = "{[", "}]"


@define
class JsonScan:
    """One value; feed it the characters from its opening bracket on.

    Attributes:
        over: whether the last character closed the value.
        first_key: the first key of the value, if it is an object and has one.
        begins: its first three characters that are not white space.
        name: the name of the call, once it is known.
        argument_start: where the object of its arguments begins, if it begins behind the name.
        argument_end: behind its end.
    """

    over: bool = False
    first_key: str | None = None
    begins: str = ""
    name: str | None = None
    argument_start: int | None = None
    argument_end: int | None = None
    _chars: list[str] = field(factory=list)
    _brackets: list[str] = field(factory=list)
    _string_at: int | None = None
    _escaped: bool = False
    _key: str | None = None
    _after_colon: bool = False

    @property
    def text(self) -> str:
        """What was read."""
        return "".join(self._chars)

    @property
    def length(self) -> int:
        """How many characters were read."""
        return len(self._chars)

    def part(self, begin: int, end: int) -> str:
        """Some of what was read."""
        return "".join(self._chars[begin:end])

    def feed(self, character: str) -> None:
        """Read one character of a value that is not over."""
        at = len(self._chars)
        self._chars.append(character)
        if len(self.begins) < 3 and not character.isspace():
            self.begins += character
        if self._string_at is not None:
            self._in_string(character, at)
        elif character == '"':
            self._string_at = at
        elif character in _OPEN:
            if self._in_call and self._after_colon and self._begins_arguments(character):
                self.argument_start = at
            self._brackets.append(character)
        elif character in _CLOSE:
            self._close(at)
        elif self._in_call and character == ":":
            self._after_colon = True
        elif self._in_call and character == ",":
            self._after_colon, self._key = False, None

    @property
    def _in_call(self) -> bool:
        return self._brackets == ["{"]

    def _begins_arguments(self, bracket: str) -> bool:
        known = self.name is not None and self.argument_start is None
        return known and bracket == "{" and self._key in ARGUMENTS_KEYS

    def _close(self, at: int) -> None:
        self._brackets.pop()
        if self._in_call and self.argument_start is not None and self.argument_end is None:
            self.argument_end = at + 1
        self.over = not self._brackets

    def _in_string(self, character: str, at: int) -> None:
        if self._escaped:
            self._escaped = False
        elif character == "\\":
            self._escaped = True
        elif character == '"':
            assert self._string_at is not None
            written, self._string_at = "".join(self._chars[self._string_at : at + 1]), None
            if self._in_call:
                self._note(_unquoted(written))

    def _note(self, text: str | None) -> None:
        if not self._after_colon:
            self._key = text
            if self.first_key is None:
                self.first_key = text or ""
        elif self._key in NAME_KEYS and self.name is None:
            self.name = text


def _unquoted(written: str) -> str | None:
    try:
        text: str = json.loads(written)
    except ValueError:
        return None
    return text
