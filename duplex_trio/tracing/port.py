"""The seam between what happens and who traces it. Calls are synchronous and quick, and raise nothing.

Times are seconds of Trio's clock, as the caller read it. Whatever was begun is ended exactly once: a response that is
in progress when its session ends is ended with it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from attrs import field, frozen

from duplex_trio.tracing.spells import StageSpell, StageSpells

Attributes = Mapping[str, str | int | float | bool]
"""What is told of an event beside its name; keys without the prefix."""


@frozen(kw_only=True)
class SessionOpening:
    """A session, or a chat, as it begins.

    Attributes:
        kind: `session` or `chat`.
        session_id: its id.
        model: the served model.
        dialect: how its client wants events written.
        at_s: when it was let in.
        headers: what the client sent of a trace that it is part of: `traceparent`, `tracestate`.
    """

    kind: str
    session_id: str
    model: str
    dialect: str
    at_s: float
    headers: Mapping[str, str] = field(factory=dict)


@frozen
class SessionEnding:
    """How a session ended.

    Attributes:
        reason: as in the session's last event.
        code: the WebSocket close code; 1011 is a fault.
        at_s: when.
        counts: what it counted, those that are 0 left out.
    """

    reason: str
    code: int
    at_s: float
    counts: Mapping[str, float] = field(factory=dict)


@frozen(kw_only=True)
class ResponseEnding:
    """How a response ended.

    Attributes:
        status: `completed`, `cancelled` or `failed`.
        at_s: when.
        reason: why it was cancelled.
        code: what went wrong.
        finish_reason: why the model stopped, of one that did.
        usage: tokens, by the names `input`, `cached` and `output`; empty if nobody told.
        figures: measurements of it, by name, None ones left out.
        text: what was said; only for who may keep it.
        spells: what the stages did for it.
    """

    status: str
    at_s: float
    reason: str | None = None
    code: str | None = None
    finish_reason: str | None = None
    usage: Mapping[str, int] = field(factory=dict)
    figures: Mapping[str, float] = field(factory=dict)
    text: str = ""
    spells: Iterable[StageSpell] = ()


class SessionTrace(ABC):
    """One session, traced."""

    @property
    @abstractmethod
    def trace_id(self) -> str | None:
        """The trace that it is in, as 32 hex digits for the log; None where nothing is traced."""

    @property
    def log_fields(self) -> Mapping[str, str]:
        """What the lines about the session carry: `trace_id`, where there is one."""
        return {} if self.trace_id is None else {"trace_id": self.trace_id}

    @abstractmethod
    def spells(self, *, outlives: bool = False) -> StageSpells | None:
        """What a new stage request is to keep of its stages' work; None where nobody wants it. See `StageSpells`."""

    @abstractmethod
    def response_begun(
        self, response_id: str, *, epoch: int, turn_id: int, prepared: bool, speaks: bool, at_s: float
    ) -> None:
        """A response begins; `prepared` if its turn began ahead of the end of the user's speech."""

    @abstractmethod
    def response_ended(self, response_id: str, ending: ResponseEnding) -> None:
        """A response has ended."""

    @abstractmethod
    def event(
        self, name: str, at_s: float, attributes: Attributes, *, response_id: str | None = None
    ) -> None:
        """Something happened in a response that is in progress, or else in the session."""

    @abstractmethod
    def ended(self, ending: SessionEnding) -> None:
        """The session has gone, with whatever was in progress. Idempotent."""


class VideoTrace(ABC):
    """One video, traced."""

    @abstractmethod
    def ended(self, outcome: str, counts: Mapping[str, float]) -> None:
        """The video is over. Idempotent."""


class Tracer(ABC):
    """Who traces the sessions and videos of a server."""

    @abstractmethod
    def session(self, opening: SessionOpening) -> SessionTrace:
        """A session begins."""

    @abstractmethod
    def video(self, model: str, headers: Mapping[str, str]) -> VideoTrace:
        """A video begins; `headers` as in `SessionOpening`."""

    @abstractmethod
    def close(self) -> None:
        """Hand over what is kept, and stop. Blocking, for as long as the collector takes."""


class _NoSessionTrace(SessionTrace):
    @property
    def trace_id(self) -> str | None:
        return None

    def spells(self, *, outlives: bool = False) -> StageSpells | None:
        return None

    def response_begun(
        self, response_id: str, *, epoch: int, turn_id: int, prepared: bool, speaks: bool, at_s: float
    ) -> None:
        pass

    def response_ended(self, response_id: str, ending: ResponseEnding) -> None:
        pass

    def event(
        self, name: str, at_s: float, attributes: Attributes, *, response_id: str | None = None
    ) -> None:
        pass

    def ended(self, ending: SessionEnding) -> None:
        pass


class _NoVideoTrace(VideoTrace):
    def ended(self, outcome: str, counts: Mapping[str, float]) -> None:
        pass


class _NoTracer(Tracer):
    def session(self, opening: SessionOpening) -> SessionTrace:
        return NO_SESSION_TRACE

    def video(self, model: str, headers: Mapping[str, str]) -> VideoTrace:
        return NO_VIDEO_TRACE

    def close(self) -> None:
        pass


NO_SESSION_TRACE: SessionTrace = _NoSessionTrace()
NO_VIDEO_TRACE: VideoTrace = _NoVideoTrace()
NO_TRACER: Tracer = _NoTracer()
"""Traces nothing, and says so: callers ask `is NO_TRACER` before they prepare anything."""
