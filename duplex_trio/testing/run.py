"""A scripted engine in a nursery of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import trio

from duplex_trio.engine import SessionLimits
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.stages.inline import InlineStage


@asynccontextmanager
async def scripted_omni(
    script: Script | None = None,
    *,
    max_sessions: int = 8,
    limits: SessionLimits | None = None,
    step_s: float = 0.02,
) -> AsyncIterator[DuplexOmni]:
    """An engine with the scripted model, without threads, so that it runs under a mock clock.

    Args:
        script: what is heard and said.
        max_sessions: sessions at once.
        limits: limits of each session.
        step_s: how long each step of a stage takes, in seconds of Trio's clock.
    """
    omni = DuplexOmni(
        ScriptedPipeline(script=script),
        max_sessions=max_sessions,
        limits=limits,
        warm_up=False,
        stage_factory=partial(InlineStage, step_s=step_s),
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(omni.run)
        try:
            yield omni
        finally:
            nursery.cancel_scope.cancel()
