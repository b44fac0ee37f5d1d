"""The pipeline of glyph-flow: a sentence encoder as its one stage, and the plugin that draws."""

from __future__ import annotations

from duplex_trio.models.glyph_flow.plugin import GlyphFlowPlugin
from duplex_trio.models.text_encoder.pipeline import TEXT_ENCODER_STAGE, SentencePipeline
from duplex_trio.pipelines.config import PipelineConfig
from duplex_trio.pipelines.pipeline import Pipeline


class GlyphFlowPipeline(SentencePipeline):
    """Recalls emoji glyphs by a small flow-matching network that is steered by prompts.

    The network is part of the package; it was trained with the encoder `minilm-l6-v2`, and knows no other.
    """

    config = PipelineConfig(
        name="glyph_flow",
        stages=(TEXT_ENCODER_STAGE,),
        video_plugin="duplex_trio.models.glyph_flow.pipeline:plugin_of",
        default_session_mode="video",
        default_deploy="glyph_flow",
    )

    def model_name(self) -> str:
        """The served name."""
        return "glyph-flow"


def plugin_of(pipeline: Pipeline) -> GlyphFlowPlugin:
    """Make the plugin of the pipeline."""
    return GlyphFlowPlugin()
