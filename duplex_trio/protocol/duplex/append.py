"""Reading `input_audio_buffer.append` by hand, because a client sends fifty of them a second.

Owns the hand-written twin of the generic reader and the rules between an append's fields. It looks once at
each key that is there, where the generic reader looks for each key that could be there; both take everything
else from the fields themselves. A message it refuses is read again by the generic reader, which finds the
words for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_type_hints

from attrs import frozen

from duplex_trio.protocol.duplex.commands import AppendAudio
from duplex_trio.protocol.duplex.hints import NO_HINTS, AppendHints
from duplex_trio.protocol.duplex.structure import Message, fields_of
from duplex_trio.protocol.json_values import read_boolean, read_string
from duplex_trio.protocol.realtime.errors import RealtimeError


@frozen
class _Slot:
    name: str
    read: Callable[[Any], Any]
    is_hint: bool
    is_alias: bool


_BY_TYPE: dict[Any, Callable[[Any], Any]] = {str | None: read_string, bool | None: read_boolean}


def _slots(cls: type, *, is_hint: bool) -> dict[str, _Slot]:
    types = get_type_hints(cls)
    slots: dict[str, _Slot] = {}
    for name, how in fields_of(cls).items():
        if how.flat:
            continue
        read = how.read or _BY_TYPE[types[name]]
        slots[how.name or name] = _Slot(name, read, is_hint, False)
        slots.update({alias: _Slot(name, read, is_hint, True) for alias in how.aliases})
    return slots


_SLOTS = {**_slots(AppendHints, is_hint=True), **_slots(AppendAudio, is_hint=False)}
assert len(_SLOTS) == sum(
    len(how.aliases) + 1
    for cls in (AppendAudio, AppendHints)
    for how in fields_of(cls).values()
    if not how.flat
)


def read_append(message: Message, _: Any = None) -> AppendAudio:
    """The append in `message`.

    Raises:
        ValueError: a field is wrong.
        RealtimeError: a field is wrong.
    """
    values: dict[str, Any] = {}
    hints: dict[str, Any] = {}
    for key, value in message.items():
        slot = _SLOTS.get(key)
        if slot is None or value is None:
            continue
        into = hints if slot.is_hint else values
        if slot.is_alias and slot.name in into:
            continue
        into[slot.name] = slot.read(value)
    return AppendAudio(**values, hints=AppendHints(**hints) if hints else NO_HINTS)


def check_append(command: AppendAudio) -> None:
    """Refuse an append that holds nothing, or frames that are to be sliced.

    Raises:
        RealtimeError: `bad_event` or `invalid_video_frames`.
    """
    if not command.audio and not command.video_frames:
        raise RealtimeError("bad_event", "expected audio or video_frames", param="audio")
    if command.video_frames and command.hints.max_slice_nums not in (None, 1):
        raise RealtimeError("invalid_video_frames", "expected 1 or nothing", param="max_slice_nums")
