"""One response from its creation to its end, and the events that tell a client about it.

Theory of operation. A response opens with a block of events, grows by sound and text, and ends exactly once
with a closing block whose last event but one is `response.done`. Text and sound are *made* when the model
delivers them and *sent* when they leave for the client; what was made and not sent can be taken back. A
cancelled response therefore shows the text whose sound was sent, and tells the model only the part of it that
was heard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from attrs import define, field

from duplex_trio.protocol.duplex import (
    AudioContentPart,
    ContentPart,
    ConversationItemAdded,
    ConversationItemCreated,
    ConversationItemDone,
    DuplexEvent,
    DuplexExtension,
    ItemPart,
    ItemStatus,
    MessageItem,
    Modality,
    OutputAudioPart,
    OutputTextPart,
    Playback,
    RateLimitsUpdated,
    RealtimeResponse,
    RequestMetrics,
    ResponseAudio,
    ResponseContentPartAdded,
    ResponseContentPartDone,
    ResponseCreated,
    ResponseDone,
    ResponseOutputAudioDelta,
    ResponseOutputAudioDone,
    ResponseOutputAudioTranscriptDelta,
    ResponseOutputAudioTranscriptDone,
    ResponseOutputItemAdded,
    ResponseOutputItemDone,
    ResponseOutputTextDelta,
    ResponseOutputTextDone,
    ResponseSpeak,
    SpeakRecord,
    StatusDetails,
    TextContentPart,
    Usage,
)
from duplex_trio.protocol.duplex.audio import AudioOutputEncoder
from duplex_trio.session.state.egress_queue import MediaEntry
from duplex_trio.session.state.heard_text import TextMark, heard_prefix
from duplex_trio.session.state.playback import PlaybackCursor
from duplex_trio.stages.units import Pcm

FinalStatus = Literal["completed", "cancelled", "failed", "incomplete"]
DELTA_MS = 100
"""Length of one audio delta: short enough that a barge-in leaves little in flight."""

NewId = Callable[[str], str]
"""Makes an id with the given prefix, such as `event_`."""


@define(eq=False, kw_only=True)
class Response:
    """One response.

    `sent_text` is the text whose sound (or which itself) has been handed to the client; `listened` says that
    the model chose to listen instead of going on.
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
    text: str = ""
    sent_text: str = ""
    usage: Usage | None = None
    status: FinalStatus | None = None
    finish_reason: str = "stop"
    spoke: bool = False
    listened: bool = False
    cleared: bool = False
    play_end_s: float = float("-inf")
    stage_metrics: Mapping[str, Mapping[str, Any]] = field(factory=dict)
    request_metrics: RequestMetrics | None = None
    previous_item_id: str | None = None
    _held_ms: float = field(default=0.0, init=False)

    @property
    def speaks(self) -> bool:
        """Whether the response has sound."""
        return "audio" in self.modalities

    @property
    def in_conversation(self) -> bool:
        """Whether its item belongs to the conversation."""
        return self.conversation_id is not None

    def heard_text(self, heard_ms: float) -> str:
        """The text heard by `heard_ms` of the response's sound; all of it for a response without sound."""
        if not self.speaks:
            return self.sent_text.rstrip()
        return heard_prefix(self.text, self.marks, heard_ms, self.cursor.total_ms)

    # ------------------------------------------------------------------ opening

    def opening(self) -> list[DuplexEvent]:
        """The block of events that opens the response."""
        item = self._item("in_progress", ())
        events: list[DuplexEvent] = [
            ResponseCreated(
                event_id=self._event_id(),
                response=self._response("in_progress", None, ()),
                duplex=DuplexExtension(epoch=self.epoch, turn_id=self.turn_id),
            ),
            ResponseOutputItemAdded(event_id=self._event_id(), response_id=self.response_id, item=item),
        ]
        if self.in_conversation:
            events += [
                ConversationItemAdded(
                    event_id=self._event_id(), previous_item_id=self.previous_item_id, item=item
                ),
                ConversationItemCreated(
                    event_id=self._event_id(), previous_item_id=self.previous_item_id, item=item
                ),
            ]
        part: ContentPart = AudioContentPart() if self.speaks else TextContentPart()
        events.append(ResponseContentPartAdded(event_id=self._event_id(), part=part, **self._scope()))
        return events

    # ------------------------------------------------------------------ growing

    def speech(self, pcm: Pcm, sample_rate_hz: int, text: str) -> Iterator[MediaEntry]:
        """Add sound and the text it speaks; yields what is to be sent, in order.

        Args:
            pcm: mono float32 at `sample_rate_hz`, which is the rate the encoder was made for.
            sample_rate_hz: rate of `pcm`.
            text: what `pcm` says, with its leading space if it continues a sentence.
        """
        begin_ms = self.cursor.generated_ms
        self.text += text
        # The mark stands before any of the sound is sent: a response cut inside this stretch was heard up to
        # a place on the way to it.
        self.cursor.generate(len(pcm) * 1000 / sample_rate_hz)
        self.marks.append(TextMark(len(self.text), self.cursor.generated_ms))
        if not self.spoke:
            self.spoke = True
            yield self._entry(
                ResponseSpeak(
                    event_id=self._event_id(),
                    metadata=SpeakRecord(session_id=self.session_id, epoch=self.epoch),
                    **self._scope(),
                )
            )
        pending_text = text
        step = max(1, sample_rate_hz * DELTA_MS // 1000)
        for begin in range(0, len(pcm), step):
            piece = pcm[begin : begin + step]
            data = self.encoder.feed(piece)
            self._held_ms += len(piece) * 1000 / sample_rate_hz
            if not data:
                continue
            so_far_ms = begin_ms + (begin + len(piece)) * 1000 / sample_rate_hz
            yield self._audio_entry(data, self._held_ms, so_far_ms)
            self._held_ms = 0.0
            if pending_text:
                yield self._transcript_entry(pending_text)
                pending_text = ""
        if pending_text:
            yield self._transcript_entry(pending_text)

    def sound_tail(self) -> Iterator[MediaEntry]:
        """What the encoder still holds (at most some 20 ms), once the sound is complete."""
        data = self.encoder.flush()
        if data:
            yield self._audio_entry(data, self._held_ms, self.cursor.generated_ms)
            self._held_ms = 0.0

    def written(self, text: str) -> Iterator[MediaEntry]:
        """Add text to a response without sound; yields what is to be sent."""
        self.text += text
        if text:
            event = ResponseOutputTextDelta(event_id=self._event_id(), delta=text, **self._scope())
            yield self._entry(event, size_bytes=len(text))

    def end_marker(self) -> MediaEntry:
        """The marker after the last media of the response."""
        return MediaEntry(epoch=self.epoch, response_id=self.response_id)

    def note_sent(self, entry: MediaEntry) -> None:
        """An entry of this response is on its way to the client."""
        self.cursor.send(entry.duration_ms)
        match entry.event:
            case ResponseOutputAudioTranscriptDelta(delta=text) | ResponseOutputTextDelta(delta=text):
                self.sent_text += text

    # ------------------------------------------------------------------ closing

    def closing(
        self,
        status: FinalStatus,
        *,
        details: StatusDetails | None,
        shown_text: str,
        cancel_reason: str | None = None,
    ) -> list[DuplexEvent]:
        """The block of events that ends the response, the only time it is asked for.

        What was never begun is not said to be done: a response that is cut before it said anything has no
        `done` of sound, transcript or text.

        Args:
            status: how it ended.
            details: the reason, in OpenAI's terms.
            shown_text: the transcript kept in the item; of a cut response, the heard part.
            cancel_reason: the precise reason of a cancellation.
        """
        assert self.status is None, f"{self.response_id} has ended already"
        self.status = status
        full = self.sent_text
        part: ContentPart = AudioContentPart(transcript=full) if self.speaks else TextContentPart(text=full)
        events: list[DuplexEvent] = []
        if self.speaks and (full or self.cursor.sent_ms > 0):
            events.append(ResponseOutputAudioDone(event_id=self._event_id(), **self._scope()))
        if self.speaks and full:
            events.append(
                ResponseOutputAudioTranscriptDone(event_id=self._event_id(), transcript=full, **self._scope())
            )
        if full and not self.speaks:
            events.append(ResponseOutputTextDone(event_id=self._event_id(), text=full, **self._scope()))
        item = self.final_item(shown_text)
        events += [
            ResponseContentPartDone(event_id=self._event_id(), part=part, **self._scope()),
            ResponseOutputItemDone(event_id=self._event_id(), response_id=self.response_id, item=item),
        ]
        return [*events, *self._done(status, details, item, cancel_reason)]

    def final_item(self, shown_text: str) -> MessageItem:
        """The item as it stays in the conversation."""
        content: tuple[ItemPart, ...] = (
            (OutputAudioPart(transcript=shown_text),) if self.speaks else (OutputTextPart(text=shown_text),)
        )
        return self._item("completed" if self.status == "completed" else "incomplete", content)

    def playback(self) -> Playback:
        """The playback cursor for the wire."""
        figures = self.cursor.figures()
        return Playback(
            generated_ms=round(figures.generated_ms),
            sent_ms=round(figures.sent_ms),
            played_ms=round(figures.played_ms),
            committed_ms=round(figures.committed_ms),
        )

    def _done(
        self, status: FinalStatus, details: StatusDetails | None, item: MessageItem, cancel_reason: str | None
    ) -> Sequence[DuplexEvent]:
        events: list[DuplexEvent] = []
        if self.in_conversation:
            events.append(
                ConversationItemDone(
                    event_id=self._event_id(), previous_item_id=self.previous_item_id, item=item
                )
            )
        extension = DuplexExtension(
            epoch=self.epoch,
            turn_id=self.turn_id,
            playback=self.playback(),
            finish_reason=self.finish_reason if status == "completed" else None,
            cancel_reason=cancel_reason,
            cancelled_epoch=self.epoch if status == "cancelled" else None,
            stage_metrics=self.stage_metrics or None,
            request_metrics=self.request_metrics,
        )
        events.append(
            ResponseDone(
                event_id=self._event_id(), response=self._response(status, details, (item,)), duplex=extension
            )
        )
        events.append(RateLimitsUpdated(event_id=self._event_id()))
        return events

    def _audio_entry(self, data: bytes, duration_ms: float, so_far_ms: float) -> MediaEntry:
        event = ResponseOutputAudioDelta(
            event_id=self._event_id(),
            delta=data,
            duplex=DuplexExtension(
                epoch=self.epoch,
                format=self.encoder.format.encoding,
                sample_rate_hz=self.encoder.format.sample_rate_hz,
                audio_duration_ms=round(so_far_ms),
            ),
            **self._scope(),
        )
        return self._entry(event, duration_ms=duration_ms, size_bytes=len(data))

    def _transcript_entry(self, text: str) -> MediaEntry:
        event = ResponseOutputAudioTranscriptDelta(event_id=self._event_id(), delta=text, **self._scope())
        return self._entry(event, size_bytes=len(text))

    def _entry(self, event: DuplexEvent, *, duration_ms: float = 0.0, size_bytes: int = 0) -> MediaEntry:
        return MediaEntry(
            epoch=self.epoch,
            response_id=self.response_id,
            event=event,
            duration_ms=duration_ms,
            size_bytes=size_bytes,
        )

    def _item(self, status: ItemStatus, content: tuple[ItemPart, ...]) -> MessageItem:
        return MessageItem(id=self.item_id, role="assistant", status=status, content=content)

    def _response(
        self,
        status: Literal["in_progress", "completed", "cancelled", "failed", "incomplete"],
        details: StatusDetails | None,
        output: tuple[MessageItem, ...],
    ) -> RealtimeResponse:
        return RealtimeResponse(
            id=self.response_id,
            status=status,
            status_details=details,
            output=output,
            conversation_id=self.conversation_id,
            modalities=self.modalities,
            max_output_tokens=self.max_output_tokens,
            metadata=self.metadata,
            usage=self.usage,
            audio=self.audio,
        )

    def _scope(self) -> dict[str, Any]:
        return {
            "response_id": self.response_id,
            "item_id": self.item_id,
            "output_index": 0,
            "content_index": 0,
        }

    def _event_id(self) -> str:
        return self.new_id("event_")
