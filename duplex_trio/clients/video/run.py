"""The tasks of a client of video.

```
video                        run_video     the body of `async with RealtimeVideoClient(...)`
├─ (the link's)                            frames of a WebSocket
├─ reader                    connection    messages to the record and the buffer; waits while the buffer is full
├─ writer                    connection    whole messages, one at a time, whoever is cancelled
└─ heartbeat                 connection    pings; ends the connection when nothing comes back
```

A body that raises gets its own exception back, not a group of one. The tasks raise nothing on purpose: how a video
ends is told to whoever reads it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from duplex_trio.clients.run import connected
from duplex_trio.clients.video.errors import VideoConnectionError
from duplex_trio.clients.video.link import open_error

if TYPE_CHECKING:
    from duplex_trio.clients.video.connection import VideoConnection


@asynccontextmanager
async def run_video(connection: VideoConnection) -> AsyncIterator[None]:
    """Begin a video, carry it through the body and end it.

    Raises:
        VideoConnectionError: the server cannot be reached, refuses the connection, or does not answer in time.
        VideoRefusedError: the server refuses the video.
        VideoProtocolError: it speaks another protocol.
    """
    opened = False

    async def begin(nursery: trio.Nursery) -> None:
        nonlocal opened
        try:
            await _open(connection, nursery)
        except trio.Cancelled:
            # What is cut short with it has nothing to tell, and there is nobody yet to say goodbye to.
            nursery.cancel_scope.cancel()
            raise
        opened = True

    try:
        async with connected(begin, connection.leave, connection.link.close):
            yield
    except BaseExceptionGroup as group:
        if opened:
            raise
        raise open_error(connection.url, group) from None


async def _open(connection: VideoConnection, nursery: trio.Nursery) -> None:
    with trio.move_on_after(connection.handshake_timeout_s) as patience:
        await connection.link.open(nursery)
        nursery.start_soon(connection.read, name="reader")
        nursery.start_soon(connection.write, name="writer")
        await connection.begin()
        nursery.start_soon(connection.beat, name="heartbeat")
    if patience.cancelled_caught:
        raise VideoConnectionError(f"the video had not begun within {connection.handshake_timeout_s:g} s")
