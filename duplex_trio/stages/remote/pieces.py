"""Reads one event of a streamed chat completion: text, the end and its reason, token counts, or an error.

What a model thinks (`reasoning`, `reasoning_content`) is not part of its answer and is left out. Calls that the
engine has read itself become text again, in the form in which `duplex_trio.models.calling` finds them, so that
nothing behind this stage needs to know who read them first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson
from attrs import define, field, frozen

DONE = "[DONE]"
CALL_OPENS, CALL_CLOSES = "<tool_call>", "</tool_call>"
_REASONS = {"length": "length", "abort": "abort"}
"""Reasons of engines that are not plainly `stop`. A refused content and a call are ends like any other."""


class PieceError(Exception):
    """An event holds something that is no piece of an answer."""


class EngineSaidError(Exception):
    """The engine gave up an answer that it had begun.

    `said` is its error object, or what it is for one.
    """

    def __init__(self, said: Any) -> None:
        super().__init__("the engine broke the answer off")
        self.said = said


@frozen
class TokenTotals:
    """Totals of a request."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0


@frozen(kw_only=True)
class Piece:
    """What one event says.

    `stopped_by_text` is None where the engine does not tell what ended the answer. `last` says that no further piece
    comes.
    """

    text: str = ""
    finish_reason: str | None = None
    stopped_by_text: bool | None = None
    totals: TokenTotals | None = None
    last: bool = False


@define(eq=False)
class CallWriter:
    """Writes down the calls of one answer that an engine tells in fields of their own.

    The first one is written as it comes, further ones when the answer ends: their pieces may be mixed.
    """

    _open: int | None = None
    _waiting: dict[int, list[str]] = field(factory=dict)

    def feed(self, calls: Any) -> str:
        """Pieces of calls; returns what they add to the text.

        Raises:
            PieceError: they are none.
        """
        text = ""
        for call in _sequence(calls, "tool_calls"):
            told = _mapping(call, "tool_calls")
            function = _mapping(told.get("function") or {}, "function")
            index = told.get("index")
            index = index if isinstance(index, int) else 0
            name = function.get("name")
            pieces = []
            if isinstance(name, str) and name and not self._knows(index):
                pieces.append(f'{CALL_OPENS}{{"name": {json.dumps(name)}, "arguments": ')
                self._waiting[index] = []
            if not self._knows(index):
                raise PieceError("arguments of a call without a name")
            arguments = function.get("arguments")
            if isinstance(arguments, Mapping):
                arguments = json.dumps(arguments)
            if isinstance(arguments, str) and arguments:
                pieces.append(arguments)
            self._waiting[index] += pieces
            if self._open is None:
                self._open = index
            if self._open == index:
                text += "".join(pieces)
        return text

    def close(self, *, cut: bool) -> str:
        """The answer has ended; returns what is left to write.

        Args:
            cut: there was no room for more, so that the last call may be incomplete.
        """
        text = ""
        indices = sorted(self._waiting, key=lambda index: (index != self._open, index))
        for index in indices:
            pieces = self._waiting[index]
            if index != self._open:
                text += "".join(pieces)
            text += "" if len(pieces) > 1 else "{}"
            text += "" if cut and index == indices[-1] else f"}}{CALL_CLOSES}"
        self._waiting.clear()
        self._open = None
        return text

    @property
    def writing(self) -> bool:
        """Whether a call has begun."""
        return self._open is not None

    def _knows(self, index: int) -> bool:
        return index in self._waiting


def read_piece(data: str, calls: CallWriter) -> Piece:
    """Read the data of one event.

    Args:
        data: JSON, or `[DONE]`.
        calls: writes down the calls of this answer.

    Raises:
        EngineSaidError: it is an error.
        PieceError: it is nothing that belongs here.
    """
    if data.strip() == DONE:
        return Piece(last=True)
    try:
        event = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise PieceError(f"no JSON: {error}") from error
    event = _mapping(event, "an event")
    if event.get("error") is not None or event.get("object") == "error":
        raise EngineSaidError(event.get("error") or event)
    totals = _totals(event.get("usage"))
    choices = _sequence(event.get("choices") or [], "choices")
    if not choices:
        return Piece(totals=totals)
    choice = _mapping(choices[0], "a choice")
    delta = _mapping(choice.get("delta") or {}, "a delta")
    text = _text(delta.get("content")) + _text(delta.get("refusal"))
    if text and calls.writing:
        # Words stand between calls, not within one.
        text = calls.close(cut=False) + text
    if delta.get("tool_calls"):
        text += calls.feed(delta["tool_calls"])
    reason = choice.get("finish_reason")
    if reason is None:
        return Piece(text=text, totals=totals)
    if reason == "error":
        raise EngineSaidError("it gave the answer up")
    reason = _REASONS.get(str(reason), "stop")
    stopped = isinstance(choice["stop_reason"], str) if "stop_reason" in choice else None
    return Piece(
        text=text + calls.close(cut=reason == "length"),
        finish_reason=reason,
        stopped_by_text=stopped,
        totals=totals,
    )


def _text(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    raise PieceError(f"text that is {type(content).__name__}")


def _totals(usage: Any) -> TokenTotals | None:
    if not isinstance(usage, Mapping):
        return None
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else 0
    return TokenTotals(
        _count(usage.get("prompt_tokens")), _count(cached), _count(usage.get("completion_tokens"))
    )


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise PieceError(f"{what} that is {type(value).__name__}")
    return value


def _sequence(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise PieceError(f"{what} that is {type(value).__name__}")
    return value
