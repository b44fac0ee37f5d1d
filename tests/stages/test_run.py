from __future__ import annotations

from itertools import pairwise

import pytest
import trio
import trio.testing
from trio.testing import assert_checkpoints, assert_no_checkpoints, wait_all_tasks_blocked

from duplex_trio.stages.port import StageFailed, StageOutput, StageRequest
from duplex_trio.stages.process.run import ProcessStage
from duplex_trio.stages.run import DRAINED_AT_ONCE_MAX
from duplex_trio.testing.stage_script import (
    GUARD_S,
    Announced,
    BrokenSink,
    Hold,
    Many,
    Recorder,
    RunStage,
    ScriptWorker,
    held,
)


async def test_outputs_arrive_in_order_and_the_last_releases_the_request(carried: RunStage) -> None:
    worker, sink = ScriptWorker(), Recorder()
    async with carried(worker) as stage:
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


async def test_submit_waits_until_the_thread_took_the_unit(carried_beside: RunStage) -> None:
    worker, sink = ScriptWorker(), Recorder()
    async with carried_beside(worker) as stage, trio.open_nursery() as nursery:
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


async def test_which_calls_are_checkpoints(carried: RunStage) -> None:
    async with carried(ScriptWorker()) as stage:
        with assert_no_checkpoints():
            stream = stage.open(StageRequest(request_id="a"), Recorder())
            stream.submit_nowait("unit")
            stream.consumed()
            stage.abort(["a", "unknown"])
            stream.abort()
        with assert_checkpoints():
            await stage.open(StageRequest(request_id="b"), Recorder()).submit("unit")


async def test_a_flood_of_outputs_lets_other_tasks_run_in_between(carried_beside: RunStage) -> None:
    """A task that is always ready runs once in each turn of the loop; two turns hand over twice the most at once."""
    worker, sink, count = ScriptWorker(), Recorder(), 20 * DRAINED_AT_ONCE_MAX
    seen = [0]
    async with carried_beside(worker) as stage:
        async with held(stage):
            flooded = stage.open(StageRequest(request_id="a"), sink)
            flooded.submit_nowait(Many(list(range(count))), final=True)
        while len(sink.received) < count:
            await trio.lowlevel.checkpoint()
            seen.append(len(sink.received))
    assert sink.data == list(range(count))
    assert max(after - before for before, after in pairwise(seen)) <= 2 * DRAINED_AT_ONCE_MAX


async def test_a_closed_window_pauses_its_own_request_only(carried: RunStage) -> None:
    worker, slow, quick = ScriptWorker(), Recorder(), Recorder()
    async with carried(worker) as stage:
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


async def test_one_unit_may_overshoot_the_window(carried: RunStage) -> None:
    async with carried(ScriptWorker()) as stage:
        stream = stage.open(StageRequest(request_id="a", window=1))
        await stream.submit(Many(list(range(10))), final=True)
        assert [output.data async for output in stream.outputs] == list(range(10))


async def test_no_wakeup_is_lost_when_a_window_closes_and_opens_at_once(carried: RunStage) -> None:
    class Eager(Recorder):
        def deliver(self, output: StageOutput | StageFailed) -> None:
            super().deliver(output)
            stream.consumed()

    async with carried(ScriptWorker()) as stage:
        sink = Eager()
        stream = stage.open(StageRequest(request_id="a", window=2), sink)
        for number in range(500):
            stream.submit_nowait(number)
        assert await sink.wait_for(500) == list(range(500))


async def test_submit_waits_for_room_among_the_commands(carried_beside: RunStage) -> None:
    worker, sink = ScriptWorker(), Recorder()
    async with carried_beside(worker, command_limit=3) as stage, trio.open_nursery() as nursery:
        async with held(stage):
            stream = stage.open(StageRequest(request_id="a"), sink)
            stream.submit_nowait(0)
            stream.submit_nowait(1)
            nursery.start_soon(stream.submit, 2)
            await wait_all_tasks_blocked()
            assert stage.statistics().queued_commands == 3
        assert await sink.wait_for(3) == [0, 1, 2]


async def test_no_wakeup_is_lost_when_many_wait_for_room(carried: RunStage) -> None:
    sink = Recorder()
    async with carried(ScriptWorker(), command_limit=1) as stage:
        stream = stage.open(StageRequest(request_id="a"), sink)

        async def submit_all() -> None:
            for number in range(50):
                await stream.submit(number)

        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(submit_all)
        await sink.wait_for(400)
        assert sorted(sink.data) == sorted(list(range(50)) * 8)


