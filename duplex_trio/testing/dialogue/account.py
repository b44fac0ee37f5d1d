"""What happened in a conversation, put together from the events of its session. No clock, no I/O.

Times are milliseconds since the conversation began. What the user has heard follows from when sound came and
how long it is, as `PlaybackCursor` reckons it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import orjson
from attrs import define, frozen

from duplex_trio.clients.events import AudioDelta, ErrorEvent, ServerEvent, TranscriptDelta, parse_event
from duplex_trio.clients.playback import PlaybackCursor
from duplex_trio.testing.dialogue.words import given, plain, quoted

Who = Literal["user", "assistant", "server", "ok", "FAILED"]


@define(eq=False)
class Answer:
    """One answer of the assistant.

    Attributes:
        number: 1 is the first.
        response_id: the server's id.
        began_ms: when the response was created.
        spoke_ms: when its first sound or word came.
        text: its words so far.
        sound_ms: length of its sound so far.
        status: how it ended (`completed`, `cancelled`, ...), once it has; and `reason`, if one was given.
        cut_ms: when it was cut off, if it was.
        calls: whether functions are called in it.
    """

    number: int
    response_id: str
    began_ms: float
    spoke_ms: float | None = None
    text: str = ""
    sound_ms: float = 0.0
    status: str | None = None
    reason: str | None = None
    cut_ms: float | None = None
    calls: bool = False

    @property
    def ended(self) -> bool:
        """Whether nothing more of it comes."""
        return self.status is not None

    @property
    def silent(self) -> bool:
        """Whether it has ended without a word."""
        return self.ended and self.spoke_ms is None


@frozen
class Call:
    """A function that the assistant wants called, and with what."""

    name: str
    arguments: Mapping[str, Any]
    call_id: str
    response_id: str


@frozen(eq=False)
class Entry:
    """One line of the timeline: a text, or an answer that begins or ends."""

    at_ms: float
    who: Who
    text: str
    answer: Answer | None = None


@define
class Turn:
    """The latest words of the user, and how far they came."""

    said_ms: float = -math.inf
    hears: bool = False
    over: bool = False


class Account:
    """The account of one conversation.

    Attributes:
        answers: the answers, in order.
        transcripts: what the user's turns were understood as, in order.
        calls: functions that were to be called, in order.
        errors: code and text of each error, in order.
        events: every event as JSON, in order.
        entries: the timeline.
        turn: the latest words of the user.
        connected: whether there is a connection.
        ended: why the session is over, once it is.
    """

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.transcripts: list[str] = []
        self.calls: list[Call] = []
        self.errors: list[tuple[str, str]] = []
        self.events: list[Mapping[str, Any]] = []
        self.entries: list[Entry] = []
        self.turn = Turn()
        self.connected = True
        self.ended: str | None = None
        self.playback = PlaybackCursor(answers_max=math.inf)
        self._by_id: dict[str, Answer] = {}

    def note(self, at_ms: float, who: Who, text: str) -> None:
        """Add a line to the timeline."""
        self.entries.append(Entry(at_ms, who, text))

    def said(self, at_ms: float) -> None:
        """The user begins to speak."""
        self.turn = Turn(said_ms=at_ms)

    def end(self, at_ms: float, why: str) -> None:
        """The session is over."""
        if self.ended is None:
            self.ended = why
            self.note(at_ms, "server", f"the session is over: {why}")

    # ------------------------------------------------------------------ what has been heard

    def heard_ms(self, answer: Answer, now_ms: float) -> float:
        """How much of an answer the user has heard."""
        return self.playback.played_ms(answer.response_id, now_ms / 1000)

    def heard_at_ms(self, answer: Answer, ms: float) -> float:
        """When the user has heard so much of an answer; infinity while that is not known."""
        for span in self.playback.spans(answer.response_id):
            length_ms = (span.end_s - span.start_s) * 1000
            if ms <= length_ms + 1e-6:
                return span.start_s * 1000 + ms
            ms -= length_ms
        return math.inf

    def over_at_ms(self, answer: Answer) -> float:
        """When an answer that nothing more comes of has been heard to its end, or was cut; otherwise infinity."""
        if answer.cut_ms is not None:
            return answer.cut_ms
        if not answer.ended:
            return math.inf
        spans = self.playback.spans(answer.response_id)
        return spans[-1].end_s * 1000 if spans else answer.began_ms

    def audible(self, now_ms: float) -> Answer | None:
        """The answer that the user hears now, or that is being made."""
        for answer in self.answers:
            if not (answer.silent or self.over_at_ms(answer) <= now_ms):
                return answer
        return None

    # ------------------------------------------------------------------ events

    def observe(self, message: Mapping[str, Any], at_ms: float) -> None:
        """Account for one event of the session."""
        self.events.append(message)
        event = parse_event(message, received_at_s=at_ms / 1000)
        self.playback.observe(event)
        match event:
            case AudioDelta():
                self._speaks(event, at_ms, sound_ms=event.duration_ms)
            case TranscriptDelta():
                self._speaks(event, at_ms, text=event.text)
            case ErrorEvent():
                self.errors.append((event.code, event.message))
                self.note(at_ms, "server", f"error {event.code}: {event.message}")
            case _:
                self._observe_other(event, at_ms)

    def _observe_other(self, event: ServerEvent, at_ms: float) -> None:
        raw = event.raw
        match event.type:
            case "input_audio_buffer.speech_started":
                self.turn.hears = True
                self.note(at_ms, "server", "hears speech")
            case "input_audio_buffer.committed":
                self.turn.over = True
                self.note(at_ms, "server", "the user's turn is over")
            case "conversation.item.input_audio_transcription.completed":
                self.transcripts.append(plain(str(raw.get("transcript", ""))))
                self.note(at_ms, "server", f"understood {quoted(self.transcripts[-1])}")
            case "conversation.item.input_audio_transcription.failed":
                self.note(at_ms, "server", "could not understand the user")
            case "response.created":
                self._answer(event, at_ms)
            case "response.output_item.done":
                self._item(event, at_ms)
            case "output_audio_buffer.cleared":
                answer = self._by_id.get(event.response_id or "")
                if answer is not None:
                    self._cut(answer, at_ms)
            case "response.done":
                self._done(event, at_ms)
            case "response.listen":
                self.note(at_ms, "assistant", "decides to listen")
            case "connection.lost":
                self.connected = False
            case "connection.resumed" | "session.resumed":
                self.connected = True
            case "session.closed" | "session.expired":
                self.end(at_ms, str(raw.get("reason", "closed")))

    def _answer(self, event: ServerEvent, at_ms: float) -> Answer:
        response_id = event.response_id or ""
        if response_id not in self._by_id:
            answer = Answer(len(self.answers) + 1, response_id, at_ms)
            self._by_id[response_id] = answer
            self.answers.append(answer)
        return self._by_id[response_id]

    def _speaks(self, event: ServerEvent, at_ms: float, *, text: str = "", sound_ms: float = 0.0) -> None:
        answer = self._answer(event, at_ms)
        if answer.spoke_ms is None:
            answer.spoke_ms = at_ms
            self.entries.append(Entry(at_ms, "assistant", "speaks", answer))
        answer.text += text
        answer.sound_ms += sound_ms

    def _item(self, event: ServerEvent, at_ms: float) -> None:
        item = event.raw.get("item") or {}
        if item.get("type") != "function_call":
            return
        answer = self._answer(event, at_ms)
        answer.calls = True
        text = str(item.get("arguments", ""))
        try:
            arguments = orjson.loads(text)
        except orjson.JSONDecodeError:
            arguments = None
        if not isinstance(arguments, dict):
            arguments = {"<no object>": text}
        name = str(item.get("name"))
        self.calls.append(Call(name, arguments, str(item.get("call_id")), answer.response_id))
        self.note(at_ms, "assistant", f"calls {name}({given(arguments)})")

    def _cut(self, answer: Answer, at_ms: float) -> None:
        if answer.cut_ms is None:
            answer.cut_ms = at_ms
            if answer.spoke_ms is not None:
                self.entries.append(Entry(at_ms, "assistant", "is cut", answer))

    def _done(self, event: ServerEvent, at_ms: float) -> None:
        answer = self._answer(event, at_ms)
        response = event.raw.get("response") or {}
        answer.status = str(response.get("status"))
        answer.reason = (response.get("status_details") or {}).get("reason")
        if answer.status == "cancelled":
            self._cut(answer, at_ms)
        if answer.spoke_ms is None and answer.calls:
            return
        if answer.status != "cancelled" or answer.spoke_ms is None:
            self.entries.append(Entry(at_ms, "assistant", "ends", answer))
