"""The answer to a WebSocket of video where none is served: an error as video tells them, and the close frame.

Loaded when the first of them is asked for: such a server needs the codec of video for nothing else.
"""

from __future__ import annotations

from contextlib import suppress

import structlog
import trio

from duplex_trio.protocol.video import VideoErrorEvent, encode_event
from duplex_trio.serving.channel import WebSocketChannel

log = structlog.get_logger("duplex_trio.serving")

POLICY_VIOLATION = 1008


async def refuse_socket(channel: WebSocketChannel, code: str, message: str) -> None:
    """Tell a client whose WebSocket has been accepted why it leads to no video, and close."""
    request = channel.request
    log.info("client.refused", client=request.client, path=request.path, code=code, message=message)
    with suppress(trio.BrokenResourceError):  # it has left
        await channel.send(encode_event(VideoErrorEvent(code=code, message=message)))
    await channel.close(POLICY_VIOLATION, code)
