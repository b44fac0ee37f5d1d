"""Tier 1 events about the input buffer, its transcription, and the output buffer."""

from __future__ import annotations

from typing import ClassVar

from attrs import field, frozen

from duplex_trio.protocol.realtime.event_base import OMIT_NULL, OPENAI_REQUIRED, EventKind, RealtimeEvent


@frozen(kw_only=True)
class InputAudioBufferCommitted(RealtimeEvent):
    """The buffered input became the user item `item_id`.

    Attributes:
        previous_item_id: the item before it; None at the front.
        item_id: of the user's item.
    """

    type: ClassVar[str] = "input_audio_buffer.committed"
    kind: ClassVar[EventKind] = EventKind.INPUT

    previous_item_id: str | None = None
    item_id: str


@frozen(kw_only=True)
class InputAudioBufferCleared(RealtimeEvent):
    """Buffered input was dropped."""

    type: ClassVar[str] = "input_audio_buffer.cleared"
    kind: ClassVar[EventKind] = EventKind.INPUT


@frozen(kw_only=True)
class InputAudioBufferSpeechStarted(RealtimeEvent):
    """The user began to speak at `audio_start_ms` of the appended audio; `item_id` is the item to come.

    Attributes:
        audio_start_ms: where in all appended sound, in milliseconds.
        item_id: of the item that it will become.
    """

    type: ClassVar[str] = "input_audio_buffer.speech_started"
    kind: ClassVar[EventKind] = EventKind.INPUT

    audio_start_ms: int = 0
    item_id: str


@frozen(kw_only=True)
class InputAudioBufferSpeechStopped(RealtimeEvent):
    """The user stopped speaking at `audio_end_ms` of the appended audio.

    Attributes:
        audio_end_ms: where in all appended sound, in milliseconds.
        item_id: of the item that it will become.
    """

    type: ClassVar[str] = "input_audio_buffer.speech_stopped"
    kind: ClassVar[EventKind] = EventKind.INPUT

    audio_end_ms: int = 0
    item_id: str


@frozen(kw_only=True)
class InputAudioBufferTimeoutTriggered(RealtimeEvent):
    """Nobody spoke for `idle_timeout_ms` after the last answer; the silence was committed as `item_id`.

    Attributes:
        audio_start_ms: where the silence began, in milliseconds of all appended sound.
        audio_end_ms: where it ended.
        item_id: of the item made of it.
    """

    type: ClassVar[str] = "input_audio_buffer.timeout_triggered"
    kind: ClassVar[EventKind] = EventKind.INPUT

    audio_start_ms: int
    audio_end_ms: int
    item_id: str


@frozen(kw_only=True)
class DurationUsage:
    """Transcription billed by the length of the audio, in seconds.

    Attributes:
        seconds: of sound.
    """

    type: ClassVar[str] = "duration"

    seconds: float


@frozen(kw_only=True)
class TokenUsage:
    """Transcription billed by tokens.

    Attributes:
        input_tokens: read.
        output_tokens: written.
        total_tokens: both.
    """

    type: ClassVar[str] = "tokens"

    input_tokens: int
    output_tokens: int
    total_tokens: int


TranscriptionUsage = DurationUsage | TokenUsage


@frozen(kw_only=True)
class ConversationItemInputAudioTranscriptionDelta(RealtimeEvent):
    """A further piece of the transcript of a user item.

    Attributes:
        item_id: of the user's item.
        content_index: the part with the sound.
        delta: further text.
    """

    type: ClassVar[str] = "conversation.item.input_audio_transcription.delta"
    kind: ClassVar[EventKind] = EventKind.INPUT

    item_id: str
    content_index: int = 0
    delta: str


@frozen(kw_only=True)
class ConversationItemInputAudioTranscriptionCompleted(RealtimeEvent):
    """The whole transcript of a user item.

    Attributes:
        item_id: of the user's item.
        content_index: the part with the sound.
        transcript: all of it.
        usage: what it is billed by.
    """

    type: ClassVar[str] = "conversation.item.input_audio_transcription.completed"
    kind: ClassVar[EventKind] = EventKind.INPUT

    item_id: str
    content_index: int = 0
    transcript: str
    usage: TranscriptionUsage


@frozen(kw_only=True)
class TranscriptionError:
    """Why transcription failed.

    Attributes:
        type: error class.
        code: what went wrong.
        message: for people.
        param: the field at fault.
    """

    type: str
    code: str
    message: str
    param: str | None = field(default=None, metadata=OMIT_NULL)


@frozen(kw_only=True)
class ConversationItemInputAudioTranscriptionFailed(RealtimeEvent):
    """No transcript will come for a user item.

    Attributes:
        item_id: of the user's item.
        content_index: the part with the sound.
        error: why.
    """

    type: ClassVar[str] = "conversation.item.input_audio_transcription.failed"
    kind: ClassVar[EventKind] = EventKind.INPUT

    item_id: str
    content_index: int = 0
    error: TranscriptionError


@frozen(kw_only=True)
class OutputAudioBufferStarted(RealtimeEvent):
    """The first sound of a response left the server.

    Attributes:
        response_id: of the response.
    """

    type: ClassVar[str] = "output_audio_buffer.started"
    kind: ClassVar[EventKind] = EventKind.RESPONSE

    response_id: str


@frozen(kw_only=True)
class OutputAudioBufferStopped(RealtimeEvent):
    """All sound of a response was played.

    Attributes:
        response_id: of the response.
    """

    type: ClassVar[str] = "output_audio_buffer.stopped"
    kind: ClassVar[EventKind] = EventKind.RESPONSE

    response_id: str


@frozen(kw_only=True)
class OutputAudioBufferCleared(RealtimeEvent):
    """Stop playing `response_id`; None when there never was a response.

    Attributes:
        response_id: of the response.
    """

    type: ClassVar[str] = "output_audio_buffer.cleared"
    kind: ClassVar[EventKind] = EventKind.RESPONSE

    response_id: str | None = field(metadata=OPENAI_REQUIRED)
