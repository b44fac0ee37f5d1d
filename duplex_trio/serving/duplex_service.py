"""Serves an engine of sessions: the realtime WebSockets, and chats beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duplex_trio.entrypoints.duplex_chat import DuplexChatCompletionsAdapter
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.protocol.dialects import Dialect
from duplex_trio.serving.attachments import DuplexSessionAttachmentRegistry
from duplex_trio.serving.channel import WebSocketChannel
from duplex_trio.serving.chat import ChatCompletions
from duplex_trio.serving.deployment import Deployment
from duplex_trio.serving.endpoint import RealtimeEndpoint
from duplex_trio.serving.options import ServeOptions
from duplex_trio.serving.service import Runners, Service


class DuplexService(Service):
    """What an engine of sessions offers.

    Args:
        omni: the engine.
        deployment: what is served.
        options: how.
        runners: what needs tasks.
    """

    def __init__(
        self, omni: DuplexOmni, deployment: Deployment, options: ServeOptions, runners: Runners
    ) -> None:
        self.omni = self._sessions = omni
        self._deployment = deployment
        self.endpoint = RealtimeEndpoint(
            omni=omni,
            deployment=deployment,
            attachments=DuplexSessionAttachmentRegistry(omni),
            run_connection=runners.connection,
            config_timeout_s=options.config_timeout_s,
            log_transcripts=options.log_transcripts,
        )
        self.chat = ChatCompletions(
            deployment=deployment,
            backend=DuplexChatCompletionsAdapter(omni),
            while_connected=runners.while_connected,
        )

    @property
    def has_sessions(self) -> bool:
        """Its WebSockets lead to sessions."""
        return True

    async def serve_socket(self, channel: WebSocketChannel) -> None:
        """Open or resume a session, and serve it."""
        await self.endpoint.serve(channel)

    def capabilities(self) -> Mapping[str, Any]:
        """What sessions with the model can do."""
        able = self._sessions.capabilities
        return {
            "object": "realtime.capabilities",
            "model": self._deployment.model_name,
            "session_mode": "duplex",
            "dialects": [dialect.session_name for dialect in Dialect],
            "voices": list(self._sessions.plugin.voices),
            "chat_completions": able.supports_chat_completions,
            "capabilities": able.render(),
        }

    def occupancy(self) -> Mapping[str, Any]:
        """Sessions and chats that hold a slot."""
        now = self._sessions.statistics()
        return {"sessions": now.sessions, "max_sessions": now.max_sessions, "chats": now.chats}
