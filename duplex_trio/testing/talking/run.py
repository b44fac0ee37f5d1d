"""A microphone that never stops, ears that acknowledge what they hear, and a client that has both."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from duplex_trio.clients import DuplexClient
from duplex_trio.clients.events import ServerEvent
from duplex_trio.protocol.duplex.audio import pcm16_bytes
from duplex_trio.stages.units import Pcm
from duplex_trio.testing.speech import silence

PATIENCE_S = 180.0
"""A hang fails the test after this long; nothing is timed by it."""
CHUNK_SAMPLES = 320
"""20 ms at 16 kHz."""


class Microphone:
    """A microphone that never stops: what is said goes out in real time, then silence until more is said."""

    def __init__(self, client: DuplexClient) -> None:
        self._client = client
        self._queue: list[Pcm] = []

    def say(self, pcm: Pcm) -> None:
        """Say it behind what is still to be said."""
        self._queue += [pcm[i : i + CHUNK_SAMPLES] for i in range(0, len(pcm), CHUNK_SAMPLES)]

    async def run(self) -> None:
        """Send sound in real time until cancelled."""
        quiet = silence(CHUNK_SAMPLES / 16_000)
        due_s = trio.current_time()
        while True:
            await self._client.append_audio(pcm16_bytes(self._queue.pop(0) if self._queue else quiet))
            due_s += 0.02
            await trio.sleep_until(due_s)


class Listener:
    """Keeps every event, and acknowledges sound as a player does that has a quarter of a second buffered."""

    def __init__(self, client: DuplexClient) -> None:
        self._client = client
        self.events: list[ServerEvent] = []
        self._news = trio.lowlevel.ParkingLot()

    async def run(self) -> None:
        """Listen until cancelled."""
        with self._client.events() as events:
            async for event in events:
                self.events.append(event)
                self._news.unpark_all()
                if event.type == "response.output_audio.delta":
                    assert event.response_id is not None
                    played_ms = max(0, event.duplex["audio_duration_ms"] - 250)
                    await self._client.ack_playback(played_ms, response_id=event.response_id)

    def of(self, kind: str) -> list[ServerEvent]:
        """All events of a kind so far."""
        return [event for event in self.events if event.type == kind]

    async def until(self, kind: str, count: int = 1) -> ServerEvent:
        """Wait until so many events of a kind came; returns the last of these."""
        with trio.fail_after(PATIENCE_S):
            while len(self.of(kind)) < count:
                await self._news.park()
        return self.of(kind)[count - 1]


@asynccontextmanager
async def talking(url: str) -> AsyncIterator[tuple[DuplexClient, Microphone, Listener]]:
    """A session with a microphone and ears."""
    async with DuplexClient(url) as client, trio.open_nursery() as nursery:
        microphone, listener = Microphone(client), Listener(client)
        nursery.start_soon(listener.run)
        nursery.start_soon(microphone.run)
        yield client, microphone, listener
        nursery.cancel_scope.cancel()
