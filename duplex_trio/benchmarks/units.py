"""Whether a model in lockstep keeps up: sessions that send sound in real time, and how long each frame waits for its
answer.

The model takes no time, so what is measured is everything around it.
"""

from __future__ import annotations

from collections.abc import Callable

import trio
from attrs import frozen

from duplex_trio.benchmarks.caller import MANUAL, BenchError, call_many, leave_all, sound
from duplex_trio.benchmarks.figures import cpu_s
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.lockstep import FRAME_MS


@frozen(kw_only=True)
class Units:
    """Frames of 80 ms and their answers.

    Attributes:
        sessions: how many sent them.
        units: frames that were answered.
        misses: answers that came after the frame's length and the budget.
        latency_ms: what a frame waited for its answer on average, in milliseconds.
        latency_p99_ms: what 99 of 100 waited at most, to the next bound of the histogram.
        cpu_share: CPU time used over time passed; 1 is one core.
    """

    sessions: int
    units: int
    misses: int
    latency_ms: float
    latency_p99_ms: float
    cpu_share: float


async def measure_units(
    omni: DuplexOmni, sessions: int, seconds: float, tell: Callable[[str], None]
) -> Units:
    """Let sessions with the lockstep model send sound for a while.

    Raises:
        BenchError: nothing was answered.
    """
    tell(f"units, {sessions} session{'s' * (sessions > 1)} in lockstep")
    callers = await call_many(omni, sessions, MANUAL)
    before = omni.duplex_engine.metrics.totals()
    begin_s, used_s = trio.current_time(), cpu_s()
    append, gap_s = sound(FRAME_MS, loud=True), FRAME_MS / 1000 / sessions
    next_s = begin_s
    for _ in range(max(4, round(seconds * 1000 / FRAME_MS))):
        for caller in callers:
            await trio.sleep_until(next_s)
            caller.handle.submit(append)
            next_s += gap_s
    share = (cpu_s() - used_s) / (trio.current_time() - begin_s)
    await leave_all(callers)
    after = omni.duplex_engine.metrics.totals()
    latency = after.unit_latency_ms.since(before.unit_latency_ms)
    mean, p99 = latency.mean, latency.quantile(0.99)
    if mean is None or p99 is None:
        raise BenchError("no unit was answered")
    return Units(
        sessions=sessions,
        units=latency.count,
        misses=after.unit_deadline_misses - before.unit_deadline_misses,
        latency_ms=mean,
        latency_p99_ms=p99,
        cpu_share=share,
    )
