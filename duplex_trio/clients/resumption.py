"""A session over one connection after another, as the client sees it: what to write, what a message means,
when to try again, and when it is over. Pure: no sockets, no clock, no chance.

    OPENING --session.created--> CONNECTED --lost--> AWAY --connected--> RESUMING --session.resumed-->
                                                      CONNECTED ^------------------ lost ---'

Each event of the session's journal is taken once and acknowledged; an acknowledgement covers all before it,
so few are sent. What the client says is `outbox`'s, and goes on where the server's count of it ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from attrs import define, field, frozen

from duplex_trio.clients.errors import (
    DuplexClientError,
    DuplexConnectionError,
    DuplexProtocolError,
    DuplexSessionReplacedError,
)
from duplex_trio.clients.outbox import Outbox
from duplex_trio.clients.reconnect import ReconnectPolicy
from duplex_trio.protocol.duplex import (
    Heartbeat,
    SessionCreated,
    SessionEventAck,
    SessionHeartbeatAck,
    SessionReplaced,
    SessionResume,
    SessionResumed,
    SessionResyncRequired,
    encode_command,
)

ACKNOWLEDGE_BYTES = 1024 * 1024
"""So much of a journal is acknowledged at once: an eighth of what a server keeps by default."""
HELD_MAX = 1024
"""Events that may come ahead of `session.resumed`."""

FATAL_REFUSALS = frozenset(
    {
        "invalid_session_resume",
        "session_resume_expired",
        "unsupported_session_resume",
        "invalid_resume_token",
        "session_resume_conflict",
    }
)
"""Answers to `session.resume` that another attempt would get as well."""
_GONE = frozenset({"session_resume_expired", "invalid_resume_token"})
_FATAL_CLOSE_CODES = frozenset({1002, 1003, 1007, 1009, 1010})
"""The server found fault with what was sent, which another connection would carry too."""
_PASSING_STATUSES = frozenset({408, 425, 429})
"""HTTP statuses below 500 that say nothing against another attempt."""


class Phase(Enum):
    """Where a session stands with its connection."""

    OPENING = "opening"
    CONNECTED = "connected"
    AWAY = "away"
    RESUMING = "resuming"


@frozen
class Ending:
    """How a session ended: `error` is what iteration raises, or None if it was expected; `afterwards` what
    everything else raises, or None if the usual."""

    error: DuplexClientError | None
    afterwards: DuplexClientError | None = None


@define(eq=False)
class Resumption:
    """One session and its connections.

    Args:
        policy: when to give up.

    Attributes:
        outbox: the client's commands.
        phase: where the session stands with its connection.
        ending: set once the session is over.
        attempt: number of the attempt to come back that was last begun, since the connection was lost.
    """

    policy: ReconnectPolicy
    outbox: Outbox = field(init=False)
    phase: Phase = field(default=Phase.OPENING, init=False)
    ending: Ending | None = field(default=None, init=False)
    attempt: int = field(default=0, init=False)
    _cause: DuplexConnectionError | None = field(default=None, init=False)
    _session_id: str | None = field(default=None, init=False)
    _token: str | None = field(default=None, init=False, repr=False)
    _last_seq: int = field(default=0, init=False)
    _lost_at_s: float = field(default=0.0, init=False)
    _requests: int = field(default=0, init=False)
    _to_ask: bool = field(default=False, init=False)
    _to_acknowledge: bool = field(default=False, init=False)
    _to_beat: bool = field(default=False, init=False)
    _counting: bool = field(default=False, init=False)
    _unacknowledged_bytes: int = field(default=0, init=False)
    _held: list[tuple[Any, int]] = field(factory=list, init=False)
    _complaint: str | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.outbox = Outbox(self.policy.buffer_bytes_max)

    @property
    def over(self) -> bool:
        """Whether the session has ended."""
        return self.ending is not None

    # ------------------------------------------------------------------ what to write

    def next_message(self) -> bytes | None:
        """The next message for the current connection; None when there is nothing to write now."""
        if self.phase is Phase.RESUMING:
            return self._request() if self._to_ask else None
        if self.phase is Phase.OPENING and not self.over:
            # What follows the first command is for a session that is there.
            return None if self.outbox.written else self.outbox.next()
        if self.phase is Phase.CONNECTED and not self.over:
            if self._to_acknowledge:
                self._to_acknowledge = False
                self._unacknowledged_bytes = 0
                return encode_command(SessionEventAck(server_event_seq=self._last_seq))
            if self._to_beat or (self.outbox.wants_count and not self._counting):
                self._to_beat, self._counting = False, True
                return encode_command(Heartbeat())
        return None if self.phase is Phase.AWAY else self.outbox.next()

    @property
    def acknowledges(self) -> bool:
        """Whether something came that is to be acknowledged when it is time."""
        return self._unacknowledged_bytes > 0

    def acknowledge(self) -> None:
        """It is time to acknowledge what came."""
        self._to_acknowledge |= self.acknowledges

    def beat(self) -> None:
        """It is time for a heartbeat."""
        self._to_beat = True

    def ask_count(self) -> None:
        """Somebody waits until the outbox has room: find out what of it the server has."""
        self._to_beat |= self.outbox.written > 0 and not self._counting

    # ------------------------------------------------------------------ what a message means

    def receive(self, raw: Any, size: int, now_s: float, *, closing: bool = False) -> Sequence[Any]:
        """Take a message, and say what of it and of earlier ones the client's user is to be told now.

        Args:
            raw: the decoded message.
            size: of the message in bytes.
            now_s: the time.
            closing: the user has asked for the end of the session.

        Raises:
            DuplexProtocolError: the server breaks the rules of resuming (`bad_event`).
        """
        kind = raw.get("type") if isinstance(raw, Mapping) else None
        if self.phase is Phase.RESUMING:
            return self._receive_answer(raw, kind, size, now_s, closing=closing)
        match kind:
            case SessionCreated.type if self.phase is Phase.OPENING:
                self._opened(raw)
            case SessionHeartbeatAck.type:
                self._counting = False
                count = _integer(raw.get("client_event_count"))
                if count is not None and self.outbox.keeps:
                    self.outbox.confirm(count)
            case SessionResyncRequired.type:
                self._forget_token()
            case SessionReplaced.type:
                self._end(None, DuplexSessionReplacedError())
        return [raw] if self._is_new(raw, size) else ()

    def _receive_answer(
        self, raw: Any, kind: str | None, size: int, now_s: float, *, closing: bool
    ) -> Sequence[Any]:
        match kind:
            case SessionResumed.type:
                return self._resumed(raw)
            case SessionResyncRequired.type:
                self._refused(str(raw.get("reason") or kind), "too much was missed", now_s)
            case SessionReplaced.type:
                self._end(None, DuplexSessionReplacedError())
            case "error" if closing and _error(raw, "code") in _GONE:
                self._end(None)
            case "error" if (code := _error(raw, "code")) in FATAL_REFUSALS:
                self._refused(code, _error(raw, "message"), now_s)
            case _:
                if kind == "error":
                    self._complaint = f"{_error(raw, 'code')}: {_error(raw, 'message')}"
                if len(self._held) >= HELD_MAX:
                    raise DuplexProtocolError(
                        "bad_event", f"{HELD_MAX} events came instead of session.resumed"
                    )
                self._held.append((raw, size))
        return ()

    def _opened(self, raw: Mapping[str, Any]) -> None:
        self.phase = Phase.CONNECTED
        session = raw.get("session")
        self._session_id = _string(session.get("id")) if isinstance(session, Mapping) else None
        self._token = _string(raw.get("resume_token"))
        self.outbox.opened()
        if self._token is None or self._session_id is None:
            self._forget_token()

    def _resumed(self, raw: Mapping[str, Any]) -> Sequence[Any]:
        self.outbox.resume(_integer(raw.get("client_event_count")))
        self.phase = Phase.CONNECTED
        self._token = _string(raw.get("resume_token")) or self._token
        # Also says that the new token has arrived.
        self._to_acknowledge = True
        held, self._held = self._held, []
        attempt, self.attempt = self.attempt, 0
        missed = [event for event, size in held if self._is_new(event, size)]
        return [{"type": "connection.resumed", "attempt": attempt}, raw, *missed]

    def _is_new(self, raw: Any, size: int) -> bool:
        seq = _integer(raw.get("server_event_seq")) if isinstance(raw, Mapping) else None
        if seq is None:
            return True
        self._unacknowledged_bytes += size
        self._to_acknowledge |= self._unacknowledged_bytes >= ACKNOWLEDGE_BYTES
        if seq <= self._last_seq:
            return False
        self._last_seq = seq
        return True

    def _forget_token(self) -> None:
        self._token = None
        self.outbox.keep_no_more()

    # ------------------------------------------------------------------ connections

    def lost(self, error: DuplexConnectionError, now_s: float, *, closing: bool = False) -> bool:
        """The connection broke, was closed, or could not be made.

        Returns:
            Whether to make another one, after `policy.delay_s(attempt)`. If not, `ending` says how the
            session ended.
        """
        if self.over:
            return False
        if error.close_code == 1000 and error.close_reason == "session_replaced":
            self._end(None, DuplexSessionReplacedError())
        elif closing and error.close_code == 1000:
            self._end(None)
        elif self._token is None or _is_fatal(error):
            self._end(self._given_up(error, now_s))
        else:
            if self.phase is Phase.CONNECTED:
                self._cause, self._lost_at_s = error, now_s
            elif self._complaint is not None:
                error = DuplexConnectionError(self._complaint)
            self._away()
            if self.attempt < self.policy.max_attempts:
                return True
            self._end(self._given_up(error, now_s))
        return False

    def connected(self) -> None:
        """A new connection is there; it is to ask for the session."""
        self.phase = Phase.RESUMING
        self._to_ask = True

    def begin_attempt(self) -> None:
        """The wait is over; a connection is about to be made."""
        self.attempt += 1

    def end(self, error: DuplexClientError | None) -> None:
        """The session is over for another reason."""
        self._end(error)

    def _away(self) -> None:
        self.phase = Phase.AWAY
        self._held.clear()
        self._complaint = None
        self._counting = self._to_beat = False

    def _request(self) -> bytes:
        self._to_ask = False
        self._requests += 1
        assert self._session_id is not None
        assert self._token is not None
        return encode_command(
            SessionResume(
                session_id=self._session_id,
                resume_token=self._token,
                last_received_server_event_seq=self._last_seq,
                attempt=self._requests,
            )
        )

    def _refused(self, code: str, message: str, now_s: float) -> None:
        tried_s = now_s - self._lost_at_s
        text = (
            f"{self._cause}; after {tried_s:.1f} s the server does not resume the session: {code}: {message}"
        )
        self._end(DuplexConnectionError(text, code=code, attempts=self.attempt, tried_s=tried_s))

    def _given_up(self, error: DuplexConnectionError, now_s: float) -> DuplexConnectionError:
        if not self.attempt:
            return error
        tried_s = now_s - self._lost_at_s
        tries = "one attempt" if self.attempt == 1 else f"{self.attempt} attempts"
        text = f"{self._cause}; {tries} to resume the session failed in {tried_s:.1f} s, at last: "
        return DuplexConnectionError(
            f"{text}{error}",
            status=error.status,
            close_code=error.close_code,
            close_reason=error.close_reason,
            attempts=self.attempt,
            tried_s=tried_s,
        )

    def _end(self, error: DuplexClientError | None, afterwards: DuplexClientError | None = None) -> None:
        if self.ending is None:
            self.ending = Ending(error, afterwards)


def _is_fatal(error: DuplexConnectionError) -> bool:
    refused = error.status is not None and 400 <= error.status < 500 and error.status not in _PASSING_STATUSES
    return refused or error.close_code in _FATAL_CLOSE_CODES


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _string(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _error(raw: Mapping[str, Any], name: str) -> str:
    error = raw.get("error")
    found = error.get(name) if isinstance(error, Mapping) else raw.get(name)
    return found if isinstance(found, str) else ""
