"""What every Python entry to a model has: the model itself, made of a deployment or a pipeline, and its engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager
from os import PathLike, fspath
from typing import Any, TypeVar

import trio
from attrs import frozen

from duplex_trio.deploy import DeployConfig, SessionMode, load_deploy
from duplex_trio.engine.health import EngineHealth
from duplex_trio.engine.omni_engine_base import OmniEngineBase
from duplex_trio.entrypoints.quiet import quiet_log
from duplex_trio.entrypoints.run import run_warm, running
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.pipelines.registry import load_pipeline
from duplex_trio.stages.port import StageStatistics
from duplex_trio.tracing import Tracer

Self = TypeVar("Self", bound="AsyncOmniBase")
SelfOmni = TypeVar("SelfOmni", bound="OmniBase")


class WarmUpError(Exception):
    """The model was loaded but could not answer."""


@frozen(kw_only=True)
class OmniStatistics:
    """A look at an engine: requests that hold a place, live stage requests, and the stages."""

    requests: int
    max_requests: int
    live_requests: int
    stages: tuple[StageStatistics, ...]


class OmniBase:
    """A model by whatever entry.

    Args:
        pipeline: the model.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline

    @property
    def model_name(self) -> str:
        """The name under which the model is served."""
        return self.pipeline.model_name()

    @classmethod
    def from_deploy(
        cls: type[SelfOmni], deploy: str | PathLike[str] | DeployConfig, **options: Any
    ) -> SelfOmni:
        """Make it of a deployment: its models are found, and not yet loaded. Blocking.

        Args:
            deploy: the name of a bundled deployment such as `cascade_turn`, a file, or one that was read already.
            **options: further arguments of the class.

        Raises:
            DeployError: the deployment is faulty.
            UnknownPipelineError: no installed package has its pipeline.
            ModelReferenceError: a model of it cannot be found.
            ValueError: its pipeline cannot do with what it says of a stage, or cannot be asked this way.
        """
        config = deploy if isinstance(deploy, DeployConfig) else load_deploy(fspath(deploy))
        return cls(load_pipeline(config), **{**cls._options_of(config), **options})

    @classmethod
    def _options_of(cls, deploy: DeployConfig) -> dict[str, Any]:
        """Arguments of the class that a deployment says."""
        return {}


class AsyncOmniBase(OmniBase, ABC):
    """A model with an engine on this Trio loop; it is ready while `run` runs.

    Args:
        pipeline: the model.
        warm_up: let the model answer once before `run` reports that it is ready.
    """

    session_mode: SessionMode
    """How it is served."""

    def __init__(self, pipeline: Pipeline, *, warm_up: bool = True) -> None:
        super().__init__(pipeline)
        self._warm_up = warm_up
        self.engine = self._create_engine()

    @abstractmethod
    def _create_engine(self) -> OmniEngineBase:
        """Make the collaborator that runs the model."""

    @abstractmethod
    async def warm_up(self) -> None:
        """Let the model answer once, so that the first who asks finds everything warm.

        Raises:
            WarmUpError: the model refused it, failed, or gave no sign of life.
        """

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

    def render_metrics(self) -> bytes:
        """All figures in Prometheus' text format."""
        return self.engine.render_metrics()

    def trace_with(self, tracer: Tracer) -> None:
        """Trace what begins from here on, where this kind of engine traces anything."""

    async def drain(self, timeout_s: float) -> None:
        """Take nothing new, give what is live `timeout_s`, then end it and wait for its end."""
        await self.engine.drain(timeout_s)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Load the model, let it answer once, and carry it until cancelled; started when it is ready.

        Whatever it still answers then ends with a reason.

        Raises:
            StageLoadError: in a group, for each stage that could not be loaded.
            WarmUpError: in a group, if the model does not answer.
            RuntimeError: Trio does not run here; or, in a group, it has been run already.
        """
        require_trio()
        await run_warm(self.engine, self.warm_up if self._warm_up else None, task_status=task_status)

    def running(self: Self) -> AbstractAsyncContextManager[Self]:
        """Carry the model while a block goes on; what is live when it ends is ended.

        >>> async with AsyncOmni.from_deploy("cascade_turn").running() as omni:
        ...     print((await omni.complete("Say hello!")).text)

        Raises:
            StageLoadError: in a group, for each stage that could not be loaded.
            WarmUpError: in a group, if the model does not answer.
            RuntimeError: Trio does not run here; or, in a group, it has been run already.
        """
        require_trio()
        quiet_log()
        return running(self)


def require_trio() -> None:
    """Refuse to go on where Trio does not run.

    Raises:
        RuntimeError: it does not.
    """
    if not trio.lowlevel.in_trio_run():
        raise RuntimeError(
            "Trio does not run here: begin with trio.run, or take Omni, which needs no event loop"
        )
