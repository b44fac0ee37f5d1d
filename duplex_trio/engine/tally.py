"""Where a session manager counts its sessions."""

from __future__ import annotations

from abc import ABC, abstractmethod

from duplex_trio.session.counters import SessionCounters


class SessionTally(ABC):
    """Told of every session, once as it is let in and once when it has gone, and of who was not let in."""

    @abstractmethod
    def session_opened(self) -> None:
        """A session was admitted."""

    @abstractmethod
    def session_refused(self) -> None:
        """Somebody asked for a session, and there was no place."""

    @abstractmethod
    def session_ended(self, counters: SessionCounters) -> None:
        """A session has gone; keep what it counted."""
