"""What a video needs of an engine, without one: slots, threads and the scripted model, all of it watched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import trio
from attrs import define, field, frozen

from duplex_trio.deploy.video import VideoSessionDeploy
from duplex_trio.models.scripted.video import ScriptedTextEncoder, ScriptedVideoPlugin
from duplex_trio.models.scripted.video_script import VideoScript
from duplex_trio.plugin.video.plugin import (
    Frame,
    PromptState,
    StageCaller,
    StageCallError,
    VideoModelPlugin,
    VideoModelSession,
)
from duplex_trio.plugin.video.request import OmniInteractionEvent, VideoRequest
from duplex_trio.protocol.refusal import RequestRefused
from duplex_trio.stages.port import StageRequest
from duplex_trio.stages.worker import UnitRefused
from duplex_trio.testing.videos.threads import Hold
from duplex_trio.video.host import VideoFigures, VideoHost, VideoSlot


class DirectStages(StageCaller):
    """The scripted stage, asked in the thread that calls."""

    def call(self, stage_id: int, unit: Any) -> Sequence[Any]:
        """Ask it."""
        try:
            return list(ScriptedTextEncoder().process(StageRequest(request_id="r"), None, unit))
        except UnitRefused as refused:
            raise StageCallError(refused.code, str(refused)) from refused


@frozen(kw_only=True)
class Rendered:
    """A chunk as a model was asked for it."""

    index: int
    state: Any
    changed: bool
    hard: bool
    n_frames: int


@define(eq=False)
class WatchedSession(VideoModelSession):
    """A model's session that notes what it is asked, and is held up where a test wants.

    Attributes:
        inner: the model's own.
        chunks: what was to be rendered.
        frames: frames that were rendered.
        closed: how often it was closed.
        busy: calls that run now.
    """

    inner: VideoModelSession
    holds: dict[Any, Hold]
    chunks: list[Rendered] = field(factory=list)
    frames: int = 0
    closed: int = 0
    busy: int = 0

    def encode_interaction(self, event: OmniInteractionEvent) -> PromptState:
        """Wait at the hold of the prompt, then ask the model."""
        self.busy += 1
        try:
            hold = self.holds.get(event["prompt"])
            if hold is not None:
                hold.wait()
            return self.inner.encode_interaction(event)
        finally:
            self.busy -= 1

    def blend(self, source: PromptState, target: PromptState, alpha: float) -> PromptState:
        """As the model does it."""
        return self.inner.blend(source, target, alpha)

    def render_chunk(
        self,
        index: int,
        state: PromptState,
        *,
        changed: bool,
        hard: bool,
        n_frames: int,
        cancelled: Callable[[], bool],
    ) -> Iterator[Frame]:
        """Wait at the holds of the chunk's frames."""
        self.chunks.append(Rendered(index=index, state=state, changed=changed, hard=hard, n_frames=n_frames))
        frames = self.inner.render_chunk(
            index, state, changed=changed, hard=hard, n_frames=n_frames, cancelled=cancelled
        )
        self.busy += 1
        try:
            for number, frame in enumerate(frames):
                hold = self.holds.get((index, number))
                if hold is not None:
                    hold.wait(cancelled)
                self.frames += 1
                yield frame
        finally:
            self.busy -= 1

    def close(self) -> None:
        """Note that, and that nothing else was running."""
        assert self.busy == 0
        self.closed += 1
        self.inner.close()


@define(eq=False)
class WatchedPlugin(VideoModelPlugin):
    """A model whose sessions are watched.

    Attributes:
        inner: the model.
        holds: where its threads are held up: by a prompt, or by the index of a chunk and the number of a frame in it.
        sessions: all that it has begun.
    """

    inner: VideoModelPlugin
    holds: dict[Any, Hold] = field(factory=dict)
    sessions: list[WatchedSession] = field(factory=list)

    @property
    def capabilities(self) -> Any:
        """The model's."""
        return self.inner.capabilities

    def open(self, request: VideoRequest, stages: StageCaller) -> VideoModelSession:
        """Begin one, and watch it."""
        session = WatchedSession(self.inner.open(request, stages), self.holds)
        self.sessions.append(session)
        return session


@define(eq=False)
class WatchedSlot(VideoSlot):
    """A place, and what was told of it."""

    stages: StageCaller = field(factory=DirectStages)
    figures: list[VideoFigures] = field(factory=list)
    so_far: Callable[[], VideoFigures] | None = None
    held: bool = True
    _draining: trio.Event = field(factory=trio.Event)

    @property
    def draining(self) -> trio.Event:
        """Set by a test."""
        return self._draining

    def began(self, so_far: Callable[[], VideoFigures]) -> None:
        """Note it."""
        assert self.held
        self.so_far = so_far

    def vacate(self) -> None:
        """Note it."""
        self.held = False

    def ended(self, figures: VideoFigures) -> None:
        """Note it."""
        self.figures.append(figures)


class WatchedHost(VideoHost):
    """Slots and threads for the scripted model.

    Args:
        plugin: another model.
        script: of the scripted model.
        supports_prompt_updates: of the scripted model.
        limits: of each video.
        places: videos at once.

    Attributes:
        slots: all that were ever held.
        closing: why no video is let in, as the code of a refusal; None while they are.
    """

    model_name = "scripted_video"

    def __init__(
        self,
        plugin: VideoModelPlugin | None = None,
        *,
        script: VideoScript | None = None,
        supports_prompt_updates: bool = True,
        limits: VideoSessionDeploy | None = None,
        places: int = 2,
    ) -> None:
        scripted = ScriptedVideoPlugin(
            script or VideoScript(), supports_prompt_updates=supports_prompt_updates
        )
        self.watched = WatchedPlugin(plugin or scripted)
        self.plugin = self.watched
        self.limits = limits or VideoSessionDeploy()
        self.threads = trio.CapacityLimiter(2 * places)
        self.slots: list[WatchedSlot] = []
        self.closing: str | None = None
        self._places = places

    @property
    def held(self) -> int:
        """Places that are held."""
        return sum(slot.held for slot in self.slots)

    @contextmanager
    def slot(self, request_id: str) -> Iterator[VideoSlot]:
        """Hold a place."""
        code = self.closing or ("resource_exhausted" if self.held == self._places else None)
        if code is not None:
            raise RequestRefused(code, "There is no place.")
        slot = WatchedSlot()
        self.slots.append(slot)
        try:
            yield slot
        finally:
            slot.held = False
            assert len(slot.figures) == 1

    def hold(self, where: Any) -> Hold:
        """Hold threads up at a prompt, or at (chunk, frame)."""
        hold = self.watched.holds[where] = Hold()
        return hold
