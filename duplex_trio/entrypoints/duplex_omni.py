"""The Python entry to an engine of sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trio
from attrs import frozen

from duplex_trio.deploy.config import SessionMode
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
from duplex_trio.entrypoints.run import run_warm
from duplex_trio.entrypoints.warm_up import (
    WarmUpAttachment,
    WarmUpError,
    warm_up_commands,
    warm_up_session,
)
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.plugin.plugin import DuplexModelPlugin
from duplex_trio.protocol.duplex import RealtimeError
from duplex_trio.protocol.duplex.session import DialectName
from duplex_trio.protocol.sampling import Sampling
from duplex_trio.stages.port import StageStatistics

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


@frozen
class EngineStatistics:
    """A look at the engine: sessions and chats that hold a slot, live stage requests, and the stages."""

    sessions: int
    max_sessions: int
    chats: int
    live_requests: int
    stages: tuple[StageStatistics, ...]


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
        self._stage_commands_max = stage_commands_max
        self._warm_up = warm_up
        self._stage_factory = stage_factory
        super().__init__(pipeline)

    def _create_engine(self) -> DuplexOmniEngine:
        self.duplex_engine = DuplexOmniEngine(
            self.pipeline,
            max_sessions=self._max_sessions,
            max_chats=self._max_chats,
            limits=self._limits,
            instructions=self._instructions,
            stage_commands_max=self._stage_commands_max,
            stage_factory=self._stage_factory,
        )
        return self.duplex_engine

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Load the model, let it answer once, and carry sessions until cancelled; started when it is ready.

        Raises:
            StageLoadError: in a group, for each stage that could not be loaded.
            WarmUpError: in a group, if the model does not answer.
        """
        await run_warm(self, self.duplex_engine, warm_up=self._warm_up, task_status=task_status)

    async def open_session(
        self,
        *,
        dialect: DialectName,
        attachment: Attachment,
        model: str | None = None,
        patch: Mapping[str, Any] | None = None,
    ) -> DuplexSessionHandle:
        """Open a session; see `DuplexSessionManager.open_session`."""
        return await self.duplex_engine.manager.open_session(
            dialect=dialect, attachment=attachment, model=model, patch=patch
        )

    async def open_chat(
        self, *, attachment: Attachment, patch: Mapping[str, Any], sampling: Sampling
    ) -> DuplexSessionHandle:
        """Open a session that takes no session's slot and is held back by no player, to ask it once.

        It is not found by `get_session`, and is over when its handle is closed.

        Raises:
            RealtimeError: as `open_session`.
        """
        return await self.duplex_engine.chats.open_session(
            dialect="duplex", attachment=attachment, patch=patch, sampling=sampling
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
        return EngineStatistics(
            sessions=self.duplex_engine.manager.count,
            max_sessions=self._max_sessions,
            chats=self.duplex_engine.chats.count,
            live_requests=self.duplex_engine.orchestrator.live_requests,
            stages=tuple(self.stage_statistics()),
        )

    def render_metrics(self) -> bytes:
        """All figures in Prometheus' text format."""
        return self.duplex_engine.metrics.render()

    async def drain(self, timeout_s: float) -> None:
        """Take no new sessions and chats, give the live ones `timeout_s`, then close them and wait for their end."""
        deadline_s = trio.current_time() + timeout_s
        self.duplex_engine.chats.admit_nobody()
        await self.duplex_engine.manager.drain(timeout_s)
        await self.duplex_engine.chats.drain(max(0.0, deadline_s - trio.current_time()))

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
