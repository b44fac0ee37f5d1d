from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from attrs import define, field
from trio.testing import assert_checkpoints, assert_no_checkpoints, wait_all_tasks_blocked

from duplex_trio.stages.port import OutputSink, StageFailed, StageOutput, StageRequest, StageStream
from duplex_trio.stages.run import StageLoadError, ThreadStage, run_stage
from duplex_trio.stages.worker import StageWorker, WorkerContext

GUARD_S = 20
"""A hang fails the test after this long; nothing is timed by it."""


@define(eq=False)
class Hold:
    """A unit whose step says that it is being worked on and then waits to be let go."""

    entered: threading.Event = field(factory=threading.Event)
    leave: threading.Event = field(factory=threading.Event)

    async def wait_entered(self) -> None:
        assert await trio.to_thread.run_sync(self.entered.wait, GUARD_S)


@define(eq=False)
class Many:
    """A unit that yields several outputs at once."""

    values: list[Any]


class ScriptWorker(StageWorker):
    """Does one unit at a time as the unit says; `calls` is what it was asked for."""

    def __init__(self) -> None:
        self.name = "script"
        self.calls: list[tuple[Any, ...]] = []
        self.units: deque[tuple[str, Any, bool]] = deque()
        self.on_load: Callable[[], None] = lambda: None
        self.on_close: Callable[[], None] = lambda: None

    def load(self) -> None:
        self.calls.append(("load",))
        self.on_load()

    def open(self, request: StageRequest, context: WorkerContext) -> None:
        self.calls.append(("open", request.request_id))

    def submit(self, request_id: str, unit: Any, final: bool, context: WorkerContext) -> None:
        if isinstance(unit, BaseException):
            raise unit
        self.units.append((request_id, unit, final))

    def abort(self, request_ids: Sequence[str]) -> None:
        self.calls.append(("abort", *request_ids))
        self.units = deque(entry for entry in self.units if entry[0] not in request_ids)

    def step(self, context: WorkerContext) -> bool:
        ready = next((entry for entry in self.units if context.window_open(entry[0])), None)
        if ready is None:
            return False
        self.units.remove(ready)
        request_id, unit, final = ready
        self.calls.append(("step", request_id, unit))
        if isinstance(unit, Hold):
            unit.entered.set()
            assert unit.leave.wait(GUARD_S)
        values = unit.values if isinstance(unit, Many) else [unit]
        for index, value in enumerate(values):
            last = final and index == len(values) - 1
            context.emit(StageOutput(request_id=request_id, data=value, finished=last))
        return any(context.window_open(entry[0]) for entry in self.units)

    def close(self) -> None:
        self.calls.append(("close",))
        self.on_close()


class Recorder(OutputSink):
    def __init__(self) -> None:
        self.received: list[StageOutput | StageFailed] = []
        self._arrived = trio.lowlevel.ParkingLot()

    @property
    def data(self) -> list[Any]:
        return [output.data for output in self.received if isinstance(output, StageOutput)]

    @property
    def failure(self) -> StageFailed | None:
        return next((output for output in self.received if isinstance(output, StageFailed)), None)

    def deliver(self, output: StageOutput | StageFailed) -> None:
        self.received.append(output)
        self._arrived.unpark_all()

    async def wait_for(self, count: int) -> list[Any]:
        while len(self.received) < count:
            await self._arrived.park()
        return self.data


class BrokenSink(OutputSink):
    def deliver(self, output: StageOutput | StageFailed) -> None:
        raise RuntimeError("this consumer is broken")


@asynccontextmanager
async def running(worker: StageWorker, **options: Any) -> AsyncIterator[ThreadStage]:
    with trio.fail_after(GUARD_S):
        async with trio.open_nursery() as nursery:
            stage = ThreadStage(worker, **options)
            await nursery.start(run_stage, stage)
            yield stage
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def held(stage: ThreadStage) -> AsyncIterator[None]:
    """Keep the stage's thread inside a step until the block ends."""
    hold = Hold()
    stream = stage.open(StageRequest(request_id="hold"), Recorder())
    await stream.submit(hold)
    await hold.wait_entered()
    try:
        yield
    finally:
        hold.leave.set()


