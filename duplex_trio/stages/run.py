"""The thread that carries a stage, and its Trio side.

Theory of operation. `run_stage` enters one thread through `trio.to_thread` and stays in it for the life of
the stage, so the nursery that runs it owns the thread. Two lanes lead in: *commands* (open, submit) travel
through a `SimpleQueue`, which also wakes the thread; *control* (abort, stop) is a deque that the thread looks
at before every command and before every step, so an abort never waits behind queued work. One lane leads out:
the thread appends to a deque and asks Trio for one `run_sync_soon(drain)` however many items there are; the
drain hands each output to its sink synchronously, a few at a time, so that the commands of clients do not wait
behind a flood of outputs.

Two flags are shared without a lock, each written by one side only: a stream's `aborted` (written here, read
by the thread to skip commands that the abort overtook) and the counters of its output window.

An exception in a drain would end the whole Trio run, so each sink is called in a guard: a sink that raises
loses its own request and nothing else, and is told so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from queue import Empty, SimpleQueue

import structlog
import trio

from duplex_trio.stages.errors import StageDeadError, StageLoadError
from duplex_trio.stages.port import (
    OutputSink,
    Stage,
    StageFailed,
    StageOutput,
    StageRequest,
    StageStatistics,
    StageStream,
)
from duplex_trio.stages.thread_stream import (
    Delivery,
    Died,
    Loaded,
    Open,
    Released,
    RoomAgain,
    Submit,
    Taken,
    ThreadStream,
)
from duplex_trio.stages.worker import StageWorker, WorkerContext

log = structlog.get_logger("duplex_trio.stages")

DRAINED_AT_ONCE_MAX = 32
"""Messages from the thread that are handled before the loop gets to do something else, some 30 us each."""


class ThreadStage(Stage, WorkerContext):
    """A stage whose worker lives in one thread; see `run_stage`.

    Args:
        worker: the runtime; touched by the stage's thread only, once the stage runs.
        command_limit: how many commands may wait before `StageStream.submit` waits too.
    """

    def __init__(self, worker: StageWorker, *, command_limit: int = 64) -> None:
        self.name = worker.name
        self.alive = False
        self._worker = worker
        self._command_limit = command_limit
        self._streams: dict[str, ThreadStream] = {}
        self._commands: SimpleQueue[Open | Submit | None] = SimpleQueue()
        self._aborts: deque[ThreadStream] = deque()
        self._stop = False
        self._outbox: deque[Delivery | Released | Taken | Loaded | RoomAgain | Died] = deque()
        self._armed = False
        self._room_wanted = False
        self._room = trio.lowlevel.ParkingLot()
        self._loaded = trio.Event()
        self._ended = trio.Event()
        self._death: BaseException | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._live: dict[str, ThreadStream] = {}  # [thread]
        self._outputs_total = 0
        self._aborted_total = 0
        self._failed_total = 0

    # ------------------------------------------------------------------ Trio side

    def open(self, request: StageRequest, sink: OutputSink | None = None) -> StageStream:
        """Begin a request; see `Stage.open`."""
        if not self.alive:
            raise StageDeadError(f"stage {self.name!r} is not running")
        if request.request_id in self._streams:
            raise ValueError(f"request {request.request_id!r} is already live on stage {self.name!r}")
        stream = ThreadStream(self, request, sink)
        self._streams[request.request_id] = stream
        self.post(Open(stream))
        return stream

    def abort(self, request_ids: Sequence[str]) -> None:
        """Abort several requests; see `Stage.abort`."""
        for request_id in request_ids:
            stream = self._streams.get(request_id)
            if stream is not None:
                self.abort_stream(stream)

    def statistics(self) -> StageStatistics:
        """Counters for health and metrics."""
        return StageStatistics(
            name=self.name,
            live_requests=len(self._streams),
            queued_commands=self._commands.qsize(),
            outputs_total=self._outputs_total,
            aborted_total=self._aborted_total,
            failed_total=self._failed_total,
            alive=self.alive,
        )

    def post(self, command: Open | Submit) -> None:
        """Put a command behind the others."""
        self._commands.put(command)

    def wake(self) -> None:
        """Make the thread look at its lanes again."""
        self._commands.put(None)

    def abort_stream(self, stream: ThreadStream) -> None:
        """Abort one request; nothing reaches its sink any more."""
        if stream.aborted or self._streams.get(stream.request.request_id) is not stream:
            return
        stream.aborted = True
        self._aborted_total += 1
        del self._streams[stream.request.request_id]
        if not self.alive:
            stream.settle()
            return
        self._aborts.append(stream)
        self.wake()

    async def wait_room(self) -> None:
        """Wait until fewer than `command_limit` commands wait. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        while self.alive and self._commands.qsize() >= self._command_limit:
            self._room_wanted = True
            # The thread may have emptied the queue before it could see the wish.
            if self._commands.qsize() >= self._command_limit:
                await self._room.park()

    async def run(self, task_status: trio.TaskStatus[Stage] = trio.TASK_STATUS_IGNORED) -> None:
        """Carry the stage until it is cancelled or broken; see `Stage.run`."""
        self._token = trio.lowlevel.current_trio_token()
        begun = False
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._carry_thread, name=f"stage thread {self.name}")
                await self._loaded.wait()
                if self._death is None:
                    self.alive = begun = True
                    task_status.started(self)
                    await self._ended.wait()
        finally:
            self.alive = False
        # Outside of the nursery, which would wrap it in a group.
        if self._death is not None and not begun:
            raise StageLoadError(f"stage {self.name!r} could not be loaded: {self._death}") from self._death

    async def _carry_thread(self) -> None:
        # The thread is never abandoned, so a cancellation must reach it as a command. A sibling task turns
        # the one into the other: it sleeps until cancelled and then asks the thread to stop.
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._stop_when_cancelled)
            await trio.to_thread.run_sync(
                self._thread_main, limiter=trio.CapacityLimiter(1), abandon_on_cancel=False
            )
            self._drain()
            self._loaded.set()
            self._end_all(f"stage {self.name!r} has stopped")
            self._ended.set()
            nursery.cancel_scope.cancel()

    async def _stop_when_cancelled(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            self._stop = True
            self.wake()

    def _drain_some(self) -> None:
        self._drain(DRAINED_AT_ONCE_MAX)

    def _drain(self, count_max: int | None = None) -> None:
        self._armed = False
        waiting = len(self._outbox)
        for _ in range(waiting if count_max is None else min(waiting, count_max)):
            item = self._outbox.popleft()
            match item:
                case Delivery(stream, output):
                    self._take(stream, output)
                case Taken(event):
                    event.set()
                case Released(stream):
                    stream.settle()
                case RoomAgain():
                    self._room.unpark_all()
                case Loaded():
                    self._loaded.set()
                case Died(error):
                    self._death = error
                    self._end_all(f"stage {self.name!r} died: {error}")
        if self._outbox:
            self._arm()

    def _take(self, stream: ThreadStream, output: StageOutput | StageFailed) -> None:
        ended = isinstance(output, StageFailed) or output.finished
        if stream.aborted:
            if ended:
                stream.settle()
            return
        self._outputs_total += 1
        if isinstance(output, StageFailed):
            self._failed_total += 1
        if ended:
            self._streams.pop(stream.request.request_id, None)
        try:
            stream.take(output)
        except Exception:
            # A drain runs in Trio's own callback: an exception here would end the process with every session
            # in it.
            log.exception("stage.sink_failed", stage=self.name, request_id=stream.request.request_id)
            self.abort_stream(stream)
            stream.tell_broken()
            if ended:
                stream.settle()

    def _end_all(self, message: str) -> None:
        """The thread takes nothing more: fail every request and let go of everybody who waits for it."""
        self.alive = False
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            failure = StageFailed(request_id=stream.request.request_id, code="engine_dead", message=message)
            self._failed_total += 1
            try:
                stream.take(failure)
            except Exception:
                log.exception("stage.sink_failed", stage=self.name, request_id=stream.request.request_id)
                stream.settle()
        while self._aborts:
            self._aborts.popleft().settle()
        while not self._commands.empty():
            match self._commands.get_nowait():
                case Open(stream):
                    stream.settle()
                case Submit(taken=trio.Event() as taken):
                    taken.set()
        self._room.unpark_all()

    # ------------------------------------------------------------------ thread side

    def emit(self, output: StageOutput | StageFailed) -> None:
        """Send one output to the Trio side; see `WorkerContext`."""
        stream = self._live.get(output.request_id)
        if stream is None:
            return
        stream.produced += 1
        if isinstance(output, StageFailed) or output.finished:
            del self._live[output.request_id]
        self._out(Delivery(stream, output))

    def window_open(self, request_id: str) -> bool:
        """Whether the request's consumer has room; see `WorkerContext`."""
        stream = self._live.get(request_id)
        return stream is not None and stream.window_open

    def _out(self, item: Delivery | Released | Taken | Loaded | RoomAgain | Died) -> None:
        self._outbox.append(item)
        if not self._armed:
            self._arm()

    def _arm(self) -> None:
        self._armed = True
        assert self._token is not None
        try:
            self._token.run_sync_soon(self._drain_some, idempotent=True)
        except trio.RunFinishedError:
            self._stop = True

    def _thread_main(self) -> None:
        try:
            self._worker.load()
            self._out(Loaded())
            self._thread_loop()
        except BaseException as error:  # noqa: ASYNC103  a thread has no cancellation to pass on
            # Not only `Exception`: a panic inside a runtime's native code must not take the sessions' loop
            # with it.
            log.exception("stage.died", stage=self.name)
            self._out(Died(error))
        try:
            self._worker.close()
        except Exception:
            log.exception("stage.close_failed", stage=self.name)

    def _thread_loop(self) -> None:
        while True:
            self._handle_aborts()
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
        if self._room_wanted:
            self._room_wanted = False
            self._out(RoomAgain())

    def _handle_aborts(self) -> None:
        while self._aborts:
            # It stays in its place until that is done: if the runtime breaks here, whoever waits is let go.
            stream = self._aborts[0]
            if self._live.get(stream.request.request_id) is stream:
                del self._live[stream.request.request_id]
                self._worker.abort([stream.request.request_id])
                self._out(Released(stream))
            # A stream that was never opened here is released when its `Open` is skipped.
            self._aborts.popleft()

    def _handle(self, command: Open | Submit | None) -> None:
        if self._aborts:
            self._handle_aborts()
        match command:
            case Open(stream):
                if stream.aborted:
                    self._out(Released(stream))
                else:
                    self._live[stream.request.request_id] = stream
                    self._worker.open(stream.request, self)
            case Submit(stream, unit, final, taken, withdrawn):
                if not withdrawn and self._live.get(stream.request.request_id) is stream:
                    command.accepted = True
                if taken is not None:
                    self._out(Taken(taken))
                if command.accepted:
                    self._worker.submit(stream.request.request_id, unit, final, self)
            case None:
                pass


async def run_stage(stage: Stage, *, task_status: trio.TaskStatus[Stage] = trio.TASK_STATUS_IGNORED) -> None:
    """Carry a stage until cancelled; `task_status.started` fires when its runtime is loaded.

    A runtime that breaks later fails all of its live requests with `engine_dead`; the stage then stays up,
    not alive, so that whoever owns it can report that.

    Raises:
        StageLoadError: the runtime could not be loaded.
    """
    await stage.run(task_status)


async def run_stages(
    stages: Sequence[Stage], *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Carry stages until cancelled, loaded side by side; started when all are loaded.

    Raises:
        StageLoadError: in a group, for each stage that could not be loaded.
    """
    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as loading:
            for stage in stages:
                loading.start_soon(nursery.start, run_stage, stage, name=f"load[{stage.name}]")
        task_status.started()
