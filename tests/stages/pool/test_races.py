"""Requests at the moment at which their replica dies, on replicas with threads of their own."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from duplex_trio.stages.errors import StageDeadError, StageLoadError
from duplex_trio.stages.pool import RestartPolicy, StagePool
from duplex_trio.stages.port import StageRequest, StageStream
from duplex_trio.stages.run import ThreadStage
from duplex_trio.testing.replicas import Replicas
from duplex_trio.testing.stage_script import GUARD_S, Hold, Recorder, ScriptWorker

SOON = RestartPolicy(first_s=0.001, jitter=0.0)


def request(request_id: str) -> StageRequest:
    return StageRequest(request_id=request_id)


async def comes_back(pool: StagePool) -> None:
    """Wait until a pool has a replica again."""
    with trio.fail_after(GUARD_S):
        while not pool.alive:  # noqa: ASYNC110  nothing tells when
            await trio.sleep(0.001)


async def test_whoever_waits_for_a_replica_that_dies_is_let_go() -> None:
    """For room, for a unit to be taken, and for the release of what was aborted before it died and after."""
    replicas = Replicas(lambda worker: ThreadStage(worker, command_limit=3))
    refused: list[str] = []

    async def submit(name: str, stream: StageStream) -> None:
        with pytest.raises(StageDeadError):
            await stream.submit("unit")
        refused.append(name)

    hold = Hold()
    with trio.fail_after(GUARD_S):
        async with replicas.pool(policy=SOON) as pool, trio.open_nursery() as nursery:
            held = pool.open(request("held"), Recorder())
            await held.submit(hold)
            await hold.wait_entered()
            sink = Recorder()
            doomed = pool.open(request("doomed"), sink)
            doomed.submit_nowait(RuntimeError("out of memory"))
            waiting = pool.open(request("waiting"))
            nursery.start_soon(submit, "for room", waiting)
            early = pool.open(request("early"))
            early.abort()
            await wait_all_tasks_blocked()
            hold.leave.set()
            await early.wait_released()
            await sink.wait_for(1)
            late = waiting
            late.abort()
            late.abort()
            await late.wait_released()
            await doomed.aclose()
            await held.aclose()
            await comes_back(pool)
            assert pool.statistics().live_requests == 0
            again = Recorder()
            await pool.open(request("waiting"), again).submit("unit", final=True)
            assert await again.wait_for(1) == ["unit"]
            assert late.failure is not None
        assert refused == ["for room"]


async def closes(worker: ScriptWorker) -> None:
    """Wait until a runtime that nobody waits for has closed itself."""
    with trio.fail_after(GUARD_S):
        while worker.calls[-1] != ("close",):  # noqa: ASYNC110  nothing tells when
            await trio.sleep(0.001)


async def test_a_pool_may_be_stopped_while_a_replica_loads_again() -> None:
    """Nobody waits for the load, and what it loaded is closed."""
    replicas, hold = Replicas(ThreadStage), Hold()

    def load(_index: int, life: int) -> None:
        if life:
            hold.entered.set()
            assert hold.leave.wait(GUARD_S)

    replicas.on_load = load
    with trio.fail_after(GUARD_S):
        async with replicas.pool(policy=SOON) as pool:
            sink = Recorder()
            pool.open(request("doomed"), sink).submit_nowait(RuntimeError("out of memory"))
            await hold.wait_entered()
            with pytest.raises(StageDeadError, match="stage 'llm' is down; it is being loaded again"):
                pool.open(request("a"))
    hold.leave.set()
    await closes(replicas.workers[0][1])
    assert not pool.alive


async def test_a_stop_while_the_replicas_load_for_the_first_time() -> None:
    replicas, hold = Replicas(ThreadStage), Hold()
    replicas.on_load = lambda _index, _life: (hold.entered.set(), hold.leave.wait(GUARD_S))[0]
    pool = StagePool("llm", replicas.make, num_replicas=2)
    with trio.fail_after(GUARD_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pool.run)
            await hold.wait_entered()
            assert [replica.state for replica in pool.statistics().replicas] == ["loading"] * 2
            nursery.cancel_scope.cancel()
    hold.leave.set()
    for (worker,) in replicas.workers.values():
        if worker.calls:  # one may not have begun
            await closes(worker)


async def test_a_failed_replica_at_the_start_takes_the_others_along() -> None:
    """Those in threads finish their load first, and are closed."""
    replicas = Replicas(ThreadStage)

    def load(index: int, _life: int) -> None:
        if index == 1:
            raise OSError("no weights")

    replicas.on_load = load

    with (
        trio.fail_after(GUARD_S),
        pytest.raises(StageLoadError, match=r"'llm\[1\]' could not be loaded: no weights"),
    ):
        await StagePool("llm", replicas.make, num_replicas=3).run()
    for (worker,) in replicas.workers.values():
        if worker.calls:
            await closes(worker)


async def test_a_window_that_is_closed_when_the_replica_dies_is_no_hindrance() -> None:
    """The failure is told although nothing more may be delivered."""
    replicas = Replicas(ThreadStage)
    with trio.fail_after(GUARD_S):
        async with replicas.pool(2, policy=SOON) as pool:
            stream = pool.open(StageRequest(request_id="a", window=1))
            for unit in range(3):
                await stream.submit(unit)
            assert (await stream.outputs.receive()).data == 0
            killer = Recorder()
            stage = pool.replicas[0].stage
            assert stage is not None
            stage.open(request("b"), killer).submit_nowait(RuntimeError("out of memory"))
            await killer.wait_for(1)
            stream.consumed()
            assert [output async for output in stream.outputs] == []
            assert stream.failure is not None
            assert stream.failure.code == "engine_dead"
            await stream.aclose()
