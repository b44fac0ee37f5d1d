"""Decides whether a step has got what it waits for: from the account alone, without a clock.

An answer, a call, a transcript and an error are each told of once: the first that no step has spoken of yet.
`after_hearing`, `interrupt` and `expects_cancelled` speak of the answer that the step before them spoke of, as long
as it lasts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from attrs import define, frozen

from duplex_trio.testing.dialogue import steps
from duplex_trio.testing.dialogue.account import Account, Answer, Call
from duplex_trio.testing.dialogue.words import Words, given, quoted


@frozen
class Met:
    """The step has got what it waits for."""


@frozen
class Waiting:
    """Not yet. Time alone may change that at `until_ms`."""

    until_ms: float = math.inf


@frozen
class Missed:
    """The step will not get it: what was expected, and what came instead."""

    expected: str
    instead: str


STATUSES = {"completed": "is complete", "failed": "failed", "cancelled": "was cancelled"}
"""What is said of an answer that ended so."""

Verdict = Met | Waiting | Missed


@define
class _Promise:
    """Words that an answer has to have said, and nothing else, once it is over."""

    answer: Answer
    words: Words
    number: int


class Judge:
    """Judges the steps of one conversation, one after the other.

    Args:
        account: what has happened.

    Attributes:
        call: the function call that was expected last.
    """

    def __init__(self, account: Account) -> None:
        self.call: Call | None = None
        self._account = account
        self._answer: Answer | None = None
        self._told_cut: Answer | None = None
        self._calls = self._transcripts = self._errors = self._events = 0
        self._number = 0
        self._began_ms = 0.0
        self._promises: list[_Promise] = []

    def begin(self, number: int, now_ms: float) -> None:
        """A step begins."""
        self._number, self._began_ms = number, now_ms

    def look(self, step: steps.Step, now_ms: float) -> Verdict:
        """Judge the step that has begun."""
        match step:
            case steps.ExpectsReply(words=words):
                return self._reply(words)
            case steps.ExpectsTranscript(words=words):
                return self._transcript(words)
            case steps.ExpectsCancelled():
                return self._cancelled(now_ms)
            case steps.AfterHearing(ms=ms):
                return self._hearing(ms, now_ms)
            case steps.ExpectsSilence(seconds=seconds):
                return self._silence(seconds * 1000, now_ms)
            case steps.ExpectsCall(name=name, arguments=arguments):
                return self._called(name, arguments)
            case steps.Returns():
                return self._may_return()
            case steps.ExpectsError(code=code):
                return self._error(code)
            case steps.ExpectsEvent(type=kind, fields=fields):
                return self._event(kind, fields)
            case steps.ExpectsClosed():
                return Met() if self._account.ended else Waiting()
            case steps.Resume():
                return Met() if self._account.connected else Waiting()
        return Met()

    def interrupts(self, now_ms: float) -> Verdict:
        """Whether there is anybody to be interrupted."""
        answer = self._account.audible(now_ms)
        if answer is None:
            return Missed("the assistant speaks, so that it can be interrupted", "nobody spoke")
        self._answer = answer
        return Met()

    def given_up(self, step: steps.Step, now_ms: float, within_s: float) -> Missed:
        """What to say of a step whose time, or whose session, is over."""
        late = self._late(step, now_ms, within_s)
        if self._account.ended is not None:
            return Missed(late.expected, f"the session is over: {self._account.ended}")
        return late

    def _late(self, step: steps.Step, now_ms: float, within_s: float) -> Missed:
        waited = f"within {within_s:g} s"
        account, answer = self._account, self._next()
        match step:
            case steps.ExpectsReply(words=words):
                said = f"answer {answer.number} said {quoted(answer.text)} and went on" if answer else None
                return Missed(f"the assistant says {words}", said or f"no answer {waited}{self._why_not()}")
            case steps.ExpectsTranscript(words=words):
                return Missed(f"the user is understood as {words}", f"nothing {waited}{self._why_not()}")
            case steps.ExpectsCancelled():
                return Missed("the answer is cut off", f"it was not {waited}")
            case steps.AfterHearing(ms=ms):
                heard = 0.0 if self._answer is None else account.heard_ms(self._answer, now_ms)
                wanted = "the whole answer" if ms is None else f"{ms:g} ms of an answer"
                return Missed(f"the user hears {wanted}", f"{heard:.0f} ms {waited}{self._why_not()}")
            case steps.ExpectsCall(name=name):
                return Missed(f"{name} is called", f"no call {waited}{self._why_not()}")
            case steps.ExpectsError(code=code):
                return Missed(f"the error {code}", f"no error {waited}")
            case steps.ExpectsEvent(type=kind):
                return Missed(f"the event {kind}", f"it did not come {waited}")
            case steps.ExpectsClosed():
                return Missed("the session is over", f"it was not {waited}")
            case steps.Resume():
                return Missed("the client comes back", f"it was not back {waited}")
        return Missed(str(step), f"it took longer than {within_s:g} s")

    def broken_promise(self) -> tuple[int, Missed] | None:
        """The number of a step whose answer has gone on otherwise than it began, and how."""
        for promise in list(self._promises):
            answer, expected = promise.answer, f"the assistant says {promise.words}, and nothing else"
            if not promise.words.met_by(answer.text):
                self._promises.remove(promise)
                if answer.cut_ms is None:
                    return promise.number, Missed(expected, f"it said {quoted(answer.text)}")
            elif answer.ended:
                self._promises.remove(promise)
                if answer.status != "completed" and answer.cut_ms is None:
                    return promise.number, Missed(expected, f"the answer {_end_of(answer)}")
        return None

    def unfinished(self) -> bool:
        """Whether an answer may still go on otherwise than expected."""
        return any(promise.answer.cut_ms is None for promise in self._promises)

    def unexpected(self) -> Missed | None:
        """An error that no step has spoken of."""
        for code, message in self._account.errors[self._errors :]:
            return Missed("no error, as no step expects one", f"the server sent {code}: {message}")
        return None

    # ------------------------------------------------------------------ each kind of step

    def _next(self) -> Answer | None:
        """The first answer behind the one spoken of.

        One that only calls functions is no answer to anybody, and one that failed has been spoken of with its error.
        """
        done = 0 if self._answer is None else self._answer.number
        for answer in self._account.answers[done:]:
            spoken_of = answer.calls or (answer.status == "failed" and self._errors > 0)
            if not (answer.silent and spoken_of):
                return answer
        return None

    def _current(self, now_ms: float) -> Answer | None:
        """The answer spoken of as long as it lasts, or else the next."""
        answer = self._answer
        if answer is None or self._account.over_at_ms(answer) < now_ms:
            answer = self._next() or None
        return answer

    def _reply(self, words: Words) -> Verdict:
        answer = self._next()
        if answer is None:
            return Waiting()
        if words.met_by(answer.text):
            self._answer = answer
            if words.exactly is not None:
                self._promises.append(_Promise(answer, words, self._number))
            return Met()
        if answer.ended and not (answer.calls and answer.silent):
            what = "it said nothing" if not answer.text else f"it said {quoted(answer.text)}"
            end = "" if answer.status == "completed" else f", and the answer {_end_of(answer)}"
            why = "".join(f"; {code}: {text}" for code, text in self._account.errors[self._errors :][-1:])
            return Missed(f"the assistant says {words}", what + end + why)
        return Waiting()

    def _transcript(self, words: Words) -> Verdict:
        heard = self._account.transcripts[self._transcripts :]
        if not heard:
            return Waiting()
        self._transcripts += 1
        if words.met_by(heard[0]):
            return Met()
        return Missed(f"the user is understood as {words}", f"as {quoted(heard[0])}")

    def _cancelled(self, now_ms: float) -> Verdict:
        answer = self._answer
        if answer is None or answer is self._told_cut:
            answer = self._next()
        if answer is None:
            return Waiting()
        self._answer = answer
        if answer.cut_ms is not None:
            self._told_cut = answer
            return Met()
        over_ms = self._account.over_at_ms(answer)
        if over_ms > now_ms:
            return Waiting(over_ms)
        return Missed("the answer is cut off", f"answer {answer.number} was heard to its end")

    def _hearing(self, ms: float | None, now_ms: float) -> Verdict:
        answer = self._current(self._began_ms)
        if answer is None or answer.spoke_ms is None:
            return Waiting()
        self._answer = answer
        over_ms = self._account.over_at_ms(answer)
        at_ms = over_ms if ms is None else self._account.heard_at_ms(answer, ms)
        cut = answer.cut_ms is not None and answer.cut_ms <= min(at_ms, now_ms)
        if at_ms <= now_ms and not cut:
            return Met()
        if answer.ended and (cut or at_ms == math.inf):
            wanted = "to its end" if ms is None else f"for {ms:g} ms"
            if cut:
                instead = f"it was cut off after {self._account.heard_ms(answer, now_ms):.0f} ms"
            else:
                instead = f"it has only {answer.sound_ms:.0f} ms of sound"
            return Missed(f"the user hears answer {answer.number} {wanted}", instead)
        return Waiting(at_ms)

    def _silence(self, ms: float, now_ms: float) -> Verdict:
        end_ms = self._began_ms + ms
        for answer in self._account.answers:
            if answer.spoke_ms is None or self._account.over_at_ms(answer) <= self._began_ms:
                continue
            if answer.text or answer.ended or now_ms >= end_ms:
                said = quoted(answer.text) if answer.text else f"{answer.sound_ms:.0f} ms of sound"
                return Missed(f"the assistant says nothing for {ms:g} ms", f"it said {said}")
        return Met() if now_ms >= end_ms else Waiting(end_ms)

    def _called(self, name: str, arguments: Mapping[str, Any]) -> Verdict:
        calls = self._account.calls[self._calls :]
        if not calls:
            answer = self._next()
            if answer is not None and answer.ended and not answer.calls and answer.text:
                return Missed(f"{name} is called", f"it said {quoted(answer.text)}")
            return Waiting()
        self._calls += 1
        self.call = call = calls[0]
        wrong = {
            key: call.arguments.get(key) for key in arguments if call.arguments.get(key) != arguments[key]
        }
        if call.name != name:
            return Missed(f"{name} is called", f"{call.name} was called")
        if wrong:
            return Missed(
                f"{name} is called with {given(arguments)}", f"with {given(call.arguments) or 'no arguments'}"
            )
        return Met()

    def _may_return(self) -> Verdict:
        call = self.call
        if call is None:
            return Missed("a function has been called", "no expects_call() came before")
        answer = next(a for a in self._account.answers if a.response_id == call.response_id)
        return Met() if answer.ended else Waiting()

    def _error(self, code: str) -> Verdict:
        errors = self._account.errors[self._errors :]
        if not errors:
            return Waiting()
        self._errors += 1
        if errors[0][0] == code:
            return Met()
        return Missed(f"the error {code}", f"{errors[0][0]}: {errors[0][1]}")

    def _event(self, kind: str, fields: Mapping[str, Any]) -> Verdict:
        for index in range(self._events, len(self._account.events)):
            event = self._account.events[index]
            if event["type"] == kind and all(event.get(key) == value for key, value in fields.items()):
                self._events = index + 1
                return Met()
        return Waiting()

    def _why_not(self) -> str:
        """The likely reason that nothing came."""
        turn = self._account.turn
        if not self._account.connected:
            return "; there is no connection"
        if math.isinf(turn.said_ms) or turn.over:
            return ""
        return "; the user's turn is not over" if turn.hears else "; the session heard no speech"


def _end_of(answer: Answer) -> str:
    reason = f" ({answer.reason})" if answer.reason else ""
    return f"{STATUSES.get(answer.status or '', answer.status)}{reason}"
