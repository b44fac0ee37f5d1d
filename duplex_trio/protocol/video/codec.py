"""From text to the messages of a video and back, for the server and for clients.

Owns the table of types and the one converter. How a start is read is `start`'s, how an interaction is
`interaction`'s. Whatever the input, the only exception that leaves the decoders is a `VideoRefused`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, get_args, get_origin

import attrs
import orjson
from cattrs import BaseConverter
from cattrs.cols import is_mapping
from cattrs.gen import make_dict_unstructure_fn
from cattrs.preconf.orjson import OrjsonConverter, make_converter

from duplex_trio.protocol.json_values import read_boolean, read_number, read_object
from duplex_trio.protocol.video.errors import VideoRefused
from duplex_trio.protocol.video.interaction import read_interaction
from duplex_trio.protocol.video.json_text import (
    MESSAGE_BYTES_MAX,
    START_BYTES_MAX,
    message_type,
    read_message,
)
from duplex_trio.protocol.video.messages import (
    SessionInteraction,
    SessionPing,
    SessionPlayback,
    SessionStart,
    SessionStop,
    VideoCommand,
    VideoErrorEvent,
    VideoEvent,
)
from duplex_trio.protocol.video.reading import (
    number_in,
    one_of,
    read_integer,
    read_text,
    take,
)
from duplex_trio.protocol.video.start import read_start

VIDEO_EVENT_CLASSES: Mapping[str, type[VideoEvent]] = MappingProxyType(
    {cls.type: cls for cls in get_args(VideoEvent)}
)
"""What clients get, by its wire type."""
VIDEO_COMMAND_CLASSES: Mapping[str, type[VideoCommand]] = MappingProxyType(
    {cls.type: cls for cls in get_args(VideoCommand)}
)
"""What clients send, by its wire type."""


def decode_start(text: str) -> SessionStart:
    """The first message of a connection.

    Raises:
        VideoRefused: `message_too_large` (over 64 KiB), `invalid_json`, `invalid_message`, `session_not_started` (it is
            another message) or `invalid_start`.
    """
    message = read_message(text, START_BYTES_MAX)
    if message_type(message) != SessionStart.type:
        raise VideoRefused("session_not_started", f"The first message is a {SessionStart.type}.")
    return read_start(message)


def decode_command(text: str) -> SessionInteraction | SessionPing | SessionStop | SessionPlayback:
    """Any later message.

    Raises:
        VideoRefused: `message_too_large` (over 128 KiB), `invalid_json`, `invalid_message`, `unknown_type`,
            `session_already_started` or `invalid_interaction`.
    """
    message = read_message(text, MESSAGE_BYTES_MAX)
    match message_type(message):
        case SessionInteraction.type:
            return read_interaction(message)
        case SessionPing.type:
            return SessionPing()
        case SessionStop.type:
            return SessionStop()
        case SessionPlayback.type:
            return _read_playback(message)
        case SessionStart.type:
            raise VideoRefused("session_already_started", "This connection has its video already.")
        case kind:
            shown = kind[:64].encode("ascii", "backslashreplace").decode()
            raise VideoRefused("unknown_type", f"There is no message {shown!r}.", param="type")


def encode_command(command: VideoCommand) -> bytes:
    """The text message that says `command`; decoding it gives an equal one back.

    Raises:
        TypeError: the command holds what JSON cannot express.
        ValueError: a number in a field of its own is not finite.
    """
    return _encode(command)


def encode_event(event: VideoEvent) -> bytes:
    """The text message of an event; `decode_event` gives an equal one back."""
    return _encode(event)


def decode_event(text: str | bytes) -> VideoEvent:
    """An event as a client reads it. Fields that it does not know are ignored.

    An error may also come in the envelope in which WebSockets that lead nowhere tell theirs (decision D13).

    Raises:
        VideoRefused: `invalid_json`, `invalid_message` (with `param` where a field is to blame) or `unknown_type`.
    """
    try:
        message = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise VideoRefused("invalid_json", f"The message is not JSON: {error}.") from None
    if type(message) is not dict:
        raise VideoRefused("invalid_message", "A message is a JSON object.")
    kind = message_type(message)
    cls = VIDEO_EVENT_CLASSES.get(kind)
    if cls is None:
        raise VideoRefused("unknown_type", f"There is no event {kind[:64]!r}.", param="type")
    envelope = message.get("error")
    if cls is VideoErrorEvent and "code" not in message and type(envelope) is dict:
        message = envelope
    try:
        return _CONVERTER.structure(message, cls)
    except KeyError as missing:
        name = str(missing.args[0])
        raise VideoRefused("invalid_message", f"{kind}: {name} is missing.", param=name) from None
    except ValueError as error:
        raise VideoRefused("invalid_message", f"{kind}: {error}.") from None


def _read_playback(message: Mapping[str, Any]) -> SessionPlayback:
    name, code = "position_seconds", "invalid_message"
    position_s = take(message, name, number_in(0, math.inf), code=code)
    if position_s is None:
        raise VideoRefused(code, f"{name}: it is missing.", param=name)
    return SessionPlayback(position_seconds=position_s)


def _encode(message: VideoCommand | VideoEvent) -> bytes:
    return orjson.dumps(_CONVERTER.unstructure(message), default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def _make_converter() -> OrjsonConverter:
    converter = make_converter(detailed_validation=False)
    converter.register_structure_hook(str, lambda value, _: read_text(value))
    converter.register_structure_hook(bool, lambda value, _: read_boolean(value))
    converter.register_structure_hook(int, lambda value, _: read_integer(value))
    converter.register_structure_hook(float, lambda value, _: read_number(value))
    converter.register_structure_hook_func(_is_word, _structure_word)
    converter.register_structure_hook_func(lambda kind: kind == tuple[str, ...], _structure_ids)
    converter.register_structure_hook_factory(is_mapping, _structure_mapping)
    converter.register_unstructure_hook(float, _finite)
    converter.register_unstructure_hook_factory(attrs.has, _writer_of)
    converter.register_unstructure_hook_func(is_mapping, dict)
    return converter


def _finite(value: float) -> float:
    # orjson would write null, which is another request.
    if type(value) is float and not math.isfinite(value):
        raise ValueError(f"{value} is no number of JSON")
    return value


def _is_word(kind: Any) -> bool:
    origin: Any = get_origin(kind)
    return origin is Literal


def _structure_word(value: Any, kind: Any) -> str:
    return one_of(*get_args(kind))(value)


def _structure_ids(value: Any, _: Any) -> tuple[str, ...]:
    if type(value) is not list:
        raise ValueError("expected a list")
    return tuple(map(read_text, value))


def _structure_mapping(kind: Any, converter: BaseConverter) -> Callable[[Any, Any], Mapping[str, Any]]:
    inner = get_args(kind)[1]

    def structure(value: Any, _: Any) -> Mapping[str, Any]:
        entries = read_object(value)
        return entries if inner is Any else {key: converter.structure(entries[key], inner) for key in entries}

    return structure


def _writer_of(cls: Any, converter: BaseConverter) -> Callable[[Any], dict[str, Any]]:
    # What a client leaves open, and what an error has nothing to say of, is left out; all else of an event is there.
    brief = cls is VideoErrorEvent or cls in VIDEO_COMMAND_CLASSES.values()
    write: Callable[[Any], dict[str, Any]] = make_dict_unstructure_fn(
        cls, converter, _cattrs_omit_if_default=brief
    )
    if cls is SessionInteraction:
        return lambda value: {"type": cls.type, "interaction": _without_none(write(value))}
    return lambda value: {"type": cls.type, **write(value)}


def _without_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


_CONVERTER = _make_converter()
