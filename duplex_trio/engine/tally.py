"""Where a session manager counts its sessions."""

from __future__ import annotations

from abc import ABC, abstractmethod

from duplex_trio.session.counters import SessionCounters


class SessionTally(ABC):
    """Told of every session, once as it is let in and once when it has gone."""

    @abstractmethod
    def session_opened(self) -> None:
        """A session was admitted."""

    @abstractmethod
    def session_ended(self, counters: SessionCounters) -> None:
        """A session has gone; keep what it counted."""
