"""Errors that tell why a stage took nothing."""

from __future__ import annotations

import trio


class StageLoadError(Exception):
    """The runtime of a stage could not be started. It says why; the cause is chained where it happened here."""


class StageDeadError(trio.BrokenResourceError):
    """The stage is not running: it has not begun, has broken, or has ended."""
