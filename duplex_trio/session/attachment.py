"""The consumer of a session's events, as the session sees it."""

from __future__ import annotations

from abc import ABC, abstractmethod

from duplex_trio.protocol.duplex import DuplexEvent


class Attachment(ABC):
    """One consumer. The session's egress task is the only caller, so calls never overlap.

    A consumer that has gone away raises `trio.BrokenResourceError` or `trio.ClosedResourceError` from `send`.
    """

    @abstractmethod
    async def send(self, event: DuplexEvent) -> None:
        """Render and hand over one event. May block while the consumer does not read; must be cancellable."""

    @abstractmethod
    async def close(self, code: int, reason: str) -> None:
        """Say goodbye with a WebSocket close code; called once, after the last event."""
