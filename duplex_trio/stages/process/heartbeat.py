"""When a process that says nothing counts as hanging."""

from __future__ import annotations

MISSES_MAX = 4
"""Beats in a row. Not one long wait: a server that was itself stopped for a while (a debugger, a laptop's lid) must not
take the first beat after that for a sign of death."""


class Heartbeat:
    """Counts beats without an answer."""

    def __init__(self) -> None:
        self._missed = 0

    def heard(self) -> None:
        """The worker's loop showed that it goes round."""
        self._missed = 0

    def beat(self) -> bool:
        """The time between two beats has passed; whether there is still hope, and a sign of life is to be asked for."""
        self._missed += 1
        return self._missed <= MISSES_MAX
