"""What must hold for what a client is sent, whatever it has sent itself.

Every message that cannot be read gets exactly one error; any message gets at most one; an error has a code of
the table, the class of that code, and names the message and the place in it. Streams of the duplex dialect
are held against the rules of `stream_rules` too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import orjson
from attrs import define, field, frozen

from duplex_trio.protocol.duplex import (
    ERROR_CLASSES,
    RealtimeError,
    ResponseCreateOptions,
    decode_command,
)
from duplex_trio.protocol.duplex.structure import fields_of
from duplex_trio.testing.event_reader import read_event
from duplex_trio.testing.fuzz.scene import Received
from duplex_trio.testing.stream_rules import check_stream

_UNNUMBERED = frozenset({"session.resumed", "session.replaced", "session.resync_required"})


class BadAnswer(AssertionError):
    """The server answered a message as it may not; the message says which and how."""


@frozen
class Said:
    """One message of the client: what it is as JSON, and the error that it must get, if any."""

    text: str
    content: Any
    refusal: RealtimeError | None

    @property
    def event_id(self) -> str | None:
        """The id by which its errors name it."""
        found = self.content.get("event_id") if isinstance(self.content, dict) else None
        return found if isinstance(found, str) else None


def read(text: str) -> Said:
    """What a message is. Whatever it is, reading it may raise nothing but an error to answer with."""
    refusal = None
    try:
        decode_command(text)
    except RealtimeError as error:
        refusal = error
    try:
        content = orjson.loads(text)
    except ValueError:
        content = None
    return Said(text, content, refusal)


@define(eq=False)
class Judge:
    """Keeps what was said to one application and checks the errors that come.

    Attributes:
        said: all messages so far.
        expected: errors that messages must get and that did not come yet, by code, `param` and `event_id`.
    """

    said: list[Said] = field(factory=list)
    expected: Counter[tuple[str, str | None, str | None]] = field(factory=Counter)
    _seen: int = 0

    def say(self, said: Said, *, opening: bool) -> None:
        """Note that a message is sent. The first one of a connection may be refused by other rules."""
        self.said.append(said)
        if said.refusal is not None and not opening:
            self.expected[_key(said.refusal)] += 1

    def forgive(self) -> None:
        """The connection is lost, and with it errors that were on their way."""
        self.expected.clear()

    def look_at(self, received: Sequence[Received]) -> None:
        """Check what came since the last look.

        Raises:
            BadAnswer: an error is not as it must be.
        """
        for got in received[self._seen :]:
            if got.type == "error":
                self._check(got.event)
        self._seen = len(received)

    def check_settled(self) -> None:
        """Everything that was said has been read: all errors that had to come have come.

        Raises:
            BadAnswer: one did not.
        """
        missing = +self.expected
        if missing:
            raise BadAnswer(f"messages that cannot be read were not refused: {dict(missing)}")

    def _check(self, event: Mapping[str, Any]) -> None:
        error = event["error"]
        code, param, event_id = error["code"], error.get("param"), error.get("event_id")
        if ERROR_CLASSES.get(code) != error["type"] or not error["message"] or not event["event_id"]:
            raise BadAnswer(f"not an error of the table: {event}")
        key = (code, param, event_id)
        if self.expected[key] > 0:
            self.expected[key] -= 1
        about = [said for said in self.said if event_id is not None and said.event_id == event_id]
        if event_id is not None and not about:
            raise BadAnswer(f"it names a message that nobody sent: {event}")
        if param is not None and about and not any(_names_a_place(param, said.content) for said in about):
            raise BadAnswer(f"{param!r} is no place in {about[-1].text[:500]}: {event}")


def _key(error: RealtimeError) -> tuple[str, str | None, str | None]:
    return error.code, error.param, error.event_id


def _names_a_place(param: str, message: Any) -> bool:
    """Whether a path leads to a value of the message, or to one that it lacks in an object that it has.

    A command that came as `turn.signal` is refused like any other, so its places are those of the payload. Of
    `session.update` the session object may be the message itself, and a field of a response may go by
    another of its names.
    """
    steps: list[str | int] = [
        int(index) if index else name for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", param)
    ]
    if _leads(steps, message):
        return True
    if isinstance(message, dict) and isinstance(payload := message.get("payload"), dict):
        return _names_a_place(param, payload)
    if "session" in steps:
        steps.remove("session")
    elif steps[:1] == ["response"]:
        spellings = next((names for names in _response_spellings() if param[9:] in names), frozenset())
        return any(_leads(["response", *name.split(".")], message) for name in spellings)
    return _leads(steps, message)


@cache
def _response_spellings() -> tuple[frozenset[str], ...]:
    """The names of each field of a response's options. A model's refusal names the field by the GA one."""
    fields = fields_of(ResponseCreateOptions).items()
    return tuple(frozenset((how.name or name, *how.aliases)) for name, how in fields)


def _leads(steps: Sequence[str | int], message: Any) -> bool:
    at = message
    for number, step in enumerate(steps):
        if isinstance(at, dict) and isinstance(step, str):
            if step not in at:
                return number == len(steps) - 1
            at = at[step]
        elif isinstance(at, list) and isinstance(step, int) and step < len(at):
            at = at[step]
        else:
            return False
    return True


def check_session_streams(received: Sequence[Received]) -> None:
    """Hold the events of each session against the rules of streams; only those of the duplex dialect.

    Raises:
        StreamRuleBroken: the first rule that does not hold.
    """
    for events in _by_session(received):
        numbered, last = [], 0
        for event in events:
            seq = event.get("server_event_seq")
            if event["type"] in _UNNUMBERED or (isinstance(seq, int) and seq <= last):
                continue
            last = seq if isinstance(seq, int) else last
            numbered.append(read_event(orjson.dumps(event)))
        check_stream(numbered, ended=False)


def _by_session(received: Sequence[Received]) -> list[list[Mapping[str, Any]]]:
    """Events by session, in the order of their sessions; a connection that is resumed belongs to its session."""
    sessions: dict[str, list[Mapping[str, Any]]] = {}
    of_connection: dict[int, str] = {}
    for got in received:
        if got.type in ("session.created", "session.resumed"):
            of_connection[got.connection] = str(got.event["session"]["id"])
        session = of_connection.get(got.connection)
        if session is not None:
            sessions.setdefault(session, []).append(got.event)
    return list(sessions.values())
