"""Real runtimes as replicas in one process, one of which breaks."""

from __future__ import annotations

import pytest
import trio

from duplex_trio.deploy.config import DeployConfig, StageDeploy
from duplex_trio.engine.stage_building import build_stage
from duplex_trio.models.cascade.pipeline import CascadePipeline
from duplex_trio.models.cascade.plugin import LLM, TTS
from duplex_trio.stages.pool import StagePool
from duplex_trio.stages.port import StageRequest
from duplex_trio.stages.run import ThreadStage
from duplex_trio.stages.units import Clause
from duplex_trio.testing.run import carried

pytestmark = pytest.mark.models

PATIENCE_S = 300.0


def pipeline(stage_id: int) -> CascadePipeline:
    return CascadePipeline(
        DeployConfig(pipeline="cascade", stages=(StageDeploy(stage_id=stage_id, num_replicas=2),))
    )


async def test_speech_is_made_by_two_replicas_and_by_one_when_the_other_breaks() -> None:
    """The second answer does not notice, and the replica that broke speaks again."""
    made = pipeline(TTS)
    pool = build_stage(made, made.stages[TTS], ThreadStage, 8)
    assert isinstance(pool, StagePool)

    async def speaks(request_id: str) -> str | None:
        stream = pool.open(StageRequest(request_id=request_id))
        await stream.submit(Clause(text="Good morning to you all."), final=True)
        samples = [len(output.data.pcm) async for output in stream.outputs]
        assert stream.failure is not None or sum(samples) > 12_000
        return None if stream.failure is None else stream.failure.code

    with trio.fail_after(PATIENCE_S):
        async with carried(pool):
            first = pool.open(StageRequest(request_id="first"))
            assert await speaks("second") is None
            assert [replica.outputs_total > 0 for replica in pool.statistics().replicas] == [False, True]
            broken = pool.replicas[0].stage
            assert isinstance(broken, ThreadStage)
            broken._worker.step = _break  # type: ignore[method-assign]
            broken.wake()
            assert [output async for output in first.outputs] == []
            assert first.failure is not None
            assert first.failure.code == "engine_dead"
            assert await speaks("third") is None
            while pool.statistics().replicas[0].state != "ready":  # noqa: ASYNC110  a thread loads
                await trio.sleep(0.05)
            assert await speaks("fourth") is None
            assert pool.statistics().replicas[0].outputs_total > 0
            assert pool.statistics().live_requests == 0


def _break(*_: object) -> bool:
    raise RuntimeError("broken on purpose")


def test_the_language_model_has_its_replicas_in_processes() -> None:
    """Two engines of vLLM do not go into one process."""
    made = pipeline(LLM)
    with pytest.raises(ValueError, match=r"stage 1 \(llm\) cannot have 2 replicas in threads"):
        build_stage(made, made.stages[LLM], ThreadStage, 8)
