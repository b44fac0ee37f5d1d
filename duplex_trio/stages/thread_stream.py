"""One request on a stage whose worker is elsewhere, seen from the Trio thread."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import structlog
import trio

from duplex_trio.stages.errors import StageDeadError
from duplex_trio.stages.lanes import Lane, Submit
from duplex_trio.stages.port import (
    OutputSink,
    StageFailed,
    StageOutput,
    StageRequest,
    StageStream,
)

if TYPE_CHECKING:
    from duplex_trio.stages.streams import StreamsStage

log = structlog.get_logger("duplex_trio.stages")


class ChannelSink(OutputSink):
    """Feeds `StageStream.outputs`.

    The channel has no bound of its own: the request's window bounds it, which a worker may overshoot by what
    one unit yields.
    """

    def __init__(self) -> None:
        self.send, self.receive = trio.open_memory_channel[StageOutput](math.inf)

    def deliver(self, output: StageOutput | StageFailed) -> None:
        """Queue an output; a failure only ends the channel, see `ThreadStream.settle`."""
        if isinstance(output, StageOutput):
            self.send.send_nowait(output)


class ThreadStream(Lane, StageStream):
    """One request on a `StreamsStage`; see `StageStream`.

    `produced` is written by the worker's side only, everything else by the Trio thread only.
    """

    def __init__(self, stage: StreamsStage, request: StageRequest, sink: OutputSink | None) -> None:
        super().__init__(request)
        self.released = trio.Event()
        self._stage = stage
        self._channel: ChannelSink | None = None
        if sink is None:
            sink = self._channel = ChannelSink()
        self._sink = sink
        self._failure: StageFailed | None = None

    @property
    def failure(self) -> StageFailed | None:
        """The failure that ended this request, if one did."""
        return self._failure

    @property
    def outputs(self) -> trio.MemoryReceiveChannel[StageOutput]:
        """Outputs as a channel; closing it aborts the request at its next output."""
        if self._channel is None:
            raise ValueError(f"request {self.request.request_id!r} was opened with a sink; it has no channel")
        return self._channel.receive

    async def submit(self, unit: Any, *, final: bool = False) -> None:
        """Hand over one unit; see `StageStream.submit`."""
        self._refuse_if_over()
        await self._stage.wait_room()
        self._refuse_if_over()
        taken = trio.Event()
        command = Submit(self, unit, final, taken)
        self._stage.post(command)
        try:
            await taken.wait()
        finally:
            if not taken.is_set():
                self._stage.withdraw(command)
        if not command.accepted:
            raise self._over()

    def submit_nowait(self, unit: Any, *, final: bool = False) -> None:
        """Hand over one unit without waiting; see `StageStream.submit_nowait`."""
        self._refuse_if_over()
        self._stage.post(Submit(self, unit, final))

    def consumed(self, count: int = 1) -> None:
        """Open the window again; see `StageStream.consumed`."""
        self._stage.count_consumed(self, count)

    def abort(self) -> None:
        """End the request now; see `StageStream.abort`."""
        self._stage.abort_stream(self)

    async def wait_released(self) -> None:
        """Wait until the worker has forgotten the request."""
        await self.released.wait()

    def _refuse_if_over(self) -> None:
        if self.aborted or self._failure is not None or self.released.is_set() or not self._stage.alive:
            raise self._over()

    def _over(self) -> trio.BrokenResourceError:
        if not self._stage.alive:
            return StageDeadError(f"stage {self._stage.name!r} is not running")
        return trio.BrokenResourceError(f"request {self.request.request_id!r} is over")

    def take(self, output: StageOutput | StageFailed) -> None:
        """Deliver one output to the sink and settle the request when it was the last."""
        if isinstance(output, StageFailed):
            self._failure = output
        try:
            self._sink.deliver(output)
        except trio.BrokenResourceError:
            if self._channel is None:
                raise
            self.abort()  # the reader closed its end of the channel
        if isinstance(output, StageFailed) or output.finished:
            self.settle()

    def tell_broken(self) -> None:
        """The sink could not take an output: tell it that the request is over, if it can take that."""
        self._failure = StageFailed(
            request_id=self.request.request_id, code="engine_error", message="an output could not be taken"
        )
        try:
            self._sink.deliver(self._failure)
        except Exception:
            log.exception("stage.sink_failed", stage=self._stage.name, request_id=self.request.request_id)

    def settle(self) -> None:
        """The stage has let go of the request."""
        if self._channel is not None:
            self._channel.send.close()
        self.released.set()
