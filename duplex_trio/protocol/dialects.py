"""One event stream, three ways to write it: OpenAI's GA protocol, its beta, and the duplex protocol.

Owns which events a dialect has, what it calls them and which of their fields it shows. Rendering is a pure
function of the event; the shape comes from the fields of the event classes. Session objects arrive already
written for the dialect, because a session keeps one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from types import MappingProxyType
from typing import Any

import attrs
import orjson
import pybase64
from cattrs import BaseConverter
from cattrs.gen import make_dict_unstructure_fn, override
from cattrs.preconf.orjson import OrjsonConverter

from duplex_trio.protocol.duplex import (
    EVENT_CLASSES,
    DuplexEvent,
    OutputAudioPart,
    OutputTextPart,
    RealtimeResponse,
    ResponseOutputAudioDelta,
)
from duplex_trio.protocol.duplex.session import DialectName
from duplex_trio.protocol.duplex.structure import make_wire_converter

__all__ = ["Dialect", "dialect_converter", "event_types", "render"]


class Dialect(StrEnum):
    """How a client speaks: chosen when it connects, fixed for the session."""

    GA = "ga"
    """OpenAI's protocol: its events and fields only."""
    BETA = "beta"
    """The same lifecycle under the names of OpenAI's beta."""
    DUPLEX = "duplex"
    """OpenAI's events with the key `duplex`, and our own events."""

    @property
    def session_name(self) -> DialectName:
        """The name that the session object's code knows it by."""
        return _SESSION_NAMES[self]


_SESSION_NAMES: Mapping[Dialect, DialectName] = MappingProxyType(
    {Dialect.GA: "ga", Dialect.BETA: "beta", Dialect.DUPLEX: "duplex"}
)

_ABSENT: Mapping[Dialect, frozenset[str]] = MappingProxyType(
    {
        Dialect.GA: frozenset({"conversation.item.created"}),
        Dialect.BETA: frozenset(
            {"conversation.item.added", "conversation.item.done", "input_audio_buffer.timeout_triggered"}
        ),
        Dialect.DUPLEX: frozenset(),
    }
)
"""Events of OpenAI that a dialect does not have."""

_BETA_TYPES: Mapping[str, str] = MappingProxyType(
    {
        f"response.{new}.{step}": f"response.{old}.{step}"
        for new, old in (
            ("output_audio", "audio"),
            ("output_audio_transcript", "audio_transcript"),
            ("output_text", "text"),
        )
        for step in ("delta", "done")
    }
)
_BETA_PART_TYPES: Mapping[type, str] = MappingProxyType({OutputTextPart: "text", OutputAudioPart: "audio"})
_BETA_FORMATS: Mapping[str, str] = MappingProxyType(
    {"audio/pcm": "pcm16", "audio/pcmu": "g711_ulaw", "audio/pcma": "g711_alaw"}
)

_OPTIONS = orjson.OPT_SERIALIZE_NUMPY


def render(event: DuplexEvent, dialect: Dialect, *, server_event_seq: int | None = None) -> bytes | None:
    """The JSON text of `event`, or None when the dialect has no such event.

    Args:
        event: what the session emitted.
        dialect: the client's.
        server_event_seq: the event's place in the journal; only the duplex dialect shows it.
    """
    cls = type(event)
    if cls not in _FORMS[dialect]:
        assert cls in EVENT_CLASSES, f"{cls} is no event class"
        return None
    if dialect is not Dialect.DUPLEX:
        server_event_seq = None
        if any(getattr(event, name) is None for name in _REQUIRED[cls]):
            return None
    if isinstance(event, ResponseOutputAudioDelta):
        return _render_audio(event, dialect, server_event_seq)
    message: dict[str, Any] = _CONVERTERS[dialect].unstructure(event)
    if server_event_seq is not None:
        message["server_event_seq"] = server_event_seq
    return orjson.dumps(message, default=dict, option=_OPTIONS)


def _render_audio(event: ResponseOutputAudioDelta, dialect: Dialect, server_event_seq: int | None) -> bytes:
    # Base64 needs no escaping, so the one long value of the protocol goes past the JSON writer.
    tail = b""
    if dialect is Dialect.DUPLEX:
        if event.duplex is not None:
            extension = _CONVERTERS[dialect].unstructure(event.duplex)
            tail = b',"duplex":' + orjson.dumps(extension, default=dict, option=_OPTIONS)
        if server_event_seq is not None:
            tail += b',"server_event_seq":%d' % server_event_seq
    return _AUDIO_TEMPLATES[dialect] % (
        orjson.dumps(event.event_id),
        orjson.dumps(event.response_id),
        orjson.dumps(event.item_id),
        event.output_index,
        event.content_index,
        pybase64.b64encode(event.delta),
        tail,
    )