async def test_outputs_arrive_in_order_and_the_last_releases_the_request() -> None:
    worker, sink = ScriptWorker(), Recorder()
    async with running(worker) as stage:
        stream = stage.open(StageRequest(request_id="a", owner="session"), sink)
        await stream.submit("one")
        stream.submit_nowait("two")
        await stream.submit("three", final=True)
        await stream.wait_released()
        assert sink.data == ["one", "two", "three"]
        assert stage.statistics().live_requests == 0
        assert stage.statistics().outputs_total == 3
        with pytest.raises(trio.BrokenResourceError):
            await stream.submit("four")
        with pytest.raises(trio.BrokenResourceError):
            stream.submit_nowait("four")


async def test_submit_waits_until_the_thread_took_the_unit() -> None:
    worker, sink = ScriptWorker(), Recorder()
    async with running(worker) as stage, trio.open_nursery() as nursery:
        async with held(stage):
            stream = stage.open(StageRequest(request_id="a"), sink)
            acknowledged = trio.Event()

            async def submit() -> None:
                await stream.submit("unit")
                acknowledged.set()

            nursery.start_soon(submit)
            await wait_all_tasks_blocked()
            assert not acknowledged.is_set()
        await acknowledged.wait()
        assert await sink.wait_for(1) == ["unit"]


async def test_which_calls_are_checkpoints() -> None:
    async with running(ScriptWorker()) as stage:
        with assert_no_checkpoints():
            stream = stage.open(StageRequest(request_id="a"), Recorder())
            stream.submit_nowait("unit")
            stream.consumed()
            stage.abort(["a", "unknown"])
            stream.abort()
        with assert_checkpoints():
            await stage.open(StageRequest(request_id="b"), Recorder()).submit("unit")


async def test_a_closed_window_pauses_its_own_request_only() -> None:
    worker, slow, quick = ScriptWorker(), Recorder(), Recorder()
    async with running(worker) as stage:
        stream = stage.open(StageRequest(request_id="slow", window=2), slow)
        for number in range(5):
            await stream.submit(number)
        # The worker serves the oldest unit that it may: once it served the other request, it had passed over
        # this one.
        await stage.open(StageRequest(request_id="quick"), quick).submit("now")
        assert await quick.wait_for(1) == ["now"]
        assert slow.data == [0, 1]
        stream.consumed()
        assert await slow.wait_for(3) == [0, 1, 2]
        stream.consumed(2)
        assert await slow.wait_for(5) == [0, 1, 2, 3, 4]


async def test_one_unit_may_overshoot_the_window() -> None:
    async with running(ScriptWorker()) as stage:
        stream = stage.open(StageRequest(request_id="a", window=1))
        await stream.submit(Many(list(range(10))), final=True)
        assert [output.data async for output in stream.outputs] == list(range(10))


async def test_no_wakeup_is_lost_when_a_window_closes_and_opens_at_once() -> None:
    class Eager(Recorder):
        def deliver(self, output: StageOutput | StageFailed) -> None:
            super().deliver(output)
            stream.consumed()

    async with running(ScriptWorker()) as stage:
        sink = Eager()
        stream = stage.open(StageRequest(request_id="a", window=2), sink)
        for number in range(500):
            stream.submit_nowait(number)
        assert await sink.wait_for(500) == list(range(500))


async def test_submit_waits_for_room_among_the_commands() -> None:
    worker, sink = ScriptWorker(), Recorder()
    async with running(worker, command_limit=3) as stage, trio.open_nursery() as nursery:
        async with held(stage):
            stream = stage.open(StageRequest(request_id="a"), sink)
            stream.submit_nowait(0)
            stream.submit_nowait(1)
            nursery.start_soon(stream.submit, 2)
            await wait_all_tasks_blocked()
            assert stage.statistics().queued_commands == 3
        assert await sink.wait_for(3) == [0, 1, 2]


