"""Tier 2: OpenAI's events with extension data. Each class declares only what it adds to its Tier 1 twin."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: F401 - what is not used here is in annotations of inherited fields
from typing import Any, ClassVar  # noqa: F401

from attrs import field, frozen

from duplex_trio.protocol.duplex.extension import DuplexExtension
from duplex_trio.protocol.realtime import events as tier1
from duplex_trio.protocol.realtime.errors import RealtimeError
from duplex_trio.protocol.realtime.event_base import OMIT_NULL
from duplex_trio.protocol.realtime.events import ErrorDetail
from duplex_trio.protocol.realtime.response import RealtimeResponse  # noqa: F401


@frozen(kw_only=True)
class SessionCreated(tier1.SessionCreated):
    """Adds the means of resuming, where that is possible. The token is a secret: keep it out of logs.

    Attributes:
        attachment_generation: counts the connections that this session has had: 1.
        resume_token: what a client resumes with; a secret.
    """

    tier: ClassVar[int] = 2

    attachment_generation: int | None = field(default=None, metadata=OMIT_NULL)
    resume_token: str | None = field(default=None, repr=False, metadata=OMIT_NULL)


@frozen(kw_only=True)
class ResponseCreated(tier1.ResponseCreated):
    """Adds the fence, and the response id at the top level like its sisters.

    Attributes:
        response_id: that of `response`.
        duplex: `session_id`, `epoch`, `turn_id`.
    """

    tier: ClassVar[int] = 2

    response_id: str = field(init=False)
    duplex: DuplexExtension | None = field(default=None, metadata=OMIT_NULL)

    @response_id.default
    def _own_id(self) -> str:
        return self.response.id


@frozen(kw_only=True)
class ResponseOutputAudioDelta(tier1.ResponseOutputAudioDelta):
    """Adds format, rate, duration so far, playback cursor and metrics.

    Attributes:
        duplex: `format`, `sample_rate_hz`, `audio_duration_ms`, `audio_text_marks`, `playback`, `epoch`, and
            figures with the first one.
    """

    tier: ClassVar[int] = 2

    duplex: DuplexExtension | None = field(default=None, metadata=OMIT_NULL)


@frozen(kw_only=True)
class ResponseOutputAudioTranscriptDelta(tier1.ResponseOutputAudioTranscriptDelta):
    """Adds what the audio delta would have carried, when a unit has no sound.

    Attributes:
        duplex: where a unit of the model has text and no sound: what its delta of sound would have had.
    """

    tier: ClassVar[int] = 2

    duplex: DuplexExtension | None = field(default=None, metadata=OMIT_NULL)


@frozen(kw_only=True)
class ResponseDone(tier1.ResponseDone):
    """Adds the precise ending, the playback cursor and the totals of the stages.

    Attributes:
        response_id: that of `response`.
        duplex: `finish_reason` or `cancel_reason`, `playback`, and the figures of the stages, the request and
            the engine.
    """

    tier: ClassVar[int] = 2

    response_id: str = field(init=False)
    duplex: DuplexExtension | None = field(default=None, metadata=OMIT_NULL)

    @response_id.default
    def _own_id(self) -> str:
        return self.response.id


@frozen(kw_only=True)
class InputAudioBufferCommitted(tier1.InputAudioBufferCommitted):
    """Adds what became of the commit.

    Attributes:
        duplex: `commit`: what became of it.
    """

    tier: ClassVar[int] = 2

    duplex: DuplexExtension | None = field(default=None, metadata=OMIT_NULL)


@frozen(kw_only=True)
class ConversationItemDeleted(tier1.ConversationItemDeleted):
    """Adds the fence and whether history changed.

    Attributes:
        duplex: `epoch`, and in `deleted` whether the history changed.
    """

    tier: ClassVar[int] = 2

    duplex: DuplexExtension | None = field(default=None, metadata=OMIT_NULL)


@frozen(kw_only=True)
class ConversationItemTruncated(tier1.ConversationItemTruncated):
    """Adds the fence and whether history changed.

    Attributes:
        duplex: `epoch`, and in `truncated` whether the history changed.
    """

    tier: ClassVar[int] = 2

    duplex: DuplexExtension | None = field(default=None, metadata=OMIT_NULL)


@frozen(kw_only=True)
class OutputAudioBufferCleared(tier1.OutputAudioBufferCleared):
    """Adds the fence from which on sound counts again.

    Attributes:
        duplex: `epoch` from which on sound counts again.
    """

    tier: ClassVar[int] = 2

    duplex: DuplexExtension | None = field(default=None, metadata=OMIT_NULL)


@frozen(kw_only=True)
class ErrorEvent(tier1.ErrorEvent):
    """Adds whether sending again may work.

    Attributes:
        duplex: `retryable`: whether sending the same again may work.
    """

    tier: ClassVar[int] = 2

    duplex: DuplexExtension | None = field(default=None, metadata=OMIT_NULL)

    @classmethod
    def from_error(cls, error: RealtimeError, *, event_id: str = "") -> ErrorEvent:
        """The event that reports `error`; `event_id` is the event's own."""
        extension = DuplexExtension(retryable=error.retryable) if error.retryable is not None else None
        return cls(event_id=event_id, error=ErrorDetail.from_error(error), duplex=extension)
