"""The task tree of an engine.

engine
|- stage[name]  x N       what carries each runtime, loaded side by side
|- background   x N       what an engine does beside them: keeping pace, watching
`- work         x N       one task for each request, or whatever else the engine is asked for

The work lives inside the stages' lifetime: when the engine ends, it is over before its stages stop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from duplex_trio.stages.run import run_stages

if TYPE_CHECKING:
    from duplex_trio.engine.omni_engine_base import OmniEngineBase


async def run_engine(
    engine: OmniEngineBase, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Carry an engine until cancelled; started when it can be asked.

    Raises:
        StageLoadError: in a group, for each stage that could not be loaded.
    """
    async with trio.open_nursery() as stage_nursery:
        await stage_nursery.start(run_stages, engine.all_stages)
        for name, task in engine.background:
            stage_nursery.start_soon(task, name=name)
        async with trio.open_nursery() as work_nursery:
            engine.use_nursery(work_nursery)
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                engine.use_nursery(None)
