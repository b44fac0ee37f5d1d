"""Payloads that have come and are not read yet: bounded, so that a reader who is slow slows the server, not memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import trio

from duplex_trio.clients.video.chunk import VideoChunk

ANSWER_BYTES_MAX = 16 * 1024 * 1024
"""How much more is taken while an answer is waited for. It stands in line behind what the server wrote before it:
two pairs of at most 1 MiB (video.md 3.5) and what sockets hold, which is 4 MiB to send and 6 MiB to receive where
Linux is left as it comes."""


class ChunkBuffer:
    """What is not read yet.

    Args:
        bytes_max: how much is taken before the server has to wait; one payload may go beyond it.
        answer_awaited: whether somebody waits for an answer, and so for what stands before it.
    """

    def __init__(self, bytes_max: int, answer_awaited: Callable[[], bool]) -> None:
        self._bytes_max = bytes_max
        self._answer_awaited = answer_awaited
        self._chunks: deque[VideoChunk] = deque()
        self._size = 0
        self._ended = False
        self._discards = False
        self._filled = trio.lowlevel.ParkingLot()
        self._room = trio.lowlevel.ParkingLot()

    @property
    def size_bytes(self) -> int:
        """How much is held."""
        return self._size

    @property
    def has_room(self) -> bool:
        """Whether more is taken now."""
        bound = self._bytes_max + (ANSWER_BYTES_MAX if self._answer_awaited() else 0)
        return self._size < bound

    async def wait_for_room(self) -> None:
        """Wait until more is taken."""
        while not self.has_room:
            await self._room.park()

    def look_again(self) -> None:
        """Somebody began to wait for an answer."""
        self._room.unpark_all()

    def put(self, chunk: VideoChunk) -> None:
        """Hold one payload. Never blocks."""
        if self._discards:
            return
        self._chunks.append(chunk)
        self._size += len(chunk.payload)
        self._filled.unpark()

    async def get(self) -> VideoChunk | None:
        """Take the oldest payload, waiting for one; None when there will be none any more."""
        await trio.lowlevel.checkpoint()
        while not self._chunks:
            if self._ended:
                return None
            await self._filled.park()
        chunk = self._chunks.popleft()
        self._size -= len(chunk.payload)
        self._room.unpark_all()
        return chunk

    def discard(self) -> None:
        """Nobody reads any more: drop what is held and what follows."""
        self._discards = True
        self._chunks.clear()
        self._size = 0
        self._room.unpark_all()

    def end(self) -> None:
        """Nothing follows."""
        self._ended = True
        self._filled.unpark_all()
