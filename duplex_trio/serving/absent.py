"""The answer to a WebSocket that leads to no session: an error event and the close frame (decision D13).

A server of requests loads this when the first of them is asked for: the error is written by the codec of sessions,
which it needs for nothing else.
"""

from __future__ import annotations

from contextlib import suppress
from uuid import uuid4

import structlog
import trio

from duplex_trio.protocol.dialects import Dialect, render
from duplex_trio.protocol.duplex import ErrorEvent, RealtimeError
from duplex_trio.serving import envelope
from duplex_trio.serving.channel import WebSocketChannel

log = structlog.get_logger("duplex_trio.serving")

POLICY_VIOLATION = 1008


async def refuse_socket(channel: WebSocketChannel, code: str, message: str) -> None:
    """Tell a client whose WebSocket has been accepted why it leads nowhere, and close."""
    request = channel.request
    log.info("client.refused", client=request.client, path=request.path, code=code, message=message)
    error = ErrorEvent.from_error(RealtimeError(code, message), event_id=f"event_{uuid4().hex}")
    text = render(error, Dialect.DUPLEX)
    assert text is not None
    with suppress(trio.BrokenResourceError):  # it has left
        await channel.send(text)
    await channel.close(POLICY_VIOLATION, envelope.close_reason(code))
