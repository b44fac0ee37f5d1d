"""Tier 1 events about the session: its object, rate limits and errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from attrs import field, frozen

from duplex_trio.protocol.realtime.errors import RealtimeError
from duplex_trio.protocol.realtime.event_base import OMIT_NULL, EventKind, RealtimeEvent


@frozen(kw_only=True)
class SessionCreated(RealtimeEvent):
    """The session is open. `session` is the effective session object, already in the client's dialect.

    Attributes:
        session: the session object, in the client's dialect.
    """

    type: ClassVar[str] = "session.created"
    kind: ClassVar[EventKind] = EventKind.SESSION

    session: Mapping[str, Any]


@frozen(kw_only=True)
class SessionUpdated(RealtimeEvent):
    """An update was accepted. `session` is the whole effective session object.

    Attributes:
        session: the whole session object, in the client's dialect.
    """

    type: ClassVar[str] = "session.updated"
    kind: ClassVar[EventKind] = EventKind.SESSION

    session: Mapping[str, Any]


@frozen(kw_only=True)
class RateLimit:
    """One limit: how much there is, how much remains, and seconds until it is whole again.

    Attributes:
        name: of what.
        limit: how much there is.
        remaining: how much is left.
        reset_seconds: until it is whole again.
    """

    name: Literal["requests", "tokens"]
    limit: int
    remaining: int
    reset_seconds: float


@frozen(kw_only=True)
class RateLimitsUpdated(RealtimeEvent):
    """Follows each `response.done`; a server of one's own has no limits to report.

    Attributes:
        rate_limits: none.
    """

    type: ClassVar[str] = "rate_limits.updated"
    kind: ClassVar[EventKind] = EventKind.RESPONSE

    rate_limits: tuple[RateLimit, ...] = ()


@frozen(kw_only=True)
class ErrorDetail:
    """What went wrong. `event_id` is that of the client message at fault, `param` the field at fault.

    Attributes:
        type: error class.
        code: what went wrong.
        message: one sentence for people.
        param: the field at fault, as a path in the client's message.
        event_id: that of the client's message.
    """

    type: str
    code: str
    message: str
    param: str | None = field(default=None, metadata=OMIT_NULL)
    event_id: str | None = field(default=None, metadata=OMIT_NULL)

    @classmethod
    def from_error(cls, error: RealtimeError) -> ErrorDetail:
        """The wire form of a raised error."""
        return cls(
            type=error.error_class,
            code=error.code,
            message=error.message,
            param=error.param,
            event_id=error.event_id,
        )


@frozen(kw_only=True)
class ErrorEvent(RealtimeEvent):
    """A message was refused or something failed; the session goes on unless a terminal event follows.

    Attributes:
        error: what went wrong.
    """

    type: ClassVar[str] = "error"
    kind: ClassVar[EventKind] = EventKind.ERROR

    error: ErrorDetail
