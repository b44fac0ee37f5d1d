"""Errors that tell why a stage took nothing."""

from __future__ import annotations

import trio


class StageDeadError(trio.BrokenResourceError):
    """The stage is not running: it has not begun, has broken, or has ended."""
