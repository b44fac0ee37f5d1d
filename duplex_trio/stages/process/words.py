"""What the process of a stage says of itself, and what to say of it."""

from __future__ import annotations

import json

import structlog

from duplex_trio import __version__
from duplex_trio.stages.process.child import greeting
from duplex_trio.stages.process.frames import Frame, GarbledError

log = structlog.get_logger("duplex_trio.stages")

LEVELS = frozenset(("debug", "info", "warning", "error", "critical"))


def differences(frame: Frame) -> str:
    """What the process has that the server has not, from its greeting: `Python 3.10 where the server has 3.11`.

    Raises:
        GarbledError: it is no greeting.
    """
    theirs = _object_of(frame)
    return ", ".join(
        f"{what} {theirs.get(what)} where the server has {ours}"
        for what, ours in greeting().items()
        if theirs.get(what) != ours
    )


def relog(stage: str, frame: Frame) -> None:
    """Log what the process logged.

    Raises:
        GarbledError: it is no line of a log.
    """
    fields = {str(key): value for key, value in _object_of(frame).items()}
    level, event = fields.pop("level", "info"), str(fields.pop("event", "stage.logged"))
    write = getattr(log, level if level in LEVELS else "info")
    write(event, **{"stage": stage, **fields})


def why_dead(ending: str) -> str:
    """Why a process is gone that nobody here has ended.

    Args:
        ending: how it ended, in words.
    """
    hint = " (the system does that when memory runs out)" if ending.endswith("SIGKILL") else ""
    return f"its process {ending}{hint}"


def why_not_loaded(python: str, ending: str, tail: str) -> str:
    """Why a process is gone before its worker was loaded.

    Args:
        python: its interpreter.
        ending: how it ended, in words.
        tail: what it printed last.
    """
    if "No module named 'duplex_trio" in tail or "No module named duplex_trio" in tail:
        return f"{python} has no duplex-trio: install duplex-trio {__version__} in its environment" + tail
    return f"its process ({python}) {ending}" + (f"; it printed last:{tail}" if tail else "")


def _object_of(frame: Frame) -> dict[str, object]:
    try:
        value = json.loads(frame.head)
    except ValueError as error:
        raise GarbledError(f"a message of kind {frame.kind} is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise GarbledError(f"a message of kind {frame.kind} is a {type(value).__name__}")
    return value
