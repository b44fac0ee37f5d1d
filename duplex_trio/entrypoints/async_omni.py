"""The Python entry to an engine of requests."""

from __future__ import annotations

import trio

from duplex_trio.deploy.config import SessionMode
from duplex_trio.engine.async_omni_engine import AsyncOmniEngine
from duplex_trio.engine.health import EngineHealth
from duplex_trio.engine.omni_engine_base import OmniEngineBase
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.stages.port import StageStatistics
from duplex_trio.stages.run import run_stages


class AsyncOmni:
    """One model, loaded and ready while `run` runs.

    Args:
        pipeline: the model.
    """

    session_mode: SessionMode = "turn"
    """How it is served."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.engine = self._create_engine()

    def _create_engine(self) -> OmniEngineBase:
        return AsyncOmniEngine(self.pipeline)

    @property
    def model_name(self) -> str:
        """The name under which the model is served."""
        return self.pipeline.model_name()

    @property
    def healthy(self) -> bool:
        """Whether every stage is up."""
        return self.engine.healthy

    def health(self) -> EngineHealth:
        """How the engine stands, with every stage and replica. Called where Trio runs."""
        return self.engine.health()

    def stage_statistics(self) -> list[StageStatistics]:
        """Counters of every stage."""
        return self.engine.stage_statistics()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Load the model and carry it until cancelled; started when it is ready.

        Raises:
            StageLoadError: in a group, for each stage that could not be loaded.
        """
        await run_stages(self.engine.all_stages, task_status=task_status)
