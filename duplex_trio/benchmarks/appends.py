"""What an append costs: from the handle through decoding, resampling and storing, and voice activity behind it.

Costs are CPU time of the whole process, threads included, so other work on the machine does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import trio
from attrs import frozen

from duplex_trio.benchmarks.caller import (
    DETECTED,
    MANUAL,
    BenchError,
    Caller,
    call,
    call_many,
    leave_all,
    sound,
)
from duplex_trio.benchmarks.figures import cpu_s
from duplex_trio.benchmarks.settings import EngineBenchSettings
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.protocol.duplex import AppendAudio, ClearInput

APPENDS_MS = (20, 100)
"""What clients send: many of them 20 ms, some 100 ms."""
_CLEAR_EVERY_MS = 60_000
"""Sound that a session without detection is given before it is told to forget it."""
_TONE_MS = 200
Submit = Callable[[AppendAudio], None]


@frozen(kw_only=True)
class AppendCost:
    """The cost of appends of one length.

    Attributes:
        append_ms: sound in each.
        vad: whether the session listens for speech; the sound is silence.
        pace: `in_a_row` is one append behind the other in one session; `flat_out` goes round many sessions as fast
            as one core can, the loop doing everything else in between; `real_time` gives as many sessions
            their appends when they would be spoken.
        sessions: sessions that took appends.
        appends: appends that were measured.
        cpu_s: CPU time they took, in seconds, less `driver_cpu_s`.
        driver_cpu_s: CPU time that sending takes by itself, in seconds.
    """

    append_ms: int
    vad: bool
    pace: str
    sessions: int
    appends: int
    cpu_s: float
    driver_cpu_s: float

    @property
    def cpu_us_per_append(self) -> float:
        """CPU time of one append, in microseconds."""
        return self.cpu_s / self.appends * 1e6

    @property
    def appends_per_s_per_core(self) -> float:
        """How many of them one core does in a second."""
        return self.appends / self.cpu_s

    @property
    def sessions_per_core(self) -> float:
        """How many sessions that do nothing but listen one core carries."""
        return self.appends_per_s_per_core * self.append_ms / 1000


async def measure_appends(
    omni: DuplexOmni, settings: EngineBenchSettings, tell: Callable[[str], None]
) -> list[AppendCost]:
    """Measure appends of every length at every pace, without and with voice activity."""
    costs = []
    for append_ms in APPENDS_MS:
        tell(f"appends of {append_ms} ms")
        costs.append(await _in_a_row(omni, append_ms, settings.appends))
        for vad in (False, True):
            callers = await call_many(omni, settings.append_sessions, DETECTED if vad else MANUAL)
            costs.append(await _flat_out(callers, append_ms, settings.appends, vad=vad))
            await leave_all(callers)
        for vad in (False, True):
            callers = await call_many(omni, settings.append_sessions, DETECTED if vad else MANUAL)
            costs.append(await _real_time(callers, append_ms, settings.seconds / 2, vad=vad))
            await leave_all(callers)
    return costs


async def _in_a_row(omni: DuplexOmni, append_ms: int, appends: int) -> AppendCost:
    caller = await call(omni)
    submit, append = caller.handle.submit, sound(append_ms, loud=False)
    in_a_row = _CLEAR_EVERY_MS // append_ms
    submit(append)  # makes the resampler
    used_s, left = 0.0, appends
    while left:
        count = min(left, in_a_row)
        begin_s = cpu_s()
        for _ in range(count):
            submit(append)
        used_s += cpu_s() - begin_s
        left -= count
        submit(ClearInput())
        await caller.handle.ready()
    await caller.leave()
    begin_s = cpu_s()
    for _ in range(appends):
        _no_submit(append)
    driver_s = cpu_s() - begin_s
    return _cost([caller], append_ms, "in_a_row", appends, (used_s, driver_s), vad=False)


async def _flat_out(callers: Sequence[Caller], append_ms: int, appends: int, *, vad: bool) -> AppendCost:
    append, rounds = sound(append_ms, loud=False), max(1, appends // len(callers))
    submits = [caller.handle.submit for caller in callers]
    await _go_round(submits, append, 1)
    begin_s = cpu_s()
    await _go_round(submits, append, rounds)
    if vad:
        await _wait_until_scored(callers)
    used_s = cpu_s() - begin_s
    begin_s = cpu_s()
    await _go_round([_no_submit] * len(callers), append, rounds)
    driver_s = cpu_s() - begin_s
    return _cost(callers, append_ms, "flat_out", rounds * len(callers), (used_s, driver_s), vad=vad)


async def _wait_until_scored(callers: Sequence[Caller]) -> None:
    """Wait until voice activity has caught up: it hears a tone behind everything else."""
    tone = sound(_TONE_MS, loud=True)
    for caller in callers:
        caller.handle.submit(tone)
    for caller in callers:
        await caller.be_heard()


async def _real_time(callers: Sequence[Caller], append_ms: int, seconds: float, *, vad: bool) -> AppendCost:
    append, rounds = sound(append_ms, loud=False), max(1, round(seconds * 1000 / append_ms))
    submits = [caller.handle.submit for caller in callers]
    await _pace(submits, append, append_ms, rounds=1)
    begin_s = cpu_s()
    await _pace(submits, append, append_ms, rounds)
    used_s = cpu_s() - begin_s
    begin_s = cpu_s()
    await _pace([_no_submit] * len(callers), append, append_ms, rounds)
    driver_s = cpu_s() - begin_s
    return _cost(callers, append_ms, "real_time", rounds * len(callers), (used_s, driver_s), vad=vad)


def _cost(
    callers: Sequence[Caller],
    append_ms: int,
    pace: str,
    appends: int,
    used_and_driver_s: tuple[float, float],
    *,
    vad: bool,
) -> AppendCost:
    refused = [code for caller in callers for code in caller.heard.refused]
    if refused:
        raise BenchError(f"appends were refused: {', '.join(refused)}")
    used_s, driver_s = used_and_driver_s
    return AppendCost(
        append_ms=append_ms,
        vad=vad,
        pace=pace,
        sessions=len(callers),
        appends=appends,
        cpu_s=max(used_s - driver_s, 1e-9),
        driver_cpu_s=driver_s,
    )


async def _go_round(submits: Sequence[Submit], append: AppendAudio, rounds: int) -> None:
    """Send every session its appends in turn, with one turn of the loop after each."""
    for _ in range(rounds):
        for submit in submits:
            submit(append)
            await trio.lowlevel.checkpoint()


async def _pace(submits: Sequence[Submit], append: AppendAudio, append_ms: int, rounds: int) -> None:
    """Send every session its appends in real time, evenly spread over the length of an append."""
    gap_s = append_ms / 1000 / len(submits)
    next_s = trio.current_time()
    for _ in range(rounds):
        for submit in submits:
            await trio.sleep_until(next_s)
            submit(append)
            next_s += gap_s


def _no_submit(append: AppendAudio) -> None:
    """Takes an append as a session would, and does nothing."""
