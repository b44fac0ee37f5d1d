"""The task tree of an entry point: the engine, and before it is offered, one warm-up turn through a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from duplex_trio.engine import DuplexOmniEngine, run_duplex_engine

if TYPE_CHECKING:
    from duplex_trio.entrypoints.duplex_omni import DuplexOmni


async def run_warm(
    omni: DuplexOmni, engine: DuplexOmniEngine, *, warm_up: bool, task_status: trio.TaskStatus[None]
) -> None:
    """Carry the engine; started once a warm-up turn was answered."""
    async with trio.open_nursery() as nursery:
        await nursery.start(run_duplex_engine, engine)
        if warm_up:
            await omni.warm_up()
        task_status.started()
