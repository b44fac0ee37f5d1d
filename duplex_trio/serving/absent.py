"""The answer to a WebSocket that this deployment does not have: an error event, and the close frame (decision D13).

Loaded when the first of them is asked for: the error is written by the codec of sessions, which a server of
requests needs for nothing else.
"""

from __future__ import annotations

from contextlib import suppress
from uuid import uuid4

import trio

from duplex_trio.protocol.dialects import Dialect, render
from duplex_trio.protocol.duplex import ErrorEvent, RealtimeError
from duplex_trio.serving import envelope
from duplex_trio.serving.channel import WebSocketChannel


async def refuse_absent(channel: WebSocketChannel, code: str, message: str) -> None:
    """Tell a client whose WebSocket has been accepted, and close."""
    error = RealtimeError(code, message)
    text = render(ErrorEvent.from_error(error, event_id=f"event_{uuid4().hex}"), Dialect.DUPLEX)
    assert text is not None
    with suppress(trio.BrokenResourceError):  # it has left
        await channel.send(text)
    await channel.close(1008, envelope.close_reason(code))
