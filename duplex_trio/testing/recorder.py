"""Attachments that keep every event with its time: one that stays, and one that can be replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import orjson
import trio

from duplex_trio.entrypoints.duplex_omni import Attachment, ResumableAttachment, ResumeGrant
from duplex_trio.protocol.duplex import DuplexEvent
from duplex_trio.testing.event_reader import read_event

E = TypeVar("E", bound=DuplexEvent)
SHOWN = 30
"""Events that a failed wait shows."""


class RecordingAttachment(Attachment):
    """Collects events.

    Attributes:
        events: all events so far, in order.
        times_s: when each arrived, in seconds of Trio's clock.
        closed: code and reason once the session said goodbye.
        stalled: while set, `send` blocks, as for a client that does not read.
        broken: once set, `send` raises, as for a client that has gone.
    """

    def __init__(self) -> None:
        self.events: list[DuplexEvent] = []
        self.times_s: list[float] = []
        self.closed: tuple[int, str] | None = None
        self.stalled = False
        self.broken = False
        self._news = trio.lowlevel.ParkingLot()

    async def send(self, event: DuplexEvent) -> None:
        """Keep an event.

        Raises:
            trio.BrokenResourceError: the client is `broken`.
        """
        await trio.lowlevel.checkpoint()
        if self.stalled:
            await trio.sleep_forever()
        if self.broken:
            raise trio.BrokenResourceError("the client has gone")
        self.events.append(event)
        self.times_s.append(trio.current_time())
        self._news.unpark_all()

    async def close(self, code: int, reason: str) -> None:
        """Note the goodbye."""
        await trio.lowlevel.checkpoint()
        self.closed = (code, reason)
        self._news.unpark_all()

    async def wait_news(self) -> None:
        """Wait until something happens at this attachment."""
        await self._news.park()

    def wake(self) -> None:
        """Let whoever waits for news look again: there is another attachment now."""
        self._news.unpark_all()

    @property
    def types(self) -> list[str]:
        """The types of all events so far, in order."""
        return [event.type for event in self.events]

    def of(self, cls: type[E]) -> list[E]:
        """All events of a class so far."""
        return [event for event in self.events if isinstance(event, cls)]

    async def wait_for(
        self,
        cls: type[E],
        where: Callable[[E], bool] = lambda event: True,
        *,
        after: int = 0,
        timeout_s: float = 60.0,
    ) -> E:
        """The first event of a class that satisfies `where`, at or behind position `after`.

        Raises:
            trio.TooSlowError: none came in time; the message lists the last that did come.
        """
        with trio.move_on_after(timeout_s):
            position = after
            while True:
                while position < len(self.events):
                    event = self.events[position]
                    position += 1
                    if isinstance(event, cls) and where(event):
                        return event
                await self._news.park()
        raise trio.TooSlowError(
            f"no {cls.__name__} after {timeout_s} s; came last: {self.types[after:][-SHOWN:]}"
        )

    async def nth(self, cls: type[E], number: int, *, timeout_s: float = 60.0) -> E:
        """The event of a class that is the `number`th of it, 1 being the first, once it has come.

        Raises:
            trio.TooSlowError: it did not come in time; the message lists the last that did come.
        """
        with trio.move_on_after(timeout_s):
            while len(self.of(cls)) < number:
                await self._news.park()
            return self.of(cls)[number - 1]
        raise trio.TooSlowError(
            f"no {cls.__name__} number {number} after {timeout_s} s; came last: {self.types[-SHOWN:]}"
        )

    async def wait_closed(self, *, timeout_s: float = 60.0) -> tuple[int, str]:
        """Wait for the goodbye."""
        with trio.fail_after(timeout_s):
            while self.closed is None:
                await self._news.park()
        return self.closed


class ResumableRecorder(RecordingAttachment, ResumableAttachment):
    """One connection of a client that comes back.

    Args:
        generation: its number among the connections of its session.

    Attributes:
        seqs: the numbers of the events that came over this connection, in order.
        last_seq: number of the last event that the client has.
        live: whether it was told that it has caught up.
    """

    def __init__(self, generation: int = 1) -> None:
        super().__init__()
        self.seqs: list[int] = []
        self.last_seq = 0
        self.live = False
        self._grant = ResumeGrant(generation, f"token {generation}")

    @property
    def grant(self) -> ResumeGrant:
        """Its number, and a token that nobody guards."""
        return self._grant

    async def send_text(self, text: bytes) -> None:
        """Keep a numbered event."""
        await self.send(read_event(text))
        self.last_seq = orjson.loads(text)["server_event_seq"]
        self.seqs.append(self.last_seq)

    def caught_up(self) -> None:
        """Note it."""
        self.live = True
        self._news.unpark_all()

    async def wait_live(self, *, timeout_s: float = 60.0) -> None:
        """Wait until it has caught up."""
        with trio.fail_after(timeout_s):
            while not self.live:
                await self._news.park()
