"""From a client's text to a command and back: the one conversion that sockets and in-process clients share.

Owns the table of types and aliases, the order of the checks, and the limits. How a class is read is
`structure`'s. Whatever the input, the only exception that leaves `decode_command` is a `RealtimeError` to
answer with.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, get_args

import orjson
from attrs import evolve

from duplex_trio.protocol.duplex.append import check_append, read_append
from duplex_trio.protocol.duplex.commands import (
    AckPlayback,
    AppendAudio,
    ClientMessage,
    CloseSession,
    Commit,
    CreateResponse,
    DuplexCommand,
    EnvelopeMessage,
    SignalTurn,
    UpdateSession,
)
from duplex_trio.protocol.duplex.structure import Message, join_path, make_wire_converter
from duplex_trio.protocol.limits import MAX_MESSAGE_BYTES
from duplex_trio.protocol.realtime.errors import RealtimeError

MAX_DEPTH = 100
"""Nesting of a message. Objects are echoed, and the writer of JSON goes 254 deep."""

_CLASSES: tuple[type[ClientMessage], ...] = get_args(ClientMessage)

COMMAND_CLASSES: Mapping[str, type[ClientMessage]] = MappingProxyType({cls.type: cls for cls in _CLASSES})
"""The class of each wire type."""

TYPE_ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "input.commit": Commit.type,
        "input_text.append": "input.text.append",
        "push_text": "input.text.append",
        "signal_turn": SignalTurn.type,
        "audio.playback_ack": "playback.ack",
        "close": CloseSession.type,
        "close_session": CloseSession.type,
    }
)
"""Other names of types. `input.commit` differs in one thing: by default it asks for a response."""

SIGNALLED_COMMANDS = frozenset(
    {
        "input.cancel",
        "barge_in",
        "response.cancel",
        "session.update",
        "conversation.item.create",
        "conversation.item.delete",
        "conversation.item.truncate",
        "conversation.item.retrieve",
        "output_audio_buffer.clear",
    }
)
"""Events of `turn.signal` that are that command, its fields in `payload`."""

_FAST = make_wire_converter(detailed=False)
_FAST.register_structure_hook(AppendAudio, read_append)
_DETAILED = make_wire_converter(detailed=True)


def check_message_size(raw: str | bytes) -> None:
    """Refuse a message that is too large.

    Raises:
        RealtimeError: `event_too_large`.
    """
    size = len(raw)
    if isinstance(raw, str) and size <= MAX_MESSAGE_BYTES < 4 * size:
        size = len(raw.encode("utf-8", "surrogatepass"))
    if size > MAX_MESSAGE_BYTES:
        raise RealtimeError("event_too_large", f"a message has at most {MAX_MESSAGE_BYTES} bytes")


def decode_command(raw: str | bytes) -> ClientMessage:
    """The command, or the envelope message, in one text frame.

    Raises:
        RealtimeError: with the code of the fault, the field in `param`, and the client's `event_id` if any.
    """
    check_message_size(raw)
    try:
        message = orjson.loads(raw)
    except ValueError as error:
        raise RealtimeError("invalid_json", f"the message is not JSON: {error}") from None
    if type(message) is not dict:
        raise RealtimeError("bad_event", "a message is a JSON object")
    event_id = message.get("event_id")
    try:
        if message.get("type") != AppendAudio.type or dict in map(type, message.values()):
            _check_depth(message, raw)
        return _decode(message)
    except RealtimeError as error:
        raise _answer(error, event_id if type(event_id) is str else None) from None


def _answer(error: RealtimeError, event_id: str | None) -> RealtimeError:
    """`error` as the client gets it: the message names the field too, for people."""
    message = error.message if error.param is None else f"{error.param}: {error.message}"
    return RealtimeError(error.code, message, param=error.param, event_id=event_id, retryable=error.retryable)


def encode_command(command: ClientMessage) -> bytes:
    """The text frame that says `command`; `decode_command` gives an equal command back."""
    return encode_message(command_message(command))


def command_message(command: ClientMessage) -> dict[str, Any]:
    """What `encode_command` writes, as a mapping, for who adds to it."""
    message: dict[str, Any] = _FAST.unstructure(command)
    return message


def encode_message(message: Mapping[str, Any]) -> bytes:
    """The text frame of a message that need not be one of ours.

    Raises:
        TypeError: it is no JSON.
    """
    return orjson.dumps(message)


def resolve_signal(signal: SignalTurn) -> DuplexCommand:
    """The command that a turn signal stands for; the signal itself when it stands for none.

    `close` and `timeout` end the session, as `session.close` does.

    Raises:
        RealtimeError: the payload is not what the command needs; `param` starts with `payload`.
    """
    event, payload = signal.event, signal.payload
    if event in ("close", "timeout"):
        payload = {"reason": event} if event == "timeout" else payload
        event = CloseSession.type
    elif event not in SIGNALLED_COMMANDS:
        return signal
    command = _decode_payload(signal, payload, event)
    assert not isinstance(command, EnvelopeMessage)
    return command


def signalled_playback(signal: SignalTurn) -> AckPlayback:
    """The acknowledgement in a signal `playback_ack`.

    Raises:
        RealtimeError: the payload is none; `param` starts with `payload`.
    """
    command = _decode_payload(signal, signal.payload, AckPlayback.type)
    assert isinstance(command, AckPlayback)
    return command


def _decode_payload(signal: SignalTurn, payload: Mapping[str, Any], kind: str) -> ClientMessage:
    try:
        return _decode({**payload, "type": kind, "event_id": signal.event_id})
    except RealtimeError as error:
        raise error.with_param(join_path("payload", error.param)).with_event_id(signal.event_id) from None


def _decode(message: dict[str, Any]) -> ClientMessage:
    kind = message.get("type")
    if type(kind) is not str:
        raise RealtimeError("bad_event", "expected a string", param="type")
    cls = COMMAND_CLASSES.get(TYPE_ALIASES.get(kind, kind))
    if cls is None:
        raise RealtimeError("unknown_event", f"there is no message {kind[:64]!r}", param="type")
    command = _structure(_prepared(message, cls), cls)
    match command:
        case AppendAudio():
            check_append(command)
        case Commit(response_create=None) if kind == "input.commit":
            return evolve(command, response_create=True)
        case SignalTurn():
            return resolve_signal(command)
    return command


def _structure(message: Message, cls: type[ClientMessage]) -> ClientMessage:
    try:
        return _FAST.structure(message, cls)
    except (ValueError, KeyError, RealtimeError):
        # Only now is it worth knowing which field it was.
        return _DETAILED.structure(message, cls)


def _prepared(message: dict[str, Any], cls: type[ClientMessage]) -> Message:
    """`message` with what old clients leave out or get wrong put right."""
    if cls is UpdateSession and message.get("session") is None:
        patch = {key: value for key, value in message.items() if key not in ("type", "event_id", "session")}
        return {"event_id": message.get("event_id"), "session": patch}
    if cls is CreateResponse and type(message.get("response")) is not dict:
        return {"event_id": message.get("event_id")}
    return message


def _openings(raw: str | bytes) -> int:
    """How many objects and lists begin in `raw`, which bounds how deep they are; strings may add to it."""
    if isinstance(raw, str):
        return raw.count("{") + raw.count("[")
    return raw.count(b"{") + raw.count(b"[")


def _check_depth(message: dict[str, Any], raw: str | bytes) -> None:
    if _openings(raw) <= MAX_DEPTH:
        return
    level: list[Any] = [message]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for value in level
            for inner in (value.values() if type(value) is dict else value)
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return
    raise RealtimeError("bad_event", f"a message is nested at most {MAX_DEPTH} deep")


__all__ = [
    "COMMAND_CLASSES",
    "MAX_DEPTH",
    "MAX_MESSAGE_BYTES",
    "SIGNALLED_COMMANDS",
    "TYPE_ALIASES",
    "check_message_size",
    "command_message",
    "decode_command",
    "encode_command",
    "encode_message",
    "resolve_signal",
    "signalled_playback",
]
