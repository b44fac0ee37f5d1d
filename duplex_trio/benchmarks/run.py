"""The task tree of a benchmark.

bench
|- omni                     the engine with a scripted model: one after the other two of them
`- measurements             in turn
   `- talk[n]  x N          sessions that talk meanwhile, for some of them

The benchmark of the wire needs no tasks: servers are processes, and one client drives all its connections.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

import trio

from duplex_trio.benchmarks.appends import measure_appends
from duplex_trio.benchmarks.barge_in import (
    ArrivingOutputs,
    BargeIns,
    Idle,
    QueuedAppends,
    QueuedOutputs,
    StuckSubmit,
    measure_barge_ins,
)
from duplex_trio.benchmarks.caller import DETECTED, Caller, call, call_many, leave_all
from duplex_trio.benchmarks.figures import this_machine
from duplex_trio.benchmarks.memory import measure_memory
from duplex_trio.benchmarks.pipeline import BenchPipeline
from duplex_trio.benchmarks.report import EngineReport, Leaks
from duplex_trio.benchmarks.settings import EngineBenchSettings
from duplex_trio.benchmarks.talking import Talking, measure_talking, stagger_s, talk
from duplex_trio.benchmarks.units import measure_units
from duplex_trio.benchmarks.wire import WireReport, measure_wire
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.lockstep import LockstepPipeline
from duplex_trio.serving.options import TRANSPORTS
from duplex_trio.testing.server_process import server_process

START_TIMEOUT_S = 60.0

T = TypeVar("T")
Tell = Callable[[str], None]
"""Is told what is being measured."""


async def bench_engine(settings: EngineBenchSettings, *, tell: Tell) -> EngineReport:
    """Measure an engine with the scripted model. Takes the process for itself while it lasts.

    Raises:
        BenchError, BargeInError: in a group; a session did something else than what was to be measured.
    """
    pipeline = BenchPipeline(outputs=settings.outputs, stuck_s=settings.stuck_s)
    sessions_max = max(settings.memory_sessions, settings.append_sessions, *settings.sessions) + 8
    omni = DuplexOmni(pipeline, max_sessions=sessions_max, warm_up=False)
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(omni.run)
            # Memory first: what other measurements gave back would be used again unseen.
            memory = await measure_memory(omni, settings, tell)
            appends = await measure_appends(omni, settings, tell)
            barge_ins = await _measure_loads(omni, pipeline, settings, tell)
            talking = [
                await _measure_talkers(omni, count, settings, tell) for count in (0, *settings.sessions)
            ]
            leaks = _leaks(omni)
            nursery.cancel_scope.cancel()
    finally:
        pipeline.close()
    lockstep = DuplexOmni(LockstepPipeline(), max_sessions=sessions_max, warm_up=False)
    async with trio.open_nursery() as nursery:
        await nursery.start(lockstep.run)
        units = [
            await measure_units(lockstep, count, settings.seconds / 2, tell) for count in settings.sessions
        ]
        leaks = leaks.and_those_of(_leaks(lockstep))
        nursery.cancel_scope.cancel()
    return EngineReport(
        machine=this_machine(),
        settings=settings,
        memory=memory,
        appends=tuple(appends),
        barge_ins=tuple(barge_ins),
        talking=tuple(talking),
        units=tuple(units),
        leaks=leaks,
    )


async def bench_wire(settings: EngineBenchSettings, *, tell: Tell) -> WireReport:
    """Measure both WebSocket paths, one server process after the other.

    Raises:
        WireError: a server did something else than what was to be measured.
    """
    paths = []
    for ws in TRANSPORTS:
        tell(f"{ws} WebSockets")
        arguments = ("--deploy", "scripted", "--ws", ws, "--log-level", "error")
        limit = ("--max-sessions", str(settings.append_sessions + 1))
        with server_process(*arguments, *limit, start_timeout_s=START_TIMEOUT_S) as server:
            paths.append(await measure_wire(ws, server, settings))
    return WireReport(machine=this_machine(), paths=tuple(paths))


async def _measure_loads(
    omni: DuplexOmni, pipeline: BenchPipeline, settings: EngineBenchSettings, tell: Tell
) -> list[BargeIns]:
    other = await call(omni)
    loads = (
        Idle(),
        QueuedOutputs(pipeline, settings.outputs),
        ArrivingOutputs(pipeline, settings.outputs),
        QueuedAppends(settings.queued_appends),
        StuckSubmit(pipeline, settings.stuck_s, other),
    )
    measured = [await measure_barge_ins(omni, load, settings.cancels, tell) for load in loads]
    await other.leave()
    for count in settings.sessions:
        load = Idle(f"{count} other session{'s' if count > 1 else ''} talking")
        callers = await call_many(omni, count, DETECTED)
        job = partial(measure_barge_ins, omni, load, settings.cancels, tell)
        measured.append(await _while_talking(callers, job))
        await leave_all(callers)
    return measured


async def _measure_talkers(
    omni: DuplexOmni, count: int, settings: EngineBenchSettings, tell: Tell
) -> Talking:
    callers = await call_many(omni, count, DETECTED)
    talking = await _while_talking(callers, partial(measure_talking, callers, settings.seconds, tell))
    await leave_all(callers)
    return talking


async def _while_talking(callers: Sequence[Caller], job: Callable[[], Awaitable[T]]) -> T:
    """Do a job while sessions talk."""
    async with trio.open_nursery() as nursery:
        for index, caller in enumerate(callers):
            nursery.start_soon(talk, caller, stagger_s(index, len(callers)), name=f"talk[{index}]")
        result = await job()
        nursery.cancel_scope.cancel()
    return result


def _leaks(omni: DuplexOmni) -> Leaks:
    statistics = omni.statistics()
    return Leaks(
        sessions=statistics.sessions,
        live_requests=statistics.live_requests,
        leaked_requests=omni.duplex_engine.metrics.totals().leaked_requests,
        stage_requests={stage.name: stage.live_requests for stage in statistics.stages},
    )