async def test_no_wakeup_is_lost_when_many_wait_for_room() -> None:
    sink = Recorder()
    async with running(ScriptWorker(), command_limit=1) as stage:
        stream = stage.open(StageRequest(request_id="a"), sink)

        async def submit_all() -> None:
            for number in range(50):
                await stream.submit(number)

        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(submit_all)
        await sink.wait_for(400)
        assert sorted(sink.data) == sorted(list(range(50)) * 8)


async def test_a_cancelled_submit_withdraws_its_unit_and_the_request_lives_on() -> None:
    worker, sink = ScriptWorker(), Recorder()
    async with running(worker, command_limit=2) as stage:
        stream = stage.open(StageRequest(request_id="a"), sink)
        async with held(stage), trio.open_nursery() as submitters:
            submitters.start_soon(stream.submit, "waits for the thread")
            await wait_all_tasks_blocked()
            stream.submit_nowait("kept")
            submitters.start_soon(stream.submit, "waits for room")
            await wait_all_tasks_blocked()
            submitters.cancel_scope.cancel()
        await stream.submit("next")
        assert await sink.wait_for(2) == ["kept", "next"]


async def test_an_abort_overtakes_queued_units() -> None:
    worker, sink = ScriptWorker(), Recorder()
    async with running(worker) as stage:
        async with held(stage):
            stream = stage.open(StageRequest(request_id="a"), sink)
            for number in range(10):
                stream.submit_nowait(number)
            stream.abort()
            stream.abort()
            with pytest.raises(trio.BrokenResourceError):
                stream.submit_nowait("late")
        await stream.wait_released()
        assert [call for call in worker.calls if "a" in call] == [], "not even opened: the abort came first"
        assert sink.received == []
        assert stage.statistics().aborted_total == 1


async def test_an_abort_between_two_steps_stops_an_open_request() -> None:
    worker, sink = ScriptWorker(), Recorder()
    hold = Hold()
    async with running(worker) as stage:
        stream = stage.open(StageRequest(request_id="a"), sink)
        stream.submit_nowait(hold)
        stream.submit_nowait("never")
        await hold.wait_entered()
        stream.abort()
        hold.leave.set()
        await stream.aclose()
        assert ("abort", "a") in worker.calls
        assert ("step", "a", "never") not in worker.calls
        assert sink.received == []


async def test_a_submit_that_an_abort_overtook_raises() -> None:
    async with running(ScriptWorker()) as stage, trio.open_nursery() as nursery:
        async with held(stage):
            stream = stage.open(StageRequest(request_id="a"), Recorder())
            raised = trio.Event()

            async def submit() -> None:
                with pytest.raises(trio.BrokenResourceError):
                    await stream.submit("unit")
                raised.set()

            nursery.start_soon(submit)
            await wait_all_tasks_blocked()
            stage.abort(["a"])
        await raised.wait()


async def test_an_id_is_free_again_at_once_after_an_abort() -> None:
    worker, first, second = ScriptWorker(), Recorder(), Recorder()
    hold = Hold()
    async with running(worker) as stage:
        old = stage.open(StageRequest(request_id="a"), first)
        old.submit_nowait("old")
        old.submit_nowait(hold)
        # Not a checkpoint: the output of "old" is made, but this task keeps the loop, so it is still under
        # way.
        assert hold.entered.wait(GUARD_S)
        old.abort()
        new = stage.open(StageRequest(request_id="a"), second)
        new.submit_nowait("new", final=True)
        hold.leave.set()
        await old.wait_released()
        await new.wait_released()
        assert first.received == []
        assert second.data == ["new"]


async def test_a_live_id_is_refused() -> None:
    async with running(ScriptWorker()) as stage:
        stage.open(StageRequest(request_id="a"), Recorder())
        with pytest.raises(ValueError, match="'a' is already live"):
            stage.open(StageRequest(request_id="a"), Recorder())


