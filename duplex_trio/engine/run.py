"""The task tree of an engine of sessions.

engine
|- stage[name]  x N       one worker thread each, loaded side by side
|- voice activity pace    begins the jobs that were wanted too soon behind the last one
|- voice activity watch   sees that the stage gives each job back
`- sessions               one supervisor task per session or chat, inside the stages' lifetime
"""

from __future__ import annotations

import trio

from duplex_trio.engine.duplex_omni_engine import DuplexOmniEngine
from duplex_trio.stages.run import run_stages


async def run_duplex_engine(
    engine: DuplexOmniEngine, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Carry an engine until cancelled; started when it takes sessions.

    Raises:
        StageLoadError: in a group, for each stage that could not be loaded.
    """
    async with trio.open_nursery() as stage_nursery:
        await stage_nursery.start(run_stages, engine.all_stages)
        stage_nursery.start_soon(engine.voice_activity.pace, name="voice activity pace")
        stage_nursery.start_soon(engine.voice_activity.watch, name="voice activity watch")
        async with trio.open_nursery() as session_nursery:
            for manager in (engine.manager, engine.chats):
                manager.use_nursery(session_nursery)
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                for manager in (engine.manager, engine.chats):
                    manager.use_nursery(None)
