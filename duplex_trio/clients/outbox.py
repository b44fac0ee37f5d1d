"""What a client has sent and may have to send again: commands in order, bounded in bytes. Pure.

A server that keeps sessions over lost connections counts the commands it takes, and says how many in
`session.resumed` and in `session.heartbeat_ack`. A command stays here until it was counted; over a new
connection exactly those follow that were not. With a server that does not count, or a session that ends with
its connection, a command is done with once it is written.
"""

from __future__ import annotations

from collections import deque

from attrs import define, field

from duplex_trio.clients.errors import DuplexProtocolError

ASK_AT_SHARE = 0.25
"""How full of written commands an outbox may be before the server is asked how many it has."""


@define(eq=False)
class Outbox:
    """The commands of one session.

    Args:
        bytes_max: how much may be kept.

    Attributes:
        keeps: whether what is written is kept until it was counted.
        counted: how many commands the server is known to have.
        size_bytes: of all that is kept.
        written: how many commands of that were written to the current connection.
        written_bytes: their size.
    """

    bytes_max: int
    keeps: bool = field(default=True, init=False)
    counted: int = field(default=0, init=False)
    size_bytes: int = field(default=0, init=False)
    written: int = field(default=0, init=False)
    written_bytes: int = field(default=0, init=False)
    _commands: deque[bytes] = field(factory=deque, init=False)

    def __len__(self) -> int:
        return len(self._commands)

    @property
    def unwritten(self) -> int:
        """How many commands wait to be written."""
        return len(self._commands) - self.written

    @property
    def wants_count(self) -> bool:
        """Whether the server should be asked how many commands it has."""
        return self.keeps and self.written_bytes > ASK_AT_SHARE * self.bytes_max

    def room_for(self, size: int) -> bool:
        """Whether a command of so many bytes fits; into an empty outbox each does."""
        return not self._commands or self.size_bytes + size <= self.bytes_max

    def put(self, command: bytes) -> None:
        """Take a command, for which there is room."""
        self._commands.append(command)
        self.size_bytes += len(command)

    def next(self) -> bytes | None:
        """The next command to write; None when all are written. It counts as written."""
        if not self.unwritten:
            return None
        command = self._commands[self.written]
        self.written += 1
        self.written_bytes += len(command)
        if not self.keeps:
            self._drop(1)
        return command

    def confirm(self, count: int) -> None:
        """The server has so many commands. A lower count than before is an old one and changes nothing.

        Raises:
            DuplexProtocolError: it cannot have so many (`bad_event`).
        """
        if count > self.counted + self.written:
            raise DuplexProtocolError(
                "bad_event", f"the server counts {count} commands; {self.counted + self.written} were sent"
            )
        self._drop(max(0, count - self.counted))

    def opened(self) -> None:
        """The session is open, and what was written so far has opened it: the server counts from here on."""
        self._drop(self.written)
        self.counted = 0

    def keep_no_more(self) -> None:
        """The session ends with its connection: what is written is done with."""
        self.keeps = False
        self._drop(self.written)

    def resume(self, count: int | None) -> None:
        """Another connection begins; the server has `count` commands, or, if it does not say so, all that
        were written.

        Raises:
            DuplexProtocolError: it cannot have so many (`bad_event`).
        """
        self.confirm(self.counted + self.written if count is None else count)
        self.written = self.written_bytes = 0

    def _drop(self, count: int) -> None:
        for _ in range(count):
            size = len(self._commands.popleft())
            self.size_bytes -= size
            self.written_bytes -= size
        self.written -= count
        self.counted += count
