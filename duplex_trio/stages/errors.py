"""Errors that tell why a stage took nothing."""

from __future__ import annotations

import trio


class StageLoadError(Exception):
    """The runtime of a stage could not be started; the cause is chained."""


class StageDeadError(trio.BrokenResourceError):
    """The stage is not running: it has not begun, has broken, or has ended."""


def in_one_line(error: BaseException) -> str:
    """Which error it is and what it says."""
    return f"{type(error).__name__}: {error}"
