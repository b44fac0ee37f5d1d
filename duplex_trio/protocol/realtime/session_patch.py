"""Reading a session update: where a field is, under which spelling, and what of the message nobody knows.

An update is a partial object: absent fields stay, null returns a field to its default. Objects inside merge
in the same way (RFC 7396). What each field accepts is in `session_fields.py`.

A key that nobody knows is kept and shown, at every depth but inside of turn detection: a client that is newer
than this server says more than it needs, and must not lose its session for it. A `response.create` refuses such a
key, because nothing would show that it was ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal

from attrs import frozen

from duplex_trio.protocol.realtime import checks
from duplex_trio.protocol.realtime.errors import RealtimeError

DialectName = Literal["ga", "beta", "duplex"]

ROOT: Final = "session"
"""What the path of every field in an error starts with."""

_CONTAINERS: Final = frozenset({"audio", "audio.input", "audio.output"})
# A client may send back the object it was given; what only the server sets is not a wish of the client's.
_SERVER_OWNED: Final = frozenset(
    {
        "type",
        "id",
        "object",
        "session_id",
        "event_id",
        "expires_at",
        "client_secret",
        "resume_token",
        "attachment_generation",
        "state",
        "turn_state",
        "epoch",
        "turn_id",
        "active_request_id",
        "active_response_id",
        "active_response_turn_id",
        "playback",
        "capabilities",
    }
)


@frozen
class Found:
    """A field that an update names: its value (None for null) and its path as the client wrote it."""

    value: object
    param: str


class PatchReader:
    """Looks fields up in one update, and remembers for which it was asked so that `rest` gives all others."""

    def __init__(self, patch: object) -> None:
        """Raises RealtimeError `invalid_value` (param `session`) unless `patch` is an object."""
        self._patch = checks.mapping(patch, ROOT)
        self._claimed: set[str] = set()

    def find(self, *paths: str, skip_null: bool = False) -> Found | None:
        """Return the first of the dotted `paths` that the update names; `skip_null` prefers one not null."""
        self._claimed.update(paths)
        first: Found | None = None
        for path in paths:
            found = self._at(path)
            if found is None:
                continue
            if found.value is not None or not skip_null:
                return found
            first = first or found
        return first

    def rest(self) -> dict[str, Any]:
        """Return what no `find` asked for, without server-set fields and without what JSON cannot express."""
        return self._unclaimed(self._patch, "")

    def _at(self, path: str) -> Found | None:
        *parents, last = path.split(".")
        here: Mapping[str, Any] = self._patch
        param = ROOT
        for parent in parents:
            inner = here.get(parent)
            if inner is None:
                return None
            param = f"{param}.{parent}"
            here = checks.mapping(inner, param)
        return Found(here[last], f"{param}.{last}") if last in here else None

    def _unclaimed(self, fields: Mapping[str, Any], prefix: str) -> dict[str, Any]:
        rest: dict[str, Any] = {}
        for key, value in fields.items():
            path = f"{prefix}{key}"
            if path in self._claimed or path in _SERVER_OWNED or not isinstance(key, str):
                continue
            if path in _CONTAINERS:
                inner = self._unclaimed(value, f"{path}.") if isinstance(value, Mapping) else {}
                if inner:
                    rest[key] = inner
                continue
            try:
                rest[key] = checks.json_copy(value, f"{ROOT}.{path}")
            except RealtimeError:
                continue
        return rest


FieldParser = Callable[[object, str, Any, DialectName], object]
"""(value not null, its path, the config's current value, the dialect) -> the new value, or RealtimeError."""


@frozen
class Field:
    """One field of the session: its attribute in the config, its spellings by precedence, and its check.

    `null` says whether null returns the field to its default or says nothing.
    """

    name: str
    paths: tuple[str, ...]
    parse: FieldParser
    null: Literal["default", "keep"] = "default"
    skip_null: bool = False


def read_fields(
    fields: Iterable[Field], reader: PatchReader, current: object, defaults: object, dialect: DialectName
) -> dict[str, Found]:
    """Return the new value and the path of each of `fields` that the update names, keyed by attribute name.

    `current` and `defaults` are configs with those attributes.
    """
    changes: dict[str, Found] = {}
    for field in fields:
        found = reader.find(*field.paths, skip_null=field.skip_null)
        if found is None or (found.value is None and field.null == "keep"):
            continue
        if found.value is None:
            changes[field.name] = Found(getattr(defaults, field.name), found.param)
        else:
            parsed = field.parse(found.value, found.param, getattr(current, field.name), dialect)
            changes[field.name] = Found(parsed, found.param)
    return changes


def merge_unknown(current: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return unknown keys after an update: objects merge, null deletes, all else replaces (RFC 7396).

    Raises RealtimeError `invalid_value` (param `session`) when they would grow beyond
    `MAX_ACCUMULATED_BYTES`.
    """
    merged = _merge(current, patch)
    copied: dict[str, Any] = checks.json_copy(merged, ROOT, max_bytes=checks.MAX_ACCUMULATED_BYTES)
    return copied


def _merge(current: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(current)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            below = merged.get(key)
            merged[key] = _merge(below if isinstance(below, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged
