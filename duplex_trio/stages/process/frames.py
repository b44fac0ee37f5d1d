"""What travels between a server and the process of a stage, as bytes on a socket.

A frame is a prefix, a head, and large buffers that are not copied into the head: pickle hands them out (protocol 5),
and they are received into the memory that the arrays on the other side then use.

Only the standard library, and syntax of older Pythons: the process speaks before anything is known of its interpreter.
"""

from __future__ import annotations

import pickle
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

PROTOCOL_VERSION = 1

MAGIC = b"dt"
PREFIX = struct.Struct("<2sBxIIQ")
"""Magic, kind, buffers, bytes of the head, number."""
SIZE = struct.Struct("<Q")

FRAME_BYTES_MAX = 1 << 30
"""The most that one frame may hold: a second of sound is 96 KiB, a large picture some megabytes."""
BUFFERS_MAX = 1 << 16
BUFFER_BYTES_MIN = 4096
"""A smaller buffer goes into the head: copying it is cheaper than minding it."""
PIECES_AT_ONCE_MAX = 1000
"""What one system call sends."""
RECEIVE_BYTES = 64 * 1024

# From the server.
WORKER = 1
"""The runtime to carry; the answer to a greeting that fits."""
OPEN = 2
SUBMIT = 3
ABORT = 4
WITHDRAW = 5
"""The number is that of the command, counted from 0 in the order in which they came."""
CONSUMED = 6
"""The number is that of the request; the head says how many more outputs are used up."""
PING = 7
STOP = 8
# From the process.
GREETING = 65
"""Versions, as JSON: it must be legible to any Python."""
LOADED = 66
OUTPUT = 67
"""Of the request with this number."""
RELEASED = 68
HANDLED = 69
"""The number is how many commands were handled; the head holds the numbers of those that were passed over."""
DIED = 70
PONG = 71
LOG = 72


class GarbledError(Exception):
    """The bytes are not of this protocol, or hold more than they may."""


class Frame(NamedTuple):
    """One message; what `number` means depends on the kind."""

    kind: int
    number: int = 0
    head: bytes | bytearray = b""
    buffers: tuple[Any, ...] = ()

    def value(self) -> Any:
        """What the head and the buffers hold. Raises whatever unpickling raises."""
        return pickle.loads(self.head, buffers=self.buffers)  # noqa: S301  both ends are ours


def frame_of(kind: int, number: int, value: Any) -> Frame:
    """A frame that holds a value. Raises whatever pickling raises."""
    buffers: list[memoryview] = []

    def keep_in_head(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < BUFFER_BYTES_MIN or len(buffers) >= BUFFERS_MAX:
            return True
        buffers.append(raw)
        return False

    head = pickle.dumps(value, protocol=5, buffer_callback=keep_in_head)
    return Frame(kind, number, head, tuple(buffers))


def to_bytes(frame: Frame, bytes_max: int = FRAME_BYTES_MAX) -> list[memoryview]:
    """The pieces to send, in order; the large ones are not copied.

    Raises:
        ValueError: it holds more than the other side takes.
    """
    sizes = [buffer.nbytes for buffer in frame.buffers]
    total = len(frame.head) + sum(sizes)
    if total > bytes_max:
        raise ValueError(f"{total} bytes are more than the {bytes_max} that one message may hold")
    prefix = PREFIX.pack(MAGIC, frame.kind, len(sizes), len(frame.head), frame.number)
    front = b"".join((prefix, *(SIZE.pack(size) for size in sizes), frame.head))
    return [memoryview(piece).cast("B") for piece in (front, *frame.buffers) if len(piece)]


def unsent(pieces: list[memoryview], sent: int) -> list[memoryview]:
    """What is left of pieces of bytes after so many bytes were sent."""
    for index, piece in enumerate(pieces):
        if sent < len(piece):
            return [piece[sent:], *pieces[index + 1 :]]
        sent -= len(piece)
    return []


class FrameReader:
    """Cuts received bytes into frames. Small ones share one receive, large buffers are received in place.

    Use: receive into `target()`, then iterate over `received(count)` to its end.

    Args:
        bytes_max: the most that one frame may hold.
    """

    def __init__(self, bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._store = memoryview(bytearray(RECEIVE_BYTES))
        self._begin = self._end = 0
        self._rest: memoryview | None = None
        self._frame_begins = True
        self._frames = self._read_frames()

    @property
    def between_frames(self) -> bool:
        """Whether an end here would cut no frame."""
        return self._begin == self._end and self._rest is None and self._frame_begins

    def target(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if self._rest is not None:
            return self._rest
        if self._begin == self._end:
            self._begin = self._end = 0
        elif self._end == len(self._store):
            waiting = bytes(self._store[self._begin : self._end])
            self._store[: len(waiting)] = waiting
            self._begin, self._end = 0, len(waiting)
        return self._store[self._end :]

    def received(self, count: int) -> Iterator[Frame]:
        """Take `count` bytes that are in the target now.

        Raises:
            GarbledError: the bytes make no sense; nothing more can be read.
        """
        if self._rest is not None:
            self._rest = self._rest[count:]
        else:
            self._end += count
        while True:
            frame = next(self._frames)
            if frame is None:
                return
            yield frame

    def _read_frames(self) -> Iterator[Frame | None]:
        """Each frame when it is there, and None when there must be more bytes first."""
        while True:
            self._frame_begins = True
            prefix = yield from self._take(PREFIX.size)
            self._frame_begins = False
            magic, kind, buffer_count, head_size, number = PREFIX.unpack(prefix)
            if magic != MAGIC or buffer_count > BUFFERS_MAX:
                raise GarbledError("what was received is no message of a stage")
            sizes = []
            for _ in range(buffer_count):
                sizes.append(SIZE.unpack((yield from self._take(SIZE.size)))[0])
            if head_size + sum(sizes) > self._bytes_max:
                raise GarbledError(f"a message of {head_size + sum(sizes)} bytes is announced")
            head = yield from self._take(head_size)
            buffers = []
            for size in sizes:
                buffers.append((yield from self._take(size)))
            yield Frame(kind, number, head, tuple(buffers))

    def _take(self, size: int) -> Any:
        """The next `size` bytes, in memory of their own."""
        if size > len(self._store):
            block = bytearray(size)
            have = self._end - self._begin
            block[:have] = self._store[self._begin : self._end]
            self._begin = self._end = 0
            self._rest = memoryview(block)[have:]
            while self._rest:
                yield None
            self._rest = None
            return block
        while self._end - self._begin < size:
            yield None
        block = bytearray(self._store[self._begin : self._begin + size])
        self._begin += size
        return block
