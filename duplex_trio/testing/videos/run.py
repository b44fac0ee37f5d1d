"""The tree of a video under test.

watching
|- video         run_video
`- watcher       reads what it sends
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from duplex_trio.protocol.video import SessionStart
from duplex_trio.testing.videos.encoder import RawEncoder
from duplex_trio.testing.videos.host import WatchedHost
from duplex_trio.testing.videos.threads import patient
from duplex_trio.testing.videos.watcher import VideoWatcher
from duplex_trio.video.encoders.encoder import VideoEncoder
from duplex_trio.video.host import VideoFigures
from duplex_trio.video.memory import memory_transports
from duplex_trio.video.opening import EncoderFactory
from duplex_trio.video.run import run_video

GUARD_S = 86_400.0
"""Seconds of virtual time after which something hangs."""


class RunningVideo(VideoWatcher):
    """A watcher, and what becomes of the video that it watches.

    Attributes:
        encoder: the encoder of the video, once it has one.
        figures: what it was, once it has ended.
        scope: cancels the video from outside.
    """

    encoder: VideoEncoder | None = None
    figures: VideoFigures | None = None
    scope: trio.CancelScope


@asynccontextmanager
async def watching(
    host: WatchedHost,
    start: SessionStart | str | bytes | None = None,
    *,
    encoders: EncoderFactory | None = None,
    reads: bool = True,
    **options: Any,
) -> AsyncIterator[RunningVideo]:
    """Run a video while the block goes on, and wait for its end behind it; then look that nothing is left of it.

    Args:
        host: the engine's side.
        start: the first message; None to say nothing.
        encoders: makes the encoder; one that changes nothing by default.
        reads: whether the watcher reads from the beginning.
        **options: further arguments of `run_video`.
    """
    transport, peer = memory_transports()
    video = RunningVideo(peer)
    video.scope = trio.CancelScope()

    def make(*args: Any, **kwargs: Any) -> VideoEncoder:
        video.encoder = RawEncoder() if encoders is None else encoders(*args, **kwargs)
        return video.encoder

    async def run() -> None:
        with video.scope:
            video.figures = await run_video(transport, host, encoders=make, **options)
        if video.figures is None:
            peer.leave()

    with trio.fail_after(GUARD_S), patient(host.threads, host.watched.holds.values()):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, name="video")
            nursery.start_soon(video.run, name="watcher")
            if reads:
                video.read_on()
            if start is not None:
                await peer.send(start)
            yield video
    check_nothing_left(host)
    if isinstance(video.encoder, RawEncoder):
        assert video.encoder.discarded == 1
        assert video.encoder.closed <= 1
    if video.pairs:
        video.check()


def check_nothing_left(host: WatchedHost) -> None:
    """Look that no place, thread or session is left of any video."""
    assert host.held == 0
    assert host.threads.borrowed_tokens == 0
    for session in host.watched.sessions:
        assert session.busy == 0
        assert session.closed == 1
