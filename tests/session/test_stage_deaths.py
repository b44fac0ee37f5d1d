"""A stage that dies at any moment of a conversation costs at most the answer in progress."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.deploy.config import DeployConfig, StageDeploy
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex import ErrorEvent, ResponseDone, SessionClosed
from duplex_trio.stages.worker import StageWorker
from duplex_trio.testing import Talker, finish, open_talker, scripted_omni
from duplex_trio.testing.conformance.stuck import HeldInlineStage
from duplex_trio.testing.invariants import check_engine_at_rest, check_session

ANSWER = "alpha bravo charlie delta echo foxtrot golf hotel. India juliet kilo lima mike november."
STEP_S = 0.02
SLOW_S = [0.0, 0.9, 1.1, 1.32, 1.4, 2.0, 2.6, 3.2, 3.7, 3.85, 4.0, 4.6, 6.0]
DEATHS_S = [0.3, 1.25, 1.5, 4.2, *(pytest.param(after_s, marks=pytest.mark.slow) for after_s in SLOW_S)]
"""In speech, in the pause in which an answer is prepared, at its commit, in the answer, in the barge-in that cuts it
and while the second turn is answered."""


class Stages:
    """Makes the stages of an engine, and kills them."""

    def __init__(self) -> None:
        self.made: list[HeldInlineStage] = []

    def make(self, worker: StageWorker) -> HeldInlineStage:
        self.made.append(HeldInlineStage(worker, step_s=STEP_S))
        return self.made[-1]

    async def kill(self, name: str, after_s: float) -> None:
        """Kill the first replica of a stage that is alive."""
        await trio.sleep(after_s)
        next(stage for stage in self.made if stage.name.split("[")[0] == name and stage.alive).kill()


def deployed(replicas: int) -> DeployConfig:
    return DeployConfig(
        pipeline="scripted",
        stages=tuple(StageDeploy(stage_id=number, num_replicas=replicas) for number in range(3)),
    )


async def two_turns(talker: Talker) -> None:
    """A turn, and another one that cuts into its answer."""
    await talker.turn()
    await talker.pause(1.0)
    await talker.turn()
    await talker.pause(12.0)


@pytest.mark.parametrize(
    ("stage", "replicas"), [("asr", 1), ("llm", 1), ("tts", 1), ("vad", 1), ("llm", 2), ("tts", 2)]
)
@pytest.mark.parametrize("after_s", DEATHS_S)
async def test_a_stage_that_dies_costs_an_answer_at_most(
    autojump_clock: MockClock, after_s: float, stage: str, replicas: int
) -> None:
    """Each answer ends once, what failed says why, and both sessions are answered again when it is back."""
    stages = Stages()
    pipeline = ScriptedPipeline(deployed(replicas), script=Script(otherwise=lambda _: ANSWER))
    async with scripted_omni(pipeline=pipeline, stage_factory=stages.make) as omni:
        talkers = [await open_talker(omni) for _ in range(2)]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stages.kill, stage, after_s)
            for talker in talkers:
                nursery.start_soon(two_turns, talker)
        assert omni.healthy
        cost = 0
        for talker in talkers:
            check_session(talker.handle, trio.current_time())
            done = talker.heard.of(ResponseDone)
            assert len({event.response.id for event in done}) == len(done)
            failed = [event.response for event in done if event.response.status == "failed"]
            for response in failed:
                assert response.status_details is not None
                assert response.status_details.error is not None
                assert response.status_details.error.code == "engine_dead"
            codes = {event.error.code for event in talker.heard.of(ErrorEvent)}
            assert codes == ({"engine_dead"} if failed else set())
            assert len(failed) <= 1
            cost += len(failed)
            assert not talker.heard.of(SessionClosed)
        assert cost < 2 or replicas == 1, "the requests of the other replica go on"
        assert cost or after_s != 1.5 or stage not in ("llm", "tts"), "then both are at work"
        for talker in talkers:
            await talker.turn()
            await talker.pause(8.0)
            assert talker.heard.of(ResponseDone)[-1].response.status == "completed"
        await finish(omni, *talkers)
        assert [talker.handle.counters.leaked_requests for talker in talkers] == [0, 0]
        check_engine_at_rest(omni)
