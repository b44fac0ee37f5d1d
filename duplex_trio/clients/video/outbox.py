"""What is to be written, message by message: taken over whole or not at all, whenever a caller is cancelled."""

from __future__ import annotations

from collections import deque

import trio

MESSAGES_MAX = 64
"""More than a server lets a client send at once (video.md 3.3: a burst of 40)."""


class Outbox:
    """Messages on their way to one task that writes them."""

    def __init__(self) -> None:
        self._messages: deque[bytes] = deque()
        self._filled = trio.lowlevel.ParkingLot()
        self._room = trio.lowlevel.ParkingLot()
        self._closed = False

    async def wait_for_room(self) -> None:
        """Wait until a message can be put, or there is nobody to write it any more."""
        await trio.lowlevel.checkpoint()
        while len(self._messages) >= MESSAGES_MAX and not self._closed:
            await self._room.park()

    def put(self, message: bytes) -> None:
        """Take a message over. Never blocks."""
        if not self._closed:
            self._messages.append(message)
            self._filled.unpark()

    async def next(self) -> bytes | None:
        """Wait for the next message; None when all are written and there will be none any more."""
        while not self._messages:
            if self._closed:
                return None
            await self._filled.park()
        self._room.unpark()
        return self._messages.popleft()

    def close(self) -> None:
        """Nothing follows."""
        self._closed = True
        self._filled.unpark_all()
        self._room.unpark_all()
