"""What pipelines share whose one stage is a sentence encoder: which encoder that is, and how it is asked."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import numpy.typing as npt

from duplex_trio.deploy.config import DeployConfig
from duplex_trio.deploy.stage import StageDeploy
from duplex_trio.models.catalog import MINILM
from duplex_trio.models.references import resolve_reference
from duplex_trio.models.text_encoder.worker import SentenceEncoderWorker
from duplex_trio.pipelines.config import StageSpec
from duplex_trio.pipelines.models import ModelUse
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.plugin.video.plugin import StageCaller
from duplex_trio.stages.units import TextEmbedding, TextToEmbed
from duplex_trio.stages.worker import StageWorker

TEXT_ENCODER = 0
"""The stage that turns prompts into vectors."""
TEXT_ENCODER_STAGE = StageSpec(stage_id=TEXT_ENCODER, name="text_encoder", final_output="prompt_state")


class SentencePipeline(Pipeline):
    """A pipeline whose one stage is `TEXT_ENCODER_STAGE`.

    Args:
        deploy: may name another encoder than the packaged one.

    Raises:
        ModelReferenceError: the encoder is not here.
    """

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

    def build_worker(self, stage_id: int) -> StageWorker:
        """Make the sentence encoder."""
        assert self._encoder.path is not None
        return SentenceEncoderWorker(self._encoder.path)


def embedding_of(stages: StageCaller, text: str) -> npt.NDArray[np.float32]:
    """Ask the encoder for the vector of a text; of unit length.

    Raises:
        StageCallError: the stage failed.
    """
    (answer,) = stages.call(TEXT_ENCODER, TextToEmbed(text=text))
    assert isinstance(answer, TextEmbedding)
    return answer.vector


def _reference(deploy: DeployConfig) -> str:
    return deploy.stage(TEXT_ENCODER).model or MINILM.name
