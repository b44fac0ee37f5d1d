"""The requests of a stage whose worker is in another process: what their streams ask for, and what comes back.

Nothing here waits; `run` moves the bytes.
"""

from __future__ import annotations

import pickle
from typing import Any

import structlog
import trio

from duplex_trio.stages.lanes import Open, Submit
from duplex_trio.stages.port import OutputSink, StageFailed, StageOutput, StageRequest
from duplex_trio.stages.process import frames
from duplex_trio.stages.process.frames import Frame, GarbledError, frame_of, to_bytes
from duplex_trio.stages.process.outbound import Outbound, ProcessStream
from duplex_trio.stages.streams import StreamsStage
from duplex_trio.stages.thread_stream import ThreadStream

log = structlog.get_logger("duplex_trio.stages")


class ProcessStreams(StreamsStage):
    """Keeps the streams of a stage in a process.

    Args:
        name: as for `StreamsStage`.
        command_limit: as for `StreamsStage`.
    """

    def __init__(self, name: str, command_limit: int) -> None:
        super().__init__(name, command_limit)
        self._outbound = Outbound()
        self._something_to_write = trio.Event()
        self._by_number: dict[int, ProcessStream] = {}
        self._opened_count = 0

    @property
    def commands_waiting(self) -> int:
        """Commands that the process has not taken yet."""
        return self._outbound.commands_waiting

    def _new_stream(self, request: StageRequest, sink: OutputSink | None) -> ThreadStream:
        stream = ProcessStream(self, request, sink)
        stream.number = self._opened_count
        self._opened_count += 1
        return stream

    def post(self, command: Open[ThreadStream] | Submit[ThreadStream]) -> None:
        """Put a command behind the others.

        Raises:
            ValueError: what it carries cannot be pickled, or is too large.
        """
        stream = command.lane
        assert isinstance(stream, ProcessStream)
        try:
            if isinstance(command, Open):
                pieces = to_bytes(frame_of(frames.OPEN, stream.number, _packed(stream.request)))
            else:
                pieces = to_bytes(frame_of(frames.SUBMIT, stream.number, (command.unit, command.final)))
        except Exception as error:
            raise ValueError(f"this cannot be sent to the process of stage {self.name!r}: {error}") from error
        if isinstance(command, Open):
            self._by_number[stream.number] = stream
        self._outbound.command(command, stream, pieces)
        self._something_to_write.set()

    def withdraw(self, command: Submit[ThreadStream]) -> None:
        """Let a unit be passed over, also one that was sent already."""
        super().withdraw(command)
        number = self._outbound.sent_number(command)
        if number is not None:
            self._send_control(Frame(frames.WITHDRAW, number))

    def count_consumed(self, stream: ThreadStream, count: int) -> None:
        """Count, and tell the process where it minds."""
        stream.consume(count)
        assert isinstance(stream, ProcessStream)
        if stream.number in self._by_number and not stream.aborted:
            self._outbound.consumed(stream, count)
            self._something_to_write.set()

    def _overtake(self, stream: ThreadStream) -> None:
        assert isinstance(stream, ProcessStream)
        for unit in self._outbound.drop(stream):
            if unit.taken is not None:
                unit.taken.set()
        self._look_for_room()
        if stream.known:
            self._send_control(Frame(frames.ABORT, stream.number))
        else:
            self._by_number.pop(stream.number, None)
            stream.settle()

    def _settle_rest(self) -> None:
        for stream in self._by_number.values():
            stream.settle()
        self._by_number.clear()
        for unit in self._outbound.clear():
            if unit.taken is not None:
                unit.taken.set()

    def _next_batch(self) -> list[memoryview]:
        """The next pieces to write; empty when nothing waits."""
        pieces = self._outbound.batch()
        # Units that were withdrawn before they were sent are gone, and the process answers nothing for them.
        self._look_for_room()
        return pieces

    def _look_for_room(self) -> None:
        if self._room_wanted and self.commands_waiting < self._command_limit:
            self._room_wanted = False
            self._room.unpark_all()

    def _send_control(self, frame: Frame) -> None:
        self._outbound.control(frame)
        self._something_to_write.set()

    def _request_frame(self, frame: Frame) -> None:
        """Take what the process says of its requests.

        Raises:
            GarbledError: it makes no sense.
        """
        match frame.kind:
            case frames.OUTPUT:
                stream = self._by_number.get(frame.number)
                if stream is not None:
                    self._take_output(stream, frame)
            case frames.RELEASED:
                stream = self._by_number.pop(frame.number, None)
                if stream is not None:
                    stream.settle()
            case frames.HANDLED:
                for unit in self._outbound.handled(frame.number, value_of(frame)):
                    if unit.taken is not None:
                        unit.taken.set()
                self._look_for_room()
            case _:
                raise GarbledError(f"there is no message of kind {frame.kind}")

    def _take_output(self, stream: ProcessStream, frame: Frame) -> None:
        try:
            output = frame.value()
        except Exception as error:
            # Its class is not to be had here: a fault of this output, not of the connection.
            why = f"an output of the process of stage {self.name!r} cannot be read: {error}"
            output = StageFailed(request_id=stream.request.request_id, code="engine_error", message=why)
            self._send_control(Frame(frames.ABORT, frame.number))
        if not isinstance(output, StageOutput | StageFailed):
            raise GarbledError(f"an output is a {type(output).__name__}")
        if isinstance(output, StageFailed) or output.finished:
            del self._by_number[frame.number]
        self._take(stream, output)


def value_of(frame: Frame) -> Any:
    """What a message of the connection itself holds.

    Raises:
        GarbledError: it cannot be read.
    """
    try:
        return frame.value()
    except Exception as error:
        raise GarbledError(f"a message of kind {frame.kind} cannot be read: {error}") from error


def _packed(request: StageRequest) -> tuple[str, bytes]:
    """The id apart from the rest, which the process may not be able to read."""
    rest = {
        "owner": request.owner,
        "params": request.params,
        "resumable": request.resumable,
        "window": request.window,
    }
    return request.request_id, pickle.dumps(rest, protocol=5)
