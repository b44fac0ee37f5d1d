"""How the tests of this folder run a stage."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from duplex_trio.stages.run import ThreadStage, run_stage
from duplex_trio.stages.worker import StageWorker
from duplex_trio.testing.segments import Engine
from duplex_trio.testing.stage_script import RunStage

GUARD_S = 120
"""A hang fails the test after this long; nothing is timed by it."""


@asynccontextmanager
async def running_stage(worker: StageWorker, **options: Any) -> AsyncIterator[ThreadStage]:
    with trio.fail_after(GUARD_S):
        async with trio.open_nursery() as nursery:
            stage = ThreadStage(worker, **options)
            await nursery.start(run_stage, stage)
            yield stage
            nursery.cancel_scope.cancel()


@pytest.fixture
def running() -> RunStage:
    """Run a stage: `async with running(worker) as stage`. It is stopped at the end of the block."""
    return running_stage


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
