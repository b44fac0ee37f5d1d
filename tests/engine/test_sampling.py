"""How a stage samples is settled where a request enters it, for sessions and for requests of any model."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from duplex_trio.deploy import DeployConfig, StageDeploy
from duplex_trio.engine.orchestrator_base import OrchestratorBase
from duplex_trio.engine.pipeline_request import StageRouter
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.cascade.settings import CascadeSettings
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.models.scripted.workers import ScriptedLlm
from duplex_trio.pipelines.config import StageSpec
from duplex_trio.pipelines.deployment import deployment_findings
from duplex_trio.pipelines.requests import StageForward
from duplex_trio.protocol.duplex import CreateResponse, ResponseCreateOptions, ResponseDone
from duplex_trio.stages.inline import InlineStage
from duplex_trio.stages.run import run_stages
from duplex_trio.stages.units import ChatMessage, ChatPrompt, GenerationParams
from duplex_trio.testing import open_session

LLM = 1


def held(**constraints: Any) -> type[ScriptedPipeline]:
    """The scripted model with constraints of its language model, and no habits of its own."""

    class Held(ScriptedPipeline):
        config = attrs.evolve(
            ScriptedPipeline.config,
            stages=tuple(
                attrs.evolve(spec, sampling_constraints=constraints) if spec.stage_id == LLM else spec
                for spec in ScriptedPipeline.config.stages
            ),
        )

        def settings(self) -> CascadeSettings:
            known = super().settings()
            return attrs.evolve(known, profile=attrs.evolve(known.profile, top_p=None))

    return Held


def deployed(**defaults: Any) -> DeployConfig:
    return DeployConfig(
        pipeline="scripted", stages=(StageDeploy(stage_id=LLM, default_sampling_params=defaults),)
    )


async def asked(pipeline: ScriptedPipeline, **options: Any) -> GenerationParams:
    """What the language model is asked with when a client wants one answer."""
    async with open_session(pipeline=pipeline) as talker:
        talker.write("hello")
        await talker.heard.nth(ResponseDone, 1)
        talker.send(CreateResponse(options=ResponseCreateOptions(**options)))
        await talker.heard.nth(ResponseDone, 2)
    return pipeline.script.asked[-1].params


async def test_a_deployment_fills_what_a_client_leaves_open(autojump_clock: MockClock) -> None:
    """And nothing else."""
    pipeline = held()(deployed(top_p=0.4, min_p=0.1, stop="END"))
    params = await asked(pipeline, max_output_tokens=5)
    assert (params.top_p, params.stop, params.extra["min_p"]) == (0.4, ("END",), 0.1)
    assert params.max_tokens == 5


async def test_a_client_is_heard_before_the_deployment(autojump_clock: MockClock) -> None:
    assert (await asked(held()(deployed(max_tokens=7)), max_output_tokens=5)).max_tokens == 5


async def test_a_constraint_holds_whatever_a_client_asks(autojump_clock: MockClock) -> None:
    """And whatever the deployment says of other parameters; the answer is as it makes it."""
    pipeline = held(max_tokens=2, seed=1)(deployed(top_p=0.4))
    params = await asked(pipeline, max_output_tokens=50)
    assert (params.max_tokens, params.seed, params.top_p) == (2, 1, 0.4)


def test_an_engine_refuses_what_no_parameter_may_be() -> None:
    """Before any stage is made."""
    with pytest.raises(
        ValueError, match=r"default_sampling_params of stage 1 \(llm\): top_p must be .*, not 7"
    ):
        DuplexOmni(ScriptedPipeline(deployed(top_p=7), script=Script()))


def test_the_findings_on_a_deployment_name_the_key() -> None:
    """Also where a stage samples nothing at all."""
    deploy = DeployConfig(
        pipeline="scripted",
        stages=(
            StageDeploy(stage_id=0, default_sampling_params={"seed": 1}),
            StageDeploy(stage_id=1, default_sampling_params={"temprature": 1, "seed": 1}),
        ),
    )
    told = [str(finding) for finding in deployment_findings(held(seed=3), deploy) if finding.level == "fault"]
    assert told[0] == "stage 0: default_sampling_params must be left out: the stage samples nothing"
    assert told[1].startswith(
        "stage 1: default_sampling_params.temprature is no sampling parameter; there are "
    )
    assert told[2] == "stage 1: default_sampling_params.seed must be left out: the model holds it at 3"
    assert len(told) == 3


class _Router(StageRouter):
    def forward(self, stage_id: int, output: Any) -> list[StageForward]:
        return []

    def project(self, stage_id: int, output: Any) -> list[Any]:
        return []


async def test_an_orchestrator_by_itself_holds_what_stages_declare(autojump_clock: MockClock) -> None:
    """Nobody can leave it out."""
    script = Script()
    spec = StageSpec(
        stage_id=0,
        name="llm",
        execution_type="autoregressive",
        final_output="text",
        sampling_constraints={"max_tokens": 1},
    )
    stage = InlineStage(ScriptedLlm(script))
    orchestrator = OrchestratorBase([spec], [stage])
    unit = ChatPrompt(messages=[ChatMessage(role="user", content="one two three")])
    async with trio.open_nursery() as nursery:
        await nursery.start(run_stages, [stage])
        for params in (None, GenerationParams(max_tokens=9)):
            request = orchestrator.open_request("r", owner="s", router=_Router())
            await request.submit(StageForward(stage_id=0, unit=unit, params=params, final=True))
            async for delivered in request.outputs:
                request.consumed(delivered)
            await orchestrator.release(request)
            assert script.asked[-1].params.max_tokens == 1
        nursery.cancel_scope.cancel()
