"""How quickly a barge-in acts, whatever else there is to do.

A barge-in is handed to the session while an answer is being spoken. Measured is when the epoch is over, when
its terminal event reaches the client's side, and how much of the old answer does so after it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from time import perf_counter_ns

import trio
from attrs import frozen

from duplex_trio.benchmarks.caller import DETECTED, Caller, call, sound
from duplex_trio.benchmarks.pipeline import BURST, STICK, TALK, BenchPipeline
from duplex_trio.clients.distribution import Distribution, distribution_summary
from duplex_trio.entrypoints.duplex_omni import DuplexOmni, DuplexSessionHandle
from duplex_trio.protocol.duplex import BargeIn

_SPEAK_S = 0.03
"""How long an answer is heard before it is interrupted."""
_AFTER_S = 0.02
"""How long after the end of an answer its sound is waited for."""


class BargeInError(Exception):
    """A barge-in did not end what it was to end."""


@frozen(kw_only=True)
class Cancel:
    """One barge-in, in microseconds.

    Attributes:
        decide_us: from the command to the end of the epoch.
        terminal_us: from the command to `response.done` in the hands of the client's side.
        arrival_us: from when the command arrived to the end of the epoch, where it had to wait for its turn.
        stale_deltas: pieces of the old answer's sound that were sent after the command.
        silence_us: as the server says, from the command to the last old sound that it handed over; 0 when none was.
        abort_us: as the server says, from the command to the release of the stage requests; None where there were none,
            or they were not released in time.
    """

    decide_us: float
    terminal_us: float
    arrival_us: float | None
    stale_deltas: int
    silence_us: float | None
    abort_us: float | None


@frozen(kw_only=True)
class BargeIns:
    """Barge-ins under one load."""

    load: str
    cancels: tuple[Cancel, ...]

    @property
    def decide_us(self) -> Distribution | None:
        """From the command to the end of the epoch."""
        return distribution_summary([cancel.decide_us for cancel in self.cancels])

    @property
    def terminal_us(self) -> Distribution | None:
        """From the command to the terminal event."""
        return distribution_summary([cancel.terminal_us for cancel in self.cancels])

    @property
    def arrival_us(self) -> Distribution | None:
        """From the command's arrival to the end of the epoch; None where it did not have to wait."""
        return distribution_summary(
            [cancel.arrival_us for cancel in self.cancels if cancel.arrival_us is not None]
        )

    @property
    def silence_us(self) -> Distribution | None:
        """From the command to silence."""
        return distribution_summary(
            [cancel.silence_us for cancel in self.cancels if cancel.silence_us is not None]
        )

    @property
    def abort_us(self) -> Distribution | None:
        """From the command to the release of the stages."""
        return distribution_summary(
            [cancel.abort_us for cancel in self.cancels if cancel.abort_us is not None]
        )

    @property
    def stale_deltas_max(self) -> int:
        """The most sound of an old answer that was sent after a barge-in, in deltas."""
        return max((cancel.stale_deltas for cancel in self.cancels), default=0)


class Load(ABC):
    """What a session or its stages have to do when the barge-in comes."""

    name: str

    @abstractmethod
    async def cancel(self, caller: Caller) -> Cancel:
        """Let the model answer, bring the load about, and interrupt."""


class Idle(Load):
    """Nothing but an answer that is being spoken."""

    def __init__(self, name: str = "idle") -> None:
        self.name = name

    async def cancel(self, caller: Caller) -> Cancel:
        """Interrupt an answer."""
        await caller.ask(TALK)
        await caller.hear()
        await trio.sleep(_SPEAK_S)
        return await barge_in(caller)


class QueuedOutputs(Load):
    """The model has put out much more than was sent."""

    def __init__(self, pipeline: BenchPipeline, outputs: int) -> None:
        self.name = f"{outputs} stage outputs queued"
        self._pipeline = pipeline

    async def cancel(self, caller: Caller) -> Cancel:
        """Interrupt once all is put out and some of it was heard."""
        await caller.ask(BURST)
        await self._pipeline.flooded.wait()
        await caller.hear()
        await trio.sleep(_SPEAK_S)
        return await barge_in(caller)


