"""Steps a worker in the main thread of a stage's process, fed by a thread that reads the connection.

What the worker makes is sent by whoever makes it, at once: the server reads always, so that waits for nobody's
consumer, and a step that yields several outputs sends each when it is there. Imports no Trio: the environment of a
worker needs attrs, structlog and numpy beside this package, and whatever the worker needs.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import sys
import threading
import traceback
from collections import deque
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, NoReturn

import structlog
from attrs import frozen

from duplex_trio.stages.lanes import Delivery, Died, Lane, LaneLoop, Loaded, Open, Released, Submit
from duplex_trio.stages.port import StageFailed, StageOutput, StageRequest
from duplex_trio.stages.process import frames
from duplex_trio.stages.process.frames import Frame, frame_of
from duplex_trio.stages.process.recipe import WorkerRecipe
from duplex_trio.stages.said import in_one_line, said
from duplex_trio.stages.worker import StageWorker

if TYPE_CHECKING:
    from duplex_trio.stages.process.child import Link

log = structlog.get_logger("duplex_trio.stages")

EXIT_CONFUSED = 71
"""What the server sent made no sense."""
LOG_VALUE_CHARS_MAX = 4000


@frozen
class _Unreadable:
    """In place of a unit or parameters that cannot be read here."""

    why: str


class ProcessLane(Lane):
    """One request; `number` is what the connection calls it."""

    def __init__(self, number: int, request: StageRequest) -> None:
        super().__init__(request)
        self.number = number


class ProcessLoop(LaneLoop[ProcessLane]):
    """The lanes of a worker whose consumer is at the other end of a connection.

    Args:
        worker: the runtime.
        link: the connection.
    """

    def __init__(self, worker: StageWorker, link: Link) -> None:
        super().__init__(worker)
        self._link = link
        self._lanes: dict[int, ProcessLane] = {}
        """All that may still be told something, by number; added to by the reading thread, dropped from by both."""
        self._submits: dict[int, Submit[ProcessLane]] = {}
        self._received_count = 0
        self._handled_count = 0
        self._passed_over: list[int] = []
        self._untold = False
        self._pings: deque[int] = deque()
        self.loaded = False

    # ------------------------------------------------------------------ the reading thread

    def take(self, frame: Frame) -> None:
        """Take one message of the server."""
        match frame.kind:
            case frames.OPEN:
                self._open(frame)
            case frames.SUBMIT:
                self._submit(frame)
            case frames.ABORT:
                lane = self._lanes.get(frame.number)
                if lane is not None:
                    lane.aborted = True
                    self._aborts.append(lane)
                    self.wake()
            case frames.CONSUMED:
                lane = self._lanes.get(frame.number)
                if lane is not None and lane.consume(frame.value()):
                    self.wake()
            case frames.WITHDRAW:
                submit = self._submits.get(frame.number)
                if submit is not None:
                    submit.withdrawn = True
            case frames.PING:
                self._pings.append(frame.number)
                self.wake()
            case frames.STOP:
                self._stop = True
                self.wake()

    def _open(self, frame: Frame) -> None:
        request_id, packed = frame.value()
        try:
            request = StageRequest(request_id=request_id, **pickle.loads(packed))  # noqa: S301
        except Exception as error:
            why = f"its parameters cannot be read in the process of stage {self.name!r}: {error}"
            request = StageRequest(request_id=request_id, params=_Unreadable(why))
        lane = self._lanes[frame.number] = ProcessLane(frame.number, request)
        self._received_count += 1
        self.post(Open(lane))

    def _submit(self, frame: Frame) -> None:
        try:
            unit, final = frame.value()
        except Exception as error:
            unit, final = (
                _Unreadable(f"a unit cannot be read in the process of stage {self.name!r}: {error}"),
                True,
            )
        lane = self._lanes.get(frame.number)
        if lane is None:
            # Its request is over, but the command is counted as all others.
            lane = ProcessLane(frame.number, StageRequest(request_id=""))
        submit = self._submits[self._received_count] = Submit(lane, unit, final)
        self._received_count += 1
        self.post(submit)

    # ------------------------------------------------------------------ the main thread

    def _handle(self, command: Open[ProcessLane] | Submit[ProcessLane] | None) -> None:
        match command:
            case Open(ProcessLane(request=StageRequest(params=_Unreadable(why))) as lane):
                self._command_done(command)
                if lane.aborted:
                    self._out(Released(lane))
                else:
                    self._send_failure(lane, why)
            case Submit(lane, _Unreadable(why)):
                if not command.withdrawn and self._live.get(lane.request.request_id) is lane:
                    command.accepted = True
                    del self._live[lane.request.request_id]
                    self._worker.abort([lane.request.request_id])
                    self._send_failure(lane, why)
                self._command_done(command)
            case _:
                super()._handle(command)

    def _handle_control(self) -> None:
        super()._handle_control()
        while self._pings:
            self._link.send(Frame(frames.PONG, self._pings.popleft()))

    def _command_done(self, command: Open[ProcessLane] | Submit[ProcessLane]) -> None:
        number = self._handled_count
        self._handled_count += 1
        self._untold = True
        if isinstance(command, Submit):
            self._submits.pop(number, None)
            if not command.accepted:
                self._passed_over.append(number)

    def _all_commands_done(self) -> None:
        if self._untold:
            self._untold = False
            passed_over, self._passed_over = self._passed_over, []
            self._link.send(frame_of(frames.HANDLED, self._handled_count, passed_over))

    def _out(self, item: Delivery[ProcessLane] | Released[ProcessLane] | Loaded | Died) -> None:
        match item:
            case Delivery(lane, output):
                self._send_output(lane, output)
            case Released(lane):
                self._lanes.pop(lane.number, None)
                self._link.send(Frame(frames.RELEASED, lane.number))
            case Loaded():
                self.loaded = True
                self._link.send(Frame(frames.LOADED))
            case Died(error):
                self._all_commands_done()
                self._link.send(frame_of(frames.DIED, 0, said(error)))

    def _send_output(self, lane: ProcessLane, output: StageOutput | StageFailed) -> None:
        if isinstance(output, StageFailed) or output.finished:
            self._lanes.pop(lane.number, None)
        try:
            self._link.send(frame_of(frames.OUTPUT, lane.number, output))
        except Exception as error:
            self._send_failure(
                lane, f"an output cannot be sent from the process of stage {self.name!r}: {error}"
            )
            # The worker still has the request, and is in the middle of something: it is told between two steps.
            lane.aborted = True
            self._aborts.append(lane)

    def _send_failure(self, lane: ProcessLane, why: str) -> None:
        self._lanes.pop(lane.number, None)
        failure = StageFailed(request_id=lane.request.request_id, code="engine_error", message=why)
        self._link.send(frame_of(frames.OUTPUT, lane.number, failure))


class _Reader:
    """The thread that reads the connection, from before the worker is made: it may be told to stop meanwhile."""

    def __init__(self, link: Link) -> None:
        self.loop: ProcessLoop | None = None
        self._link = link
        threading.Thread(target=self._run, name="connection", daemon=True).start()

    def _run(self) -> None:
        try:
            while True:
                self._take(self._link.receive())
        except BaseException:  # noqa: ASYNC103  a thread has no cancellation to pass on
            # A process that hears nothing any more is of no use.
            traceback.print_exc()
            os._exit(EXIT_CONFUSED)

    def _take(self, frame: Frame) -> None:
        loop = self.loop
        if loop is not None and loop.loaded:
            loop.take(frame)
        elif frame.kind == frames.STOP:
            # Nothing is lost by leaving in the middle of loading.
            os._exit(0)
        if frame.kind == frames.STOP:
            self._link.stopping = True


def carry(link: Link, first: Frame) -> None:
    """Carry the worker that the first frame holds until the server says stop.

    Args:
        link: the connection, after the greeting.
        first: what the server answered to it.
    """
    _log_through(link)
    reader = _Reader(link)
    try:
        name, worker = _worker_of(first)
    except Exception as error:
        log.exception("stage.worker_not_made")
        why = f"its worker cannot be made by {sys.executable}: {in_one_line(error)}"
        link.send(frame_of(frames.DIED, 0, why))
        sys.exit(1)
    loop = reader.loop = ProcessLoop(worker, link)
    loop.name = name
    loop.carry_worker()


def _worker_of(frame: Frame) -> tuple[str, StageWorker]:
    name, made = frame.value()
    return name, made.make() if isinstance(made, WorkerRecipe) else made


def _log_through(link: Link) -> None:
    """Let the server write what is logged here, with its level and its fields."""

    def send(logger: Any, method: str, line: MutableMapping[str, Any]) -> NoReturn:
        fields = {key: _loggable(value) for key, value in line.items()}
        link.send(Frame(frames.LOG, head=json.dumps(fields).encode()))
        raise structlog.DropEvent

    structlog.configure(
        processors=[structlog.processors.add_log_level, structlog.processors.format_exc_info, send],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.ReturnLoggerFactory(),
    )


def _loggable(value: Any) -> Any:
    return value if isinstance(value, int | float | None) else str(value)[:LOG_VALUE_CHARS_MAX]
