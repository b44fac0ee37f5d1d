"""The seam between the server and the kind of engine behind it: what routes get from either.

A deployment of sessions and one of requests share the port, the routes and the drain; what differs between them
is one `Service` each. Each is imported when it is needed, so that a server of requests loads nothing of sessions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from attrs import frozen

if TYPE_CHECKING:
    from duplex_trio.engine import DuplexSessionHandle
    from duplex_trio.entrypoints.async_omni import AsyncOmni
    from duplex_trio.entrypoints.duplex_omni import DuplexOmni
    from duplex_trio.entrypoints.omni_base import AsyncOmniBase
    from duplex_trio.entrypoints.video_omni import VideoOmni
    from duplex_trio.serving.channel import WebSocketChannel
    from duplex_trio.serving.chat import ChatCompletions, WhileConnected
    from duplex_trio.serving.deployment import Deployment
    from duplex_trio.serving.options import ServeOptions
    from duplex_trio.serving.realtime import RealtimeConnection


class Service(ABC):
    """What one running engine offers.

    Attributes:
        omni: the engine.
        chat: its route of chat completions, which may not be available; None where there can be none.
    """

    omni: AsyncOmniBase
    chat: ChatCompletions | None = None

    @property
    def has_chats(self) -> bool:
        """Whether the route of chat completions leads to something."""
        return self.chat is not None and self.chat.available

    @property
    @abstractmethod
    def has_sessions(self) -> bool:
        """Whether the WebSocket routes lead to something."""

    @abstractmethod
    async def serve_socket(self, channel: WebSocketChannel) -> None:
        """Serve one WebSocket whose client may come in, from the request for it to its end."""

    @abstractmethod
    def capabilities(self) -> Mapping[str, Any] | None:
        """What sessions can do, as `/v1/realtime/capabilities` tells it; None where there are none."""

    @abstractmethod
    def occupancy(self) -> Mapping[str, Any]:
        """What is going on, and how much at most, as `/health` tells it."""


@frozen(kw_only=True)
class Runners:
    """What needs tasks of its own, which are `run`'s to open.

    Attributes:
        connection: serves an open session until its socket or the session ends.
        while_connected: does the work of a request for as long as its client is there.
    """

    connection: Callable[[RealtimeConnection, DuplexSessionHandle], Awaitable[None]]
    while_connected: WhileConnected


def make_service(
    omni: AsyncOmniBase, deployment: Deployment, options: ServeOptions, runners: Runners
) -> Service:
    """Make what serves an engine that is ready."""
    if omni.session_mode == "turn":
        from duplex_trio.serving.turn_service import TurnService

        return TurnService(cast("AsyncOmni", omni), deployment, runners.while_connected)
    if omni.session_mode == "video":
        from duplex_trio.serving.video_service import VideoService

        return VideoService(cast("VideoOmni", omni))
    from duplex_trio.serving.duplex_service import DuplexService

    return DuplexService(cast("DuplexOmni", omni), deployment, options, runners)
