"""How readings are summed up."""

from __future__ import annotations

import mmap

import pytest

from duplex_trio.benchmarks.appends import AppendCost
from duplex_trio.benchmarks.barge_in import BargeIns, Cancel
from duplex_trio.benchmarks.figures import cpu_s, resident_bytes, this_machine
from duplex_trio.benchmarks.memory import Memory
from duplex_trio.benchmarks.report import Leaks
from duplex_trio.benchmarks.talking import Talking
from duplex_trio.clients.distribution import Distribution


def test_the_cost_of_appends_is_shown_in_three_ways() -> None:
    cost = AppendCost(
        append_ms=20, vad=True, pace="real_time", sessions=4, appends=1000, cpu_s=0.05, driver_cpu_s=0.01
    )
    assert cost.cpu_us_per_append == pytest.approx(50)
    assert cost.appends_per_s_per_core == pytest.approx(20_000)
    assert cost.sessions_per_core == pytest.approx(400)


def test_only_commands_that_had_to_wait_have_an_arrival() -> None:
    def cancel(arrival_us: float | None, stale_deltas: int) -> Cancel:
        return Cancel(
            decide_us=1,
            terminal_us=2,
            arrival_us=arrival_us,
            stale_deltas=stale_deltas,
            silence_us=0,
            abort_us=arrival_us,
        )

    waited = BargeIns(load="much", cancels=(cancel(5, 0), cancel(7, 3)))
    assert waited.arrival_us == Distribution(count=2, mean=6, p50=5, p90=7, p99=7, max=7)
    assert waited.stale_deltas_max == 3
    assert waited.silence_us == Distribution(count=2, mean=0, p50=0, p90=0, p99=0, max=0)
    assert waited.abort_us == waited.arrival_us
    idle = BargeIns(load="idle", cancels=(cancel(None, 0),))
    assert (idle.arrival_us, idle.abort_us) == (None, None)


def test_what_two_engines_left_is_added_up() -> None:
    one = Leaks(sessions=1, live_requests=2, leaked_requests=4, stage_requests={"asr": 8})
    two = Leaks(sessions=0, live_requests=0, leaked_requests=0, stage_requests={"lockstep": 16})
    assert one.and_those_of(two) == Leaks(
        sessions=1, live_requests=2, leaked_requests=4, stage_requests={"asr": 8, "lockstep": 16}
    )
    assert one.and_those_of(two).total == 31


def test_memory_is_per_session() -> None:
    memory = Memory(
        sessions=10,
        before_bytes=1000,
        idle_bytes=2000,
        listening_bytes=4000,
        active_bytes=9000,
        cycles=5,
        cycles_before_bytes=7000,
        cycles_after_bytes=6000,
        objects_before=50,
        objects_after=53,
    )
    assert memory.idle_session_bytes == 100
    assert memory.listening_session_bytes == 300
    assert memory.active_session_bytes == 800
    assert (memory.growth_bytes, memory.growth_objects) == (-1000, 3)


def test_the_wait_is_compared_with_the_silence_that_ends_a_turn() -> None:
    talking = Talking(sessions=1, lateness_us=(), first_audio_ms=(600.0, 660.0, 700.0), cpu_share=0.1)
    assert talking.first_audio_over_parts == pytest.approx(1.1)
    assert Talking(sessions=0, lateness_us=(), first_audio_ms=(), cpu_share=0).first_audio_over_parts is None


def test_cpu_time_is_that_of_work() -> None:
    begin_s = cpu_s()
    while cpu_s() == begin_s:
        sum(range(10_000))
    assert cpu_s() > begin_s


def test_memory_that_is_used_is_resident() -> None:
    size = 64_000_000
    before = resident_bytes()
    # Straight from the system: the interpreter's own heap may have resident pages to spare.
    with mmap.mmap(-1, size) as pages:
        pages.write(b"x" * size)
        assert resident_bytes() - before > size // 2


def test_the_machine_is_described() -> None:
    machine = this_machine()
    assert 1 <= machine.cpus_usable <= machine.cpus
    assert machine.python.startswith("CPython 3.")
