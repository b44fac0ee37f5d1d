"""The pipeline of the scene renderer: a sentence encoder as its one stage, and the plugin that paints."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from duplex_trio.deploy.config import DeployConfig
from duplex_trio.deploy.stage import StageDeploy
from duplex_trio.models.catalog import MINILM
from duplex_trio.models.references import resolve_reference
from duplex_trio.models.scene.plugin import ScenePlugin
from duplex_trio.models.scene.session import TEXT_ENCODER
from duplex_trio.models.text_encoder.worker import SentenceEncoderWorker
from duplex_trio.pipelines.config import PipelineConfig, StageSpec
from duplex_trio.pipelines.models import ModelUse
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.stages.worker import StageWorker


class ScenePipeline(Pipeline):
    """Paints moving landscapes that follow what a prompt says.

    Args:
        deploy: may name another sentence encoder; what its vectors say is then learnt when it is first used.

    Raises:
        ModelReferenceError: the encoder is not here.
    """

    config = PipelineConfig(
        name="scene",
        stages=(StageSpec(stage_id=TEXT_ENCODER, name="text_encoder", final_output="prompt_state"),),
        video_plugin="duplex_trio.models.scene.pipeline:plugin_of",
        default_session_mode="video",
        default_deploy="scene",
    )

    def __init__(self, deploy: DeployConfig | None = None) -> None:
        super().__init__(deploy)
        self._encoder = resolve_reference(_reference(self.deploy), MINILM.kind)

    @classmethod
    def stage_keys(cls, stage: StageDeploy) -> Collection[str]:
        """The runtime of the encoder has no keys of its own."""
        return ()

    @classmethod
    def models_used(cls, deploy: DeployConfig) -> Iterator[ModelUse]:
        """The sentence encoder."""
        yield ModelUse(reference=_reference(deploy), kind=MINILM.kind, stage_id=TEXT_ENCODER)

    def model_name(self) -> str:
        """The served name."""
        return "scene"

    def build_worker(self, stage_id: int) -> StageWorker:
        """Make the sentence encoder."""
        assert self._encoder.path is not None
        return SentenceEncoderWorker(self._encoder.path)


def _reference(deploy: DeployConfig) -> str:
    return deploy.stage(TEXT_ENCODER).model or MINILM.name


def plugin_of(pipeline: Pipeline) -> ScenePlugin:
    """Make the plugin of the pipeline."""
    return ScenePlugin()