async def test_a_submit_that_is_cancelled_while_it_waits_for_room_leaves_nothing(
    carried_beside: RunStage,
) -> None:
    worker, sink = ScriptWorker(), Recorder()
    async with carried_beside(worker, command_limit=1) as stage:
        stream = stage.open(StageRequest(request_id="a"), sink)
        async with held(stage), trio.open_nursery() as submitters:
            stream.submit_nowait("kept")
            submitters.start_soon(stream.submit, "waits for room")
            await wait_all_tasks_blocked()
            submitters.cancel_scope.cancel()
        await stream.submit("next")
        assert await sink.wait_for(2) == ["kept", "next"]


async def test_a_cancelled_submit_withdraws_its_unit_and_the_request_lives_on(
    carried_beside: RunStage,
) -> None:
    worker, sink, told = ScriptWorker(), Recorder(), Announced()
    async with carried_beside(worker) as stage:
        stream = stage.open(StageRequest(request_id="a"), sink)
        async with held(stage), trio.open_nursery() as submitters:
            submitters.start_soon(stream.submit, "waits for the worker")
            await wait_all_tasks_blocked()
            submitters.cancel_scope.cancel()
            if isinstance(stage, ProcessStage):
                # The process reads this behind what tells it of the cancellation.
                stream.submit_nowait(told)
                await told.gate.wait_task()
            else:
                stream.submit_nowait(told)
        await stream.submit("next")
        assert (await sink.wait_for(2))[1] == "next"
        assert sink.data[0] != "waits for the worker"


async def test_an_abort_overtakes_queued_units(carried_beside: RunStage) -> None:
    worker, sink = ScriptWorker(), Recorder()
    async with carried_beside(worker) as stage:
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


async def test_an_abort_between_two_steps_stops_an_open_request(carried_beside: RunStage) -> None:
    worker, sink = ScriptWorker(), Recorder()
    hold = Hold()
    async with carried_beside(worker) as stage:
        stream = stage.open(StageRequest(request_id="a"), sink)
        stream.submit_nowait(hold)
        stream.submit_nowait("never")
        await hold.wait_entered()
        stream.abort()
        # To a process it travels another way than the leave to go on, and is to be there first.
        await trio.testing.wait_all_tasks_blocked(cushion=0.05)
        hold.leave.set()
        await stream.aclose()
        assert ("abort", "a") in worker.calls
        assert ("step", "a", "never") not in worker.calls
        assert sink.received == []


async def test_a_submit_that_an_abort_overtook_raises(carried_beside: RunStage) -> None:
    async with carried_beside(ScriptWorker()) as stage, trio.open_nursery() as nursery:
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
            # To a process it travels another way than the leave to go on, and is to be there first.
            await wait_all_tasks_blocked(cushion=0.05)
        await raised.wait()


async def test_an_id_is_free_again_at_once_after_an_abort(carried_beside: RunStage) -> None:
    worker, first, second = ScriptWorker(), Recorder(), Recorder()
    begin, hold = Hold(), Hold()
    async with carried_beside(worker) as stage:
        old = stage.open(StageRequest(request_id="a"), first)
        await old.submit(begin)
        await begin.wait_entered()
        old.submit_nowait("old")
        old.submit_nowait(hold)
        await wait_all_tasks_blocked()
        begin.leave.set()
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


async def test_a_live_id_is_refused(carried: RunStage) -> None:
    async with carried(ScriptWorker()) as stage:
        stage.open(StageRequest(request_id="a"), Recorder())
        with pytest.raises(ValueError, match="'a' is already live"):
            stage.open(StageRequest(request_id="a"), Recorder())


async def test_a_sink_that_raises_loses_its_own_request_only(carried: RunStage) -> None:
    worker, sound = ScriptWorker(), Recorder()
    async with carried(worker) as stage:
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


class _Choosy(Recorder):
    """Cannot take the second output."""

    def deliver(self, output: StageOutput | StageFailed) -> None:
        super().deliver(output)
        if len(self.received) == 2:
            raise RuntimeError("not that one")


async def test_a_sink_that_raises_learns_that_its_request_is_over(carried: RunStage) -> None:
    """Its owner would wait for ever otherwise."""
    sink = _Choosy()
    async with carried(ScriptWorker()) as stage:
        stream = stage.open(StageRequest(request_id="a"), sink)
        await stream.submit("one")
        await stream.submit("two")
        await stream.wait_released()
        assert sink.failure is not None
        assert sink.failure.code == "engine_error"
        assert stream.failure is sink.failure
        with pytest.raises(trio.BrokenResourceError, match="is over"):
            await stream.submit("three")


async def test_outputs_as_a_channel(carried: RunStage) -> None:
    async with carried(ScriptWorker()) as stage:
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


async def test_a_reader_that_closes_its_channel_aborts_the_request(carried: RunStage) -> None:
    worker = ScriptWorker()
    async with carried(worker) as stage:
        stream = stage.open(StageRequest(request_id="a"))
        await stream.outputs.aclose()
        stream.submit_nowait("one")
        await stream.wait_released()
        assert ("abort", "a") in worker.calls
