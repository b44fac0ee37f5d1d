"""A stage whose worker is carried by a process of its own.

Theory of operation. The process is joined by a socket. One task reads it and hands each output to its sink at once, a
few between two turns of the loop; one task writes what waits (`outbound`). Commands are acknowledged by the process
when its loop took them, as a thread does it, so `submit` waits for a process that is busy and no more than
`command_limit` commands wait for one that reads nothing.

The process ends with its stage, and the stage with its process, whatever comes first: a connection that closes, an
exit, bytes that make no sense, or a worker's loop that does not go round for a while. Then every live request fails
with `engine_dead`, and `run` returns. A cancellation asks the process to stop, terminates it when it does not, and
kills it at last. Its session is its own, so that what a terminal sends to everybody does not reach it; when the server
dies, it is killed by the kernel, and it leaves by itself where the kernel does not do that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog
import trio
from attrs import field, frozen, validators

from duplex_trio.stages.errors import StageLoadError
from duplex_trio.stages.port import Stage
from duplex_trio.stages.process import frames
from duplex_trio.stages.process.frames import Frame, FrameReader, GarbledError, frame_of, unsent
from duplex_trio.stages.process.heartbeat import MISSES_MAX, Heartbeat
from duplex_trio.stages.process.printed import Printed
from duplex_trio.stages.process.recipe import WorkerRecipe
from duplex_trio.stages.process.spawn import KILLED_S, NoInterpreterError, StageProcess
from duplex_trio.stages.process.streams import ProcessStreams, value_of
from duplex_trio.stages.process.words import differences, relog, why_dead, why_not_loaded
from duplex_trio.stages.worker import StageWorker

log = structlog.get_logger("duplex_trio.stages")

FRAMES_AT_ONCE_MAX = 32
"""Messages of the process that are handled before the loop gets to do something else, some 30 us each."""
_positive: Any = validators.gt(0)
_if_given: Any = validators.optional(validators.gt(0))


@frozen(kw_only=True)
class ProcessTimes:
    """How long a stage waits for its process, in seconds.

    Attributes:
        greeting_s: from its start until the process has said what it is: an interpreter that starts, from a slow disk.
        silence_s: without one round of the worker's loop; then the process counts as hanging. It must be longer than
            the longest step (a unit of work, a model's step). None waits for ever. It does not run while loading.
        stop_s: for the last step and for closing the worker, when the stage is cancelled.
        terminate_s: then, after a signal.
        exit_s: for the exit of a process whose connection has closed.
    """

    greeting_s: float = field(default=60.0, validator=_positive)
    silence_s: float | None = field(default=60.0, validator=_if_given)
    stop_s: float = field(default=10.0, validator=_positive)
    terminate_s: float = field(default=2.0, validator=_positive)
    exit_s: float = field(default=2.0, validator=_positive)


class ProcessStage(ProcessStreams):
    """A stage whose worker lives in a process.

    The worker is pickled, so it holds settings only until it is loaded; units, parameters and outputs are pickled
    too. A unit that cannot be is refused by `submit` with a `ValueError`, an output fails its request.

    Args:
        worker: the runtime, not loaded; or how to make it, for one that only the process can import.
        python: the interpreter of the process, which has this very version of duplex-trio; the server's by default.
        environment: variables that are set (or, with None, unset) in addition to the server's.
        name: what the stage is called in logs and metrics; as the worker by default.
        command_limit: how many commands may wait before `StageStream.submit` waits too.
        times: how long to wait for the process.
    """

    def __init__(
        self,
        worker: StageWorker | WorkerRecipe,
        *,
        python: str | None = None,
        environment: Mapping[str, str | None] | None = None,
        name: str | None = None,
        command_limit: int = 64,
        times: ProcessTimes | None = None,
    ) -> None:
        super().__init__(name or worker.name, command_limit)
        self._worker = worker
        self._python = python
        self.environment = dict(environment or {})
        self._times = times or ProcessTimes()
        self._process: StageProcess | None = None
        self._printed = Printed(self.name)
        self._heartbeat = Heartbeat()
        self._greeted = trio.Event()
        self._loaded = trio.Event()
        self._read_all = trio.Event()
        self._exited = trio.Event()
        self._over = trio.Event()
        self._stop_asked = False
        self._leaves = False
        self._cause: str | None = None

    @property
    def process_id(self) -> int | None:
        """Of the process, once it was started."""
        return None if self._process is None else self._process.pid

    async def run(self, task_status: trio.TaskStatus[Stage] = trio.TASK_STATUS_IGNORED) -> None:
        """Carry the stage until it is cancelled or broken; see `Stage.run`."""
        try:
            self._process = StageProcess(self._python, self.environment)
        except NoInterpreterError as error:
            raise StageLoadError(f"stage {self.name!r} could not be loaded: {error}") from None
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._stop_when_cancelled)
                # What the process says must be read until it is gone, also when this is cancelled.
                with trio.CancelScope(shield=True):
                    await self._carry(self._process, task_status)
                nursery.cancel_scope.cancel()
        finally:
            self._end_all(f"stage {self.name!r} has stopped")
        if not self._loaded.is_set() and not self._stop_asked:
            raise StageLoadError(f"stage {self.name!r} could not be loaded: {self._cause}")

    async def _stop_when_cancelled(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            if not self._over.is_set():
                self._stop_asked = True
                self._over.set()

    def _break(self, cause: str | None) -> None:
        """The stage is over; without a cause, how its process ended is to be found out."""
        if not self._over.is_set():
            self._cause = cause
            self._over.set()

    async def _carry(self, process: StageProcess, task_status: trio.TaskStatus[Stage]) -> None:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._read, process, task_status)
                nursery.start_soon(self._write, process)
                nursery.start_soon(self._log_output, process)
                nursery.start_soon(self._notice_exit, process)
                nursery.start_soon(self._watch)
                await self._over.wait()
                self.alive = False
                if self._cause is not None:
                    self.last_error = self._cause
                    self._end_all(f"stage {self.name!r} died: {self._cause}")
                await self._bring_to_end(process)
                nursery.cancel_scope.cancel()
        finally:
            ending = process.close()
        if self._stop_asked:
            return
        if self._cause is None:
            self._cause = why_dead(ending)
            if not self._loaded.is_set():
                self._cause = why_not_loaded(process.python, ending, self._printed.tail)
        self.last_error = self._cause
        log.error("stage.died", stage=self.name, process=process.pid, ending=ending, cause=self._cause)
        self._end_all(f"stage {self.name!r} died: {self._cause}")

    async def _bring_to_end(self, process: StageProcess) -> None:
        times = self._times
        if self._stop_asked:
            self._send_control(Frame(frames.STOP))
            if not await self._gone_within(times.stop_s):
                log.warning("stage.process_slow_to_stop", stage=self.name, process=process.pid)
                process.terminate()
                await self._gone_within(times.terminate_s)
        elif self._leaves:
            await self._gone_within(times.stop_s)
        elif self._cause is None and not await self._gone_within(times.exit_s):
            self._cause = "its process closed the connection"
        process.kill()
        if not await self._gone_within(KILLED_S):
            log.error("stage.process_not_killed", stage=self.name, process=process.pid)
        while output := process.read_output():
            self._printed.feed(output, trio.current_time())
        self._printed.end(trio.current_time())

    async def _gone_within(self, seconds: float) -> bool:
        with trio.move_on_after(seconds):
            await self._exited.wait()
        return self._exited.is_set()

    async def _notice_exit(self, process: StageProcess) -> None:
        await process.wait_exit()
        self._exited.set()
        # What it sent before is still to be read. The connection ends with it, unless something that it started
        # holds the connection too.
        with trio.move_on_after(self._times.exit_s):
            await self._read_all.wait()
        self._break(None)

    async def _watch(self) -> None:
        with trio.move_on_after(self._times.greeting_s):
            await self._greeted.wait()
        if not self._greeted.is_set():
            self._break(f"its process has not said what it is within {self._times.greeting_s:g} s")
            return
        await self._loaded.wait()
        silence_s = self._times.silence_s
        while silence_s is not None:
            await trio.sleep(silence_s / MISSES_MAX)
            if not self._heartbeat.beat():
                self._break(f"its process has not answered for {silence_s:g} s")
                return
            self._send_control(Frame(frames.PING))

    async def _log_output(self, process: StageProcess) -> None:
        while True:
            output = process.read_output()
            if output is None:
                await trio.lowlevel.wait_readable(process.output_fd)
            elif not output:
                return
            else:
                self._printed.feed(output, trio.current_time())
                await trio.lowlevel.checkpoint()

    async def _write(self, process: StageProcess) -> None:
        while True:
            pieces = self._next_batch()
            if not pieces:
                self._something_to_write = trio.Event()
                await self._something_to_write.wait()
            while pieces:
                try:
                    sent = process.socket.sendmsg(pieces[: frames.PIECES_AT_ONCE_MAX])
                except BlockingIOError:
                    await trio.lowlevel.wait_writable(process.socket)
                except OSError:
                    return  # the reader learns it too
                else:
                    pieces = unsent(pieces, sent)

    async def _read(self, process: StageProcess, task_status: trio.TaskStatus[Stage]) -> None:
        reader, handled = FrameReader(), 0
        try:
            while True:
                try:
                    count = process.socket.recv_into(reader.target())
                except BlockingIOError:
                    await trio.lowlevel.wait_readable(process.socket)
                    continue
                except OSError:
                    count = 0
                if count == 0:
                    break
                for frame in reader.received(count):
                    self._handle(frame, task_status)
                    handled += 1
                    if handled % FRAMES_AT_ONCE_MAX == 0:
                        await trio.lowlevel.checkpoint()
                await trio.lowlevel.checkpoint()
        except GarbledError as error:
            self._break(f"its process sent something else than messages: {error}")
        self._read_all.set()
        self._break(None)

    def _handle(self, frame: Frame, task_status: trio.TaskStatus[Stage]) -> None:
        match frame.kind:
            case frames.GREETING:
                self._greet(frame)
            case frames.LOADED:
                self.alive = not self._over.is_set()
                self._loaded.set()
                task_status.started(self)
            case frames.DIED:
                self._leaves = True
                self._break(str(value_of(frame)))
            case frames.LOG:
                relog(self.name, frame)
            case frames.PONG:
                self._heartbeat.heard()
            case _:
                self._heartbeat.heard()
                self._request_frame(frame)

    def _greet(self, frame: Frame) -> None:
        other = differences(frame)
        self._greeted.set()
        if other:
            self._break(f"its process ({self._python or 'the same Python'}) has {other}")
            return
        try:
            self._send_control(frame_of(frames.WORKER, 0, (self.name, self._worker)))
        except Exception as error:
            self._break(f"its worker cannot be sent to a process: {error}")
