"""Events of the duplex dialect read back from their JSON, as a client of our own in Python could.

The one direction that the server does not have. It lets a test put what was replayed as text beside what was
sent as events, and hold both against the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, get_args

import orjson
import pybase64
from cattrs.gen import make_dict_structure_fn, override
from cattrs.preconf.orjson import OrjsonConverter, make_converter

from duplex_trio.protocol.duplex import (
    EVENT_CLASSES,
    ContentPart,
    DuplexEvent,
    Item,
    ItemPart,
    RealtimeResponse,
)

_CLASSES: Mapping[str, type[DuplexEvent]] = MappingProxyType({cls.type: cls for cls in EVENT_CLASSES})


def read_event(text: bytes) -> DuplexEvent:
    """The event that was rendered as `text` for the duplex dialect."""
    message = orjson.loads(text)
    return _CONVERTER.structure(message, _CLASSES[message["type"]])


def _make_converter() -> OrjsonConverter:
    converter = make_converter()
    converter.register_structure_hook(bytes, lambda value, _: pybase64.b64decode(value))
    for union in (ContentPart, Item, ItemPart):
        _tell_apart(converter, union)
    renamed = make_dict_structure_fn(
        RealtimeResponse, converter, modalities=override(rename="output_modalities")
    )
    converter.register_structure_hook(RealtimeResponse, renamed)
    return converter


def _tell_apart(converter: OrjsonConverter, union: Any) -> None:
    classes = {cls.type: cls for cls in get_args(union)}
    converter.register_structure_hook(
        union, lambda value, _: converter.structure(value, classes[value["type"]])
    )


_CONVERTER = _make_converter()
