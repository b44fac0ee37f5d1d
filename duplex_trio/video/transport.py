"""The seam between a video and whoever watches it: text in, text and pairs out."""

from __future__ import annotations

from abc import ABC, abstractmethod


class TransportClosedError(Exception):
    """The other side has gone. `code` is its close code, or 1006 if it left without one."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the other side has gone ({code})")
        self.code = code


class VideoTransport(ABC):
    """Carries one video. One task receives; one other task sends and closes."""

    @abstractmethod
    async def receive(self) -> str | None:
        """Wait for the next message: its text, or None for a binary one.

        Raises:
            TransportClosedError: there is none any more.
            RequestRefused: while the first one is waited for: there is going to be no video.
        """

    @abstractmethod
    async def send_text(self, text: bytes) -> None:
        """Write one text message. Waits while the other side does not read, and may be cancelled then.

        Raises:
            trio.BrokenResourceError: the other side has gone.
        """

    @abstractmethod
    async def send_pair(self, metadata: bytes, payload: bytes) -> None:
        """Write a text message and a binary one with nothing between them.

        Cancelled after the first of them has begun, the transport is broken: nothing can be sent any more.

        Raises:
            trio.BrokenResourceError: the other side has gone.
        """

    @abstractmethod
    async def close(self, code: int, reason: str) -> None:
        """End it, with a close code of WebSockets and a reason of at most 123 bytes."""
