"""What a client can raise, as one tree; serving-side errors are none of its business.

DuplexClientError
├── DuplexConnectionError        the transport: not reachable, refused, lost and not resumed, silent
├── DuplexProtocolError          the server said `error`, or something that is no event
├── DuplexSessionClosedError     the session is over, or ended before what was asked for arrived
│   └── DuplexSessionReplacedError   another connection has taken the session over
├── DuplexBufferFullError        too much waits for a connection that is down
└── DuplexLagError               a subscriber did not read its bounded queue in time
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class DuplexClientError(Exception):
    """Base of everything that `duplex_trio.clients` raises on purpose."""


class DuplexConnectionError(DuplexClientError):
    """The connection could not be made, or was lost and the session with it.

    Args:
        message: for people: what happened and, for a session that could not be resumed, how long that was
        tried.
        status: HTTP status of a refused upgrade (401, 503, ...), if that was the reason.
        close_code: WebSocket close code of a connection that the other side ended, if there was one.
        close_reason: what it said with that.
        code: why the server does not resume the session (`session_resume_expired`, `journal_gap`, ...), if it
            said so.
        attempts: how often it was tried to resume the session.
        tried_s: how long.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        close_code: int | None = None,
        close_reason: str | None = None,
        code: str | None = None,
        attempts: int = 0,
        tried_s: float = 0.0,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.close_code = close_code
        self.close_reason = close_reason
        self.code = code
        self.attempts = attempts
        self.tried_s = tried_s


def closed_by_server(code: int, reason: str) -> DuplexConnectionError:
    """What a connection ends with that the server closed with a WebSocket close code."""
    text = f"the connection was closed by the server: {code} {reason}"
    return DuplexConnectionError(text, close_code=code, close_reason=reason)


class DuplexProtocolError(DuplexClientError):
    """The server refused something with an `error` event, or sent what is not an event.

    Args:
        code: wire error code (`invalid_value`, `resource_exhausted`, ...).
        message: the server's text.
        event_id: id of the client event that the server refers to, if it does.
        param: the field at fault, if the server names one.
        raw: the whole event as received; empty when there was none.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        event_id: str | None = None,
        param: str | None = None,
        raw: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code
        self.message = message
        self.event_id = event_id
        self.param = param
        self.raw: Mapping[str, Any] = {} if raw is None else raw


class DuplexSessionClosedError(DuplexClientError):
    """The session is over. `reason` is the server's (`idle_ttl_expired`, ...) or the client's own
    (`client_close`)."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the session is closed ({reason})")
        self.reason = reason


class DuplexSessionReplacedError(DuplexSessionClosedError):
    """Another connection has taken the session over; it goes on there."""

    def __init__(self) -> None:
        super().__init__("session_replaced")


class DuplexBufferFullError(DuplexClientError):
    """The connection is down and no more commands are kept; this one was not taken.

    Args:
        limit: bytes of commands that are kept.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(f"the connection is down, and the {limit} bytes of commands that are kept are full")
        self.limit = limit


class DuplexLagError(DuplexClientError):
    """A subscriber's queue was full when the next item arrived; it gets what was queued, then this error.

    Args:
        what: the subscriber in words.
        limit: the bound that was met, in the units of `what`.
    """

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(
            f"{what} was not read in time: its limit of {limit} was reached and what followed is lost"
        )
        self.limit = limit


def first_error(error: BaseException) -> BaseException:
    """The first error in a group of groups, to be told in a line; an error that is no group is itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
