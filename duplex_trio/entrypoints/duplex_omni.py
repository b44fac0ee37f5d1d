"""The Python entry to an engine of sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from duplex_trio.deploy import DeployConfig, SessionMode
from duplex_trio.engine import (
    Attachment,
    DuplexOmniEngine,
    DuplexSessionHandle,
    JournalGapError,
    ResumableAttachment,
    ResumeGrant,
    SessionEnd,
    SessionLimits,
    StageFactory,
)
from duplex_trio.entrypoints.async_omni import AsyncOmni
from duplex_trio.entrypoints.omni_base import OmniStatistics, WarmUpError
from duplex_trio.entrypoints.warm_up import WarmUpAttachment, warm_up_commands, warm_up_session
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.plugin.plugin import DuplexModelPlugin
from duplex_trio.protocol.duplex import RealtimeError
from duplex_trio.protocol.duplex.session import DialectName
from duplex_trio.protocol.sampling import Sampling
from duplex_trio.tracing import Tracer

__all__ = [
    "Attachment",
    "DuplexOmni",
    "DuplexSessionHandle",
    "EngineStatistics",
    "JournalGapError",
    "ResumableAttachment",
    "ResumeGrant",
    "SessionEnd",
    "WarmUpError",
]

WARM_UP_TIMEOUT_S = 150.0
"""How long the first answer may take before the server gives up starting."""


@frozen(kw_only=True)
class EngineStatistics(OmniStatistics):
    """A look at the engine: sessions and chats that hold a slot too."""

    sessions: int
    max_sessions: int
    chats: int


class DuplexOmni(AsyncOmni):
    """Sessions with one model.

    Args:
        pipeline: the model.
        max_sessions: sessions at once.
        max_chats: chats at once, beside them.
        limits: limits of each session.
        instructions: default instructions of a session.
        stage_commands_max: opened requests and units that may wait for one stage; two for each session and
        chat by default.
        warm_up: let the model answer once before `run` reports that it is ready.
        stage_factory: what carries each runtime; a thread by default.
    """

    session_mode: SessionMode = "duplex"
    """How it is served."""

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        max_sessions: int = 8,
        max_chats: int = 4,
        limits: SessionLimits | None = None,
        instructions: str | None = None,
        stage_commands_max: int | None = None,
        warm_up: bool = True,
        stage_factory: StageFactory | None = None,
    ) -> None:
        self._max_sessions = max_sessions
        self._max_chats = max_chats
        self._limits = limits
        self._instructions = instructions
        super().__init__(
            pipeline, stage_commands_max=stage_commands_max, warm_up=warm_up, stage_factory=stage_factory
        )

    def _create_engine(self) -> DuplexOmniEngine:
        self.turn_engine = self.duplex_engine = DuplexOmniEngine(
            self.pipeline,
            max_sessions=self._max_sessions,
            max_chats=self._max_chats,
            limits=self._limits,
            instructions=self._instructions,
            stage_commands_max=self._stage_commands_max,
            stage_factory=self._stage_factory,
        )
        return self.duplex_engine

    async def open_session(
        self,
        *,
        dialect: DialectName,
        attachment: Attachment,
        model: str | None = None,
        patch: Mapping[str, Any] | None = None,
        trace_headers: Mapping[str, str] | None = None,
    ) -> DuplexSessionHandle:
        """Open a session; see `DuplexSessionManager.open_session`."""
        return await self.duplex_engine.manager.open_session(
            dialect=dialect, attachment=attachment, model=model, patch=patch, trace_headers=trace_headers
        )

    def trace_with(self, tracer: Tracer) -> None:
        """Trace the sessions and chats that are opened from here on."""
        self.duplex_engine.manager.tracer = self.duplex_engine.chats.tracer = tracer

    async def open_chat(
        self,
        *,
        attachment: Attachment,
        patch: Mapping[str, Any],
        sampling: Sampling,
        trace_headers: Mapping[str, str] | None = None,
    ) -> DuplexSessionHandle:
        """Open a session that takes no session's slot and is held back by no player, to ask it once.

        It is not found by `get_session`, and is over when its handle is closed.

        Raises:
            RealtimeError: as `open_session`.
        """
        return await self.duplex_engine.chats.open_session(
            dialect="duplex",
            attachment=attachment,
            patch=patch,
            sampling=sampling,
            trace_headers=trace_headers,
        )

    def get_session(self, session_id: str) -> DuplexSessionHandle:
        """Find a session; see `DuplexSessionManager.get_session`."""
        return self.duplex_engine.manager.get_session(session_id)

    def resume_session(
        self,
        session_id: str,
        *,
        attachment: ResumableAttachment,
        expected_generation: int,
        control_id: str,
        last_seq: int,
    ) -> int:
        """Attach another consumer to a session; see `DuplexSessionManager.resume_session`."""
        return self.duplex_engine.manager.resume_session(
            session_id,
            attachment=attachment,
            expected_generation=expected_generation,
            control_id=control_id,
            last_seq=last_seq,
        )

    def detach_session(self, session_id: str, expected_generation: int | None = None) -> None:
        """Leave a session to itself for a while; see `DuplexSessionManager.detach_session`."""
        self.duplex_engine.manager.detach_session(session_id, expected_generation)

    def touch_session(self, session_id: str) -> None:
        """Keep a session alive; see `DuplexSessionManager.touch_session`."""
        self.duplex_engine.manager.touch_session(session_id)

    def close_session(self, session_id: str, reason: str = "closed") -> None:
        """End a session; see `DuplexSessionManager.close_session`."""
        self.duplex_engine.manager.close_session(session_id, reason)

    def close_all_sessions(self, reason: str = "closed") -> None:
        """End every session; see `DuplexSessionManager.close_all_sessions`."""
        self.duplex_engine.manager.close_all_sessions(reason)

    @property
    def capabilities(self) -> DuplexCapabilities:
        """What the model can do."""
        return self.duplex_engine.plugin.capabilities(self._max_sessions)

    @property
    def plugin(self) -> DuplexModelPlugin:
        """The model."""
        return self.duplex_engine.plugin

    def statistics(self) -> EngineStatistics:
        """A look at the engine for health and metrics."""
        look = super().statistics()
        return EngineStatistics(
            requests=look.requests,
            max_requests=look.max_requests,
            live_requests=look.live_requests,
            stages=look.stages,
            sessions=self.duplex_engine.manager.count,
            max_sessions=self._max_sessions,
            chats=self.duplex_engine.chats.count,
        )

    async def warm_up(self) -> None:
        """Hold a session of one turn, so that the first client finds everything warm.

        Raises:
            WarmUpError: the model refused it, failed, or gave no sign of life.
        """
        plugin, attachment = self.duplex_engine.plugin, WarmUpAttachment()
        try:
            handle = await self.open_session(
                dialect="duplex", attachment=attachment, patch=warm_up_session(plugin)
            )
        except RealtimeError as error:
            raise WarmUpError(f"the warm-up session was refused: {error.message}") from error
        commands = warm_up_commands(plugin, self.capabilities)
        for command in commands:
            handle.submit(command)
        if commands:
            await attachment.wait(WARM_UP_TIMEOUT_S)
        handle.close("warm_up_done")
        await handle.wait_closed()

    @classmethod
    def _options_of(cls, deploy: DeployConfig) -> dict[str, Any]:
        session = deploy.duplex_session
        chats = {} if session.max_chats is None else {"max_chats": session.max_chats}
        return {
            **chats,
            "max_sessions": session.max_sessions,
            "limits": session,
            "stage_commands_max": session.stage_commands_max,
            "warm_up": session.warmup_frames >= 0,
        }
