"""What the server says, accounted for: the user's turns, the answers, and which of an answer's text has been
heard.

Pure: fed with events and asked. Times are seconds on the clock that stamped the events.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define, field, frozen

from duplex_trio.clients.events import (
    AudioDelta,
    ErrorEvent,
    InputTranscript,
    InputTranscriptDelta,
    OutputAudioCleared,
    ResponseCreated,
    ResponseDone,
    ServerEvent,
    SpeechStarted,
    SpeechStopped,
    TextDelta,
    TranscriptDelta,
)
from duplex_trio.clients.playback import PlaybackCursor
from duplex_trio.protocol import duplex as wire

_COMMITTED = wire.InputAudioBufferCommitted.type
_TRANSCRIPT_FAILED = wire.ConversationItemInputAudioTranscriptionFailed.type
_SPEAKING_MS_PER_CHAR = 65.0
"""Pace of ordinary English speech; used only for words whose sound has not arrived in full."""


@define
class UserTurn:
    """What the server took as one turn of the user. Positions in ms are on the clock of the appended
    sound."""

    item_id: str
    started_s: float | None = None
    stopped_s: float | None = None
    committed_s: float | None = None
    transcribed_s: float | None = None
    audio_start_ms: float | None = None
    audio_end_ms: float | None = None
    partial: str = ""
    transcript: str | None = None

    @property
    def text(self) -> str:
        """The best text so far."""
        return self.partial if self.transcript is None else self.transcript

    @property
    def begin_s(self) -> float:
        """When the server first spoke of it, for ordering."""
        times = (self.started_s, self.stopped_s, self.committed_s, self.transcribed_s)
        return min((time for time in times if time is not None), default=0.0)


@frozen
class SpokenPart:
    """Text that arrived at once, and where in the answer's sound it begins."""

    text: str
    audio_start_ms: float


@define
class Answer:
    """One response of the server."""

    response_id: str
    created_s: float
    first_text_s: float | None = None
    first_audio_s: float | None = None
    done_s: float | None = None
    status: str | None = None
    reason: str | None = None
    parts: list[SpokenPart] = field(factory=list)
    written: str = ""
    audio_ms: float = 0.0
    request_metrics: Mapping[str, Any] = field(factory=dict)
    stage_metrics: Mapping[str, Mapping[str, Any]] = field(factory=dict)
    kept_transcript: str | None = None
    _last_delta_ms: float | None = None

    @property
    def text(self) -> str:
        """Everything that arrived as text, spoken or written."""
        return "".join(part.text for part in self.parts) + self.written

    def heard_text(self, played_ms: float) -> str:
        """The words whose sound has begun by `played_ms` of the answer, at least as far as is known."""
        heard = ""
        for index, part in enumerate(self.parts):
            if played_ms <= part.audio_start_ms:
                break
            end_ms = self._end_ms(index)
            if played_ms >= end_ms:
                heard += part.text
                continue
            share = (played_ms - part.audio_start_ms) / (end_ms - part.audio_start_ms)
            heard += _whole_words(part.text, share)
            break
        return heard

    def _end_ms(self, index: int) -> float:
        if index + 1 < len(self.parts):
            return self.parts[index + 1].audio_start_ms
        if self.status == "completed":
            return self.audio_ms
        part = self.parts[index]
        return max(self.audio_ms, part.audio_start_ms + len(part.text) * _SPEAKING_MS_PER_CHAR)

    def take(self, event: ServerEvent) -> None:
        """Account for an event of this response."""
        match event:
            case AudioDelta():
                self.first_audio_s = self.first_audio_s or event.received_at_s
                self._last_delta_ms = self.audio_ms
                self.audio_ms += event.duration_ms
                return
            case TextDelta():
                self.first_text_s = self.first_text_s or event.received_at_s
                self.written += event.text
            case TranscriptDelta():
                self.first_text_s = self.first_text_s or event.received_at_s
                # A text follows the sound it begins with, or comes before any of it.
                start_ms = self.audio_ms if self._last_delta_ms is None else self._last_delta_ms
                self.parts.append(SpokenPart(event.text, start_ms))
            case ResponseDone():
                self.done_s, self.status, self.reason = event.received_at_s, event.status, event.reason
                self.request_metrics = _mapping(event.duplex.get("request_metrics"))
                self.stage_metrics = _mapping(event.duplex.get("stage_metrics"))
                self.kept_transcript = _transcript_of(event.raw)
        self._last_delta_ms = None


