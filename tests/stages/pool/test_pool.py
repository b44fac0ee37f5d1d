"""Requests over replicas that break and come back."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from duplex_trio.stages.errors import StageDeadError, StageLoadError
from duplex_trio.stages.inline import InlineStage
from duplex_trio.stages.pool import RestartPolicy, StagePool
from duplex_trio.stages.port import Stage, StageRequest
from duplex_trio.testing.replicas import POLICY, Replicas, kill, until
from duplex_trio.testing.stage_script import Recorder, ScriptWorker


def request(request_id: str) -> StageRequest:
    return StageRequest(request_id=request_id)


# ------------------------------------------------------------------ choice


async def test_a_request_goes_to_the_replica_with_the_least_to_do_and_stays(
    autojump_clock: MockClock, replicas: Replicas
) -> None:
    """Each of its units, too, whatever the others do meanwhile."""
    async with replicas.pool(3) as pool:
        sinks = {name: Recorder() for name in "abcd"}
        streams = {name: pool.open(request(name), sink) for name, sink in sinks.items()}
        for unit in (1, 2):
            for name, stream in streams.items():
                await stream.submit(f"{name}{unit}")
        streams["b"].abort()
        late = pool.open(request("e"), Recorder())
        await streams["d"].submit("d3", final=True)
        await sinks["d"].wait_for(3)
        for stream in (*streams.values(), late):
            await stream.aclose()
        stepped = [
            [call[2] for call in worker.calls if call[0] == "step"] for (worker,) in replicas.workers.values()
        ]
        assert stepped == [["a1", "d1", "a2", "d2", "d3"], ["b1", "b2"], ["c1", "c2"]]
        opened = [
            [call[1] for call in worker.calls if call[0] == "open"] for (worker,) in replicas.workers.values()
        ]
        assert opened == [["a", "d"], ["b", "e"], ["c"]]
        assert pool.statistics().live_requests == 0


async def test_commands_that_wait_count_where_requests_are_equal(
    autojump_clock: MockClock, replicas: Replicas
) -> None:
    async with replicas.pool(2) as pool:
        first = pool.open(request("a"), Recorder())
        pool.open(request("b"), Recorder())
        for _ in range(3):
            first.submit_nowait("unit")
        pool.open(request("c"), Recorder())
        assert [replica.load.live_requests for replica in pool.replicas] == [1, 2]


async def test_an_id_is_live_once_in_the_whole_pool(autojump_clock: MockClock, replicas: Replicas) -> None:
    """Also where its second life would go to another replica; it may come again when it is over."""
    async with replicas.pool(2) as pool:
        stream = pool.open(request("a"))
        assert pool.holds("a")
        with pytest.raises(ValueError, match="'a' is already live on stage 'llm'"):
            pool.open(request("a"))
        await stream.aclose()
        assert not pool.holds("a")
        pool.open(request("a")).abort()


async def test_an_abort_finds_its_requests_wherever_they_are(
    autojump_clock: MockClock, replicas: Replicas
) -> None:
    async with replicas.pool(2) as pool:
        streams = [pool.open(request(name), Recorder()) for name in "abc"]
        for stream in streams:
            await stream.submit("unit")
        pool.abort(["a", "b", "nobody"])
        for stream in streams[:2]:
            await stream.wait_released()
        assert not pool.holds("a")
        assert not pool.holds("b")
        assert pool.holds("c")
        assert pool.statistics().aborted_total == 2


# ------------------------------------------------------------------ death and return


async def test_a_dead_replica_loses_only_its_requests(autojump_clock: MockClock, replicas: Replicas) -> None:
    """Each of them is told once; those of the others, and new ones, go on."""
    async with replicas.pool(2) as pool:
        sinks = [Recorder() for _ in range(4)]
        streams = [pool.open(request(str(n)), sink) for n, sink in enumerate(sinks)]
        await kill(pool, 0)
        for sink in (sinks[0], sinks[2]):
            assert [output.code for output in sink.received] == ["engine_dead"]  # type: ignore[union-attr]
        for stream in (streams[0], streams[2]):
            with pytest.raises(StageDeadError):
                await stream.submit("too late")
            await stream.wait_released()
        for stream, sink in ((streams[1], sinks[1]), (streams[3], sinks[3])):
            await stream.submit("unit", final=True)
            assert await sink.wait_for(1) == ["unit"]
        assert pool.alive
        assert [replica.state for replica in pool.statistics().replicas] == ["restarting", "ready"]
        sink = Recorder()
        await pool.open(request("new"), sink).submit("unit", final=True)
        assert await sink.wait_for(1) == ["unit"]
        assert ("open", "new") in replicas.workers[1][0].calls
        await trio.sleep(0.6)
        assert [replica.state for replica in pool.statistics().replicas] == ["ready", "ready"]
        assert all(len(sink.received) == 1 for sink in sinks)
        await pool.open(request("newer"), Recorder()).submit("unit")
        assert ("open", "newer") in replicas.workers[0][1].calls


async def test_a_single_replica_comes_back_by_itself(autojump_clock: MockClock, replicas: Replicas) -> None:
    """While it is down nobody is let in, and is told when the next try is."""
    async with replicas.pool() as pool:
        begun = trio.current_time()
        await kill(pool, 0)
        await wait_all_tasks_blocked()
        assert not pool.alive
        with pytest.raises(
            StageDeadError, match=r"stage 'llm' is down; the next try to load it is in 0\.5 s"
        ):
            pool.open(request("a"))
        await trio.sleep_until(begun + 0.49)
        assert replicas.lives() == 1
        await trio.sleep_until(begun + 0.51)
        assert pool.alive
        sink = Recorder()
        await pool.open(request("a"), sink).submit("unit", final=True)
        assert await sink.wait_for(1) == ["unit"]
        (told,) = pool.statistics().replicas
        assert (told.name, told.restarts_total, told.last_error) == ("llm", 1, "RuntimeError: out of memory")


async def test_the_wait_grows_with_each_break_and_a_good_run_ends_that(
    autojump_clock: MockClock, replicas: Replicas
) -> None:
    async with replicas.pool() as pool:
        waited = []
        for ran_s in (0, 0, 0, 61, 0):
            await trio.sleep(ran_s)
            died_s = trio.current_time()
            await kill(pool, 0)
            await until(lambda: pool.alive)
            waited.append(round(trio.current_time() - died_s, 1))
        assert waited == [0.5, 1.0, 2.0, 0.5, 1.0]


async def test_a_load_that_fails_counts_as_a_break(autojump_clock: MockClock, replicas: Replicas) -> None:
    """Whether it cannot be loaded or not even be made; the others go on, and it is tried again and again."""
    tried_s: list[float] = []

    def fail(index: int, life: int) -> None:
        if index == 0 and life:
            tried_s.append(trio.current_time())
            if life <= 3:
                raise OSError("no weights")

    def make(index: int) -> Stage:
        if index == 0 and len(tried_s) == 2:
            tried_s.append(trio.current_time())
            raise ValueError("no such model")
        return replicas.make(index)

    replicas.on_load = fail
    pool = StagePool("llm", make, num_replicas=2, policy=POLICY)
    async with trio.open_nursery() as nursery:
        await nursery.start(pool.run)
        begun = trio.current_time()
        await kill(pool, 0)
        told = lambda: pool.statistics().replicas[0]  # noqa: E731
        errors = [told().last_error]
        for _ in range(2):
            await until(lambda: told().last_error != errors[-1])
            errors.append(told().last_error)
        assert errors == [
            "RuntimeError: out of memory",
            "stage 'llm[0]' could not be loaded: no weights",
            "ValueError: no such model",
        ]
        await until(lambda: told().state == "ready")
        assert [round(at - begun, 1) for at in tried_s] == [0.5, 1.5, 3.5, 7.5, 15.5]
        assert pool.statistics().replicas[0].restarts_total == 1
        nursery.cancel_scope.cancel()


async def test_a_pool_whose_replicas_are_given_up_ends(autojump_clock: MockClock, replicas: Replicas) -> None:
    """A replica is given up by itself; the pool is over with the last one, and says so to whoever comes."""
    pool = StagePool("llm", replicas.make, num_replicas=2, policy=RestartPolicy(jitter=0.0, max_restarts=1))
    async with trio.open_nursery() as nursery:
        await nursery.start(pool.run)
        for index in (0, 1):
            await kill(pool, index)
            await trio.sleep(1)
            assert pool.alive
            await kill(pool, index)
            await trio.sleep(100)
            assert pool.statistics().replicas[index].state == "failed"
    assert not pool.alive
    with pytest.raises(StageDeadError, match="all replicas of stage 'llm' are down and have been given up"):
        pool.open(request("a"))
    assert replicas.lives(0) == replicas.lives(1) == 2


async def test_what_a_replica_counted_stays_when_it_breaks(
    autojump_clock: MockClock, replicas: Replicas
) -> None:
    async with replicas.pool(2) as pool:
        sink = Recorder()
        await pool.open(request("a"), sink).submit("unit", final=True)
        await sink.wait_for(1)
        pool.open(request("b"), Recorder()).abort()
        await kill(pool, 0)
        seen = []
        for _ in range(20):
            now = pool.statistics()
            seen.append((now.outputs_total, now.aborted_total, now.failed_total))
            await trio.sleep(0.05)
        assert set(seen) == {(1, 1, 1)}
        assert [replica.outputs_total for replica in pool.statistics().replicas] == [1, 0]
        sink = Recorder()
        await pool.open(request("c"), sink).submit("unit", final=True)
        await sink.wait_for(1)
        assert pool.statistics().outputs_total == 2


class Faulty(InlineStage):
    """Its runner has a fault of its own."""

    async def run(self, task_status: trio.TaskStatus[Stage] = trio.TASK_STATUS_IGNORED) -> None:
        self.alive = True
        task_status.started(self)
        await trio.sleep(1)
        self.alive = False
        raise KeyError("a fault of the carrier")


async def test_a_carrier_that_raises_counts_as_broken(autojump_clock: MockClock) -> None:
    """It does not take the pool, and with it the engine, along."""
    replicas = Replicas(Faulty)
    async with replicas.pool() as pool:
        await trio.sleep(10)
        assert replicas.lives() > 2
        assert pool.statistics().replicas[0].last_error == "KeyError: 'a fault of the carrier'"


# ------------------------------------------------------------------ start and stop


async def test_at_the_start_every_replica_must_load(autojump_clock: MockClock, replicas: Replicas) -> None:
    """Else the pool does not start, says which one it was, and lets the others go."""

    def fail(index: int, life: int) -> None:
        if index == 1:
            raise OSError("no weights")

    replicas.on_load = fail
    pool = StagePool("llm", replicas.make, num_replicas=3)
    with pytest.raises(StageLoadError, match=r"stage 'llm\[1\]' could not be loaded: no weights"):
        await pool.run()
    assert all(worker.calls[-1] == ("close",) for (worker,) in replicas.workers.values())
    assert not pool.alive


class Endless(InlineStage):
    """Ends before it is up."""

    async def run(self, task_status: trio.TaskStatus[Stage] = trio.TASK_STATUS_IGNORED) -> None:
        await trio.lowlevel.checkpoint()


async def test_a_carrier_that_ends_before_it_is_up_has_not_loaded(autojump_clock: MockClock) -> None:
    with pytest.raises(StageLoadError, match="stage 'llm' ended while it was loaded"):
        await StagePool("llm", Replicas(Endless).make).run()


async def test_before_it_runs_nobody_is_let_in(replicas: Replicas) -> None:
    pool = StagePool("llm", replicas.make, num_replicas=2)
    assert not pool.alive
    with pytest.raises(StageDeadError, match="stage 'llm' is not running"):
        pool.open(request("a"))
    assert [replica.name for replica in pool.statistics().replicas] == ["llm[0]", "llm[1]"]


async def test_a_pool_may_be_stopped_while_a_replica_waits_to_be_made(
    autojump_clock: MockClock, replicas: Replicas
) -> None:
    async with replicas.pool(2) as pool:
        await kill(pool, 0)
        other, sink = pool.open(request("a")), Recorder()
        pool.open(request("b"), sink)
        await wait_all_tasks_blocked()
    assert replicas.lives(0) == 1
    assert not pool.alive
    assert [output async for output in other.outputs] == []
    for failure in (other.failure, sink.failure):
        assert failure is not None
        assert failure.code == "engine_dead"


def test_a_pool_needs_a_replica() -> None:
    with pytest.raises(ValueError, match="needs at least one replica, got 0"):
        StagePool("llm", Replicas().make, num_replicas=0)


def test_a_replica_that_cannot_be_made_is_told_at_once() -> None:
    """A model that cannot be found is a fault of the deployment, and known before anything is loaded."""

    def make(index: int) -> Stage:
        raise LookupError("no such model")

    with pytest.raises(LookupError, match="no such model"):
        StagePool("llm", make)


async def test_a_worker_is_loaded_once(autojump_clock: MockClock, replicas: Replicas) -> None:
    """Each life has a runtime of its own, and the one before is closed first."""
    async with replicas.pool() as pool:
        for _ in range(3):
            await kill(pool, 0)
            await trio.sleep(5)
            assert pool.alive
        lives: list[ScriptWorker] = replicas.workers[0]
        assert len(lives) == 4
        for worker in lives[:-1]:
            assert [call for call in worker.calls if call[0] in ("load", "close")] == [("load",), ("close",)]
