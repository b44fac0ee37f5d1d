"""From a deployment to what carries its stages."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from duplex_trio.deploy import load_deploy
from duplex_trio.deploy.config import DeployConfig, StageDeploy
from duplex_trio.engine.async_omni_engine import AsyncOmniEngine
from duplex_trio.engine.stage_building import build_stage, build_voice_activity
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.stages.inline import InlineStage
from duplex_trio.stages.pool import StagePool
from duplex_trio.stages.process.run import ProcessStage
from duplex_trio.stages.worker import StageWorker

MIXED = """
pipeline: scripted
stages:
  - {stage_id: 0, devices: 0}
  - {stage_id: 1, devices: '0,1', execution: process, num_replicas: 2}
"""


class Singular(ScriptedPipeline):
    """Its runtimes cannot be in one process twice."""

    def build_worker(self, stage_id: int) -> StageWorker:
        worker = super().build_worker(stage_id)
        worker.once_per_process = True
        return worker


def deployed(**stage: object) -> DeployConfig:
    return DeployConfig(pipeline="scripted", stages=(StageDeploy(stage_id=1, **stage),))  # type: ignore[arg-type]


def test_a_stage_has_as_many_replicas_as_its_deployment_says() -> None:
    """Each with a runtime of its own; voice activity has one."""
    pipeline = ScriptedPipeline(deployed(num_replicas=3))
    pools = [build_stage(pipeline, spec, InlineStage, 8) for spec in pipeline.stages]
    vad = build_voice_activity(pipeline, InlineStage)
    names = [
        [replica.name for replica in pool.replicas] for pool in (*pools, vad) if isinstance(pool, StagePool)
    ]
    assert names == [["asr"], ["llm[0]", "llm[1]", "llm[2]"], ["tts"], ["vad"]]


def test_a_runtime_that_a_process_can_have_once_has_one_replica_in_threads() -> None:
    """The operator is told what to do instead."""
    alone = Singular(deployed())
    assert build_stage(alone, alone.stages[1], InlineStage, 8).name == "llm"
    several = Singular(deployed(num_replicas=2))
    with pytest.raises(
        ValueError, match=r"stage 1 \(llm\) cannot have 2 replicas in threads.* set execution: process"
    ):
        build_stage(several, several.stages[1], InlineStage, 8)


def test_processes_may_each_have_one() -> None:
    pipeline = Singular(deployed(num_replicas=2, execution="process"))
    stage = build_stage(pipeline, pipeline.stages[1], InlineStage, 8)
    assert [replica.name for replica in stage.statistics().replicas] == ["llm[0]", "llm[1]"]


def test_processes_have_their_devices_among_all_that_the_server_was_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that takes a GPU of the server's leaves the stages in processes all of them."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    file = tmp_path / "mixed.yaml"
    file.write_text(MIXED)

    engine = AsyncOmniEngine(ScriptedPipeline(load_deploy(file)))

    pool = engine.stages[1]
    assert isinstance(pool, StagePool)
    stages = [replica.stage for replica in pool.replicas]
    visible = [
        stage.environment["CUDA_VISIBLE_DEVICES"] for stage in stages if isinstance(stage, ProcessStage)
    ]
    assert visible == ["4", "5"]
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "4"
