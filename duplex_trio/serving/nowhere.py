"""Accepts WebSockets that lead to nothing in this deployment, to say so (decision D13)."""

from __future__ import annotations

from functools import partial
from importlib import import_module

import trio

from duplex_trio.serving.channel import WebSocketChannel
from duplex_trio.serving.paths import SUBPROTOCOL


async def lead_nowhere(channel: WebSocketChannel, message: str) -> None:
    """Accept a WebSocket, tell its client why there is nothing behind it, and close."""
    await channel.accept(selected_subprotocol(channel))
    # The codec of sessions takes a moment to load where there are none, in which nobody's answer is to wait.
    absent = await trio.to_thread.run_sync(partial(import_module, "duplex_trio.serving.absent"))
    await absent.refuse_socket(channel, "unsupported", message)


def selected_subprotocol(channel: WebSocketChannel) -> str | None:
    """The subprotocol to answer with: the one that there is, if it is offered. A key never is."""
    return SUBPROTOCOL if SUBPROTOCOL in channel.request.subprotocols else None