async def test_a_sink_that_raises_loses_its_own_request_only() -> None:
    worker, sound = ScriptWorker(), Recorder()
    async with running(worker) as stage:
        broken = stage.open(StageRequest(request_id="broken"), BrokenSink())
        broken.submit_nowait("one")
        await broken.wait_released()
        last = stage.open(StageRequest(request_id="last"), BrokenSink())
        last.submit_nowait("one", final=True)
        await last.wait_released()
        await stage.open(StageRequest(request_id="sound"), sound).submit("two")
        assert await sound.wait_for(1) == ["two"]
        assert ("abort", "broken") in worker.calls
        assert stage.statistics().live_requests == 1


async def test_outputs_as_a_channel() -> None:
    async with running(ScriptWorker()) as stage:
        stream = stage.open(StageRequest(request_id="a"))
        await stream.submit("one")
        await stream.submit("two", final=True)
        assert [(output.data, output.finished) async for output in stream.outputs] == [
            ("one", False),
            ("two", True),
        ]
        assert stream.failure is None
        with pytest.raises(ValueError, match="opened with a sink"):
            _ = stage.open(StageRequest(request_id="b"), Recorder()).outputs


async def test_a_reader_that_closes_its_channel_aborts_the_request() -> None:
    worker = ScriptWorker()
    async with running(worker) as stage:
        stream = stage.open(StageRequest(request_id="a"))
        await stream.outputs.aclose()
        stream.submit_nowait("one")
        await stream.wait_released()
        assert ("abort", "a") in worker.calls


async def test_a_runtime_that_cannot_load_is_reported_and_closed() -> None:
    worker = ScriptWorker()
    worker.on_load = worker.on_close = fail_with(OSError("no weights"))
    stage = ThreadStage(worker)
    with (
        trio.fail_after(GUARD_S),
        pytest.raises(StageLoadError, match="'script' could not be loaded: no weights"),
    ):
        await run_stage(stage)
    assert worker.calls == [("load",), ("close",)]
    with pytest.raises(trio.BrokenResourceError):
        stage.open(StageRequest(request_id="a"))


class Panic(BaseException):
    """As a native runtime raises it: not an `Exception`."""


@pytest.mark.parametrize("error", [RuntimeError("out of memory"), Panic("out of memory")])
async def test_a_runtime_that_breaks_fails_every_request_and_every_waiter(error: BaseException) -> None:
    worker, sink = ScriptWorker(), Recorder()
    refused = 0

    async def submit(stream: StageStream) -> None:
        nonlocal refused
        with pytest.raises(trio.BrokenResourceError):
            await stream.submit("unit")
        refused += 1

    async with running(worker, command_limit=5) as stage, trio.open_nursery() as nursery:
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
        assert channel.failure == sink.failure.__class__(
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


async def test_stopping_waits_for_the_step_and_fails_what_is_left() -> None:
    worker, sink, hold = ScriptWorker(), Recorder(), Hold()
    stopped = trio.Event()
    stage = ThreadStage(worker)

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


async def test_stopping_while_it_loads_waits_for_the_load() -> None:
    worker, hold = ScriptWorker(), Hold()
    worker.on_load = lambda: (hold.entered.set(), hold.leave.wait(GUARD_S))[0]
    with trio.fail_after(GUARD_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_stage, ThreadStage(worker))
            await hold.wait_entered()
            nursery.cancel_scope.cancel()
            hold.leave.set()
    assert worker.calls == [("load",), ("close",)]


async def test_a_runtime_that_fails_to_close_does_not_harm_the_stop() -> None:
    worker, sink = ScriptWorker(), Recorder()
    worker.on_close = fail_with(RuntimeError("stuck"))
    async with running(worker) as stage:
        await stage.open(StageRequest(request_id="a"), sink).submit("unit")
        assert await sink.wait_for(1) == ["unit"]
    assert worker.calls[-1] == ("close",)


def fail_with(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail
