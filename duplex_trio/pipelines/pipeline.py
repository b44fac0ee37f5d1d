"""A declared model together with what a deployment says of it: builds its runtimes and what joins them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Any

from duplex_trio.deploy.config import DeployConfig
from duplex_trio.deploy.errors import Finding
from duplex_trio.deploy.stage import StageDeploy
from duplex_trio.pipelines.config import PipelineConfig, StageSpec
from duplex_trio.pipelines.declared import load_declared, make_declared
from duplex_trio.pipelines.models import ModelUse
from duplex_trio.pipelines.processor import TurnProcessor
from duplex_trio.pipelines.sampling import StageSampling, stage_sampling
from duplex_trio.stages.port import Stage
from duplex_trio.stages.worker import StageWorker


class Pipeline(ABC):
    """A model of one deployment.

    Args:
        deploy: what is said of its stages; all defaults without.
    """

    config: PipelineConfig

    def __init__(self, deploy: DeployConfig | None = None) -> None:
        self.deploy = DeployConfig(pipeline=self.config.name) if deploy is None else deploy

    @property
    def stages(self) -> tuple[StageSpec, ...]:
        """The declared stages."""
        return self.config.stages

    @classmethod
    def stage_keys(cls, stage: StageDeploy) -> Collection[str] | None:
        """The keys of a deployment's stage that take effect here, beside those of every stage.

        A key that is set and is not among them is reported to the operator. None says nothing about any.
        """
        return None

    @classmethod
    def deployment_findings(cls, deploy: DeployConfig) -> Iterable[Finding]:
        """What a deployment asks of this model that it cannot do, found without looking for models.

        `deploy` has only stages that the model has.
        """
        return ()

    @classmethod
    def models_used(cls, deploy: DeployConfig) -> Iterable[ModelUse]:
        """The models that a deployment needs here, for a look at whether they are there."""
        return ()

    def sampling(self) -> tuple[StageSampling, ...]:
        """How each stage samples where a request leaves it open, and in any case.

        Raises:
            ValueError: the deployment's `default_sampling_params` of a stage say what they may not.
        """
        return tuple(
            stage_sampling(spec, self.deploy.stage(spec.stage_id).default_sampling_params)
            for spec in self.stages
        )

    @abstractmethod
    def model_name(self) -> str:
        """The name under which the model is served."""

    @abstractmethod
    def build_worker(self, stage_id: int) -> StageWorker:
        """Make the runtime of one stage, not yet loaded; another one at each call.

        One that is not loaded holds settings only and can be pickled: a stage may live in another process.

        Raises:
            ModelReferenceError: a model reference of the deployment cannot be resolved.
        """

    def build_remote_stage(self, stage_id: int) -> Stage:
        """Make a stage that asks an engine elsewhere, as the deployment's `remote` says.

        Raises:
            ValueError: this stage cannot be elsewhere.
        """
        raise ValueError(
            f"stage {stage_id} ({self.stages[stage_id].name}) of {self.config.name} cannot be remote"
        )

    def build_processor(self) -> TurnProcessor:
        """Make what joins the stages for whole turns: what the declared `processor` makes of this.

        Raises:
            DeclaredPathError: the model declares none, or its path does not lead to one.
        """
        processor: TurnProcessor = make_declared(self, "processor", TurnProcessor)
        return processor

    def build_plugin(self) -> TurnProcessor:
        """Make what joins the model to sessions: what the declared `duplex_plugin` makes of this.

        `duplex_trio.plugin.checks` looks at it.

        Raises:
            DeclaredPathError: the model declares none, or its path does not lead to one.
        """
        plugin: TurnProcessor = make_declared(self, "duplex_plugin", TurnProcessor)
        return plugin

    def build_video_plugin(self) -> Any:
        """Make what makes video: what the declared `video_plugin` makes of this, a `VideoModelPlugin`.

        Raises:
            DeclaredPathError: the model declares none, or its path does not lead to something callable.
        """
        return load_declared(self.config, "video_plugin")(self)

    def build_vad_worker(self) -> StageWorker | None:
        """Make the voice-activity runtime, or None if the deployment has none."""
        return None
