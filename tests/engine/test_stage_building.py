"""From a deployment to what carries its stages."""

from __future__ import annotations

import pytest

from duplex_trio.deploy.config import DeployConfig, StageDeploy
from duplex_trio.engine.stage_building import build_stage, build_voice_activity
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.stages.inline import InlineStage
from duplex_trio.stages.pool import StagePool
from duplex_trio.stages.worker import StageWorker


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
    pools = [build_stage(pipeline, spec, InlineStage) for spec in pipeline.stages]
    vad = build_voice_activity(pipeline, InlineStage)
    names = [
        [replica.name for replica in pool.replicas] for pool in (*pools, vad) if isinstance(pool, StagePool)
    ]
    assert names == [["asr"], ["llm[0]", "llm[1]", "llm[2]"], ["tts"], ["vad"]]


def test_a_runtime_that_a_process_can_have_once_has_one_replica_in_threads() -> None:
    """The operator is told what to do instead."""
    alone = Singular(deployed())
    assert build_stage(alone, alone.stages[1], InlineStage).name == "llm"
    several = Singular(deployed(num_replicas=2))
    with pytest.raises(
        ValueError, match=r"stage 1 \(llm\) cannot have 2 replicas in threads.* set execution: process"
    ):
        build_stage(several, several.stages[1], InlineStage)


def test_processes_may_each_have_one() -> None:
    pipeline = Singular(deployed(num_replicas=2, execution="process"))
    stage = build_stage(pipeline, pipeline.stages[1], InlineStage)
    assert [replica.name for replica in stage.statistics().replicas] == ["llm[0]", "llm[1]"]
