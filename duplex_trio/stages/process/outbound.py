"""What waits to be written to the process of a stage, and what it has not answered yet.

Control goes before everything else, then what consumers have used up, then commands in order. Nothing here waits.
"""

from __future__ import annotations

from collections import deque

from attrs import define

from duplex_trio.stages.lanes import Open, Submit
from duplex_trio.stages.process.frames import CONSUMED, Frame, frame_of, to_bytes
from duplex_trio.stages.thread_stream import ThreadStream

BATCH_BYTES = 64 * 1024
"""Small messages that are written together."""
BATCH_PIECES_MAX = 256


class ProcessStream(ThreadStream):
    """One request on a process's stage.

    `number` is what the connection calls it, `known` whether the process has been told of it.
    """

    number: int = -1
    known: bool = False


@define(eq=False)
class _Waiting:
    command: Open[ThreadStream] | Submit[ThreadStream]
    stream: ProcessStream
    pieces: list[memoryview]


@define(eq=False)
class _Sent:
    number: int
    command: Open[ThreadStream] | Submit[ThreadStream]


class Outbound:
    """The lanes of one connection."""

    def __init__(self) -> None:
        self._control: deque[Frame] = deque()
        self._consumed: dict[ProcessStream, int] = {}
        self._commands: deque[_Waiting] = deque()
        self._sent: deque[_Sent] = deque()
        self._sent_count = 0

    @property
    def commands_waiting(self) -> int:
        """Commands that the worker's side has not taken."""
        return len(self._commands) + len(self._sent)

    def control(self, frame: Frame) -> None:
        """Put a message in front of all commands."""
        self._control.append(frame)

    def consumed(self, stream: ProcessStream, count: int) -> None:
        """Outputs are used up; told in one message however often this is called meanwhile."""
        self._consumed[stream] = self._consumed.get(stream, 0) + count

    def command(
        self,
        command: Open[ThreadStream] | Submit[ThreadStream],
        stream: ProcessStream,
        pieces: list[memoryview],
    ) -> None:
        """Put a command behind the others.

        Args:
            command: the command.
            stream: its request.
            pieces: what tells the process of it.
        """
        self._commands.append(_Waiting(command, stream, pieces))

    def sent_number(self, command: Submit[ThreadStream]) -> int | None:
        """What the process calls a command that it was sent and has not taken yet."""
        return next((sent.number for sent in self._sent if sent.command is command), None)

    def drop(self, stream: ProcessStream) -> list[Submit[ThreadStream]]:
        """Forget what waits for a request that is over; its units that were not sent."""
        dropped = [waiting.command for waiting in self._commands if waiting.stream is stream]
        if dropped:
            self._commands = deque(waiting for waiting in self._commands if waiting.stream is not stream)
        self._consumed.pop(stream, None)
        return [command for command in dropped if isinstance(command, Submit)]

    def batch(self) -> list[memoryview]:
        """The next pieces to write, whole messages; empty when nothing waits."""
        pieces: list[memoryview] = []
        while self._control:
            pieces += to_bytes(self._control.popleft())
        for stream in [stream for stream in self._consumed if stream.known]:
            pieces += to_bytes(frame_of(CONSUMED, stream.number, self._consumed.pop(stream)))
        size = 0
        while self._commands and size < BATCH_BYTES and len(pieces) < BATCH_PIECES_MAX:
            waiting = self._commands.popleft()
            command = waiting.command
            if isinstance(command, Submit):
                command.unit = None
                if command.withdrawn:
                    continue
            else:
                waiting.stream.known = True
            self._sent.append(_Sent(self._sent_count, command))
            self._sent_count += 1
            size += sum(len(piece) for piece in waiting.pieces)
            pieces += waiting.pieces
        return pieces

    def handled(self, total: int, passed_over: list[int]) -> list[Submit[ThreadStream]]:
        """The process took commands.

        Args:
            total: how many of all that were sent to it.
            passed_over: the numbers of those that it did not accept.

        Returns:
            The units among them, `accepted` where they are.
        """
        refused, units = set(passed_over), []
        while self._sent and self._sent[0].number < total:
            sent = self._sent.popleft()
            if isinstance(sent.command, Submit):
                sent.command.accepted = sent.number not in refused
                units.append(sent.command)
        return units

    def clear(self) -> list[Submit[ThreadStream]]:
        """The process is gone: forget everything; the units that it may or may not have taken."""
        commands = [waiting.command for waiting in self._commands] + [sent.command for sent in self._sent]
        for lane in (self._control, self._consumed, self._commands, self._sent):
            lane.clear()
        return [command for command in commands if isinstance(command, Submit)]
