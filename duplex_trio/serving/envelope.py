"""What a WebSocket handshake means, as functions of the request and the first message. No loop, no clock, no ids.

Owns the choice of dialect (decision D1), who speaks first (D3), and which close code says what (wire.md
1.5). The socket itself is `realtime`'s; credentials and origins are `auth`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

from attrs import frozen

from duplex_trio.protocol.dialects import Dialect
from duplex_trio.protocol.duplex import (
    ClientMessage,
    RealtimeError,
    SessionResume,
    UpdateSession,
    decode_command,
)
from duplex_trio.serving.paths import DUPLEX_PATH, REALTIME_PATH, SUBPROTOCOL

BETA_SUBPROTOCOL = "openai-beta.realtime-v1"
"""Browsers cannot set headers; this is how OpenAI's beta let them ask for it."""

CLOSE_REASON_MAX_BYTES = 123
"""What a close frame holds beside its code (RFC 6455 5.5)."""

_ON = frozenset({"1", "true", "on"})
_RESUME_ON = frozenset({"1", "true", "yes", "on"})
_AUTOSTART_OFF = frozenset({"0", "false", "no", "off"})
_FRAMING_CODES = frozenset({"invalid_json", "event_too_large", "bad_event"})


@frozen
class Handshake:
    """How to begin.

    Attributes:
        dialect: how events are written for this client.
        model: the model it asked for, as it spelled it.
        opens_at_once: the session opens before the client has said anything.
        opening_required: the first message must be `session.update` or `session.resume`.
        subprotocol: the one to select.
    """

    dialect: Dialect
    model: str | None
    opens_at_once: bool
    opening_required: bool
    subprotocol: str | None


@frozen
class Unavailable:
    """This deployment has no such WebSocket. `message` says what it has."""

    message: str
    subprotocol: str | None = None


@frozen
class OpenSession:
    """Open a session with `patch`, then act on what the first message asked beside that.

    `event_id` is the client's name for the message that brought the patch.
    """

    patch: Mapping[str, Any] | None = None
    command: ClientMessage | None = None
    complaint: RealtimeError | None = None
    event_id: str | None = None


@frozen
class ResumeSession:
    """Take over the session that the first message names."""

    request: SessionResume


@frozen
class RefuseSession:
    """Answer with the error and close."""

    error: RealtimeError


def read_handshake(
    path: str, query: bytes, headers: Iterable[tuple[bytes, bytes]], subprotocols: Sequence[str] = ()
) -> Handshake | Unavailable:
    """Decide what a WebSocket request asks for.

    Args:
        path: the decoded path.
        query: the raw query string.
        headers: lower-case names and values.
        subprotocols: what the client offers, in its order.
    """
    subprotocol = SUBPROTOCOL if SUBPROTOCOL in subprotocols else None
    if path not in (REALTIME_PATH, DUPLEX_PATH):
        known = f"{REALTIME_PATH} and {DUPLEX_PATH}"
        return Unavailable(f"there is no WebSocket at {path}; this deployment has {known}", subprotocol)
    values = parse_qs(query.decode("latin1"), keep_blank_values=True)
    asked = _first(values, "duplex")
    if path == REALTIME_PATH and asked is not None and asked.lower() not in _ON:
        return Unavailable(
            f"duplex={asked} asks for the turn-based handler, which this deployment does not have; leave `duplex` "
            "out for OpenAI's dialect, or say duplex=1",
            subprotocol,
        )
    dialect = Dialect.GA
    if path == DUPLEX_PATH or asked is not None:
        dialect = Dialect.DUPLEX
    elif _asks_for_beta(headers, subprotocols):
        dialect = Dialect.BETA
    model = _first(values, "model") or None
    held_back = (_first(values, "autostart") or "").strip().lower() in _AUTOSTART_OFF or (
        _first(values, "resume") or ""
    ).strip().lower() in _RESUME_ON
    return Handshake(
        dialect=dialect,
        model=model,
        opens_at_once=dialect is not Dialect.DUPLEX or (model is not None and not held_back),
        opening_required=dialect is Dialect.DUPLEX and held_back,
        subprotocol=subprotocol,
    )


def read_first_message(handshake: Handshake, raw: str | bytes) -> OpenSession | ResumeSession | RefuseSession:
    """Decide what the first text message of a session that is not open yet asks for."""
    try:
        message = decode_command(raw)
    except RealtimeError as error:
        # What is at least an object with a fault in it opens the default session, which then reports the
        # fault.
        hopeless = error.code in _FRAMING_CODES and error.param is None
        if handshake.opening_required or hopeless or error.code == "invalid_session_resume":
            return RefuseSession(error)
        return OpenSession(complaint=error)
    match message:
        case UpdateSession():
            return OpenSession(patch=message.patch, event_id=message.event_id)
        case SessionResume():
            return ResumeSession(message)
        case _ if handshake.opening_required:
            return RefuseSession(
                RealtimeError(
                    "bad_event",
                    f"the first message must be session.update or session.resume, not {message.type}",
                    param="type",
                    event_id=message.event_id,
                )
            )
        case _:
            return OpenSession(command=message)


def config_timeout(seconds: float) -> RefuseSession:
    """What a client gets that says nothing for `seconds`."""
    return RefuseSession(RealtimeError("config_timeout", f"no session.update within {seconds:g} s"))


def shutting_down() -> RefuseSession:
    """What a client gets that has not said what it wants when the server is told to stop."""
    return RefuseSession(RealtimeError("resource_exhausted", "the server is shutting down", retryable=True))


def binary_message() -> RealtimeError:
    """What a client gets for a binary frame."""
    return RealtimeError("bad_event", "messages are text frames with JSON; binary frames are not used")


def close_reason(text: str) -> str:
    """`text`, cut to what fits into a close frame without splitting a character."""
    return text.encode()[:CLOSE_REASON_MAX_BYTES].decode(errors="ignore")


def _first(values: Mapping[str, list[str]], name: str) -> str | None:
    found = values.get(name)
    return found[0] if found else None


def _asks_for_beta(headers: Iterable[tuple[bytes, bytes]], subprotocols: Sequence[str]) -> bool:
    if BETA_SUBPROTOCOL in subprotocols:
        return True
    betas = (value.split(b",") for name, value in headers if name == b"openai-beta")
    return any(beta.strip() == b"realtime=v1" for group in betas for beta in group)
