"""The Trio side of a stage whose worker is elsewhere: its live requests, their outputs and their ends.

What lies between the two sides is the subclass's; the other side is `lanes`. An exception in a callback of Trio would
end the whole run, so each sink is called in a guard: a sink that raises loses its own request and nothing else, and
is told so.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import structlog
import trio

from duplex_trio.stages.errors import StageDeadError
from duplex_trio.stages.lanes import Open, Submit
from duplex_trio.stages.port import (
    OutputSink,
    Stage,
    StageFailed,
    StageOutput,
    StageRequest,
    StageStatistics,
    StageStream,
)
from duplex_trio.stages.thread_stream import ThreadStream

log = structlog.get_logger("duplex_trio.stages")


class StreamsStage(Stage):
    """Keeps the streams of a stage.

    Args:
        name: what the stage is called in logs and metrics.
        command_limit: how many commands may wait before `StageStream.submit` waits too.
    """

    def __init__(self, name: str, command_limit: int) -> None:
        self.name = name
        self.alive = False
        self._command_limit = command_limit
        self._streams: dict[str, ThreadStream] = {}
        self._room_wanted = False
        self._room = trio.lowlevel.ParkingLot()
        self._outputs_total = 0
        self._aborted_total = 0
        self._failed_total = 0

    @property
    @abstractmethod
    def commands_waiting(self) -> int:
        """Commands that the worker's side has not taken yet."""

    @abstractmethod
    def post(self, command: Open[ThreadStream] | Submit[ThreadStream]) -> None:
        """Put a command behind the others."""

    def withdraw(self, command: Submit[ThreadStream]) -> None:
        """Its sender waits no more: unless the worker's side took it already, it is to be passed over."""
        command.withdrawn = True

    @abstractmethod
    def count_consumed(self, stream: ThreadStream, count: int) -> None:
        """The consumer of a stream used outputs up."""

    @abstractmethod
    def _overtake(self, stream: ThreadStream) -> None:
        """Tell the worker's side of an abort, before any command that waits."""

    @abstractmethod
    def _settle_rest(self) -> None:
        """The worker's side takes nothing more: settle what was aborted and wake who waits for a command."""

    def open(self, request: StageRequest, sink: OutputSink | None = None) -> StageStream:
        """Begin a request; see `Stage.open`."""
        if not self.alive:
            raise StageDeadError(f"stage {self.name!r} is not running")
        if request.request_id in self._streams:
            raise ValueError(f"request {request.request_id!r} is already live on stage {self.name!r}")
        stream = self._new_stream(request, sink)
        self.post(Open(stream))
        self._streams[request.request_id] = stream
        return stream

    def _new_stream(self, request: StageRequest, sink: OutputSink | None) -> ThreadStream:
        return ThreadStream(self, request, sink)

    def holds(self, request_id: str) -> bool:
        """Whether a request is live; see `Stage.holds`."""
        return request_id in self._streams

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
            queued_commands=self.commands_waiting,
            outputs_total=self._outputs_total,
            aborted_total=self._aborted_total,
            failed_total=self._failed_total,
            alive=self.alive,
        )

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
        self._overtake(stream)

    async def wait_room(self) -> None:
        """Wait until fewer than `command_limit` commands wait. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        while self.alive and self.commands_waiting >= self._command_limit:
            self._room_wanted = True
            # The other side may have taken them all before it could see the wish.
            if self.commands_waiting >= self._command_limit:
                await self._room.park()

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
            log.exception("stage.sink_failed", stage=self.name, request_id=stream.request.request_id)
            self.abort_stream(stream)
            stream.tell_broken()
            if ended:
                stream.settle()

    def _end_all(self, message: str) -> None:
        """The worker's side takes nothing more: fail every request and let go of everybody who waits for it."""
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
        self._settle_rest()
        self._room.unpark_all()
