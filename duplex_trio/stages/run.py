"""The thread that carries a stage, and its Trio side.

Theory of operation. `ThreadStage.run` enters one thread through `trio.to_thread` and stays in it for the life of
the stage, so the nursery that runs it owns the thread. The lanes that lead in are those of `lanes`. One lane leads
out: the thread appends to a deque and asks Trio for one `run_sync_soon(drain)` however many items there are; the
drain hands each output to its sink synchronously, a few at a time, so that the commands of clients do not wait
behind a flood of outputs.

Two flags are shared without a lock, each written by one side only: a stream's `aborted` (written here, read
by the thread to skip commands that the abort overtook) and the counters of its output window.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import trio
from attrs import define

from duplex_trio.stages.errors import StageLoadError
from duplex_trio.stages.lanes import Delivery, Died, LaneLoop, Loaded, Open, Released, Submit
from duplex_trio.stages.port import Stage
from duplex_trio.stages.said import in_one_line, said
from duplex_trio.stages.streams import StreamsStage
from duplex_trio.stages.thread_stream import ThreadStream
from duplex_trio.stages.worker import StageWorker

DRAINED_AT_ONCE_MAX = 32
"""Messages from the thread that are handled before the loop gets to do something else, some 30 us each."""


@define(eq=False)
class _Taken:
    """From the thread: it has handled a `Submit`."""

    event: trio.Event


class _RoomAgain:
    """From the thread: no command waits any more."""


class ThreadStage(LaneLoop[ThreadStream], StreamsStage):
    """A stage whose worker lives in one thread.

    Args:
        worker: the runtime; touched by the stage's thread only, once the stage runs.
        command_limit: how many commands may wait before `StageStream.submit` waits too.
    """

    def __init__(self, worker: StageWorker, *, command_limit: int = 64) -> None:
        StreamsStage.__init__(self, worker.name, command_limit)
        LaneLoop.__init__(self, worker)
        self._outbox: deque[
            Delivery[ThreadStream] | Released[ThreadStream] | Loaded | Died | _Taken | _RoomAgain
        ] = deque()
        self._armed = False
        self._loaded = trio.Event()
        self._abandoning = trio.CancelScope()
        self._ended = trio.Event()
        self._death: BaseException | None = None
        self._token: trio.lowlevel.TrioToken | None = None

    # ------------------------------------------------------------------ Trio side

    @property
    def commands_waiting(self) -> int:
        """Commands that the thread has not taken yet."""
        return self._commands.qsize()

    def count_consumed(self, stream: ThreadStream, count: int) -> None:
        """Count, and let the thread look when that may have opened the window."""
        if stream.consume(count) and not stream.aborted:
            self.wake()

    def _overtake(self, stream: ThreadStream) -> None:
        self._aborts.append(stream)
        self.wake()

    def _settle_rest(self) -> None:
        while self._aborts:
            self._aborts.popleft().settle()
        while not self._commands.empty():
            match self._commands.get_nowait():
                case Open(stream):
                    stream.settle()
                case Submit(taken=trio.Event() as taken):
                    taken.set()

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
            raise StageLoadError(
                f"stage {self.name!r} could not be loaded: {said(self._death)}"
            ) from self._death

    async def _carry_thread(self) -> None:
        # The thread of a loaded stage is never abandoned, so a cancellation must reach it as a command. A
        # sibling task turns the one into the other: it sleeps until cancelled and then asks the thread to stop.
        # A runtime that loads takes no commands, for minutes maybe: it is left behind, and closes itself after.
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._stop_when_cancelled)
            with self._abandoning:
                await trio.to_thread.run_sync(
                    self.carry_worker, limiter=trio.CapacityLimiter(1), abandon_on_cancel=True
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
                case _Taken(event):
                    event.set()
                case Released(stream):
                    stream.settle()
                case _RoomAgain():
                    self._room.unpark_all()
                case Loaded():
                    self._abandoning.shield = True
                    self._loaded.set()
                case Died(error):
                    self._death = error
                    self.last_error = in_one_line(error)
                    self._end_all(f"stage {self.name!r} died: {error}")
        if self._outbox:
            self._arm()

    # ------------------------------------------------------------------ thread side

    def _command_done(self, command: Open[ThreadStream] | Submit[ThreadStream]) -> None:
        if isinstance(command, Submit) and command.taken is not None:
            self._out(_Taken(command.taken))

    def _all_commands_done(self) -> None:
        if self._room_wanted:
            self._room_wanted = False
            self._out(_RoomAgain())

    def _out(
        self, item: Delivery[ThreadStream] | Released[ThreadStream] | Loaded | Died | _Taken | _RoomAgain
    ) -> None:
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
