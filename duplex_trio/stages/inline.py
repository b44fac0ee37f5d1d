"""A stage without a thread: the same lanes and rules as `ThreadStage`, carried on the Trio loop itself.

For workers whose steps take no time, such as scripted ones. Time in such a stage is virtual: the outputs of a
step come `step_s` later on Trio's clock, so a mock clock runs through a long conversation at once and every
schedule is repeatable.
"""

from __future__ import annotations

import trio

from duplex_trio.stages.errors import StageLoadError
from duplex_trio.stages.lanes import Open, Submit
from duplex_trio.stages.port import Stage
from duplex_trio.stages.run import ThreadStage
from duplex_trio.stages.said import in_one_line, said
from duplex_trio.stages.thread_stream import ThreadStream
from duplex_trio.stages.worker import StageWorker


class InlineStage(ThreadStage):
    """A stage carried by a task; see `run_stage`.

    Args:
        worker: the runtime; its steps must not block.
        step_s: how long each step takes, in seconds of Trio's clock.
        command_limit: as for `ThreadStage`.
    """

    def __init__(self, worker: StageWorker, *, step_s: float = 0.0, command_limit: int = 64) -> None:
        super().__init__(worker, command_limit=command_limit)
        self.step_s = step_s
        self._kick = trio.Event()

    def post(self, command: Open[ThreadStream] | Submit[ThreadStream]) -> None:
        """Put a command behind the others and let the task look."""
        super().post(command)
        self._kick.set()

    def wake(self) -> None:
        """Let the task look at its lanes again."""
        super().wake()
        self._kick.set()

    async def run(self, task_status: trio.TaskStatus[Stage] = trio.TASK_STATUS_IGNORED) -> None:
        """Carry the stage until it is cancelled or broken; see `Stage.run`."""
        try:
            self._load()
            task_status.started(self)
            while self.alive:
                self._kick = trio.Event()
                if not await self._step() and self.alive:
                    await self._kick.wait()
        finally:
            self._end_all(f"stage {self.name!r} has stopped")
            self._close_worker()

    def _load(self) -> None:
        try:
            self._worker.load()
        except Exception as error:
            raise StageLoadError(f"stage {self.name!r} could not be loaded: {said(error)}") from error
        self.alive = True

    async def _step(self) -> bool:
        try:
            self._handle_control()
            self._take_waiting_commands()
            self._drain()
            more = self._worker.step(self)
        except Exception as error:
            # What ends a thread ends this stage: its requests fail, the loop goes on.
            self._drain()
            self.last_error = in_one_line(error)
            self._end_all(f"stage {self.name!r} died: {error}")
            return False
        if self._outbox and self.step_s > 0:
            await trio.sleep(self.step_s)
        self._drain()
        await trio.lowlevel.checkpoint()
        return more

    def _arm(self) -> None:
        # The task drains its own outbox after each step.
        self._armed = True
