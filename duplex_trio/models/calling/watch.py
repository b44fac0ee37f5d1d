"""Watches an answer for calls: what of it is said, which calls are made, and what was wrong with the rest.

A call is told when it is whole and fits its declaration, so that nobody runs what cannot be run; its
arguments are told in the pieces in which they were written. Where a grammar holds the model to the
declaration to the letter, they are told as they come. What a model says behind its calls is not said: it
would be made up, for it does not know what comes of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field

from duplex_trio.models.calling.parser import (
    CallArguments,
    CallBroken,
    CallComplete,
    CallParser,
    CallStarted,
    Piece,
    Words,
)
from duplex_trio.models.calling.schemas import ArgumentsError, check_arguments
from duplex_trio.pipelines.results import FunctionCallArguments, FunctionCallBegin, FunctionCallEnd

CallResult = FunctionCallBegin | FunctionCallArguments | FunctionCallEnd


@define
class CallWatch:
    """One answer.

    Args:
        tools: the functions that may be called.
        parallel: whether several may be.
        exact: whether a grammar holds the answer to the declarations.

    Attributes:
        over: whether nothing of what follows is wanted.
        fault: what was wrong with a call, in words for the model.
        written: the call that was wrong, as it was written.
    """

    tools: Sequence[Mapping[str, Any]]
    parallel: bool = True
    exact: bool = False
    over: bool = field(default=False, init=False)
    fault: str | None = field(default=None, init=False)
    written: str = field(default="", init=False)
    _parser: CallParser = field(init=False)
    _calls: int = field(default=0, init=False)
    _name: str | None = field(default=None, init=False)
    _arguments: list[str] = field(factory=list, init=False)
    _told: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._parser = CallParser(frozenset(str(tool["name"]) for tool in self.tools))

    def feed(self, text: str) -> list[str | CallResult]:
        """Take more of the answer; returns what is said of it and called in it, in order."""
        return self._take(self._parser.feed(text))

    def flush(self, *, cut: bool, stopped: bool = False) -> list[str | CallResult]:
        """The answer has ended.

        Args:
            cut: there was no room for more. A call that breaks off is then no fault, and is told as far as it
            came.
            stopped: the caller's stop string ended it. A call that breaks off is then no fault, and nothing is told
            of it.
        """
        pieces = self._parser.flush()
        if stopped:
            pieces = [piece for piece in pieces if not isinstance(piece, CallBroken)]
        told = self._take(pieces, cut=cut)
        self.over = True
        return told

    def _take(self, pieces: Sequence[Piece], *, cut: bool = False) -> list[str | CallResult]:
        told: list[str | CallResult] = []
        for piece in pieces:
            if self.over:
                break
            match piece:
                case Words(text=text):
                    self._say(text, told)
                case CallStarted(name=name):
                    self._start(name, told)
                case CallArguments(text=text):
                    self._arguments.append(text)
                    if self._told:
                        told.append(FunctionCallArguments(text))
                case CallComplete():
                    self._complete(told)
                case CallBroken(text=written, reason=reason):
                    if cut:
                        self._tell(told)
                    else:
                        self._blame(reason, written)
        return told

    def _say(self, text: str, told: list[str | CallResult]) -> None:
        if not self._calls:
            told.append(text)
        elif text.strip():
            self.over = True

    def _start(self, name: str, told: list[str | CallResult]) -> None:
        if self._calls and not self.parallel:
            self.over = True
            return
        self._name, self._arguments, self._told = name, [], False
        if self.exact:
            self._tell(told)

    def _complete(self, told: list[str | CallResult]) -> None:
        assert self._name is not None
        arguments = "".join(self._arguments)
        try:
            check_arguments(self.tools, self._name, arguments)
        except ArgumentsError as error:
            self._blame(str(error), f'{{"name": "{self._name}", "arguments": {arguments}}}')
            return
        self._tell(told)
        told.append(FunctionCallEnd())
        self._calls += 1
        self._name = None

    def _tell(self, told: list[str | CallResult]) -> None:
        """Tell the call as far as it has come, unless it was told as it came."""
        if self._name is None or self._told:
            return
        self._told = True
        told.append(FunctionCallBegin(name=self._name))
        told += [FunctionCallArguments(piece) for piece in self._arguments]

    def _blame(self, fault: str, written: str) -> None:
        self.fault, self.written, self.over = fault, written, True
