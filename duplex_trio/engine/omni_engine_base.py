"""What every engine owns: the stages of one pipeline, from loading to shutdown, and the figures of both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence

import trio

from duplex_trio.deploy.machine import claim_devices
from duplex_trio.engine.health import EngineHealth, engine_health
from duplex_trio.engine.orchestrator_base import OrchestratorBase
from duplex_trio.engine.run import run_engine
from duplex_trio.engine.stage_building import StageFactory, build_stage, threads
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.pipelines.topology import check_topology
from duplex_trio.stages.port import Stage, StageStatistics

Background = tuple[str, Callable[[], Awaitable[None]]]
"""A task that lives as long as the stages do: its name, and what it does until cancelled."""


class OmniEngineBase(ABC):
    """The stages of a pipeline, built but not running until `run`.

    Args:
        pipeline: the model.
        command_limit: opened requests and units that may wait for one stage here.
        stage_factory: what carries a runtime of this process; a thread by default.

    Raises:
        TopologyError: the pipeline is declared wrongly.
        ValueError: the deployment says how a stage samples, and it cannot.
        KeyFaultError: stages cannot have their devices in one process.
        ModelReferenceError: a model of the deployment cannot be found.
    """

    def __init__(
        self, pipeline: Pipeline, *, command_limit: int, stage_factory: StageFactory | None = None
    ) -> None:
        check_topology(pipeline.config)
        shown = claim_devices(pipeline.deploy)
        self.pipeline = pipeline
        self.sampling = pipeline.sampling()
        in_thread = stage_factory or threads(command_limit)
        self.stages: tuple[Stage, ...] = tuple(
            build_stage(pipeline, spec, in_thread, command_limit, shown) for spec in pipeline.stages
        )
        self.orchestrator = self._create_orchestrator()
        self._began = False

    @abstractmethod
    def _create_orchestrator(self) -> OrchestratorBase:
        """Make the collaborator that runs requests over the stages."""

    @property
    def all_stages(self) -> Sequence[Stage]:
        """Every stage that must be up for the engine to work."""
        return self.stages

    @property
    def background(self) -> Sequence[Background]:
        """What runs beside the stages."""
        return ()

    @property
    def healthy(self) -> bool:
        """Whether every stage is up."""
        return all(stage.alive for stage in self.all_stages)

    @property
    def live_requests(self) -> int:
        """Requests whose stages have not all let go of them."""
        return self.orchestrator.live_requests

    def stage_statistics(self) -> list[StageStatistics]:
        """Counters of every stage."""
        return [stage.statistics() for stage in self.all_stages]

    def health(self) -> EngineHealth:
        """How the engine stands, with every stage and replica. Called where Trio runs."""
        return engine_health(self.stage_statistics(), trio.current_time())

    @abstractmethod
    def render_metrics(self) -> bytes:
        """All figures in Prometheus' text format."""

    @abstractmethod
    def use_nursery(self, nursery: trio.Nursery | None) -> None:
        """Let what is asked of the engine live in this nursery; without one nothing is taken."""

    @abstractmethod
    async def drain(self, timeout_s: float) -> None:
        """Take nothing new, give what is live `timeout_s`, then end it and wait for its end."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Load the stages and carry the engine until cancelled; started when it can be asked.

        Raises:
            StageLoadError: in a group, for each stage that could not be loaded.
            RuntimeError: it runs already, or has run. An engine runs once, for its stages do.
        """
        if self._began:
            raise RuntimeError("this engine has been run already, and runs once: make another one")
        self._began = True
        await run_engine(self, task_status=task_status)
