"""A worker that does what its units say, a sink that remembers, and units that hold the worker in a step.

For tests of what carries a worker (a thread, a process, a task): they decide when a step is entered and left, and see
every call, wherever it is made.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NoReturn

import trio
from attrs import define, field

from duplex_trio.stages.port import OutputSink, Stage, StageFailed, StageOutput, StageRequest
from duplex_trio.stages.worker import StageWorker, WorkerContext
from duplex_trio.testing.gates import Gate, Notes

GUARD_S = 120
"""A hang ends after this long; nothing is timed by it."""

Carrier = Callable[..., Stage]
"""What makes a stage from a worker and options."""

RunStage = Callable[..., AbstractAsyncContextManager[Stage]]
"""Takes a worker and options of what carries it; the stage runs inside of the context."""


class Panic(BaseException):
    """As a native runtime raises it: not an `Exception`."""


def raise_it(error: BaseException) -> NoReturn:
    """Raise; with `functools.partial` a callable that can be pickled."""
    raise error


@define(eq=False)
class Hold:
    """A unit whose step says that it is being worked on and then waits to be let go."""

    entered: Gate = field(factory=Gate)
    leave: Gate = field(factory=Gate)

    def pass_through(self) -> None:
        """Enter and wait, on the worker's side."""
        self.entered.set()
        assert self.leave.wait(GUARD_S)

    async def wait_entered(self) -> None:
        """Wait until the step is entered."""
        await self.entered.wait_task()


class Announced:
    """A unit that opens its gate where it is read from a connection."""

    def __init__(self) -> None:
        self.gate = Gate()

    def __setstate__(self, state: dict[str, Gate]) -> None:
        self.gate = state["gate"]
        self.gate.set()


@define(eq=False)
class Many:
    """A unit that yields several outputs at once."""

    values: list[Any]


class ScriptWorker(StageWorker):
    """Does one unit at a time as the unit says.

    An exception as a unit is raised by `submit`, a callable is called in its step and yields what it returns.
    `on_load` and `on_close` are called in the middle of those.
    """

    def __init__(self) -> None:
        self.name = "script"
        self.units: deque[tuple[str, Any, bool]] = deque()
        self.on_load: Callable[[], Any] = _nothing
        self.on_close: Callable[[], Any] = _nothing
        self._calls = Notes()

    @property
    def calls(self) -> list[tuple[Any, ...]]:
        """What it was asked for so far."""
        return self._calls.read()

    def load(self) -> None:
        """Note the call."""
        self._calls.append(("load",))
        self.on_load()

    def open(self, request: StageRequest, context: WorkerContext) -> None:
        """Note the call."""
        self._calls.append(("open", request.request_id))

    def submit(self, request_id: str, unit: Any, final: bool, context: WorkerContext) -> None:
        """Queue the unit, or raise it where it is an exception."""
        if isinstance(unit, BaseException):
            raise unit
        self.units.append((request_id, unit, final))

    def abort(self, request_ids: Sequence[str]) -> None:
        """Note the call and drop the units."""
        self._calls.append(("abort", *request_ids))
        self.units = deque(entry for entry in self.units if entry[0] not in request_ids)

    def step(self, context: WorkerContext) -> bool:
        """Do the oldest unit whose request has an open window: emit it, or what it holds."""
        ready = next((entry for entry in self.units if context.window_open(entry[0])), None)
        if ready is None:
            return False
        self.units.remove(ready)
        request_id, unit, final = ready
        self._calls.append(("step", request_id, unit if isinstance(unit, str | int) else type(unit).__name__))
        if isinstance(unit, Hold):
            unit.pass_through()
        values = [unit]
        if isinstance(unit, Many):
            values = unit.values
        elif callable(unit):
            values = [unit()]
        for index, value in enumerate(values):
            last = final and index == len(values) - 1
            context.emit(StageOutput(request_id=request_id, data=value, finished=last))
        return any(context.window_open(entry[0]) for entry in self.units)

    def close(self) -> None:
        """Note the call."""
        self._calls.append(("close",))
        self.on_close()


class FrailWorker(ScriptWorker):
    """Breaks when it is to forget a request."""

    def abort(self, request_ids: Sequence[str]) -> None:
        """Raise."""
        raise RuntimeError("broken at an abort")


def _nothing() -> None:
    """Not a lambda, which cannot be pickled."""


class Recorder(OutputSink):
    """Keeps what is delivered, in order."""

    def __init__(self) -> None:
        self.received: list[StageOutput | StageFailed] = []
        self._arrived = trio.lowlevel.ParkingLot()

    @property
    def data(self) -> list[Any]:
        """The data of the outputs."""
        return [output.data for output in self.received if isinstance(output, StageOutput)]

    @property
    def failure(self) -> StageFailed | None:
        """The failure, if one was delivered."""
        return next((output for output in self.received if isinstance(output, StageFailed)), None)

    def deliver(self, output: StageOutput | StageFailed) -> None:
        """Keep one output."""
        self.received.append(output)
        self._arrived.unpark_all()

    async def wait_for(self, count: int) -> list[Any]:
        """Wait until `count` outputs and failures came, and return the data."""
        while len(self.received) < count:
            await self._arrived.park()
        return self.data


class BrokenSink(OutputSink):
    """Raises on every delivery."""

    def deliver(self, output: StageOutput | StageFailed) -> None:
        """Raise."""
        raise RuntimeError("this consumer is broken")


@asynccontextmanager
async def held(stage: Stage) -> AsyncIterator[None]:
    """Keep the stage's worker inside a step until the block ends."""
    hold = Hold()
    stream = stage.open(StageRequest(request_id="hold"), Recorder())
    await stream.submit(hold)
    await hold.wait_entered()
    try:
        yield
    finally:
        hold.leave.set()
