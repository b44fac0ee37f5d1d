"""A complete picture of an object and of everything below it, to show that something changed nothing.

A picture is flat: it maps the place of each plain value, such as `.active.cursor.sent_ms`, to the value, so
two of them compare with `==` and what differs is found by its name. It looks into attrs classes, ordinary
objects, containers and arrays, private fields included. What holds no data of its own (a function, a lock, a
resampler written in C) counts as the same as long as it is the very same object.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Any

import attrs
import numpy as np

Snapshot = Mapping[str, Any]
"""Values by place. Sets, arrays and foreign objects are values too."""

_PLAIN = (str, bytes, int, float, complex, type(None), Enum)
_OWN_PACKAGE = "duplex_trio."


def snapshot(root: object) -> dict[str, Any]:
    """Picture an object as it is now; later changes of it do not change the picture.

    Args:
        root: such as a session's `DuplexEngineSession`. Objects of other packages are not looked into.
    """
    picture: dict[str, Any] = {}
    _draw(root, "", picture, {})
    return picture


def differences(before: Snapshot, after: Snapshot, *, ignoring: Sequence[str] = ()) -> list[str]:
    """What is not the same in two pictures, one line a place; empty when nothing differs.

    Args:
        before: the earlier picture.
        after: the later one.
        ignoring: places to leave out, with everything below them.
    """
    lines = []
    for place in [*before, *(place for place in after if place not in before)]:
        if any(place == left_out or _is_below(place, left_out) for left_out in ignoring):
            continue
        old, new = before.get(place, "(nothing)"), after.get(place, "(nothing)")
        if not _same(old, new):
            lines.append(f"{place}: {old!r:.200} -> {new!r:.200}")
    return lines


def _is_below(place: str, above: str) -> bool:
    return place.startswith((f"{above}.", f"{above}["))


def _same(old: Any, new: Any) -> bool:
    if isinstance(old, float) and isinstance(new, float) and old != old and new != new:
        return True
    return type(old) is type(new) and bool(old == new)


def _draw(value: Any, place: str, picture: dict[str, Any], seen: dict[int, str]) -> None:
    if isinstance(value, _PLAIN):
        picture[place] = value
        return
    if id(value) in seen:
        # An object in two places, or within itself: whether it is still the same one matters, not its inside.
        picture[place] = f"(the one at {seen[id(value)]})"
        return
    if not isinstance(value, tuple | frozenset):
        seen[id(value)] = place
    if isinstance(value, np.ndarray):
        picture[place] = (str(value.dtype), value.shape, value.tobytes())
    elif isinstance(value, AbstractSet):
        picture[place] = frozenset(value)
    elif isinstance(value, Mapping):
        picture[f"{place}[]"] = tuple(value)
        for key, item in value.items():
            _draw(item, f"{place}[{key!r}]", picture, seen)
    elif isinstance(value, list | tuple | deque):
        picture[f"{place}[]"] = len(value)
        for index, item in enumerate(value):
            _draw(item, f"{place}[{index}]", picture, seen)
    elif type(value).__module__.startswith(_OWN_PACKAGE) and not isinstance(value, type):
        picture[f"{place}:"] = type(value).__name__
        for name, item in _fields(value):
            _draw(item, f"{place}.{name}", picture, seen)
    else:
        picture[place] = (type(value).__name__, id(value))


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    declared = attrs.has(type(value))
    names = [field.name for field in attrs.fields(type(value))] if declared else list(vars(value))
    return ((name, getattr(value, name)) for name in names if hasattr(value, name))
