"""The pipeline of the scene renderer: a sentence encoder as its one stage, and the plugin that paints."""

from __future__ import annotations

from duplex_trio.models.scene.plugin import ScenePlugin
from duplex_trio.models.text_encoder.pipeline import TEXT_ENCODER_STAGE, SentencePipeline
from duplex_trio.pipelines.config import PipelineConfig
from duplex_trio.pipelines.pipeline import Pipeline


class ScenePipeline(SentencePipeline):
    """Paints moving landscapes that follow what a prompt says.

    What the vectors of another encoder than the packaged one say is learnt when it is first used.
    """

    config = PipelineConfig(
        name="scene",
        stages=(TEXT_ENCODER_STAGE,),
        video_plugin="duplex_trio.models.scene.pipeline:plugin_of",
        default_session_mode="video",
        default_deploy="scene",
    )

    def model_name(self) -> str:
        """The served name."""
        return "scene"


def plugin_of(pipeline: Pipeline) -> ScenePlugin:
    """Make the plugin of the pipeline."""
    return ScenePlugin()
