"""One response from its creation to its end: what was made of it, what was sent, and what of it was heard.

Theory of operation. A response opens, grows by sound and text, and ends exactly once. Text and sound are
*made* when the model delivers them and *sent* when they leave for the client; what was made and not sent can
be taken back. A cancelled response therefore shows the text whose sound was sent, and tells the model only
the part of it that was heard. The blocks of events at both ends are made in `response_events`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import attrs
from attrs import define, field

from duplex_trio.pipelines.results import FunctionCallArguments, FunctionCallBegin, FunctionCallEnd
from duplex_trio.pipelines.stage_metrics import StageMetrics
from duplex_trio.protocol.duplex import (
    DuplexEvent,
    DuplexExtension,
    FunctionCallItem,
    ItemPart,
    ItemStatus,
    MessageItem,
    Modality,
    OutputAudioPart,
    OutputTextPart,
    Playback,
    RequestMetrics,
    ResponseAudio,
    ResponseOutputAudioDelta,
    ResponseOutputAudioTranscriptDelta,
    ResponseOutputTextDelta,
    ResponseSpeak,
    SpeakRecord,
    Usage,
)
from duplex_trio.protocol.duplex.audio import AudioOutputEncoder
from duplex_trio.session.state.egress_queue import MediaEntry
from duplex_trio.session.state.heard_text import TextMark, heard_prefix
from duplex_trio.session.state.playback import PlaybackCursor
from duplex_trio.session.state.response_figures import ResponseFigures
from duplex_trio.stages.units import Pcm
from duplex_trio.tracing import StageSpells

FinalStatus = Literal["completed", "cancelled", "failed", "incomplete"]
DELTA_MS = 100
"""Length of one audio delta: short enough that a barge-in leaves little in flight."""

Figures = Mapping[str, Mapping[str, Any]]
"""Figures of stages by their id."""
MARKS_MAX = 1024
"""Marks of a response that goes on for hours, as that of a model in lockstep does; beyond them the older half
is thinned out."""

NewId = Callable[[str], str]
"""Makes an id with the given prefix, such as `event_`."""


CallStep = FunctionCallBegin | FunctionCallArguments | FunctionCallEnd
"""How a call comes about."""


@define(eq=False)
class ResponseCall:
    """A call of a response as the client knows it; `stored` says whether it is in the conversation."""

    item: FunctionCallItem
    output_index: int
    stored: bool
    previous_item_id: str | None = None


@define(eq=False, kw_only=True)
class Response:
    """One response.

    `sent_text` is the text whose sound (or which itself) has been handed to the client; `listened` says that
    the model chose to listen instead of going on; `cleared` that the client was told not to play the rest,
    `stopped` that it was told that it has played all; `extended` that its client is shown our own fields.
    `calls` are the functions that the model wants called. `message_index` is the place of its message among
    its items; None while it has none, because perhaps it is nothing but a call.
    """

    response_id: str
    item_id: str
    session_id: str
    epoch: int
    turn_id: int
    created_s: float
    encoder: AudioOutputEncoder
    modalities: tuple[Modality, ...]
    conversation_id: str | None
    new_id: NewId
    audio: ResponseAudio | None = None
    max_output_tokens: int | Literal["inf"] | None = None
    metadata: Mapping[str, str] | None = None
    cursor: PlaybackCursor = field(factory=PlaybackCursor)
    marks: list[TextMark] = field(factory=list)
    calls: list[ResponseCall] = field(factory=list)
    message_index: int | None = 0
    text: str = ""
    sent_text: str = ""
    usage: Usage | None = None
    status: FinalStatus | None = None
    finish_reason: str = "stop"
    spoke: bool = False
    listened: bool = False
    cleared: bool = False
    stopped: bool = False
    item_deleted: bool = False
    play_end_s: float = float("-inf")
    stage_metrics: StageMetrics = field(factory=StageMetrics)
    figures: ResponseFigures = field(factory=ResponseFigures)
    extended: bool = True
    request_metrics: RequestMetrics | None = None
    spells: StageSpells | None = None
    previous_item_id: str | None = None
    _held_ms: float = field(default=0.0, init=False)

    @property
    def speaks(self) -> bool:
        """Whether the response has sound."""
        return "audio" in self.modalities

    @property
    def in_conversation(self) -> bool:
        """Whether its item belongs to the conversation."""
        return self.conversation_id is not None and not self.item_deleted

    @property
    def open_call(self) -> ResponseCall | None:
        """The call whose arguments are not complete yet."""
        call = self.calls[-1] if self.calls else None
        return call if call is not None and call.item.status == "in_progress" else None

    def next_output_index(self) -> int:
        """The place of the next item."""
        return len(self.calls) + (self.message_index is not None)

    def heard_text(self, heard_ms: float) -> str:
        """The text heard by `heard_ms` of the response's sound.

        All of it if it is to have no sound, or had none.
        """
        cursor = self.cursor
        if not self.speaks or (cursor.total_ms <= 0 and self.status == "completed"):
            return self.sent_text.rstrip()
        if cursor.text_requires_complete_audio:
            complete = cursor.audio_complete and 0 < cursor.total_ms <= heard_ms
            return self.text.rstrip() if complete else ""
        return heard_prefix(self.text, self.marks, heard_ms, cursor.total_ms)

    # ------------------------------------------------------------------ growing

    def speech(
        self, pcm: Pcm, sample_rate_hz: int, text: str, *, aligned: bool = True
    ) -> Iterator[MediaEntry]:
        """Add sound and the text it speaks; yields what is to be sent, in order.

        Args:
            pcm: mono float32 at `sample_rate_hz`, which is the rate the encoder was made for.
            sample_rate_hz: rate of `pcm`.
            text: what `pcm` says, with its leading space if it continues a sentence.
            aligned: whether `text` is spoken by the end of `pcm`; if it ever is not, the text of the response
                can only be heard as a whole.
        """
        self.cursor.text_requires_complete_audio |= not aligned
        begin_ms = self.cursor.generated_ms
        self.text += text
        # The mark stands before any of the sound is sent: a response cut inside this stretch was heard up to
        # a place on the way to it.
        sample_ms = 1000 / (sample_rate_hz * self.encoder.speed)  # as the client plays it
        self.cursor.generate(len(pcm) * sample_ms)
        self._mark(TextMark(len(self.text), self.cursor.generated_ms))
        if not self.spoke:
            self.spoke = True
            yield self._entry(
                ResponseSpeak(
                    event_id=self.event_id(),
                    metadata=SpeakRecord(session_id=self.session_id, epoch=self.epoch),
                    **self.scope(),
                )
            )
        pending_text = text
        stage_metrics = self.stage_metrics.summary() if self.extended else None
        step = max(1, int(DELTA_MS / sample_ms))
        for begin in range(0, len(pcm), step):
            piece = pcm[begin : begin + step]
            data = self.encoder.feed(piece)
            self._held_ms += len(piece) * sample_ms
            if not data:
                continue
            so_far_ms = begin_ms + (begin + len(piece)) * sample_ms
            yield self._audio_entry(data, self._held_ms, so_far_ms, stage_metrics)
            self._held_ms, stage_metrics = 0.0, None
            if pending_text:
                yield self._transcript_entry(pending_text)
                pending_text = ""
        if pending_text:
            yield self._transcript_entry(pending_text)

    def _mark(self, mark: TextMark) -> None:
        # Of sound that goes on without words the first and the last place say it all, however long it is.
        last_two = [known.text_chars for known in self.marks[-2:]]
        if last_two == [mark.text_chars] * 2:
            self.marks[-1] = mark
        else:
            self.marks.append(mark)
        if len(self.marks) > MARKS_MAX:
            # What was said long ago is most likely heard; it can do with half of its marks.
            self.marks[: MARKS_MAX // 2] = self.marks[1 : MARKS_MAX // 2 : 2]

    def sound_tail(self) -> Iterator[MediaEntry]:
        """What the encoder still holds (at most some 60 ms), now that the sound is complete."""
        self.cursor.audio_complete = True
        data = self.encoder.flush()
        if data:
            yield self._audio_entry(data, self._held_ms, self.cursor.generated_ms)
            self._held_ms = 0.0

    def written(self, text: str) -> Iterator[MediaEntry]:
        """Add text to a response without sound; yields what is to be sent."""
        self.text += text
        if text:
            event = ResponseOutputTextDelta(event_id=self.event_id(), delta=text, **self.scope())
            yield self._entry(event, size_bytes=len(text))

    def call_entry(self, step: CallStep) -> MediaEntry:
        """A step of a call, to be taken once what was said before it has been sent."""
        size = len(step.delta) if isinstance(step, FunctionCallArguments) else 0
        return MediaEntry(epoch=self.epoch, response_id=self.response_id, step=step, size_bytes=size)

    def end_marker(self) -> MediaEntry:
        """The marker after the last media of the response."""
        return MediaEntry(epoch=self.epoch, response_id=self.response_id)

    def note_sent(self, entry: MediaEntry) -> None:
        """An entry of this response is on its way to the client.

        The first sound tells how long it was awaited.
        """
        if isinstance(entry.event, ResponseOutputAudioDelta) and self.cursor.sent_ms == 0:
            entry.event = self._with_request_metrics(entry.event)
        self.cursor.send(entry.duration_ms)
        match entry.event:
            case ResponseOutputAudioTranscriptDelta(delta=text) | ResponseOutputTextDelta(delta=text):
                self.sent_text += text

    # ------------------------------------------------------------------ ending

    def end(self, status: FinalStatus) -> None:
        """Take the final status, the only time there is one."""
        assert self.status is None, f"{self.response_id} has ended already"
        self.status = status

    def item(self, status: ItemStatus, content: tuple[ItemPart, ...]) -> MessageItem:
        """The response's item in one of its forms."""
        return MessageItem(id=self.item_id, role="assistant", status=status, content=content)

    def shown_item(self, shown_text: str) -> MessageItem:
        """The item as it stands in the conversation: what is shown of it, and how far the response has come."""
        content: tuple[ItemPart, ...] = (
            (OutputAudioPart(transcript=shown_text),) if self.speaks else (OutputTextPart(text=shown_text),)
        )
        if self.status is None:
            return self.item("in_progress", content)
        return self.item("completed" if self.status == "completed" else "incomplete", content)

    def playback(self) -> Playback:
        """The playback cursor for the wire."""
        figures = self.cursor.figures()
        return Playback(
            generated_ms=round(figures.generated_ms),
            sent_ms=round(figures.sent_ms),
            played_ms=round(figures.played_ms),
            committed_ms=round(figures.committed_ms),
        )

    def _audio_entry(
        self, data: bytes, duration_ms: float, so_far_ms: float, stage_metrics: Figures | None = None
    ) -> MediaEntry:
        event = ResponseOutputAudioDelta(
            event_id=self.event_id(),
            delta=data,
            duplex=DuplexExtension(
                epoch=self.epoch,
                format=self.encoder.format.encoding,
                sample_rate_hz=self.encoder.format.sample_rate_hz,
                audio_duration_ms=round(so_far_ms),
                stage_metrics=stage_metrics or None,
            ),
            **self.scope(),
        )
        return self._entry(event, duration_ms=duration_ms, size_bytes=len(data))

    def _with_request_metrics(self, event: ResponseOutputAudioDelta) -> ResponseOutputAudioDelta:
        if event.duplex is None or self.request_metrics is None:
            return event
        extension = attrs.evolve(event.duplex, request_metrics=self.request_metrics)
        return attrs.evolve(event, duplex=extension)

    def _transcript_entry(self, text: str) -> MediaEntry:
        event = ResponseOutputAudioTranscriptDelta(event_id=self.event_id(), delta=text, **self.scope())
        return self._entry(event, size_bytes=len(text))

    def _entry(self, event: DuplexEvent, *, duration_ms: float = 0.0, size_bytes: int = 0) -> MediaEntry:
        return MediaEntry(
            epoch=self.epoch,
            response_id=self.response_id,
            event=event,
            duration_ms=duration_ms,
            size_bytes=size_bytes,
        )

    def scope(self) -> dict[str, Any]:
        """The fields that tie an event to the one content part of the response's message."""
        return {
            "response_id": self.response_id,
            "item_id": self.item_id,
            "output_index": self.message_index or 0,
            "content_index": 0,
        }

    def event_id(self) -> str:
        """A fresh id for an event."""
        return self.new_id("event_")
