"""What each kind of client message may hold, found out from the command classes themselves.

Nothing here names a command: each field is offered every value of a pool, and what its own reader takes is
valid for it. A new command, field or alias is covered without a line of work. The session object is the one
that the server renders, so a new field of it is covered too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import attrs
import orjson
import pybase64
from attrs import field, frozen

from duplex_trio.protocol.duplex import (
    COMMAND_CLASSES,
    TYPE_ALIASES,
    CreateItem,
    RealtimeError,
    encode_command,
)
from duplex_trio.protocol.duplex.session import (
    DialectName,
    SessionDefaults,
    SessionState,
    default_config,
    render_session,
)
from duplex_trio.protocol.duplex.structure import fields_of, make_wire_converter
from duplex_trio.testing.pictures import JPEG
from duplex_trio.testing.protocol_samples import ITEMS

ITEM_REFERENCE, RESPONSE_REFERENCE, CALL_REFERENCE = "<item>", "<response>", "<call>"
"""Stand for an id that the session has told; whoever sends a message puts one in."""

Valid = Mapping[str, Sequence[Any]]
"""The values that each key may have; keys of nested objects are dotted."""


@frozen
class MessageKind:
    """What one type of message may hold.

    Attributes:
        type: the wire type, or another name of it.
        values: by key, the values of the pool that its reader takes; never empty.
        required: the keys without which there is no such message.
    """

    type: str
    values: Valid
    required: frozenset[str] = field(factory=frozenset)

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys, aliases included, in a fixed order."""
        return tuple(self.values)


_FRAME = pybase64.b64encode_as_string(JPEG)


def _sound(n_bytes: int) -> str:
    return pybase64.b64encode_as_string(bytes(n_bytes))


def _item(item: Any) -> Any:
    return orjson.loads(encode_command(CreateItem(item=item)))["item"]


@cache
def pool() -> tuple[Any, ...]:
    """Values of every kind that some field takes, and some that none does."""
    return (
        None, True, False, 0, 1, 2, -1, 350, 8000, 24000, 44100, 1e9, 0.25, 1.0, 1.5, 2**53, 10**30, 1e300,
        "", "a", "root", "auto", "none", "text", "audio", "inf", "hello", "look_up", "barge_in", "listen", "drop",
        ITEM_REFERENCE, RESPONSE_REFERENCE, CALL_REFERENCE, "\x00", "\u00e9\u6f22\U0001f600", "x" * 2000,
        "pcm16", "audio/pcmu", "g711_alaw", "wav", "pcm_f32le", "mp3",
        _sound(4800), _sound(960), _sound(333), pybase64.b64encode_as_string(b"\x00\x20\x00\xe0" * 3000), "AAAA",
        "AAA", "@@@@", "AA==",
        {}, {"a": 1}, {"is_speech": True}, {"probability": 0.9}, {"type": "audio/pcm", "rate": 24000},
        {"type": "function", "name": "look_up"}, {"effort": "low"}, {"id": "p"},
        [], ["text"], ["audio"], ["a", 1], [{"type": "function", "name": "look_up", "parameters": {}}],
        *(_item(item) for item in ITEMS), *([_item(item)] for item in ITEMS),
        [{"type": "item_reference", "id": ITEM_REFERENCE}],
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]},
        {"type": "function_call_output", "call_id": CALL_REFERENCE, "output": "{}"},
        {"role": "user", "content": [{"type": "input_audio", "audio": _sound(9600)}]},
        {"role": "user", "content": [{"type": "input_audio", "audio": "AA=="}]},
        {"role": "user", "content": [{"type": "input_audio", "audio": "/////w==", "format": "pcm_f32le"}]},
        [_FRAME], [None, _FRAME, _FRAME],
    )  # fmt: skip


def _taken(read: Callable[[Any], Any]) -> list[Any]:
    taken = []
    for value in pool():
        try:
            read(value)
        except (ValueError, OverflowError, RealtimeError):
            continue
        taken.append(value)
    return taken


