"""A client's messages on their way to a session: what a WebSocket and a client in this process have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duplex_trio.protocol.duplex import (
    ClientMessage,
    RealtimeError,
    SessionEventAck,
    SessionResume,
    decode_command,
)

if TYPE_CHECKING:
    from duplex_trio.engine import DuplexSessionHandle

CONNECTION_CODES = frozenset({"invalid_event_ack", "invalid_session_resume"})
"""Codes of faults in messages that are about the connection alone, and that no client sends again over another."""


def read_text(handle: DuplexSessionHandle, text: str | bytes) -> ClientMessage | None:
    """Read one text message; None when the session's client has been told what is wrong with it."""
    try:
        return decode_command(text)
    except RealtimeError as error:
        handle.refuse(error, counts=error.code not in CONNECTION_CODES)
        return None


def take_message(handle: DuplexSessionHandle, message: ClientMessage) -> None:
    """Hand one message that has been read to a session. Never waits."""
    match message:
        case SessionResume():
            handle.refuse(
                RealtimeError(
                    "unsupported_session_resume",
                    "only the first message of a connection can resume a session",
                    event_id=message.event_id,
                ),
                counts=False,
            )
        case SessionEventAck(server_event_seq=seq):
            try:
                handle.ack_events(seq)
            except RealtimeError as error:
                handle.refuse(error.with_event_id(message.event_id), counts=False)
        case _:
            handle.submit(message)


def refusal_close_code(error: RealtimeError) -> int:
    """The WebSocket close code of a connection that ends before its session began (wire.md 1.5)."""
    match error.error_class:
        case "rate_limit_error":
            return 1013
        case "server_error":
            return 1011
        case _:
            return 1008
