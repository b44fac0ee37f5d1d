"""Hypothesis strategies for client messages: right ones, almost right ones, and texts that are none.

What is right comes from `vocabulary`. Almost right is a right message in which one or two things were
changed:
a value of another kind, a key gone, a key too many or twice, another depth, numbers and strings that JSON
readers disagree about. Needs hypothesis, of the `test` extra.
"""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import strategies as st

from duplex_trio.protocol.duplex import SIGNALLED_COMMANDS
from duplex_trio.protocol.duplex.session import DialectName
from duplex_trio.testing.fuzz.vocabulary import MessageKind, message_kinds, nested, pool, session_fields

EVENT_ID = "<event id>"
"""Stands for an id that its sender has not used before."""

_RAW = "<raw>"
"""A string with this in front is written into the JSON text without quotes, as it is."""
_QUOTED_RAW = re.compile(rf'"{_RAW}((?:[^"\\]|\\.)*)"')
_ODD_NUMBERS = ("NaN", "-Infinity", "1e400", "-0", "1E5", "00", "0x10", "9" * 400, "1." + "0" * 300, "1_000")
_DEEP = (99, 100, 101, 250, 1200)

_SURPLUS = (*sorted({key for kind in message_kinds() for key in kind.keys}), "surplus", "\ud800", "")
_BY_TYPE = {kind.type: kind for kind in message_kinds()}
_OTHERS = tuple(kind for kind in _BY_TYPE if "close" not in kind) * 3 + (
    "session.close",
    "close",
    "close_session",
)
_BUSY = ("input_audio_buffer.append", "conversation.item.create", "response.create", "session.update")


def _sparse(kind: MessageKind) -> st.SearchStrategy[dict[str, Any]]:
    """A message with its required keys and a few others, each with a value that its reader takes."""

    def draw(draw: st.DrawFn) -> dict[str, Any]:
        others = [key for key in kind.keys if key not in kind.required]
        chosen = draw(st.lists(st.sampled_from(others), max_size=4, unique=True)) if others else []
        keys = [*(key for key in kind.keys if key in kind.required), *chosen]
        if kind.type == "input_audio_buffer.append" and draw(st.integers(0, 3)):
            keys.append("audio")
        return {key: draw(st.sampled_from(kind.values[key])) for key in keys}

    return st.composite(draw)()


def session_objects(dialect: DialectName) -> st.SearchStrategy[dict[str, Any]]:
    """Session objects with some of the fields that the server's own has."""
    fields = session_fields(dialect)
    echoed = st.sampled_from(list(fields)).flatmap(
        lambda key: st.tuples(st.just(key), st.sampled_from(fields[key]))
    )
    same = st.sampled_from(list(fields)).map(lambda key: (key, fields[key][0]))
    return st.lists(echoed | same | same, max_size=3).map(lambda pairs: nested(dict(pairs)))


@st.composite
def _right(draw: st.DrawFn, dialect: DialectName) -> dict[str, Any]:
    busy = draw(st.integers(0, 1))
    kind = _BY_TYPE[draw(st.sampled_from(_BUSY if busy else _OTHERS))]
    body = draw(_sparse(kind))
    if kind.type == "session.update":
        body["session"] = draw(session_objects(dialect))
    if "event" in body and draw(st.booleans()):
        signal = _BY_TYPE[draw(st.sampled_from(sorted(SIGNALLED_COMMANDS)))]
        body |= {"event": signal.type, "payload": draw(_sparse(signal))}
    return {"type": kind.type, "event_id": EVENT_ID, **body}


_odd_values: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(pool()),
    st.sampled_from(_ODD_NUMBERS).map(lambda text: _RAW + text),
    st.sampled_from(["\ud800", "a\udfff", "\x00", "\u202e", "<item>", "x" * 70_000]),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(_DEEP).map(lambda depth: _RAW + "[" * depth + "]" * depth),
    st.sampled_from(_DEEP).map(lambda depth: _RAW + '{"a":' * depth + "1" + "}" * depth),
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values in a message but the message itself."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = []
    for key, held in inner:
        found += [(*path, key), *_places(held, (*path, key))]
    return found


def _changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy in which what is at `path` is `new`; an ellipsis takes it away."""
    key, *rest = path
    copy = dict(value) if isinstance(value, dict) else list(value)
    if rest:
        copy[key] = _changed(value[key], tuple(rest), new)
    elif new is ...:
        del copy[key]
    else:
        copy[key] = new
    return copy


@st.composite
def _almost_right(draw: st.DrawFn, dialect: DialectName) -> dict[str, Any]:
    message = draw(_right(dialect))
    for _ in range(draw(st.integers(1, 2))):
        place = draw(st.sampled_from(_places(message) or [("type",)]))
        match draw(st.integers(0, 5)):
            case 0:
                message = _changed(message, place, ...)
            case 1:
                known = sorted({key for kind in message_kinds() for key in kind.keys})
                message = _changed(
                    message, (draw(st.sampled_from([*known, "surplus", "\ud800", ""])),), draw(_odd_values)
                )
            case _:
                message = _changed(message, place, draw(_odd_values))
    return message


def as_text(message: Any) -> str:
    """The JSON text of a message, odd numbers and deep nesting as they are."""
    return _QUOTED_RAW.sub(lambda match: json.loads(f'"{match[1]}"'), json.dumps(message))


def _twice(text: str, key: str, value: Any) -> str:
    """The text with a key at its end that it may have already."""
    return f"{text[:-1]}, {json.dumps(key)}: {as_text(value)}}}"


def message_texts(dialect: DialectName) -> st.SearchStrategy[str]:
    """What a client may send: mostly right, often almost right, sometimes neither."""
    right = _right(dialect).map(as_text)
    almost = _almost_right(dialect).map(as_text)
    keys = st.sampled_from(["type", "event_id", "audio", "item", "session", "item_id"])
    doubled = st.builds(_twice, right, keys, _odd_values)
    cut = st.builds(lambda text, share: text[: int(len(text) * share)], right, st.floats(0, 1))
    neither = st.one_of(
        cut, st.text(max_size=20), st.sampled_from(["", "null", "[]", "5", '"a"', "{}", "[" * 5000])
    )
    return st.sampled_from([right] * 5 + [almost] * 4 + [doubled, neither]).flatmap(lambda kind: kind)
