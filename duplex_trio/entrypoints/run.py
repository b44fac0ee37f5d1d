"""The task trees of entry points.

entry point
|- engine                 as in engine/run.py
|- warm-up                before it is offered, one turn, or one chunk of video
|- video  x N             of a model of video that is watched from here: its life, as in video/run.py
`- batch  x N             of a model that is asked from other threads
   `- asker  x N          asks one request after the other
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

import trio

from duplex_trio.engine.omni_engine_base import OmniEngineBase
from duplex_trio.entrypoints.steps import begin_step

if TYPE_CHECKING:
    from duplex_trio.entrypoints.async_omni import AsyncOmni
    from duplex_trio.entrypoints.batch import Batch
    from duplex_trio.entrypoints.omni_base import AsyncOmniBase
    from duplex_trio.entrypoints.video_omni import VideoOmni
    from duplex_trio.entrypoints.video_watch import WatchedVideo
    from duplex_trio.protocol.video import SessionStart
    from duplex_trio.video.transport import VideoTransport

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


@asynccontextmanager
async def watching(
    omni: VideoOmni, video: WatchedVideo, transport: VideoTransport, start: SessionStart
) -> AsyncIterator[WatchedVideo]:
    """Carry a video while the block goes on, and wait for its end; an error comes out as it is."""
    failed: Exception | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(omni.serve, transport, name="video")
        try:
            await video.begin(start)
            yield video
        except Exception as error:
            failed = error
        finally:
            video.leave()
    if failed is not None:
        raise failed


async def run_batches(omni: AsyncOmni, use_nursery: Callable[[trio.Nursery | None], None]) -> None:
    """Carry a model, and batches in the nursery that is handed out, until cancelled."""
    async with trio.open_nursery() as engine_nursery:
        await engine_nursery.start(omni.run)
        async with trio.open_nursery() as batch_nursery:
            use_nursery(batch_nursery)
            try:
                await trio.sleep_forever()
            finally:
                use_nursery(None)


async def run_batch(omni: AsyncOmni, batch: Batch, *, at_once: int) -> None:
    """Ask what is in a batch, so many requests at once; over when all are, or when its scope is cancelled."""
    with batch.scope:
        async with trio.open_nursery() as nursery:
            for _ in range(min(at_once, len(batch))):
                nursery.start_soon(_ask_on, omni, batch)


async def _ask_on(omni: AsyncOmni, batch: Batch) -> None:
    while (taken := batch.next_request()) is not None:
        index, request = taken
        batch.came(index, await omni.attempt(request))
