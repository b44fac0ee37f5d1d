"""Pools of scripted replicas, and how they are broken."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import trio

from duplex_trio.stages.inline import InlineStage
from duplex_trio.stages.pool import RestartPolicy, StagePool
from duplex_trio.stages.port import Stage, StageRequest
from duplex_trio.stages.worker import StageWorker
from duplex_trio.testing.run import carried
from duplex_trio.testing.stage_script import Recorder, ScriptWorker

POLICY = RestartPolicy(jitter=0.0)
"""Waits of 0.5, 1, 2, ... seconds."""


class Replicas:
    """Makes replicas and remembers them.

    Args:
        carry: what carries a runtime.

    Attributes:
        workers: the runtimes of each place, one life after the other.
        on_load: called when a replica loads, with its place and the number of its life.
    """

    def __init__(self, carry: Callable[[StageWorker], Stage] = InlineStage) -> None:
        self.workers: dict[int, list[ScriptWorker]] = defaultdict(list)
        self.carry = carry
        self.on_load: Callable[[int, int], None] = lambda _index, _life: None

    def make(self, index: int) -> Stage:
        """Make another life of a place; for `StagePool`."""
        worker = ScriptWorker()
        life = len(self.workers[index])
        worker.on_load = lambda: self.on_load(index, life)
        self.workers[index].append(worker)
        return self.carry(worker)

    def lives(self, index: int = 0) -> int:
        """How many were made for a place."""
        return len(self.workers[index])

    def pool(self, num_replicas: int = 1, **options: Any) -> AbstractAsyncContextManager[StagePool]:
        """A running pool, stopped at the end of the block."""
        return carried(
            StagePool("llm", self.make, num_replicas=num_replicas, **{"policy": POLICY, **options})
        )


async def kill(pool: StagePool, index: int) -> None:
    """Break the runtime of one replica, by a request of its own."""
    stage = pool.replicas[index].stage
    assert stage is not None
    sink = Recorder()
    stage.open(StageRequest(request_id=f"killer of {index}"), sink).submit_nowait(
        RuntimeError("out of memory")
    )
    await sink.wait_for(1)


async def until(condition: Callable[[], bool], within_s: float = 100) -> None:
    """Look every hundredth of a second whether something has come.

    Raises:
        AssertionError: it has not, after `within_s` seconds.
    """
    for _ in range(int(within_s * 100)):
        if condition():
            return
        await trio.sleep(0.01)
    raise AssertionError("it did not come")
