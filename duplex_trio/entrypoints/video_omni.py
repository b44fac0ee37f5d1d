"""The Python entry to a model of video that is steered by prompts, on a Trio loop of one's own.

    async with VideoOmni.from_deploy("scene").running() as omni:
        async with omni.video("a snowy street", seconds=8) as video:
            async for chunk in video:
                file.write(chunk.data)
                if chunk.index == 4:
                    await video.interact("warm lanterns", transition_chunks=3)

`serve` carries one video over any transport, such as a WebSocket.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import trio

from duplex_trio.deploy import DeployConfig, SessionMode
from duplex_trio.deploy.video import VideoSessionDeploy
from duplex_trio.engine.stage_building import StageFactory
from duplex_trio.engine.video.engine import VideoEngine
from duplex_trio.entrypoints.omni_base import AsyncOmniBase, WarmUpError, require_trio
from duplex_trio.entrypoints.run import run_warm, watching
from duplex_trio.entrypoints.video_warm_up import VideoWarmUp
from duplex_trio.entrypoints.video_watch import VideoChunk, VideoFailed, WatchedVideo
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.plugin.video.capabilities import VideoCapabilities
from duplex_trio.protocol.refusal import RequestRefused
from duplex_trio.protocol.video import SessionStart
from duplex_trio.video.host import VideoFigures
from duplex_trio.video.memory import memory_transports
from duplex_trio.video.run import run_video
from duplex_trio.video.transport import VideoTransport

__all__ = ["VideoChunk", "VideoFailed", "VideoOmni", "WarmUpError", "WatchedVideo"]

WARM_UP_TIMEOUT_S = 150.0
"""How long the first chunk may take before it is given up."""


class VideoOmni(AsyncOmniBase):
    """Videos of one model.

    Args:
        pipeline: the model.
        limits: of each video, and how many at once; as the pipeline's deployment says by default.
        model_name: the name under which the model is served; its own by default.
        stage_commands_max: opened requests and units that may wait for one stage.
        warm_up: let the model make one chunk before `run` reports that it is ready.
        stage_factory: what carries each runtime; a thread by default.

    Raises:
        ValueError: the pipeline is declared wrongly, or makes no video.
        ModelReferenceError: a model of the deployment cannot be found.
    """

    session_mode: SessionMode = "video"
    """How it is served."""

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        limits: VideoSessionDeploy | None = None,
        model_name: str | None = None,
        stage_commands_max: int | None = None,
        warm_up: bool = True,
        stage_factory: StageFactory | None = None,
    ) -> None:
        self._limits = limits
        self._model_name = model_name
        self._stage_commands_max = stage_commands_max
        self._stage_factory = stage_factory
        self._closable = False
        super().__init__(pipeline, warm_up=warm_up)

    def _create_engine(self) -> VideoEngine:
        self.video_engine = VideoEngine(
            self.pipeline,
            limits=self._limits,
            model_name=self._model_name,
            stage_commands_max=self._stage_commands_max,
            stage_factory=self._stage_factory,
        )
        return self.video_engine

    @property
    def model_name(self) -> str:
        """The name under which the model is served."""
        return self.video_engine.videos.model_name

    def serve_as(self, model_name: str) -> None:
        """Serve the model under another name from here on."""
        self.video_engine.videos.model_name = model_name

    @property
    def capabilities(self) -> VideoCapabilities:
        """What the model can do."""
        return self.video_engine.plugin.capabilities

    @property
    def videos(self) -> int:
        """Videos that hold a place now."""
        return self.video_engine.videos.count

    @property
    def max_videos(self) -> int:
        """Videos at once."""
        return self.video_engine.videos.max_sessions

    async def serve(self, transport: VideoTransport, *, log_prompts: bool = False) -> VideoFigures:
        """Carry one video over a connection whose client has not said anything yet, to its close.

        Args:
            transport: the connection.
            log_prompts: write what the client wants to see into the log.
        """
        return await run_video(transport, self.video_engine.videos, log_prompts=log_prompts)

    def video(self, prompt: str, **start: Any) -> AbstractAsyncContextManager[WatchedVideo]:
        """Watch a video while a block goes on; leaving the block ends it.

        Args:
            prompt: what it begins with.
            **start: further fields of `session.start`, such as `width`, `height`, `seconds`, `fps`, `seed`, `format`
                and `streaming_buffer_seconds`. It is made as fast as it can be unless that one is given: nobody
                plays it while it comes.

        Raises:
            TypeError: there is no such field; or, entering it, JSON cannot express its value.
            ValueError: entering it: a number is not finite.
            RequestRefused: entering it: a field is wrong (`invalid_start`, with `param`), or there is no place.
            VideoFailed: reading it, when it ends without having come to its end.
        """
        asked = SessionStart(prompt=prompt, **{"streaming_buffer_seconds": None, **start})
        transport, peer = memory_transports()
        return watching(self, WatchedVideo(peer), transport, asked)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Load the model, let it make one chunk, and carry it until cancelled; started when it is ready.

        The model is closed last: videos that are live then end first, each within a frame if it is cancelled too, else
        as in a drain, and within `send_timeout_s` if nobody reads it.

        Raises:
            StageLoadError: in a group, for each stage that could not be loaded.
            WarmUpError: in a group, if the model cannot be loaded or makes no video.
            RuntimeError: Trio does not run here; or, in a group, it has been run already.
        """
        require_trio()
        try:
            await run_warm(self.engine, self._make_ready, task_status=task_status)
        finally:
            if self._closable:
                with trio.CancelScope(shield=True):
                    await self.video_engine.videos.wait_empty()
                    await trio.to_thread.run_sync(self.video_engine.plugin.close)

    async def warm_up(self) -> None:
        """Encode a prompt, render a chunk and encode it, so that the first who asks finds everything warm.

        Raises:
            WarmUpError: naming what failed.
        """
        videos = self.video_engine.videos
        try:
            with trio.fail_after(WARM_UP_TIMEOUT_S), videos.warming() as slot:
                await self._in_thread(VideoWarmUp(videos, slot).make)
        except trio.TooSlowError as error:
            raise WarmUpError("the warm-up failed: the model made no chunk in time") from error
        except RequestRefused as error:
            raise WarmUpError(f"the warm-up failed: {error.message}") from error

    async def _make_ready(self) -> None:
        try:
            await self._in_thread(self.video_engine.plugin.load)
        except Exception as error:  # a model may raise anything
            raise WarmUpError(f"the model could not be loaded: {type(error).__name__}: {error}") from error
        if self._warm_up:
            await self.warm_up()

    async def _in_thread(self, call: Callable[[], None]) -> None:
        # Who stops the server meanwhile does not wait for it. The thread goes on with the model, which is not closed
        # below it then; nor is one that could not be loaded.
        closable, self._closable = self._closable, False
        try:
            await trio.to_thread.run_sync(call, abandon_on_cancel=True)
        except Exception:
            self._closable = closable
            raise
        self._closable = True

    @classmethod
    def _options_of(cls, deploy: DeployConfig) -> dict[str, Any]:
        return {"limits": deploy.video_session, "stage_commands_max": deploy.stage_commands_max}
