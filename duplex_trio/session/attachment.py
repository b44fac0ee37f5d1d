"""The consumer of a session's events, as the session sees it."""

from __future__ import annotations

from abc import ABC, abstractmethod

from attrs import field, frozen

from duplex_trio.protocol.duplex import DuplexEvent


class Attachment(ABC):
    """One consumer. The session writes to it from one task at a time, so calls never overlap.

    A consumer that has gone away raises `trio.BrokenResourceError` or `trio.ClosedResourceError` from `send`.
    """

    @abstractmethod
    async def send(self, event: DuplexEvent) -> None:
        """Render and hand over one event. May block while the consumer does not read; must be cancellable.

        A checkpoint at least once in a few calls: nobody else runs while a session has much to say otherwise.
        """

    @abstractmethod
    async def close(self, code: int, reason: str) -> None:
        """Say goodbye with a WebSocket close code; called once, after the last event."""


@frozen
class ResumeGrant:
    """How an attachment is named to its client.

    `attachment_generation` is its number among the attachments of its session, from 1. With `resume_token`
    its client can replace it by another one; it is a secret.
    """

    attachment_generation: int
    resume_token: str = field(repr=False)


class ResumableAttachment(Attachment):
    """A consumer that may be lost while its session lives on, and be replaced by another one.

    A session of the duplex dialect numbers its events for such a consumer, and keeps them if its model can be
    resumed: they arrive as JSON text through `send_text`, live ones as well as those that an earlier
    attachment missed. What belongs to one attachment alone, such as `session.resumed`, has no number and
    arrives through `send`.
    """

    @property
    @abstractmethod
    def grant(self) -> ResumeGrant:
        """What `session.created` or `session.resumed` tells the client of this attachment."""

    @abstractmethod
    async def send_text(self, text: bytes) -> None:
        """Hand over one numbered event as it was rendered for the journal; otherwise as `send`."""

    @abstractmethod
    def caught_up(self) -> None:
        """All that was missed has been handed over; what follows is live. Not told to the first attachment."""
