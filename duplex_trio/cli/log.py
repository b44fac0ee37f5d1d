"""How a command writes its log: for people on a terminal, else as key=value, or as JSON; to standard error."""

from __future__ import annotations

import logging
import re
import sys
from typing import Any, TextIO

import structlog

LEVELS = ("debug", "info", "warning", "error")
_IDS = {"session_id": "session", "response_id": "response", "request_id": "request", "item_id": "item"}
_ID_CHARS_SHOWN = 8
_UNSEEN = r"\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
"""Characters that a terminal obeys instead of showing, that end a line, or that no encoding has."""
_UNSEEN_IN_VALUES = re.compile(f"[{_UNSEEN}\n]")
_UNSEEN_IN_TRACEBACKS = re.compile(f"[{_UNSEEN}]")


def configure_logging(level: str, *, as_json: bool = False, stream: TextIO | None = None) -> None:
    """Set structlog, and the standard library's logging of other packages, up for the process.

    Args:
        level: one of `LEVELS`; other packages write warnings and worse only.
        as_json: one JSON object a line.
        stream: where to; standard error by default.
    """
    stream = stream or sys.stderr
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        _without_empty,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    finish = _renderers(stream, as_json=as_json)
    structlog.configure(
        processors=[*shared, *finish],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *finish],
        )
    )
    logging.basicConfig(handlers=[handler], level=max(number, logging.WARNING), force=True)


def _without_empty(logger: Any, name: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
    return {key: value for key, value in line.items() if value is not None}


def _legible(logger: Any, name: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """What strangers send is quoted in the log: it must not move the cursor, colour the screen or begin a line."""
    return {key: _escaped(key, value) for key, value in line.items()}


def _escaped(key: str, value: object) -> object:
    if value is None or isinstance(value, int | float):
        return value
    unseen = _UNSEEN_IN_TRACEBACKS if key == "exception" else _UNSEEN_IN_VALUES
    return unseen.sub(lambda found: found[0].encode("unicode_escape").decode(), str(value))


def _for_people(logger: Any, name: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """One thing on one line of a terminal: the time of day, and of long ids the end, which tells them apart."""
    shown: structlog.typing.EventDict = {}
    for key, value in line.items():
        if key == "timestamp":
            shown[key] = str(value)[11:23]
        elif key in _IDS and isinstance(value, str):
            shown[_IDS[key]] = value[-_ID_CHARS_SHOWN:]
        else:
            shown[key] = value
    return shown


def _renderers(stream: TextIO, *, as_json: bool) -> list[Any]:
    if as_json:
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
    if stream.isatty():
        # The default shows the values of local variables: tokens, keys, and what people said.
        console = structlog.dev.ConsoleRenderer(
            pad_event_to=18, sort_keys=False, exception_formatter=structlog.dev.plain_traceback
        )
        return [structlog.processors.format_exc_info, _legible, _for_people, console]
    order = ("timestamp", "level", "event")
    line = structlog.processors.LogfmtRenderer(key_order=order, drop_missing=True, bool_as_flag=False)
    return [structlog.processors.format_exc_info, _legible, line]
