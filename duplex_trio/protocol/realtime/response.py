"""The response object inside `response.created` and `response.done`, with its usage and status details.

Field for field what OpenAI's GA schema accepts; the beta names are the dialect's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from attrs import field, frozen

from duplex_trio.protocol.realtime.event_base import OMIT_NULL
from duplex_trio.protocol.realtime.items import Item

ResponseStatus = Literal["in_progress", "completed", "cancelled", "failed", "incomplete"]
StatusReason = Literal["turn_detected", "client_cancelled", "max_output_tokens", "content_filter"]
Modality = Literal["text", "audio"]


@frozen(kw_only=True)
class StatusError:
    """Why a response failed.

    Attributes:
        type: error class.
        code: what went wrong.
        message: for people.
    """

    type: str
    code: str
    message: str | None = field(default=None, metadata=OMIT_NULL)


@frozen(kw_only=True)
class StatusDetails:
    """How a response ended. `reason` is one of OpenAI's; the precise one travels in the duplex extension.

    Attributes:
        type: how it ended.
        reason: why it was cancelled or is incomplete.
        error: why it failed.
    """

    type: Literal["completed", "cancelled", "failed", "incomplete"]
    reason: StatusReason | None = field(default=None, metadata=OMIT_NULL)
    error: StatusError | None = field(default=None, metadata=OMIT_NULL)


@frozen(kw_only=True)
class CachedTokensDetails:
    """Cached input tokens by modality.

    Attributes:
        text_tokens: of text.
        audio_tokens: of sound.
        image_tokens: of pictures.
    """

    text_tokens: int = 0
    audio_tokens: int = 0
    image_tokens: int = 0


@frozen(kw_only=True)
class InputTokenDetails:
    """Input tokens by modality, and how many of them came from a cache.

    Attributes:
        text_tokens: of text.
        audio_tokens: of sound.
        image_tokens: of pictures.
        cached_tokens: that came from a cache.
        cached_tokens_details: these by modality.
    """

    text_tokens: int = 0
    audio_tokens: int = 0
    image_tokens: int = 0
    cached_tokens: int = 0
    cached_tokens_details: CachedTokensDetails = CachedTokensDetails()


@frozen(kw_only=True)
class OutputTokenDetails:
    """Output tokens by modality.

    Attributes:
        text_tokens: of text.
        audio_tokens: of sound.
    """

    text_tokens: int = 0
    audio_tokens: int = 0


@frozen(kw_only=True)
class Usage:
    """Tokens a response consumed and made; `total_tokens` is input plus output.

    Attributes:
        total_tokens: read and written.
        input_tokens: read.
        output_tokens: written.
        input_token_details: those read, by modality.
        output_token_details: those written, by modality.
    """

    total_tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    input_token_details: InputTokenDetails = InputTokenDetails()
    output_token_details: OutputTokenDetails = OutputTokenDetails()


@frozen(kw_only=True)
class ResponseAudioOutput:
    """The voice and the wire format (`{"type": "audio/pcm", "rate": 24000}`) of a response's sound.

    Attributes:
        format: such as `{"type": "audio/pcm", "rate": 24000}`.
        voice: its name.
    """

    format: Mapping[str, Any] | None = field(default=None, metadata=OMIT_NULL)
    voice: str | None = field(default=None, metadata=OMIT_NULL)


@frozen(kw_only=True)
class ResponseAudio:
    """How a response sounds.

    Attributes:
        output: its format and voice.
    """

    output: ResponseAudioOutput


@frozen(kw_only=True)
class RealtimeResponse:
    """A response as the client sees it.

    `output` holds its items: empty at creation, final at the end (item status `incomplete` when the response
    was cut or failed). `conversation_id` is None for a response outside the conversation. `metadata` is the
    client's own map of strings, never ours. `modalities` is written `output_modalities` in the GA and duplex
    dialects.

    Attributes:
        id: of the response.
        status: how far it is, or how it ended.
        status_details: more about the end; null before it and after a usual one.
        output: its items; empty at creation.
        conversation_id: null for a response outside of the conversation.
        modalities: `text`, `audio`, or both.
        max_output_tokens: the limit; null where the session's counts.
        metadata: the client's own strings.
        usage: tokens, at the end.
        audio: how it sounds.
    """

    object: ClassVar[str] = "realtime.response"

    id: str
    status: ResponseStatus
    status_details: StatusDetails | None = None
    output: tuple[Item, ...] = ()
    conversation_id: str | None = None
    modalities: tuple[Modality, ...] = ("audio",)
    max_output_tokens: int | Literal["inf"] | None = None
    metadata: Mapping[str, str] | None = None
    usage: Usage | None = None
    audio: ResponseAudio | None = field(default=None, metadata=OMIT_NULL)
