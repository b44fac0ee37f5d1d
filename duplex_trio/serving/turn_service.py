"""Serves an engine of requests: chat completions. There are no sessions, and no WebSocket leads to one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any

import trio

from duplex_trio.entrypoints.async_omni import AsyncOmni
from duplex_trio.entrypoints.turn_chat import TurnChatBackend
from duplex_trio.serving.channel import WebSocketChannel
from duplex_trio.serving.chat import ChatCompletions, WhileConnected
from duplex_trio.serving.deployment import Deployment
from duplex_trio.serving.paths import SUBPROTOCOL
from duplex_trio.serving.responses import said_back
from duplex_trio.serving.service import Service


class TurnService(Service):
    """What an engine of requests offers.

    Args:
        omni: the engine.
        deployment: what is served.
        while_connected: does the work of a request for as long as its client is there.
    """

    def __init__(self, omni: AsyncOmni, deployment: Deployment, while_connected: WhileConnected) -> None:
        self.omni = omni
        self.chat = ChatCompletions(
            deployment=deployment, backend=TurnChatBackend(omni), while_connected=while_connected
        )

    @property
    def has_sessions(self) -> bool:
        """There are none."""
        return False

    async def serve_socket(self, channel: WebSocketChannel) -> None:
        """Say that there is no such thing here (decision D13)."""
        request = channel.request
        message = (
            f"there is no WebSocket at {said_back(request.path)}: this deployment answers requests "
            "(session_mode: turn) and has no sessions"
        )
        await channel.accept(SUBPROTOCOL if SUBPROTOCOL in request.subprotocols else None)
        # The codec of sessions takes a moment to load, in which nobody's answer is to wait.
        absent = await trio.to_thread.run_sync(partial(import_module, "duplex_trio.serving.absent"))
        await absent.refuse_socket(channel, "unsupported", message)

    def capabilities(self) -> None:
        """Nothing is said of sessions where there are none."""
        return

    def occupancy(self) -> Mapping[str, Any]:
        """Requests that hold a place."""
        now = self.omni.statistics()
        return {"requests": now.requests, "max_requests": now.max_requests}