class ArrivingOutputs(Load):
    """The model is putting out much at this very moment."""

    def __init__(self, pipeline: BenchPipeline, outputs: int) -> None:
        self.name = f"{outputs} stage outputs arriving"
        self._pipeline = pipeline

    async def cancel(self, caller: Caller) -> Cancel:
        """Interrupt as soon as the loop takes the command, which comes when all is put out."""
        await caller.ask(BURST)
        return await barge_in(caller, arrived_ns=await self._pipeline.flooded.wait())


class QueuedAppends(Load):
    """Seconds of sound came just before."""

    def __init__(self, appends: int) -> None:
        self.name = f"{appends} appends of 1 s before it"
        self._appends = appends

    async def cancel(self, caller: Caller) -> Cancel:
        """Interrupt behind the sound."""
        append = sound(1000, loud=False)
        await caller.ask(TALK)
        await caller.hear()
        await trio.sleep(_SPEAK_S)
        arrived_ns = perf_counter_ns()
        for _ in range(self._appends):
            caller.handle.submit(append)
        return await barge_in(caller, arrived_ns=arrived_ns)


class StuckSubmit(Load):
    """A stage does not take the session's input."""

    def __init__(self, pipeline: BenchPipeline, stuck_s: float, other: Caller) -> None:
        self.name = f"a submit stuck for {stuck_s:g} s"
        self._pipeline = pipeline
        self._other = other

    async def cancel(self, caller: Caller) -> Cancel:
        """Interrupt an answer whose input cannot be handed over, because another session's input is stuck."""
        await self._other.ask(STICK)
        await self._pipeline.stuck.wait()
        await caller.ask(TALK)
        await trio.sleep(_SPEAK_S)
        cancel = await barge_in(caller)
        self._pipeline.let_go()
        await self._other.hear()
        await barge_in(self._other)
        return cancel


async def measure_barge_ins(
    omni: DuplexOmni, load: Load, count: int, tell: Callable[[str], None]
) -> BargeIns:
    """Interrupt one session `count` times under a load."""
    tell(f"barge-in, {load.name}")
    caller = await call(omni, DETECTED)
    await load.cancel(caller)  # the first of everything is slower
    cancels = [await load.cancel(caller) for _ in range(count)]
    await caller.leave()
    return BargeIns(load=load.name, cancels=tuple(cancels))


async def barge_in(caller: Caller, *, arrived_ns: int | None = None) -> Cancel:
    """Interrupt the answer that is going on, and wait for its end.

    Args:
        caller: the session.
        arrived_ns: when the command came, on the performance counter, if it had to wait until now.

    Raises:
        BargeInError: the answer was over, or goes on.
    """
    handle, heard = caller.handle, caller.heard
    counters = handle.counters
    epochs, deltas = counters.barge_ins, heard.deltas_total
    before = _readings(handle)
    received_ns = perf_counter_ns()
    handle.submit(BargeIn())
    decided_ns = perf_counter_ns()
    if counters.barge_ins != epochs + 1 or heard.over:
        raise BargeInError("there was nothing to interrupt, or it was not interrupted")
    await heard.wait(lambda: heard.over)
    if heard.status != "cancelled":
        raise BargeInError(f"the answer ended as {heard.status}")
    terminal_ns = heard.done_ns
    await trio.sleep(_AFTER_S)
    silence_us, abort_us = map(_one_us, before, _readings(handle))
    return Cancel(
        decide_us=(decided_ns - received_ns) / 1000,
        terminal_us=(terminal_ns - received_ns) / 1000,
        arrival_us=None if arrived_ns is None else (decided_ns - arrived_ns) / 1000,
        stale_deltas=heard.deltas_total - deltas,
        silence_us=silence_us,
        abort_us=abort_us,
    )


_Readings = tuple[int, float]
"""How many there are, and their sum in milliseconds."""


def _readings(handle: DuplexSessionHandle) -> tuple[_Readings, _Readings]:
    silence, abort = handle.counters.barge_in_silence_ms, handle.counters.barge_in_abort_ms
    return (silence.count, silence.total), (abort.count, abort.total)


def _one_us(before: _Readings, after: _Readings) -> float | None:
    """The one reading that came in between, in microseconds."""
    return (after[1] - before[1]) * 1000 if after[0] == before[0] + 1 else None
