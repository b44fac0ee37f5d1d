"""All videos of an engine: who is let in, and how they end when the engine does.

A video is refused at once where there is no place for it: whoever waits for a video wants to see it now, and one
that waits would begin when its viewer has gone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog
import trio

from duplex_trio.deploy.video import VideoSessionDeploy
from duplex_trio.engine.video.calls import NO_ENGINE, VideoOrchestrator, VideoStages
from duplex_trio.engine.video.collector import VideoCollector
from duplex_trio.plugin.video.plugin import VideoModelPlugin
from duplex_trio.protocol.refusal import RequestRefused
from duplex_trio.video.host import VideoFigures, VideoHost, VideoSlot

log = structlog.get_logger("duplex_trio.video")

THREADS_PER_VIDEO = 2
"""Its generator, and its encoder of prompts. They are not taken from the threads that speech is prepared in."""


class LiveVideo(VideoSlot):
    """A place that is held.

    Args:
        stages: the stages, for this video.
        collector: counts it.

    Attributes:
        generates: whether nobody else may have the place yet.
    """

    def __init__(self, stages: VideoStages, collector: VideoCollector) -> None:
        self.stages = self._stages = stages
        self._collector = collector
        self._draining = trio.Event()
        self._so_far: Callable[[], VideoFigures] | None = None
        self._told = False
        self.generates = True

    @property
    def draining(self) -> trio.Event:
        """Set when the video is to end now."""
        return self._draining

    def began(self, so_far: Callable[[], VideoFigures]) -> None:
        """Let the video be counted while it goes on."""
        self._so_far = so_far

    def so_far(self) -> VideoFigures | None:
        """What the video is, if it has begun and has not been counted at its end."""
        return None if self._so_far is None else self._so_far()

    def vacate(self) -> None:
        """Let somebody else have the place. A drain waits for this video all the same."""
        self.generates = False

    def ended(self, figures: VideoFigures) -> None:
        """Count how the video went."""
        if not self._told:
            self._told = True
            self._so_far = None
            self._collector.ended(figures)

    def leave(self) -> None:
        """The place is free again, and nothing of the video is to be left on the stages."""
        self._stages.end()
        self.ended(VideoFigures(outcome="aborted"))

    def lose_engine(self) -> None:
        """End the video now, whose stages are about to stop."""
        self._draining.set()
        self._stages.end(NO_ENGINE)


class VideoManager(VideoHost):
    """Videos at once, up to a bound.

    Args:
        plugin: the model.
        orchestrator: asks the model's stages.
        limits: of each video, and how many at once.
        model_name: the name under which the model is served.
    """

    def __init__(
        self,
        plugin: VideoModelPlugin,
        orchestrator: VideoOrchestrator,
        *,
        limits: VideoSessionDeploy,
        model_name: str,
    ) -> None:
        self.plugin = plugin
        self.limits = limits
        self.model_name = model_name
        self.max_sessions = places(limits.max_sessions, plugin.capabilities.max_sessions)
        self.threads = trio.CapacityLimiter(THREADS_PER_VIDEO * self.max_sessions)
        self.collector = VideoCollector(lambda: self.count, lambda: (live.so_far() for live in self._live))
        self._orchestrator = orchestrator
        self._live: set[LiveVideo] = set()
        self._running = False
        self._draining = False
        self._gone = trio.lowlevel.ParkingLot()

    @property
    def count(self) -> int:
        """Videos that hold a place."""
        return sum(live.generates for live in self._live)

    @contextmanager
    def slot(self, request_id: str) -> Iterator[VideoSlot]:
        """Hold a place while the block goes on; see `VideoHost`."""
        try:
            self._require_place()
        except RequestRefused as refused:
            self.collector.refused(refused.code)
            raise
        live = LiveVideo(VideoStages(self._orchestrator, request_id), self.collector)
        self._live.add(live)
        self.collector.started()
        try:
            yield live
        finally:
            live.leave()
            self._live.discard(live)
            self._gone.unpark_all()

    @contextmanager
    def warming(self) -> Iterator[VideoSlot]:
        """A place for a video that nobody watches: it is not counted, and takes no place of one that somebody does."""
        stages = VideoStages(self._orchestrator, "warm-up")
        try:
            yield LiveVideo(stages, VideoCollector(lambda: 0, lambda: ()))
        finally:
            stages.end()

    def use_engine(self, *, running: bool) -> None:
        """Let videos in, or none; those that are live when the engine ends are ended with it."""
        self._running = running
        if not running:
            for live in self._live:
                live.lose_engine()

    def admit_nobody(self) -> None:
        """Refuse every further video."""
        self._draining = True

    async def drain(self, timeout_s: float) -> None:
        """Take no new videos, give the live ones `timeout_s`, then end them and wait for their end."""
        self.admit_nobody()
        with trio.move_on_after(timeout_s):
            await self.wait_empty()
        for live in self._live:
            live.draining.set()
        await self.wait_empty()

    async def wait_empty(self) -> None:
        """Wait until no video holds a place."""
        await trio.lowlevel.checkpoint()
        while self._live:
            await self._gone.park()

    def _require_place(self) -> None:
        if self._draining or not self._running:
            raise RequestRefused("server_shutdown", "the server takes no new videos")
        if self.count >= self.max_sessions:
            raise RequestRefused(
                "resource_exhausted", f"the server runs {self.max_sessions} videos at once; try again later"
            )


def places(asked: int | None, model: int | None) -> int:
    """How many videos run at once.

    Args:
        asked: what the deployment says; None for one on each core that this process may use, as each keeps one busy.
        model: what the model can do; None for any number.
    """
    wanted = len(os.sched_getaffinity(0)) if asked is None else asked
    return max(1, wanted if model is None else min(wanted, model))
