"""The one task that takes a session's events out of their lanes.

It empties the two lanes of `EgressQueue`, control first, and lets media go at most `media_lead_ms` ahead of an
estimated real-time player, whether anybody is attached or not: what has not left the queue can still be taken
back by a barge-in. Who gets what has left is `delivery`'s.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from duplex_trio.deploy import SessionLimits
from duplex_trio.protocol.duplex import DuplexEvent
from duplex_trio.session.figures import SessionFigures
from duplex_trio.session.state.egress_queue import EgressQueue, MediaEntry

SHORTEST_WAIT_MS = 1.0
"""A shorter wait costs more than it gains, and one below the clock's resolution would never end."""


class Egress:
    """Lanes and pacing of one session.

    Args:
        deliver: takes each event that leaves; may wait, and does so at a client that does not read.
        ahead_ms: sound sent and not yet played by now, estimated.
        on_media_sent: told of each media entry just before it is sent; what it returns goes ahead of the entry.
        figures: told of media that was handed to the socket, and of media that came too late.
        on_end_marker: told when the end marker of a response is reached; all its media has been sent.
        on_progress: told when a control event has left.
        limits: what may wait, and how far media may run ahead of the player.
    """

    def __init__(
        self,
        deliver: Callable[[DuplexEvent], Awaitable[None]],
        *,
        ahead_ms: Callable[[], float],
        on_media_sent: Callable[[MediaEntry], DuplexEvent | None],
        figures: SessionFigures,
        on_end_marker: Callable[[str], None],
        on_progress: Callable[[], object],
        limits: SessionLimits,
    ) -> None:
        self.queue = EgressQueue(limits)
        self._deliver = deliver
        self._ahead_ms = ahead_ms
        self._on_media_sent = on_media_sent
        self._figures = figures
        self._writing_sound = False
        self._on_end_marker = on_end_marker
        self._on_progress = on_progress
        self._limits = limits
        self._wake = trio.Event()
        self._room = trio.lowlevel.ParkingLot()
        self._finishing = False

    @property
    def writing_sound(self) -> bool:
        """Whether sound is being written to the socket at this moment."""
        return self._writing_sound

    def put(self, event: DuplexEvent) -> None:
        """Queue a control event. Never blocks.

        Raises:
            EgressOverflowError: the control lane is full.
        """
        self.queue.put_control(event)
        self._wake.set()

    async def put_media(self, entry: MediaEntry) -> bool:
        """Wait for room and queue media; false if it went stale meanwhile. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        while not self.queue.media_has_room and entry.epoch >= self.queue.epoch:
            await self._room.park()
        entry.queued_s = trio.current_time()
        kept = self.queue.put_media(entry)
        if not kept:
            self._figures.media_stale(entry)
        self._wake.set()
        return kept

    def raise_epoch(self, epoch: int) -> float:
        """Drop media of older epochs at once; returns the dropped milliseconds."""
        dropped_ms = self.queue.raise_epoch(epoch)
        self._room.unpark_all()
        self._wake.set()
        return dropped_ms

    def drop_response(self, response_id: str) -> None:
        """Drop what is left of one response's media."""
        self.queue.drop_response(response_id)
        self._room.unpark_all()

    def finish(self, farewell: DuplexEvent) -> None:
        """Queue the last event and let `run` return once it is sent; media is not waited for."""
        self.queue.put_last(farewell)
        self._finishing = True
        self._wake.set()

    async def run(self) -> None:
        """Send until `finish`."""
        while True:
            event = self.queue.pop_control()
            if event is not None:
                await self._deliver(event)
                self._on_progress()
                continue
            if self._finishing:
                return
            self._wake = trio.Event()
            entry = self.queue.peek_media()
            if entry is None:
                await self._wake.wait()
                continue
            wait_ms = self._ahead_ms() - self._limits.media_lead_ms if entry.duration_ms > 0 else 0.0
            if wait_ms >= SHORTEST_WAIT_MS:
                with trio.move_on_after(wait_ms / 1000):
                    await self._wake.wait()
                continue
            await self._send_media(self.queue.pop_media())

    async def _send_media(self, entry: MediaEntry) -> None:
        self._room.unpark_all()
        if entry.event is None:
            if entry.step is None:
                self._on_end_marker(entry.response_id)
            else:
                self._on_media_sent(entry)
            await trio.lowlevel.checkpoint()
            return
        ahead = self._on_media_sent(entry)
        self._writing_sound = entry.duration_ms > 0
        try:
            if ahead is not None:
                await self._deliver(ahead)
            await self._deliver(entry.event)
        finally:
            self._writing_sound = False
        self._figures.media_written(entry)
