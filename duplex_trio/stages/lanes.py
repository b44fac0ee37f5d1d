"""The side of a stage that steps its worker: the lanes that lead to it, and when it looks at which.

Two lanes lead in: *commands* (open, submit) travel through a `SimpleQueue`, which also wakes the loop; *control*
(abort, stop) is looked at before every command and before every step, so an abort never waits behind queued work.
Where the loop runs and what carries its messages out is the subclass's: a thread (`run`), a task (`inline`), or
the main thread of another process (`process`), for which this file imports no Trio.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

import structlog
from attrs import define

from duplex_trio.stages.port import StageFailed, StageOutput, StageRequest
from duplex_trio.stages.worker import StageWorker, UnitRefused, WorkerContext

log = structlog.get_logger("duplex_trio.stages")


class Lane:
    """One request as the worker's side sees it.

    `aborted` and `consumed_count` are written by the consumer's side only, `produced` by the worker's only.
    """

    def __init__(self, request: StageRequest) -> None:
        self.request = request
        self.aborted = False
        self.produced = 0
        self.consumed_count = 0

    @property
    def window_open(self) -> bool:
        """Whether the consumer has room for another output."""
        return self.produced - self.consumed_count < self.request.window

    def consume(self, count: int) -> bool:
        """Count outputs that are used up; whether the window was closed before, so that the worker must look."""
        # Each side writes its own counter before it reads the other's, so that one of them always sees what
        # the other did and a window that closes at this very moment is not left closed.
        self.consumed_count += count
        return self.produced - (self.consumed_count - count) >= self.request.window


LaneT = TypeVar("LaneT", bound=Lane)


@define(eq=False)
class Open(Generic[LaneT]):
    """To the worker: a request begins."""

    lane: LaneT


@define(eq=False)
class Submit(Generic[LaneT]):
    """To the worker: a unit.

    `taken` is what its sender waits for, if it does. `withdrawn` is written by the sender, `accepted` by the loop.
    """

    lane: LaneT
    unit: Any
    final: bool
    taken: Any = None
    withdrawn: bool = False
    accepted: bool = False


@define(eq=False)
class Released(Generic[LaneT]):
    """From the worker: it has let go of an aborted request."""

    lane: LaneT


@define(eq=False)
class Delivery(Generic[LaneT]):
    """From the worker: an output."""

    lane: LaneT
    output: StageOutput | StageFailed


class Loaded:
    """From the worker: the runtime is ready."""


@define(eq=False)
class Died:
    """From the worker: the runtime is broken, and this is the last message."""

    error: BaseException


class LaneLoop(WorkerContext, Generic[LaneT]):
    """Steps a worker as its lanes say.

    Args:
        worker: the runtime; touched by whoever calls `carry_worker` only, once that is called.
    """

    def __init__(self, worker: StageWorker) -> None:
        self.name = worker.name
        self._worker = worker
        self._commands: SimpleQueue[Open[LaneT] | Submit[LaneT] | None] = SimpleQueue()
        self._aborts: deque[LaneT] = deque()
        self._stop = False
        self._live: dict[str, LaneT] = {}

    @abstractmethod
    def _out(self, item: Delivery[LaneT] | Released[LaneT] | Loaded | Died) -> None:
        """Send a message to the consumer's side."""

    @abstractmethod
    def _command_done(self, command: Open[LaneT] | Submit[LaneT]) -> None:
        """The loop took a command, or passed over it; whether a unit was accepted is known."""

    def _all_commands_done(self) -> None:
        """No command waits just now."""

    def post(self, command: Open[LaneT] | Submit[LaneT]) -> None:
        """Put a command behind the others."""
        self._commands.put(command)

    def wake(self) -> None:
        """Make the loop look at its lanes again."""
        self._commands.put(None)

    def emit(self, output: StageOutput | StageFailed) -> None:
        """Send one output; see `WorkerContext`."""
        lane = self._live.get(output.request_id)
        if lane is None:
            return
        lane.produced += 1
        if isinstance(output, StageFailed) or output.finished:
            del self._live[output.request_id]
        self._out(Delivery(lane, output))

    def window_open(self, request_id: str) -> bool:
        """Whether the request's consumer has room; see `WorkerContext`."""
        lane = self._live.get(request_id)
        return lane is not None and lane.window_open

    def carry_worker(self) -> None:
        """Load the worker, step it until it breaks or is stopped, and close it. Raises nothing."""
        try:
            self._worker.load()
            self._dry_run()
            self._out(Loaded())
            self._loop()
        except BaseException as error:  # noqa: ASYNC103  a thread has no cancellation to pass on
            # Not only `Exception`: a panic inside a runtime's native code must not take the sessions' loop
            # with it.
            log.exception("stage.died", stage=self.name)
            self._out(Died(error))
        self._close_worker()

    def _close_worker(self) -> None:
        try:
            self._worker.close()
        except Exception:
            log.exception("stage.close_failed", stage=self.name)

    def _dry_run(self) -> None:
        params = self._worker.default_params
        if params is None:
            return
        try:
            self._worker.check_params(params)
        except UnitRefused as refusal:
            told = f"it refuses the parameters of a request that asks for none: {refusal}"
            raise UnitRefused(refusal.code, told) from None

    def _loop(self) -> None:
        while True:
            self._handle_control()
            if self._stop:
                return
            self._take_waiting_commands()
            more = self._worker.step(self)
            if more or self._aborts or self._stop:
                continue
            self._handle(self._commands.get())

    def _take_waiting_commands(self) -> None:
        while True:
            try:
                command = self._commands.get_nowait()
            except Empty:
                break
            self._handle(command)
        self._all_commands_done()

    def _handle_control(self) -> None:
        while self._aborts:
            # It stays in its place until that is done: if the runtime breaks here, whoever waits is let go.
            lane = self._aborts[0]
            if self._live.get(lane.request.request_id) is lane:
                del self._live[lane.request.request_id]
                self._worker.abort([lane.request.request_id])
                self._out(Released(lane))
            # A lane that was never opened here is released when its `Open` is skipped.
            self._aborts.popleft()

    def _handle(self, command: Open[LaneT] | Submit[LaneT] | None) -> None:
        if self._aborts:
            self._handle_control()
        match command:
            case Open(lane):
                self._command_done(command)
                if lane.aborted:
                    self._out(Released(lane))
                else:
                    self._live[lane.request.request_id] = lane
                    self._worker.open(lane.request, self)
            case Submit(lane, unit, final):
                if not command.withdrawn and self._live.get(lane.request.request_id) is lane:
                    command.accepted = True
                self._command_done(command)
                if command.accepted:
                    self._worker.submit(lane.request.request_id, unit, final, self)
            case None:
                pass
