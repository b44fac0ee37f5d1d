"""Serves an engine of requests: chat completions. There are no sessions, and no WebSocket leads to one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from importlib import import_module
from typing import Any

import structlog
import trio

from duplex_trio.entrypoints.async_omni import AsyncOmni
from duplex_trio.entrypoints.chat_backend import ChatAnswer, ChatBackend
from duplex_trio.protocol.chat import ChatRequest
from duplex_trio.serving.channel import WebSocketChannel
from duplex_trio.serving.chat import ChatCompletions, WhileConnected
from duplex_trio.serving.deployment import Deployment
from duplex_trio.serving.paths import SUBPROTOCOL
from duplex_trio.serving.responses import said_back
from duplex_trio.serving.service import Service

log = structlog.get_logger("duplex_trio.serving")


class _NoChat(ChatBackend):
    available = False
    sound_rate_hz = 16_000

    def answer(self, request: ChatRequest) -> AbstractAsyncContextManager[ChatAnswer]:
        raise NotImplementedError


class TurnService(Service):
    """What an engine of requests offers.

    Args:
        omni: the engine.
        deployment: what is served.
        while_connected: does the work of a request for as long as its client is there.
    """

    def __init__(self, omni: AsyncOmni, deployment: Deployment, while_connected: WhileConnected) -> None:
        self.omni = omni
        self.chat = ChatCompletions(deployment=deployment, backend=_NoChat(), while_connected=while_connected)

    @property
    def has_sessions(self) -> bool:
        """There are none."""
        return False

    async def serve_socket(self, channel: WebSocketChannel) -> None:
        """Say that there is no such thing here, as decision D13 has it."""
        request = channel.request
        message = (
            f"there is no WebSocket at {said_back(request.path)}: this deployment answers requests "
            "(session_mode: turn) and has no sessions"
        )
        log.info("client.refused", client=request.client, path=request.path, code="not_available")
        await channel.accept(SUBPROTOCOL if SUBPROTOCOL in request.subprotocols else None)
        # The codec of sessions takes a moment to load, in which nobody's answer is to wait.
        absent = await trio.to_thread.run_sync(partial(import_module, "duplex_trio.serving.absent"))
        await absent.refuse_absent(channel, "not_available", message)

    def capabilities(self) -> None:
        """Nothing is said of sessions where there are none."""
        return

    def render_metrics(self) -> bytes:
        """Figures of the stages."""
        return b""

    async def drain(self, timeout_s: float) -> None:
        """Nothing lives on."""
        await trio.lowlevel.checkpoint()

    def occupancy(self) -> Mapping[str, Any]:
        """Requests that are being answered."""
        return {"requests": 0}