def event_types(dialect: Dialect) -> Mapping[str, type[DuplexEvent]]:
    """The events of a dialect: the class of each by what the dialect calls it."""
    return {_wire_type(cls, dialect) or "": cls for cls in EVENT_CLASSES if cls in _FORMS[dialect]}


def dialect_converter(dialect: Dialect) -> OrjsonConverter:
    """The converter that writes a dialect: the protocol's, with the dialect's names and fields."""
    converter = make_wire_converter(detailed=False)
    converter.register_unstructure_hook_factory(attrs.has, partial(_writer_of, dialect))
    return converter


def _wire_type(cls: type, dialect: Dialect) -> str | None:
    tag = getattr(cls, "type", None)
    if not isinstance(tag, str):
        return None
    if dialect is Dialect.BETA:
        return _BETA_PART_TYPES.get(cls) or _BETA_TYPES.get(tag, tag)
    return tag


def _openai_twin(cls: type) -> type:
    """The Tier 1 class that `cls` extends, or `cls` itself."""
    return next(base for base in cls.__mro__ if getattr(base, "tier", 1) == 1)


def _writer_of(dialect: Dialect, cls: type, converter: BaseConverter) -> Callable[[Any], dict[str, Any]]:
    shown = cls if dialect is Dialect.DUPLEX else _openai_twin(cls)
    overrides: dict[str, Any] = {}
    for attribute in attrs.fields(shown):
        overrides[attribute.name] = override(
            omit=dialect is not Dialect.DUPLEX and attribute.metadata.get("duplex_only", False),
            omit_if_default=attribute.metadata.get("omit_null", False),
        )
    if cls is RealtimeResponse and dialect is not Dialect.BETA:
        overrides["modalities"] = override(rename="output_modalities")
    write: Callable[[Any], dict[str, Any]] = make_dict_unstructure_fn(
        shown, converter, _cattrs_include_init_false=True, **overrides
    )
    tags: dict[str, Any] = {"type": _wire_type(cls, dialect), "object": getattr(cls, "object", None)}
    tags = {key: tag for key, tag in tags.items() if tag is not None}
    if cls is RealtimeResponse and dialect is Dialect.BETA:
        return lambda value: _with_flat_audio({**tags, **write(value)})
    return lambda value: {**tags, **write(value)}


def _with_flat_audio(response: dict[str, Any]) -> dict[str, Any]:
    output = response.pop("audio", {}).get("output", {})
    if "voice" in output:
        response["voice"] = output["voice"]
    if "format" in output:
        name = output["format"].get("type")
        response["output_audio_format"] = _BETA_FORMATS.get(name, name)
    return response


_CONVERTERS: Mapping[Dialect, OrjsonConverter] = MappingProxyType(
    {dialect: dialect_converter(dialect) for dialect in Dialect}
)

_FORMS: Mapping[Dialect, frozenset[type[DuplexEvent]]] = MappingProxyType(
    {
        dialect: frozenset(
            cls
            for cls in EVENT_CLASSES
            if cls.type not in _ABSENT[dialect] and (dialect is Dialect.DUPLEX or cls.tier < 3)
        )
        for dialect in Dialect
    }
)
"""The event classes each dialect has."""

_REQUIRED: Mapping[type[DuplexEvent], tuple[str, ...]] = MappingProxyType(
    {
        cls: tuple(a.name for a in attrs.fields(cls) if a.metadata.get("openai_required", False))
        for cls in EVENT_CLASSES
    }
)
"""The fields without which OpenAI's schema does not have the event."""

_AUDIO_TEMPLATES: Mapping[Dialect, bytes] = MappingProxyType(
    {
        dialect: b'{"type":"%b","event_id":%%b,"response_id":%%b,"item_id":%%b,"output_index":%%d,'
        b'"content_index":%%d,"delta":"%%b"%%b}'
        % (_wire_type(ResponseOutputAudioDelta, dialect) or "").encode()
        for dialect in Dialect
    }
)
