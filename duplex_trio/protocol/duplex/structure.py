"""The converter between messages and command classes, built from what the fields say about the wire.

Owns how any class is read and written: keys, aliases, strict types, error codes and paths. Which type names
which class, and the rules that concern more than one field, are in `codec`; the hand-written twin of the most
frequent message is in `append`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import pybase64
from cattrs import BaseConverter, ClassValidationError
from cattrs.cols import is_mapping
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override
from cattrs.preconf.orjson import OrjsonConverter, make_converter

from duplex_trio.protocol.json_values import read_boolean, read_number, read_object, read_string
from duplex_trio.protocol.realtime.errors import RealtimeError
from duplex_trio.protocol.realtime.fields import WireField, wire_field
from duplex_trio.protocol.realtime.readers import read_integer
from duplex_trio.protocol.realtime.response_options import ResponseCreateOptions

Message = Mapping[str, Any]
Path = tuple[str, ...]

_CLOSED = frozenset({ResponseCreateOptions})
"""Classes that refuse keys they do not know."""


def make_wire_converter(*, detailed: bool) -> OrjsonConverter:
    """A converter for commands: `structure(message, cls)`, `unstructure(command)`.

    With `detailed`, a wrong message raises the `RealtimeError` to answer with, its `param` complete. Without,
    reading is faster and a wrong message raises whatever came first.
    """
    converter = make_converter(detailed_validation=detailed)
    converter.register_structure_hook(str, lambda value, _: read_string(value))
    converter.register_structure_hook(bool, lambda value, _: read_boolean(value))
    converter.register_structure_hook(int, lambda value, _: read_integer(value))
    converter.register_structure_hook(float, lambda value, _: read_number(value))
    converter.register_structure_hook_factory(attrs.has, _reader_of)
    converter.register_unstructure_hook_factory(attrs.has, _writer_of)
    converter.register_unstructure_hook(bytes, pybase64.b64encode_as_string)
    converter.register_unstructure_hook_func(is_mapping, dict)
    return converter


def fields_of(cls: type) -> Mapping[str, WireField]:
    """What each field of `cls` says about the wire."""
    return {attribute.name: wire_field(attribute) for attribute in attrs.fields(cls)}


def _spellings(name: str, how: WireField) -> tuple[Path, ...]:
    return tuple(tuple(key.split(".")) for key in (how.name or name, *how.aliases))


def _dig(message: Message, path: Path) -> Any:
    value: Any = message
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def _reader_of(cls: type, converter: BaseConverter) -> Callable[[Any, Any], Any]:
    fields = fields_of(cls)
    overrides: dict[str, Any] = {
        name: override(struct_hook=_as_hook(how)) for name, how in fields.items() if how.read
    }
    read: Callable[[Message, type], Any] = make_dict_structure_fn(
        cls, converter, _cattrs_detailed_validation=converter.detailed_validation, **overrides
    )
    spellings = {name: _spellings(name, how) for name, how in fields.items() if not how.flat}
    flat = [name for name, how in fields.items() if how.flat]
    known = {path[0] for paths in spellings.values() for path in paths} if cls in _CLOSED else None

    def structure(message: Any, _: Any) -> Any:
        read_object(message)
        if known is not None:
            _refuse_unknown(message, known)
        values: dict[str, Any] = dict.fromkeys(flat, message)
        found: dict[str, Path] = {}
        for name, paths in spellings.items():
            for path in paths:
                value = message.get(path[0]) if len(path) == 1 else _dig(message, path)
                if value is not None:
                    values[name], found[name] = value, path
                    break
        try:
            return read(values, cls)
        except ClassValidationError as fault:
            raise _first_fault(fault, fields, found) from None

    return structure


def _as_hook(how: WireField) -> Callable[[Any, Any], Any]:
    read = how.read
    assert read is not None
    return lambda value, _: read(value)


def _refuse_unknown(message: Message, known: set[str]) -> None:
    for key in message:
        if key not in known:
            raise RealtimeError("unknown_parameter", "there is no such parameter", param=key[:64])


def _first_fault(
    fault: ClassValidationError, fields: Mapping[str, WireField], found: Mapping[str, Path]
) -> RealtimeError:
    """The error of the first field at fault, its path relative to the object that was read."""
    noted, others = fault.group_exceptions()
    assert noted, others
    error, note = noted[0]
    how = fields[note.name]
    path = "" if how.flat else ".".join(found.get(note.name, (how.name or note.name,)))
    if isinstance(error, RealtimeError):
        return error.with_param(join_path(path, error.param))
    message = "missing" if isinstance(error, KeyError) else str(error)
    return RealtimeError(how.code, message, param=path)


def join_path(path: str, relative: str | None) -> str:
    """The path of a field from that of the object it is in."""
    if not relative:
        return path
    if not path:
        return relative
    return f"{path}{relative}" if relative.startswith("[") else f"{path}.{relative}"


def _writer_of(cls: type, converter: BaseConverter) -> Callable[[Any], dict[str, Any]]:
    fields = fields_of(cls)
    overrides: dict[str, Any] = {
        name: override(omit=how.flat, rename=how.name or name, omit_if_default=True)
        for name, how in fields.items()
    }
    write: Callable[[Any], dict[str, Any]] = make_dict_unstructure_fn(cls, converter, **overrides)
    flat = [name for name, how in fields.items() if how.flat]
    tags = {key: tag for key in ("type", "object") if isinstance(tag := getattr(cls, key, None), str)}

    def unstructure(value: Any) -> dict[str, Any]:
        message = {**tags, **write(value)}
        for name in flat:
            message.update(converter.unstructure(getattr(value, name)))
        return message

    return unstructure
