"""The pages themselves: prose from `prose/*.md`, with tables and messages of the classes at its marks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import orjson

from duplex_trio.protocol.dialects import Dialect, event_types, render
from duplex_trio.protocol.duplex import (
    COMMAND_CLASSES,
    ERROR_CLASSES,
    EVENT_CLASSES,
    TYPE_ALIASES,
    DuplexEvent,
    DuplexExtension,
    Playback,
    ResponseDone,
)
from duplex_trio.protocol.duplex.session import (
    SessionDefaults,
    SessionState,
    default_config,
    render_session,
    session_fields,
)
from duplex_trio.testing.protocol_samples import RESPONSES, sample_events
from duplex_trio.testing.wire_reference.codes import CLOSE_CODES, MEANINGS
from duplex_trio.testing.wire_reference.commands import ERRORS, EXAMPLES, OWN
from duplex_trio.testing.wire_reference.fields import (
    FieldRow,
    fields_of,
    meanings_of,
    objects_in,
    summary_of,
)
from duplex_trio.testing.wire_reference.orders import SHOWN, order_of

PROSE = Path(__file__).with_name("prose")
PAGES = ("wire.md", "wire/commands.md", "wire/events.md", "wire/objects.md", "wire/errors.md")
"""Where they are, in `docs/`."""

_WIDTH = 100
_NAMES: Mapping[Dialect, str] = {Dialect.GA: "GA", Dialect.BETA: "beta", Dialect.DUPLEX: "duplex"}
_MARK = re.compile(r"^<!-- (\w+) -->$", flags=re.MULTILINE)


@cache
def render_page(name: str) -> str:
    """One of `PAGES`, as Markdown."""
    text = (PROSE / Path(name).name).read_text()
    return _MARK.sub(lambda mark: _PARTS[mark[1]]().rstrip("\n"), text)


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _dialects(cls: type[DuplexEvent]) -> str:
    names = {dialect: name for dialect in Dialect for name, one in event_types(dialect).items() if one is cls}
    if set(names) == {Dialect.DUPLEX}:
        return "Duplex only."
    if len(names) < len(Dialect):
        return f"Not in {' and '.join(_NAMES[dialect] for dialect in Dialect if dialect not in names)}."
    if names[Dialect.BETA] != cls.type:
        return f"In all dialects; beta calls it `{names[Dialect.BETA]}`."
    return "In all dialects."


def _summary(cls: type[DuplexEvent]) -> str:
    """What OpenAI's event says, and what ours adds to it."""
    openai = next((base for base in cls.__mro__[1:] if getattr(base, "type", None) == cls.type), None)
    return _for_people(" ".join(summary_of(one) for one in (openai, cls) if one is not None))


def _event_fields(cls: type[DuplexEvent], common: set[str]) -> str:
    rows = [row for row in fields_of(cls, shown_null=True) if row.name not in common]
    return _field_table(rows) if rows else ""


def _field_table(rows: list[FieldRow]) -> str:
    return _table(
        ("field", "type", "what"),
        ((f"`{row.name}`", row.kind, _what(row)) for row in rows),
    )


def _what(row: FieldRow) -> str:
    notes = [
        row.default if row.default.startswith("left out") else "",
        "duplex only" if row.duplex_only else "",
    ]
    told = "; ".join(filter(None, notes))
    what = _bare(_for_people(row.what))
    return f"{what} ({told})" if told else what


def _bare(sentence: str) -> str:
    """Without its full stop, as it stands in a table."""
    return sentence if sentence.endswith("...") else sentence.removesuffix(".")


def _for_people(text: str) -> str:
    """Python's None is the wire's null."""
    return re.sub(r"\bNone\b", "null", text)


def _example(cls: type[DuplexEvent]) -> str:
    """The fullest of the samples, as the duplex dialect writes it."""
    numbers = {kind: number for number, kind in enumerate(event_types(Dialect.DUPLEX), start=1)}
    events = [_COMPLETED] if cls is ResponseDone else [one for one in sample_events() if type(one) is cls]
    texts = [render(event, Dialect.DUPLEX) for event in events]
    message = max((orjson.loads(text or b"") for text in texts), key=_fullness)
    message["event_id"] = "event_1"
    shown = {"type": message.pop("type"), **message}
    if cls.type not in UNNUMBERED:
        shown["server_event_seq"] = numbers[cls.type]
    return _json(shown)


UNNUMBERED = ("session.created", "session.resumed", "session.replaced", "session.resync_required")
"""Events of a connection, which are not replayed and so have no `server_event_seq`."""


_COMPLETED = ResponseDone(
    response=RESPONSES[1],
    duplex=DuplexExtension(
        epoch=1,
        turn_id=2,
        finish_reason="stop",
        playback=Playback(generated_ms=400, sent_ms=400, played_ms=200, committed_ms=200),
    ),
)
"""How most responses end; the samples are about the others."""


def _fullness(message: Any) -> tuple[int, int]:
    """More keys at the top first; of those that have as many, the shorter message."""
    keys = len(message) + len(
        message.get("response", {}) if isinstance(message.get("response"), dict) else {}
    )
    return keys, -len(orjson.dumps(message))