def _inner_class(annotation: Any) -> type | None:
    """The attrs class that a field holds, if it holds one."""
    if get_origin(annotation) is UnionType:
        return next((cls for cls in map(_inner_class, get_args(annotation)) if cls is not None), None)
    return annotation if isinstance(annotation, type) and attrs.has(annotation) else None


@cache
def _converter() -> Any:
    return make_wire_converter(detailed=True)


def _values_of(cls: type) -> dict[str, Sequence[Any]]:
    values: dict[str, Sequence[Any]] = {}
    types = get_type_hints(cls)
    for name, how in fields_of(cls).items():
        inner = _inner_class(types[name])
        if how.flat and inner is not None:
            values |= _values_of(inner)
            continue
        taken: Sequence[Any]
        if how.read is not None:
            taken = _taken(how.read)
        elif inner is not None:
            taken = _objects(_values_of(inner))
        else:
            hint = types[name]
            taken = _taken(lambda value, hint=hint: _converter().structure(value, hint))  # type: ignore[misc]
        values |= dict.fromkeys((how.name or name, *how.aliases), taken or pool())
    return values


def _objects(values: Valid) -> list[Any]:
    """Objects with one key each, and one with many."""
    made: list[Any] = [{}]
    everything: dict[str, Any] = {}
    for number, (key, some) in enumerate(values.items()):
        made += [nested({key: value}) for value in some]
        if not some or number % 3:
            continue
        everything[key] = some[number % len(some)]
    return [*made, nested(everything)]


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """An object of dotted keys as one of objects in objects; a key in the way of another one stays out."""
    made: dict[str, Any] = {}
    for key, value in flat.items():
        *path, last = key.split(".")
        at: Any = made
        for part in path:
            at = at.setdefault(part, {}) if isinstance(at, dict) else None
        if isinstance(at, dict):
            at.setdefault(last, value)
    return made


@cache
def session_fields(dialect: DialectName) -> Valid:
    """The fields of the session object as the server renders them, by dotted key, each with values to try."""
    rendered = render_session(
        default_config(SessionDefaults(model="any"), dialect),
        dialect=dialect,
        state=SessionState(session_id="s", state="open", turn_state="idle", epoch=0, turn_id=0),
    )
    fields: dict[str, list[Any]] = {}

    def walk(value: Any, path: str) -> None:
        if path:
            fields[path] = [value, *pool()]
        if isinstance(value, dict) and path != "capabilities":
            for key, inner in value.items():
                walk(inner, f"{path}.{key}" if path else key)

    walk(rendered, "")
    for key in ("audio.input.turn_detection", "turn_detection"):
        fields[key] = [None, *_DETECTIONS]
    return fields


_DETECTIONS: tuple[Any, ...] = (
    {"type": "server_vad"},
    {"type": "server_vad", "create_response": False},
    {"type": "server_vad", "interrupt_response": False, "silence_duration_ms": 200},
    {"type": "server_vad", "idle_timeout_ms": 5000},
    {"type": "semantic_vad", "eagerness": "high"},
    {"threshold": 0.9},
    {"type": "psychic_vad"},
)


@cache
def message_kinds() -> tuple[MessageKind, ...]:
    """Every type of message there is, under all its names."""
    kinds = []
    for name in (*COMMAND_CLASSES, *TYPE_ALIASES):
        cls = COMMAND_CLASSES[TYPE_ALIASES.get(name, name)]
        values = _values_of(cls)
        values.pop("event_id", None)
        required = frozenset(
            how.name or attribute.name
            for attribute, how in zip(attrs.fields(cls), fields_of(cls).values(), strict=True)
            if attribute.default is attrs.NOTHING
        )
        kinds.append(MessageKind(type=name, values=values, required=required & values.keys()))
    return tuple(kinds)
