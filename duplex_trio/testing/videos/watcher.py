"""A client of a video that keeps all that it hears, and looks whether it is what the protocol says."""

from __future__ import annotations

from collections.abc import Callable

import trio

from duplex_trio.protocol.video import (
    SessionDone,
    SessionInteraction,
    VideoChunkMetadata,
    VideoErrorEvent,
    VideoEvent,
    VideoStarted,
)
from duplex_trio.testing.videos.threads import Hold
from duplex_trio.video.memory import MemoryPeer
from duplex_trio.video.transport import TransportClosedError

LOOK_S = 0.01
"""How often a hold is looked at, in virtual time."""


class VideoWatcher:
    """Reads one end of a line.

    Attributes:
        peer: its end.
        events: what it was told, metadata among it.
        pairs: metadata and payload.
        times_s: when each pair came.
    """

    def __init__(self, peer: MemoryPeer) -> None:
        self.peer = peer
        self.events: list[VideoEvent] = []
        self.pairs: list[tuple[VideoChunkMetadata, bytes]] = []
        self.times_s: list[float] = []
        self.ended = False
        self._changed = trio.lowlevel.ParkingLot()
        self._reads = trio.Event()

    # ------------------------------------------------------------------ saying

    async def say(
        self, event_id: str | None, prompt: str, transition_chunks: int | None = 0, **more: object
    ) -> None:
        """Send an interaction."""
        event = {"prompt": prompt, **more}
        await self.peer.send(
            SessionInteraction(event_id=event_id, event=event, transition_chunks=transition_chunks)
        )

    # ------------------------------------------------------------------ hearing

    def read_on(self) -> None:
        """Begin to read, or go on with it."""
        self._reads.set()

    def pause(self) -> None:
        """Read no more than the message that is being waited for."""
        self._reads = trio.Event()

    async def run(self) -> None:
        """Read until the end."""
        while True:
            await self._reads.wait()
            try:
                event = await self.peer.receive()
                assert not isinstance(event, bytes), "a payload without metadata"
                self.events.append(event)
                if isinstance(event, VideoChunkMetadata):
                    payload = await self.peer.receive()
                    assert isinstance(payload, bytes), "metadata without a payload"
                    self.pairs.append((event, payload))
                    self.times_s.append(trio.current_time())
            except TransportClosedError:
                self.ended = True
                self._changed.unpark_all()
                return
            self._changed.unpark_all()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something is so, as it must become before the video ends."""
        while not condition():
            assert not self.ended, f"ended without it: {self.shown}"
            await self._changed.park()

    async def told(self, shown: str, count: int = 1) -> None:
        """Wait until an event has come that many times, written as `shown` writes it."""
        await self.until(lambda: self.shown.count(shown) >= count)

    async def chunk(self, index: int) -> None:
        """Wait for a generated chunk."""
        await self.until(lambda: any(meta.generation_chunk_index == index for meta, _ in self.pairs))

    async def reach(self, hold: Hold) -> None:
        """Wait until a thread of the video has come to a hold, while time goes on."""
        while not hold.reached:
            assert not self.ended, f"ended without it: {self.shown}"
            await trio.sleep(LOOK_S)

    async def end(self) -> None:
        """Wait until it has been closed."""
        while not self.ended:
            await self._changed.park()

    # ------------------------------------------------------------------ what was heard

    @property
    def shown(self) -> list[str]:
        """What was told, in order: the kind, and what tells it from others of its kind."""
        return [show(event) for event in self.events]

    @property
    def rows(self) -> list[tuple[int, int | None, int]]:
        """Transport index, generation index and frames of each pair."""
        return [
            (meta.transport_chunk_index, meta.generation_chunk_index, meta.num_frames)
            for meta, _ in self.pairs
        ]

    @property
    def ids(self) -> list[tuple[str, str, str]]:
        """Started, active and completed ids of each pair, each in one word."""
        return [
            (
                "".join(meta.started_event_ids),
                "".join(meta.active_event_ids),
                "".join(meta.completed_event_ids),
            )
            for meta, _ in self.pairs
        ]

    @property
    def started(self) -> VideoStarted:
        """What it was told first."""
        assert isinstance(self.events[0], VideoStarted)
        return self.events[0]

    @property
    def done(self) -> SessionDone:
        """What it was told last."""
        assert isinstance(self.events[-1], SessionDone)
        return self.events[-1]

    @property
    def errors(self) -> list[VideoErrorEvent]:
        """All faults that it was told."""
        return [event for event in self.events if isinstance(event, VideoErrorEvent)]

    def check(self) -> None:
        """Look whether all of it is as the protocol says (video.md 3.5)."""
        started: list[str] = []
        for number, (meta, payload) in enumerate(self.pairs):
            assert meta.transport_chunk_index == number
            assert meta.byte_length == len(payload) > 0
            assert meta.request_id == self.started.request_id
            assert set(meta.completed_event_ids) <= set(meta.active_event_ids)
            started += meta.started_event_ids
            assert set(meta.active_event_ids) <= set(started)
            assert meta.kind == "media" or number == len(self.pairs) - 1
        assert len(started) == len(set(started))
        indices = [meta.generation_chunk_index for meta, _ in self.pairs if meta.kind == "media"]
        assert sorted(set(map(str, indices)), key=int) == list(map(str, range(len(set(indices)))))
        if isinstance(self.events[-1], SessionDone):
            assert self.done.chunks == len(self.pairs)
            assert self.done.frames == sum(meta.num_frames for meta, _ in self.pairs)


def show(event: VideoEvent) -> str:
    """An event in a few words."""
    kind = event.type.removeprefix("session.").removeprefix("video.")
    if isinstance(event, VideoErrorEvent):
        words = [kind, event.code, event.event_id, event.param]
        return " ".join(word for word in words if word is not None)
    if isinstance(event, VideoChunkMetadata):
        return f"{event.kind} {event.generation_chunk_index}"
    if isinstance(event, SessionDone):
        return f"{kind} {event.chunks}" + (" stopped" if event.stopped else "")
    event_id = getattr(event, "event_id", None)
    return kind if event_id is None else f"{kind} {event_id}"
