"""How the tests of this folder run a stage."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio

from duplex_trio.stages.inline import InlineStage
from duplex_trio.stages.port import Stage
from duplex_trio.stages.process.run import ProcessStage
from duplex_trio.stages.run import ThreadStage, run_stage
from duplex_trio.stages.worker import StageWorker
from duplex_trio.testing.segments import Engine
from duplex_trio.testing.stage_script import Carrier, RunStage

GUARD_S = 120
"""A hang fails the test after this long; nothing is timed by it."""


CARRIERS: dict[str, Carrier] = {"thread": ThreadStage, "process": ProcessStage, "inline": InlineStage}
PROCESS = pytest.param("process", marks=pytest.mark.slow)
BESIDE = ("thread", PROCESS)


@asynccontextmanager
async def running_stage(carrier: Carrier, worker: StageWorker, **options: Any) -> AsyncIterator[Stage]:
    with trio.fail_after(GUARD_S):
        async with trio.open_nursery() as nursery:
            stage = carrier(worker, **options)
            await nursery.start(run_stage, stage)
            yield stage
            nursery.cancel_scope.cancel()


@pytest.fixture
def running() -> RunStage:
    """Run a stage in a thread: `async with running(worker) as stage`. It is stopped at the end of the block."""
    return partial(running_stage, ThreadStage)


@pytest.fixture(params=("thread", PROCESS, "inline"))
def carried(request: pytest.FixtureRequest) -> RunStage:
    """The same with everything that can carry a worker: what holds for one holds for all."""
    return partial(running_stage, CARRIERS[request.param])


@pytest.fixture(params=BESIDE)
def carried_beside(request: pytest.FixtureRequest) -> RunStage:
    """The same with what carries a worker beside the loop, so that a step can be held up."""
    return partial(running_stage, CARRIERS[request.param])


@pytest.fixture(params=BESIDE)
def carrier(request: pytest.FixtureRequest) -> Carrier:
    """What makes such a stage from a worker."""
    return CARRIERS[request.param]


@pytest.fixture
async def llm(llm_worker: StageWorker, running: RunStage) -> AsyncIterator[ThreadStage]:
    """The packaged language model as a running stage; for tests marked `models`."""
    async with running(llm_worker) as stage:
        yield stage


@pytest.fixture
def engine(llm: ThreadStage, llm_worker: StageWorker) -> Engine:
    """A look into the engine of `llm`, which has no request yet."""
    engine = Engine(llm_worker)
    assert engine.live == 0
    return engine
