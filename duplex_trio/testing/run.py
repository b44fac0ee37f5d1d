"""A scripted engine in a nursery of its own, and how sessions with it are closed and checked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

import trio

from duplex_trio.engine import SessionLimits, StageFactory
from duplex_trio.entrypoints.async_omni import AsyncOmni
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.stages.inline import InlineStage
from duplex_trio.stages.port import Stage
from duplex_trio.stages.worker import StageWorker
from duplex_trio.testing.stream_rules import check_stream
from duplex_trio.testing.talker import Talker

StageT = TypeVar("StageT", bound=Stage)

STEP_S = 0.02
"""How long a step of a stage takes unless a test says otherwise, in seconds of Trio's clock."""


@asynccontextmanager
async def scripted_omni(
    script: Script | None = None,
    *,
    pipeline: Pipeline | None = None,
    max_sessions: int = 8,
    limits: SessionLimits | None = None,
    step_s: float | Mapping[str, float] = STEP_S,
    stage_factory: StageFactory | None = None,
) -> AsyncIterator[DuplexOmni]:
    """An engine with the scripted model, without threads, so that it runs under a mock clock.

    Args:
        script: what is heard and said.
        pipeline: another model instead, whose steps take no time either.
        max_sessions: sessions at once.
        limits: limits of each session.
        step_s: how long each step of a stage takes, in seconds of Trio's clock; of all, or by stage name.
        stage_factory: what carries each runtime instead of such a stage.
    """

    omni = DuplexOmni(
        pipeline or ScriptedPipeline(script=script),
        max_sessions=max_sessions,
        limits=limits,
        warm_up=False,
        stage_factory=stage_factory or inline_stages(step_s),
    )
    async with omni.running():
        yield omni


@asynccontextmanager
async def scripted_requests(
    script: Script | None = None,
    *,
    pipeline: Pipeline | None = None,
    max_requests: int = 8,
    step_s: float | Mapping[str, float] = STEP_S,
    stage_factory: StageFactory | None = None,
) -> AsyncIterator[AsyncOmni]:
    """The same for requests alone.

    Args:
        script: what is heard and said.
        pipeline: another model instead.
        max_requests: requests at once.
        step_s: how long each step of a stage takes, in seconds of Trio's clock; of all, or by stage name.
        stage_factory: what carries each runtime instead of such a stage.
    """
    omni = AsyncOmni(
        pipeline or ScriptedPipeline(script=script),
        max_requests=max_requests,
        warm_up=False,
        stage_factory=stage_factory or inline_stages(step_s),
    )
    async with omni.running():
        yield omni


def inline_stages(step_s: float | Mapping[str, float]) -> StageFactory:
    """Stages without threads, each step of which takes so long; of all, or by stage name."""

    def stage(worker: StageWorker) -> InlineStage:
        takes_s = step_s if isinstance(step_s, float) else step_s.get(worker.name, STEP_S)
        return InlineStage(worker, step_s=takes_s)

    return stage


@asynccontextmanager
async def carried(stage: StageT) -> AsyncIterator[StageT]:
    """Carry one stage until the block ends."""
    async with trio.open_nursery() as nursery:
        await nursery.start(stage.run)
        yield stage
        nursery.cancel_scope.cancel()


async def together(*functions: Callable[[], Awaitable[object]]) -> None:
    """Run several functions at once and wait for all of them."""
    async with trio.open_nursery() as nursery:
        for function in functions:
            nursery.start_soon(function)


async def finish(omni: DuplexOmni, *talkers: Talker) -> None:
    """Close sessions that are still open, and check how all of them went.

    Raises:
        AssertionError: a stream of events broke a rule, or stage requests or slots were left behind.
    """
    await close_talkers(*talkers)
    statistics = omni.statistics()
    assert statistics.live_requests == 0, f"{statistics.live_requests} stage requests were left behind"
    assert statistics.sessions == 0, "a session kept its slot"


async def close_talkers(*talkers: Talker) -> None:
    """The same where others use the engine too, of which nothing is asked.

    Raises:
        AssertionError: a stream of events broke a rule.
    """
    for talker in talkers:
        talker.handle.close("over")
        await talker.handle.wait_closed()
        heard = talker.heard
        check_stream(talker.events, ended=not (heard.broken or heard.stalled))