def _json(message: Mapping[str, Any]) -> str:
    return f"```json\n{_laid_out(message, '')}\n```"


def _laid_out(value: Any, indent: str) -> str:
    """JSON in which whatever fits on a line is on one."""
    text = json.dumps(value)
    if len(indent) + len(text) <= _WIDTH or not isinstance(value, dict | list):
        return text
    inner = indent + "  "
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {_laid_out(one, inner)}" for key, one in value.items()]
    else:
        parts = [_laid_out(one, inner) for one in value]
    first, last = "{}" if isinstance(value, dict) else "[]"
    return f"{first}\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}{last}"


def _events() -> str:
    parts = []
    for cls in EVENT_CLASSES:
        table = _event_fields(cls, {"event_id"})
        parts.append(f"### {cls.type}\n\n{_summary(cls)} {_dialects(cls)}\n\n{table}\n\n{_example(cls)}\n")
    return "\n".join(re.sub(r"\n{3,}", "\n\n", part) for part in parts)


def _event_index() -> str:
    rows = (
        (f"[`{cls.type}`](#{_anchor(cls.type)})", "" if cls.tier < 3 else "duplex only", cls.kind.value)
        for cls in EVENT_CLASSES
    )
    return _table(("event", "dialects", "about"), rows)


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _commands() -> str:
    return "\n".join(_command(kind, cls) for kind, cls in COMMAND_CLASSES.items())


def _command(kind: str, cls: type) -> str:
    aliases = [f"`{alias}`" for alias, of in TYPE_ALIASES.items() if of == kind]
    also = f" Also called {', '.join(aliases)}." if aliases else ""
    whose = "Ours." if kind in OWN else "OpenAI's."
    rows = [row for row in fields_of(cls) if row.name != "event_id"]
    parts = [f"### {kind}\n\n{_for_people(summary_of(cls))} {whose}{also}"]
    if rows:
        lines = (
            (
                "<br>".join(f"`{name}`" for name in (row.name, *row.aliases)),
                row.kind,
                row.default,
                _bare(_for_people(row.what)),
                f"`{row.code}`",
            )
            for row in rows
        )
        parts.append(
            _table(("field, and its other names", "type", "default", "what", "if it is wrong"), lines)
        )
    if kind in ERRORS:
        parts.append(f"Errors: {', '.join(f'`{code}`' for code in ERRORS[kind])}.")
    parts.append(_json({"type": kind, **EXAMPLES[kind]}))
    return "\n\n".join(parts) + "\n"


def _objects() -> str:
    parts = []
    sent = objects_in(list(EVENT_CLASSES))
    for cls in [*sent, *(one for one in objects_in(list(COMMAND_CLASSES.values())) if one not in sent)]:
        tags = {key: getattr(cls, key, None) for key in ("type", "object")}
        said = [f'`{key}` is `"{tag}"`.' for key, tag in tags.items() if isinstance(tag, str)]
        rows = fields_of(cls, shown_null=cls in sent)
        parts.append(
            f"### {cls.__name__}\n\n{' '.join([_for_people(summary_of(cls)), *said])}\n\n{_field_table(rows)}\n"
        )
    return "\n".join(parts)


def _session_fields() -> str:
    meanings = meanings_of(attrs.resolve_types(type(_config())))
    rows = (
        (f"`{name}`", "<br>".join(f"`{path}`" for path in paths), meanings[name])
        for name, paths in session_fields()
    )
    return _table(("field", "where it is read, what wins first", "what"), rows)


def _config() -> Any:
    return default_config(SessionDefaults(model="cascade", voice="default"), "duplex")


def _session_objects() -> str:
    parts = []
    for dialect in Dialect:
        config = default_config(SessionDefaults(model="cascade", voice="default"), dialect.session_name)
        rendered = render_session(
            config, dialect=dialect.session_name, state=SessionState(session_id="duplex-1")
        )
        parts.append(f"### {_NAMES[dialect]}\n\n{_json(rendered)}\n")
    return "\n".join(parts)


def _error_codes() -> str:
    rows = ((f"`{code}`", f"`{ERROR_CLASSES[code]}`", what) for code, what in MEANINGS.items())
    return _table(("code", "`error.type`", "what went wrong"), rows)


def _silent_codes() -> str:
    return ", ".join(f"`{code}`" for code in ERROR_CLASSES if code not in MEANINGS) + "."


def _close_codes() -> str:
    return _table(("code", "what it means"), ((str(code), what) for code, what in CLOSE_CODES.items()))


def _orders() -> str:
    return "\n".join(f"### {title}\n\n```text\n{order_of(name)}\n```\n" for name, title in SHOWN.items())


_PARTS: Mapping[str, Callable[[], str]] = {
    "close_codes": _close_codes,
    "commands": _commands,
    "error_codes": _error_codes,
    "event_index": _event_index,
    "events": _events,
    "objects": _objects,
    "orders": _orders,
    "session_fields": _session_fields,
    "session_objects": _session_objects,
    "silent_codes": _silent_codes,
}
