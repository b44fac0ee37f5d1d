"""How a stage ends: it cannot load, it breaks, it is stopped."""

from __future__ import annotations

from functools import partial

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from duplex_trio.stages.errors import StageLoadError
from duplex_trio.stages.port import StageFailed, StageRequest, StageStream
from duplex_trio.stages.run import ThreadStage, run_stage
from duplex_trio.testing.gates import Gate
from duplex_trio.testing.stage_script import (
    GUARD_S,
    Carrier,
    FrailWorker,
    Hold,
    Panic,
    Recorder,
    RunStage,
    ScriptWorker,
    held,
    raise_it,
)


async def test_a_runtime_that_cannot_load_is_reported_and_closed(carrier: Carrier) -> None:
    worker = ScriptWorker()
    worker.on_load = worker.on_close = partial(raise_it, OSError("no weights"))
    stage = carrier(worker)
    with (
        trio.fail_after(GUARD_S),
        pytest.raises(StageLoadError, match="'script' could not be loaded: no weights"),
    ):
        await run_stage(stage)
    assert worker.calls == [("load",), ("close",)]
    with pytest.raises(trio.BrokenResourceError):
        stage.open(StageRequest(request_id="a"))


@pytest.mark.parametrize("error", [RuntimeError("out of memory"), Panic("out of memory")])
async def test_a_runtime_that_breaks_fails_every_request_and_every_waiter(
    carried_beside: RunStage, error: BaseException
) -> None:
    worker, sink = ScriptWorker(), Recorder()
    refused = 0

    async def submit(stream: StageStream) -> None:
        nonlocal refused
        with pytest.raises(trio.BrokenResourceError):
            await stream.submit("unit")
        refused += 1

    async with carried_beside(worker, command_limit=5) as stage, trio.open_nursery() as nursery:
        async with held(stage):
            failing = stage.open(StageRequest(request_id="a"), sink)
            channel = stage.open(StageRequest(request_id="b"))
            aborted = stage.open(StageRequest(request_id="c"))
            failing.submit_nowait(error)
            for _ in range(3):  # the first waits for the thread, the others for room
                nursery.start_soon(submit, channel)
                await wait_all_tasks_blocked()
            aborted.abort()
        assert [output async for output in channel.outputs] == []
        assert channel.failure == StageFailed(
            request_id="b", code="engine_dead", message="stage 'script' died: out of memory"
        )
        await aborted.wait_released()
        await sink.wait_for(1)
        assert sink.failure is not None
        assert sink.failure.code == "engine_dead"
        assert not stage.alive
        assert stage.statistics().failed_total == 3, "the two requests and the one that held the thread"
        with pytest.raises(trio.BrokenResourceError):
            stage.open(StageRequest(request_id="d"))
    assert refused == 3
    assert worker.calls[-1] == ("close",)


async def test_a_runtime_that_breaks_at_an_abort_lets_go_of_it(carried: RunStage) -> None:
    """Whoever waits for the aborted request to be released is not left waiting, and the others fail."""
    sink = Recorder()
    async with carried(FrailWorker()) as stage:
        other = stage.open(StageRequest(request_id="a"), sink)
        aborted = stage.open(StageRequest(request_id="b"))
        await aborted.submit("unit")
        aborted.abort()
        await aborted.wait_released()
        await other.wait_released()
        assert sink.failure is not None
        assert sink.failure.code == "engine_dead"


async def test_stopping_waits_for_the_step_and_fails_what_is_left(carrier: Carrier) -> None:
    worker, sink, hold = ScriptWorker(), Recorder(), Hold()
    stopped = trio.Event()
    stage = carrier(worker)

    async def carry(task_status: trio.TaskStatus[trio.CancelScope]) -> None:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                await nursery.start(run_stage, stage)
                task_status.started(scope)
        stopped.set()

    with trio.fail_after(GUARD_S):
        async with trio.open_nursery() as nursery:
            scope = await nursery.start(carry)
            stream = stage.open(StageRequest(request_id="a"), sink)
            await stream.submit(hold)
            await hold.wait_entered()
            scope.cancel()
            await wait_all_tasks_blocked()
            assert not stopped.is_set(), "the thread is still in its step"
            assert ("close",) not in worker.calls
            hold.leave.set()
            await stopped.wait()
    assert worker.calls[-1] == ("close",)
    assert sink.failure is not None
    assert sink.failure.code == "engine_dead"
    await stream.wait_released()


async def test_stopping_while_it_loads_leaves_it_to_close_itself() -> None:
    worker, hold, closed = ScriptWorker(), Hold(), Gate()
    worker.on_load = hold.pass_through
    worker.on_close = closed.set
    with trio.fail_after(GUARD_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_stage, ThreadStage(worker))
            await hold.wait_entered()
            nursery.cancel_scope.cancel()
        hold.leave.set()
        await closed.wait_task()
    assert worker.calls == [("load",), ("close",)]


async def test_a_runtime_that_fails_to_close_does_not_harm_the_stop(carried_beside: RunStage) -> None:
    worker, sink = ScriptWorker(), Recorder()
    worker.on_close = partial(raise_it, RuntimeError("stuck"))
    async with carried_beside(worker) as stage:
        await stage.open(StageRequest(request_id="a"), sink).submit("unit")
        assert await sink.wait_for(1) == ["unit"]
    assert worker.calls[-1] == ("close",)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError("no weights"), "no weights"),
        (KeyError("bias"), "KeyError: 'bias'"),
        (MemoryError(), "MemoryError"),
    ],
)
async def test_why_a_runtime_did_not_load_is_said_once_and_so_that_it_can_be_understood(
    carrier: Carrier, error: Exception, told: str
) -> None:
    worker = ScriptWorker()
    worker.on_load = partial(raise_it, error)
    with trio.fail_after(GUARD_S), pytest.raises(StageLoadError) as caught:
        await run_stage(carrier(worker))
    assert str(caught.value) == f"stage 'script' could not be loaded: {told}"
