"""Finds the calls of functions in an answer while it is being written, and keeps them out of what is said.

Theory of operation. The parser reads one character at a time, so the same text gives the same pieces however
it was chunked. In plain text it holds back only what may open a call: a tag (`<tool_call>`), a code fence, or
a bracket of JSON. Behind an opener it follows one JSON value. What turns out to be something else (JSON whose
first key is none of a call's is known at once) is given out as the plain text that it is. The arguments of a
call that is written with its name in front are given out as they come; those of other forms when the value is
whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from enum import Enum
from itertools import groupby

from attrs import define, field, frozen

from duplex_trio.models.calling.forms import CallFormError, WrittenCall, read_calls
from duplex_trio.models.calling.json_scan import CALL_KEYS, JsonScan

_TAGS = {"<tool_call>": "</tool_call>", "<function_call>": "</function_call>", "[TOOL_CALLS]": ""}
_CLOSERS = tuple(filter(None, _TAGS.values()))
_FENCE = "```"
_FENCE_LABEL = re.compile(r"[\w-]{0,20}\s?")


@frozen
class Words:
    """Plain text of the answer."""

    text: str


@frozen
class CallStarted:
    """A call of a declared function begins; its arguments follow."""

    name: str


@frozen
class CallArguments:
    """The next piece of the arguments, which are one JSON object."""

    text: str


@frozen
class CallComplete:
    """The call is whole: a declared function, with an object for arguments."""


@frozen
class CallBroken:
    """What was meant as a call is none that can be made, whether it had started or not.

    `text` is all of it as it was written, `reason` says why, in words for the model.
    """

    text: str
    reason: str


Piece = Words | CallStarted | CallArguments | CallComplete | CallBroken


class _Mode(Enum):
    TEXT = "text"
    VALUE = "value"
    BEHIND = "behind"
    RUBBISH = "rubbish"


@define
class CallParser:
    """Feed it an answer, get what it says and what it calls.

    Args:
        names: the functions that may be called.
    """

    names: Collection[str]
    _mode: _Mode = field(default=_Mode.TEXT, init=False)
    _opener: str = field(default="", init=False)
    _held: str = field(default="", init=False)
    _scan: JsonScan | None = field(default=None, init=False)
    _told: int | None = field(default=None, init=False)
    _pieces: list[Piece] = field(factory=list, init=False)

    def feed(self, text: str) -> list[Piece]:
        """Take more text."""
        for character in text:
            self._take(character)
        return self._given()

    def flush(self) -> list[Piece]:
        """The text has ended: give out what was held back."""
        if self._mode is _Mode.RUBBISH or (self._mode is _Mode.VALUE and self._is_meant):
            self._pieces.append(CallBroken(self._written, "the call breaks off"))
        elif self._mode is not _Mode.BEHIND:
            self._say(self._written)
        self._restart()
        return self._given()

    def _given(self) -> list[Piece]:
        pieces, self._pieces = self._pieces, []
        return list(_merged(pieces))

    def _restart(self) -> None:
        self._mode, self._opener, self._held, self._scan, self._told = _Mode.TEXT, "", "", None, None

    @property
    def _written(self) -> str:
        """What was held back."""
        return self._held + (self._scan.text if self._scan is not None else "")

    @property
    def _is_meant(self) -> bool:
        """Whether what is being read is a call whatever follows."""
        return self._opener in _TAGS or (self._scan is not None and self._scan.name in self.names)

    def _take(self, character: str) -> None:
        match self._mode:
            case _Mode.TEXT:
                self._in_text(character)
            case _Mode.VALUE:
                self._in_value(character)
            case _Mode.BEHIND:
                self._behind(character)
            case _Mode.RUBBISH:
                self._in_rubbish(character)

    def _say(self, text: str) -> None:
        if text:
            self._pieces.append(Words(text))

    # ------------------------------------------------------------------ plain text

    def _in_text(self, character: str) -> None:
        self._held += character
        while self._held and not _may_open(self._held):
            self._say(self._held[0])
            self._held = self._held[1:]
        if self._held in _CLOSERS:
            self._held = ""
        elif self._held in _TAGS or _is_fence(self._held):
            self._mode, self._opener = _Mode.VALUE, self._held
        elif _is_value(self._held):
            bare, self._held, self._mode = self._held, "", _Mode.VALUE
            for held in bare:
                self._in_value(held)

    # ------------------------------------------------------------------ a call

    def _in_value(self, character: str) -> None:
        scan = self._scan
        if scan is None:
            self._before_value(character)
            return
        scan.feed(character)
        if not (self._opener in _TAGS or _is_plausible(scan)):
            self._release()
            return
        self._tell(scan)
        if scan.over:
            self._value_over(scan)

    def _before_value(self, character: str) -> None:
        if character in "{[":
            self._scan = JsonScan()
            self._scan.feed(character)
            return
        self._held += character
        if not character.isspace():
            if self._opener in _TAGS:
                self._mode = _Mode.RUBBISH
            else:
                self._release()

    def _tell(self, scan: JsonScan) -> None:
        """Give out as much of the arguments as there is."""
        if scan.argument_start is None or scan.name not in self.names:
            return
        if self._told is None:
            assert scan.name is not None
            self._pieces.append(CallStarted(scan.name))
            self._told = scan.argument_start
        end = scan.length if scan.argument_end is None else scan.argument_end
        if end > self._told:
            self._pieces.append(CallArguments(scan.part(self._told, end)))
            self._told = end

    def _value_over(self, scan: JsonScan) -> None:
        behind = _Mode.BEHIND if self._opener else _Mode.TEXT
        try:
            calls = read_calls(scan.text, self.names)
            if self._told is not None:
                _check_told(scan, calls)
        except CallFormError as error:
            if error.meant or self._is_meant:
                self._pieces.append(CallBroken(self._written, str(error)))
            else:
                self._say(self._written)
                behind = _Mode.TEXT
        else:
            if self._told is not None:
                self._pieces.append(CallComplete())
            else:
                for call in calls:
                    self._pieces += [CallStarted(call.name), CallArguments(call.arguments), CallComplete()]
        opener = self._opener if behind is _Mode.BEHIND else ""
        self._restart()
        self._mode, self._opener = behind, opener

    def _release(self) -> None:
        """It is no call: the first character is plain text, and the rest is looked at again."""
        written = self._written
        self._restart()
        self._say(written[0])
        for character in written[1:]:
            self._take(character)

    # ------------------------------------------------------------------ behind a call

    def _behind(self, character: str) -> None:
        """Behind a value comes the closing tag or fence, or another value."""
        closer = _TAGS.get(self._opener, _FENCE)
        if character in "{[" and not self._held.strip(" ,\t\n\r"):
            self._mode, self._held = _Mode.VALUE, ""
            self._before_value(character)
            return
        self._held += character
        gap = self._held.lstrip()
        if gap and gap == closer:
            self._restart()
        elif gap.strip(" ,\t\n\r") and not closer.startswith(gap):
            self._restart()
            for held in gap:
                self._take(held)

    def _in_rubbish(self, character: str) -> None:
        self._held += character
        closer = _TAGS[self._opener]
        if closer and self._held.endswith(closer):
            self._pieces.append(CallBroken(self._held, "the call is not JSON"))
            self._restart()


def _may_open(text: str) -> bool:
    """Whether a text is the beginning of what opens or closes a call, or all of it."""
    if _is_value(text) or any(known.startswith(text) for known in (*_TAGS, *_CLOSERS, _FENCE)):
        return True
    return text.startswith(_FENCE) and _FENCE_LABEL.fullmatch(text, len(_FENCE)) is not None


def _is_value(text: str) -> bool:
    """Whether a text opens a value by itself; an array looks like a tag at first."""
    return text == "{" or (len(text) == 2 and text[0] == "[" and (text[1].isspace() or text[1] == "{"))


def _is_fence(text: str) -> bool:
    return text.startswith(_FENCE) and text[-1].isspace()


def _is_plausible(scan: JsonScan) -> bool:
    """Whether a value may still turn out to be a call."""
    if scan.first_key is not None:
        return scan.first_key in CALL_KEYS
    return '{"'.startswith(scan.begins[:2]) or '[{"'.startswith(scan.begins)


def _check_told(scan: JsonScan, calls: Sequence[WrittenCall]) -> None:
    """What was given out already must be what the value says as a whole, where a key may come twice."""
    assert scan.argument_start is not None
    assert scan.argument_end is not None
    told = json.loads(scan.part(scan.argument_start, scan.argument_end))
    if [(call.name, json.loads(call.arguments)) for call in calls] != [(scan.name, told)]:
        raise CallFormError("the call says two things at once", meant=True)


def _merged(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Neighbours of one kind as one."""
    for kind, group in groupby(pieces, key=type):
        if kind is Words:
            yield Words("".join(piece.text for piece in group if isinstance(piece, Words)))
        elif kind is CallArguments:
            yield CallArguments("".join(piece.text for piece in group if isinstance(piece, CallArguments)))
        else:
            yield from group
