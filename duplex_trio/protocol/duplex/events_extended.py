"""Tier 2: OpenAI's events with extension data. Each class declares only what it adds to its Tier 1 twin."""

from __future__ import annotations

from typing import ClassVar

from attrs import field, frozen

from duplex_trio.protocol.duplex.extension import DuplexExtension
from duplex_trio.protocol.realtime import events as tier1
from duplex_trio.protocol.realtime.errors import RealtimeError
from duplex_trio.protocol.realtime.event_base import OMIT_NULL
from duplex_trio.protocol.realtime.events import ErrorDetail


@frozen(kw_only=True)
class SessionCreated(tier1.SessionCreated):
    """Adds the means of resuming, where that is possible. The token is a secret: keep it out of logs."""

    tier: ClassVar[int] = 2

    attachment_generation: int | None = field(default=None, metadata=OMIT_NULL)
    resume_token: str | None = field(default=None, repr=False, metadata=OMIT_NULL)


@frozen(kw_only=True)
class ResponseCreated(tier1.ResponseCreated):
    """Adds the fence, and the response id at the top level like its sisters."""

    tier: ClassVar[int] = 2

    response_id: str = field(init=False)
    duplex: DuplexExtension | None = field(default=None, metadata=OMIT_NULL)

    @response_id.default
    def _own_id(self) -> str:
        return self.response.id


@frozen(kw_only=True)
class ResponseOutputAudioDelta(tier1.ResponseOutputAudioDelta):
    """Adds format, rate, duration so far, playback cursor and metrics."""

    tier: ClassVar[int] = 2

    duplex: DuplexExtension | None = field(default=None, metadata=OMIT_NULL)


@frozen(kw_only=True)
class ResponseOutputAudioTranscriptDelta(tier1.ResponseOutputAudioTranscriptDelta):
    """Adds what the audio delta would have carried, when a unit has no sound."""

    tier: ClassVar[int] = 2

    duplex: DuplexExtension | None = field(default=None, metadata=OMIT_NULL)


@frozen(kw_only=True)
class ResponseDone(tier1.ResponseDone):
    """Adds the precise ending, the playback cursor and the totals of the stages."""

    tier: ClassVar[int] = 2

    response_id: str = field(init=False)
    duplex: DuplexExtension | None = field(default=None, metadata=OMIT_NULL)

    @response_id.default
    def _own_id(self) -> str:
        return self.response.id


@frozen(kw_only=True)
class InputAudioBufferCommitted(tier1.InputAudioBufferCommitted):
    """Adds what became of the commit."""

    tier: ClassVar[int] = 2

    duplex: DuplexExtension | None = field(default=None, metadata=OMIT_NULL)


@frozen(kw_only=True)
class ConversationItemDeleted(tier1.ConversationItemDeleted):
    """Adds the fence and whether history changed."""

    tier: ClassVar[int] = 2

    duplex: DuplexExtension | None = field(default=None, metadata=OMIT_NULL)


@frozen(kw_only=True)
class ConversationItemTruncated(tier1.ConversationItemTruncated):
    """Adds the fence and whether history changed."""

    tier: ClassVar[int] = 2

    duplex: DuplexExtension | None = field(default=None, metadata=OMIT_NULL)


@frozen(kw_only=True)
class OutputAudioBufferCleared(tier1.OutputAudioBufferCleared):
    """Adds the fence from which on sound counts again."""

    tier: ClassVar[int] = 2

    duplex: DuplexExtension | None = field(default=None, metadata=OMIT_NULL)


@frozen(kw_only=True)
class ErrorEvent(tier1.ErrorEvent):
    """Adds whether sending again may work."""

    tier: ClassVar[int] = 2

    duplex: DuplexExtension | None = field(default=None, metadata=OMIT_NULL)

    @classmethod
    def from_error(cls, error: RealtimeError, *, event_id: str = "") -> ErrorEvent:
        """The event that reports `error`; `event_id` is the event's own."""
        extension = DuplexExtension(retryable=error.retryable) if error.retryable is not None else None
        return cls(event_id=event_id, error=ErrorDetail.from_error(error), duplex=extension)
