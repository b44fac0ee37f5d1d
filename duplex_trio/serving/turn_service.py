"""Serves an engine of requests: chat completions. There are no sessions, and no WebSocket leads to one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duplex_trio.entrypoints.async_omni import AsyncOmni
from duplex_trio.entrypoints.turn_chat import TurnChatBackend
from duplex_trio.serving.channel import WebSocketChannel
from duplex_trio.serving.chat import ChatCompletions, WhileConnected
from duplex_trio.serving.deployment import Deployment
from duplex_trio.serving.nowhere import lead_nowhere
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
        self.omni = self._requests = omni
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
        await lead_nowhere(channel, message)

    def capabilities(self) -> None:
        """Nothing is said of sessions where there are none."""
        return

    def occupancy(self) -> Mapping[str, Any]:
        """Requests that hold a place."""
        now = self._requests.statistics()
        return {"requests": now.requests, "max_requests": now.max_requests}
