"""What every engine owns: the stages of one pipeline, from loading to shutdown."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import trio

from duplex_trio.engine.health import EngineHealth, engine_health
from duplex_trio.engine.orchestrator import Orchestrator
from duplex_trio.engine.stage_building import StageFactory, build_stage
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.pipelines.topology import check_topology
from duplex_trio.stages.port import Stage, StageStatistics
from duplex_trio.stages.run import ThreadStage


class OmniEngineBase(ABC):
    """The stages of a pipeline, built but not running until `run`.

    Args:
        pipeline: the model.
        stage_factory: what carries each runtime; a thread by default.

    Raises:
        TopologyError: the pipeline is declared wrongly.
        ModelReferenceError: a model of the deployment cannot be found.
    """

    def __init__(self, pipeline: Pipeline, *, stage_factory: StageFactory = ThreadStage) -> None:
        check_topology(pipeline.config)
        self.pipeline = pipeline
        self.stages: tuple[Stage, ...] = tuple(
            build_stage(pipeline, spec, stage_factory) for spec in pipeline.stages
        )
        self.orchestrator = self._create_orchestrator()

    @abstractmethod
    def _create_orchestrator(self) -> Orchestrator:
        """Make the collaborator that runs requests over the stages."""

    @property
    def all_stages(self) -> Sequence[Stage]:
        """Every stage that must be up for the engine to work."""
        return self.stages

    @property
    def healthy(self) -> bool:
        """Whether every stage is up."""
        return all(stage.alive for stage in self.all_stages)

    def stage_statistics(self) -> list[StageStatistics]:
        """Counters of every stage."""
        return [stage.statistics() for stage in self.all_stages]

    def health(self) -> EngineHealth:
        """How the engine stands, with every stage and replica. Called where Trio runs."""
        return engine_health(self.stage_statistics(), trio.current_time())
