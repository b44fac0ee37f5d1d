"""The parrot keeps what any model must, and what it says is what it heard."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import soxr
from trio.testing import MockClock

from duplex_trio.deploy import DeployConfig, StageDeploy
from duplex_trio.entrypoints.async_omni import AsyncOmni, OmniRequest, RequestRefused, Sound
from duplex_trio.pipelines.deployment import deployment_findings
from duplex_trio.testing.conformance import ConformanceCheck, conformance_checks
from duplex_trio.testing.workers import run_units
from parrot.pipeline import ParrotPipeline
from parrot.worker import INPUT_RATE_HZ, OUTPUT_RATE_HZ, Heard, ParrotVoice


@pytest.mark.parametrize("check", conformance_checks(ParrotPipeline), ids=str)
async def test_conformance(autojump_clock: MockClock, check: ConformanceCheck) -> None:
    """Whatever `duplex_trio` demands of a model."""
    await check.run()


def test_it_says_what_it_heard() -> None:
    """At its pitch, in pieces, without a sample lost."""
    heard = np.random.default_rng(1).uniform(-0.5, 0.5, INPUT_RATE_HZ).astype(np.float32)
    chunks = run_units(ParrotVoice(pitch=1.25), Heard(pcm=heard)).values("test")
    said = np.concatenate([chunk.pcm for chunk in chunks])
    assert len(chunks) > 1
    assert len(said) == pytest.approx(OUTPUT_RATE_HZ / 1.25, abs=1)
    again = soxr.resample(said, OUTPUT_RATE_HZ, INPUT_RATE_HZ * 1.25)
    both = np.corrcoef(heard[: len(again)], again[: len(heard)])
    assert both[0, 1] > 0.95


async def test_it_answers_requests_without_a_session() -> None:
    """As `session_mode: turn` serves it."""
    heard = np.random.default_rng(2).uniform(-0.5, 0.5, INPUT_RATE_HZ).astype(np.float32)
    async with AsyncOmni(ParrotPipeline()).running() as omni:
        result = await omni.complete(OmniRequest(Sound(heard, INPUT_RATE_HZ), modalities=["text", "audio"]))
        assert len(result.pcm) == pytest.approx(OUTPUT_RATE_HZ / 1.25, abs=1)
        with pytest.raises(RequestRefused, match="the model answers no written words"):
            await omni.complete(OmniRequest("Hello!", modalities=["audio"]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pitch": 3}, "stage 0: engine_args.pitch must be a number between 0.5 and 2, not 3"),
        ({"volume": 1}, "stage 0: engine_args.volume is no argument; there is pitch"),
    ],
)
def test_a_wrong_argument_is_named(arguments: Mapping[str, Any], message: str) -> None:
    """Before anything is served."""
    deploy = DeployConfig(pipeline="parrot", stages=(StageDeploy(stage_id=0, engine_args=arguments),))
    assert [str(finding) for finding in deployment_findings(ParrotPipeline, deploy)] == [message]
