"""The scene renderer as it is declared: its stage, its model, its plugin."""

from __future__ import annotations

import pickle

import pytest

from duplex_trio.deploy.config import DeployConfig
from duplex_trio.models.scene.pipeline import ScenePipeline
from duplex_trio.models.scene.plugin import ScenePlugin
from duplex_trio.models.text_encoder.worker import SentenceEncoderWorker
from duplex_trio.pipelines.topology import check_topology


def test_the_sentence_encoder_is_its_one_stage_and_its_one_model() -> None:
    check_topology(ScenePipeline.config)
    (use,) = ScenePipeline.models_used(DeployConfig(pipeline="scene"))
    assert (use.reference, use.kind, use.stage_id) == ("minilm-l6-v2", "text-encoder", 0)
    assert [stage.name for stage in ScenePipeline.config.stages] == ["text_encoder"]


@pytest.mark.models
def test_it_builds_an_encoder_that_may_live_in_another_process_and_a_plugin() -> None:
    pipeline = ScenePipeline()
    worker = pickle.loads(pickle.dumps(pipeline.build_worker(0)))
    assert isinstance(worker, SentenceEncoderWorker)
    assert isinstance(pipeline.build_video_plugin(), ScenePlugin)
    assert pipeline.model_name() == "scene"
