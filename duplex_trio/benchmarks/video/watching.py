"""Videos of a server as a client gets them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import trio
from attrs import define, field

from duplex_trio.benchmarks.video.alone import PROMPT, SEED
from duplex_trio.benchmarks.video.report import Pace, Switch
from duplex_trio.clients.video.client import RealtimeVideoClient

LEAD_S = 0.5
"""How far videos that are made as they are played may be ahead: a request's default (video.md §1)."""
WAIT_MAX_S = 60.0
PROMPTS = ("a volcano at night", "dunes at sunset", "a rainy neon city", "a tropical beach at noon")
_GOLDEN = (math.sqrt(5) - 1) / 2
"""Multiples of it, without their whole part, lie evenly between 0 and 1 however many there are (Weyl 1916)."""


class WatchError(Exception):
    """A video did something else than what was to be measured."""


@define(eq=False)
class Watched:
    """A video that is watched.

    Attributes:
        client: its connection, open.
        begun_s: when it was connected to.
        chunk_s: when each chunk was there in full.
        chunk_frames: frames of a chunk.
        started: by interaction, its first chunk, and when its first payload came.
        news: there is something new in the above.
    """

    client: RealtimeVideoClient
    begun_s: float
    chunk_s: list[float] = field(factory=list)
    started: dict[str, tuple[int, float]] = field(factory=dict)
    news: trio.Condition = field(factory=trio.Condition)

    @property
    def chunk_frames(self) -> int:
        """Frames of a chunk."""
        return self.client.started.chunk_frames

    @property
    def pace(self) -> Pace:
        """How it came."""
        return Pace(self.chunk_s, self.chunk_frames)

    @property
    def steady(self) -> Pace:
        """How it came since it is as far ahead as it may be."""
        return Pace(self.chunk_s[2:], self.chunk_frames)

    async def read(self) -> None:
        """Read to the end, noting when what came."""
        async for chunk in self.client:
            now_s = trio.current_time()
            index = chunk.generation_index
            if index is None:
                continue
            for event_id in chunk.started_event_ids:
                self.started[event_id] = (index, now_s)
            if index == len(self.chunk_s):
                self.chunk_s.append(now_s)
            else:
                self.chunk_s[index] = now_s
            async with self.news:
                self.news.notify_all()

    async def until_chunks(self, count: int) -> None:
        """Wait for so many chunks."""
        async with self.news:
            while len(self.chunk_s) < count:
                await self.news.wait()

    async def until_started(self, event_id: str) -> tuple[int, float]:
        """Wait for the first chunk of an interaction; it, and when it came."""
        async with self.news:
            while event_id not in self.started:
                await self.news.wait()
        return self.started[event_id]


def unpaced(url: str, side: int, chunks: int, chunk_frames: int) -> RealtimeVideoClient:
    """A video as fast as it can be had."""
    return RealtimeVideoClient(
        url,
        prompt=PROMPT,
        width=side,
        height=side,
        num_frames=chunks * chunk_frames,
        seed=SEED,
        streaming_buffer_seconds=None,
    )


def paced(url: str, side: int) -> RealtimeVideoClient:
    """A video that is made as it is played, until it is stopped."""
    return RealtimeVideoClient(
        url, prompt=PROMPT, width=side, height=side, seed=SEED, streaming_buffer_seconds=LEAD_S
    )


async def watch(client: RealtimeVideoClient, chunks: int) -> Watched:
    """Watch a video to its end.

    Raises:
        WatchError: it was not as long as it should be, or took too long.
    """
    begun_s = trio.current_time()
    async with client:
        watched = Watched(client, begun_s)
        with _patience(WAIT_MAX_S + chunks, "a video was not over"):
            await watched.read()
    if len(watched.chunk_s) != chunks:
        raise WatchError(f"{len(watched.chunk_s)} chunks came, not {chunks}")
    return watched


async def switch(watched: Watched, number: int) -> Switch:
    """Send a new prompt, at another moment between two chunks each time, and wait for its effect.

    Raises:
        WatchError: it has none.
    """
    chunk_s = watched.chunk_frames / watched.client.started.config["fps"]
    with _patience(WAIT_MAX_S, "a new prompt had no effect"):
        await watched.until_chunks(max(3, len(watched.chunk_s) + 1))
        await trio.sleep(number * _GOLDEN % 1 * chunk_s)
        sent_s = trio.current_time()
        newest = len(watched.chunk_s) - 1
        prompt = PROMPTS[number % len(PROMPTS)]
        event_id = await watched.client.interact(prompt, transition_chunks=0)
        queued_s = trio.current_time()
        index, came_s = await watched.until_started(event_id)
    shown_s = max(came_s, watched.chunk_s[0] + index * chunk_s)
    return Switch(
        queued_ms=(queued_s - sent_s) * 1e3,
        payload_ms=(came_s - sent_s) * 1e3,
        chunks=index - newest,
        picture_ms=(shown_s - sent_s) * 1e3,
    )


@contextmanager
def _patience(seconds: float, what: str) -> Iterator[None]:
    try:
        with trio.fail_after(seconds):
            yield
    except trio.TooSlowError:
        raise WatchError(f"{what} within {seconds:g} s") from None
