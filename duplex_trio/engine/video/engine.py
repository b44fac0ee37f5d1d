"""The engine of videos: the stages that they share, the model, and who is let in."""

from __future__ import annotations

import trio
from prometheus_client import CollectorRegistry, generate_latest

from duplex_trio.deploy.video import VideoSessionDeploy
from duplex_trio.engine.omni_engine_base import OmniEngineBase
from duplex_trio.engine.stage_building import StageFactory
from duplex_trio.engine.stage_collector import StageCollector
from duplex_trio.engine.video.calls import VideoOrchestrator
from duplex_trio.engine.video.manager import THREADS_PER_VIDEO, VideoManager, places
from duplex_trio.pipelines.declared import check_kind
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.plugin.video.plugin import VideoModelPlugin


class VideoEngine(OmniEngineBase):
    """Runs videos over the stages of a pipeline. They live with whoever watches them, and end with the engine.

    Args:
        pipeline: the model.
        limits: of each video, and how many at once; as the pipeline's deployment says by default.
        model_name: the name under which the model is served; its own by default.
        stage_commands_max: opened requests and units that may wait for one stage; by default two for each call that
            videos can make at once.
        stage_factory: what carries each runtime; a thread by default.

    Raises:
        ValueError: the pipeline's topology is faulty.
        DeclaredPathError: the pipeline declares nothing that makes video, or what it declares makes something else.
        ModelReferenceError: a model of the deployment cannot be found.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        limits: VideoSessionDeploy | None = None,
        model_name: str | None = None,
        stage_commands_max: int | None = None,
        stage_factory: StageFactory | None = None,
    ) -> None:
        limits = limits or pipeline.deploy.video_session
        plugin = pipeline.build_video_plugin()
        check_kind(pipeline.config, "video_plugin", plugin, VideoModelPlugin)
        self.plugin: VideoModelPlugin = plugin
        calls = THREADS_PER_VIDEO * places(limits.max_sessions, plugin.capabilities.max_sessions)
        super().__init__(pipeline, command_limit=stage_commands_max or 2 * calls, stage_factory=stage_factory)
        self.videos = VideoManager(
            plugin,
            self.video_orchestrator,
            limits=limits,
            model_name=model_name or pipeline.model_name(),
        )
        self.registry = CollectorRegistry()
        self.registry.register(self.videos.collector)
        # Other names than those of an engine of speech, with which this one may share a port and its figures.
        self.registry.register(
            StageCollector(lambda: self.live_requests, self.stage_statistics, prefix="duplex_video")
        )

    def _create_orchestrator(self) -> VideoOrchestrator:
        self.video_orchestrator = VideoOrchestrator(self.pipeline.stages, self.stages, self.sampling)
        return self.video_orchestrator

    def use_nursery(self, nursery: trio.Nursery | None) -> None:
        """Let videos in while there is one."""
        self.videos.use_engine(running=nursery is not None)

    async def drain(self, timeout_s: float) -> None:
        """Take no new videos, give the live ones `timeout_s`, then end them and wait for their end."""
        await self.videos.drain(timeout_s)

    def render_metrics(self) -> bytes:
        """All figures in Prometheus' text format."""
        return generate_latest(self.registry)