@define
class Timeline:
    """The turns, answers and errors of one session.

    Attributes:
        cursor: the play-out of its answers, which takes its events from the client that acknowledges it.
    """

    cursor: PlaybackCursor = field(factory=PlaybackCursor)
    turns: dict[str, UserTurn] = field(factory=dict)
    answers: dict[str, Answer] = field(factory=dict)
    errors: list[ErrorEvent] = field(factory=list)

    def observe(self, event: ServerEvent) -> None:
        """Take one event, in the order of arrival."""
        match event:
            case ErrorEvent():
                self.errors.append(event)
            case SpeechStarted() | SpeechStopped() | InputTranscript() | InputTranscriptDelta():
                self._turn(event)
            case _ if event.type in (_COMMITTED, _TRANSCRIPT_FAILED):
                self._turn(event)
            case _ if event.response_id is not None and event.type.startswith("response."):
                self._answer(event, event.response_id)

    def first_heard_s(self, answer: Answer) -> float | None:
        """When the first sound of an answer was (or will be) played."""
        spans = self.cursor.spans(answer.response_id)
        return spans[0].start_s if spans else None

    def over_s(self, answer: Answer, now_s: float) -> float | None:
        """Since when an answer is over: complete and heard to its end, or cut."""
        cut_s = self.cursor.cut_s(answer.response_id)
        if cut_s is not None:
            return cut_s
        if answer.done_s is None:
            return None
        spans = self.cursor.spans(answer.response_id)
        end_s = max(answer.done_s, spans[-1].end_s) if spans else answer.done_s
        return end_s if end_s <= now_s else None

    def _turn(self, event: ServerEvent) -> None:
        if event.item_id is None:
            return
        turn = self.turns.setdefault(event.item_id, UserTurn(event.item_id))
        match event:
            case SpeechStarted():
                turn.started_s, turn.audio_start_ms = event.received_at_s, event.audio_start_ms
            case SpeechStopped():
                turn.stopped_s, turn.audio_end_ms = event.received_at_s, event.audio_end_ms
            case InputTranscriptDelta():
                turn.partial += event.text
            case InputTranscript():
                turn.transcribed_s, turn.transcript = event.received_at_s, event.text
            case _ if event.type == _TRANSCRIPT_FAILED:
                turn.transcript = turn.partial
            case _:
                turn.committed_s = event.received_at_s

    def _answer(self, event: ServerEvent, response_id: str) -> None:
        answer = self.answers.get(response_id)
        if answer is None:
            if not isinstance(event, ResponseCreated):
                return
            answer = self.answers[response_id] = Answer(response_id, event.received_at_s)
        if not isinstance(event, OutputAudioCleared):
            answer.take(event)


def _whole_words(text: str, share: float) -> str:
    """The first `share` of a text, up to the word that is being spoken and without it."""
    count = int(len(text) * share)
    if count >= len(text):
        return text
    while count > 0 and not text[count].isspace():
        count -= 1
    return text[:count]


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _transcript_of(raw: Mapping[str, Any]) -> str | None:
    """What the server keeps of an answer in its conversation, out of `response.done`."""
    output = _mapping(raw.get("response")).get("output")
    if not isinstance(output, list):
        return None
    parts = [
        part.get("transcript") or part.get("text") or ""
        for item in output
        for part in _mapping(item).get("content") or []
        if isinstance(part, Mapping)
    ]
    return "".join(parts) if parts else None
