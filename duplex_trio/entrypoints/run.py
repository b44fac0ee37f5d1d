"""The task tree of an entry point: the engine, and before it is offered, one warm-up turn."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

import trio

from duplex_trio.engine.omni_engine_base import OmniEngineBase
from duplex_trio.entrypoints.steps import begin_step

if TYPE_CHECKING:
    from duplex_trio.entrypoints.omni_base import AsyncOmniBase

Entry = TypeVar("Entry", bound="AsyncOmniBase")


async def run_warm(
    engine: OmniEngineBase,
    warm_up: Callable[[], Awaitable[None]] | None,
    *,
    task_status: trio.TaskStatus[None],
) -> None:
    """Carry the engine; started once a warm-up turn was answered, if there is one."""
    async with trio.open_nursery() as nursery:
        begin_step("stages")
        await nursery.start(engine.run)
        begin_step("sampling")
        if warm_up is not None:
            begin_step("warm_up")
            await warm_up()
        task_status.started()


@asynccontextmanager
async def running(omni: Entry) -> AsyncIterator[Entry]:
    """Carry an entry point while the block goes on; an error of the block's own comes out as it is."""
    failed: Exception | None = None
    async with trio.open_nursery() as nursery:
        await nursery.start(omni.run)
        try:
            yield omni
        except Exception as error:
            failed = error
        finally:
            nursery.cancel_scope.cancel()
    if failed is not None:
        raise failed
