"""The models of this package keep what any model must, and the kit sees it when one does not."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from duplex_trio.deploy import load_deploy
from duplex_trio.models.scripted.lockstep import LockstepPipeline
from duplex_trio.models.scripted.native import NativePipeline
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.turns import TurnsPipeline
from duplex_trio.pipelines.registry import load_pipeline
from duplex_trio.testing.conformance import ConformanceCheck, conformance_checks


@pytest.mark.parametrize("check", conformance_checks(ScriptedPipeline), ids=str)
async def test_the_cascade(autojump_clock: MockClock, check: ConformanceCheck) -> None:
    """Three stages, one request a turn."""
    await check.run()


@pytest.mark.parametrize("check", conformance_checks(NativePipeline), ids=str)
async def test_a_model_that_owns_its_turns(autojump_clock: MockClock, check: ConformanceCheck) -> None:
    """Units of a second, one request an epoch."""
    await check.run()


@pytest.mark.parametrize("check", conformance_checks(LockstepPipeline), ids=str)
async def test_a_model_in_lockstep(autojump_clock: MockClock, check: ConformanceCheck) -> None:
    """Frames of 80 ms, each answered, and a turn that never ends."""
    await check.run()


@pytest.mark.parametrize("check", conformance_checks(TurnsPipeline), ids=str)
async def test_a_model_that_thinks_ahead(autojump_clock: MockClock, check: ConformanceCheck) -> None:
    """Two stages, one request a turn, the next one while it speaks."""
    await check.run()


DECLARED = [
    check for check in conformance_checks(lambda: load_pipeline(load_deploy("cascade_cpu"))) if check.declares
]


@pytest.mark.models
@pytest.mark.parametrize("check", DECLARED, ids=str)
async def test_the_real_cascade_is_declared_as_it_must_be(check: ConformanceCheck) -> None:
    """Its paths, its workers, and that it is the same in turns and in sessions."""
    await check.run()
