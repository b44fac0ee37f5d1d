"""The engine of sessions: stages, the plugin, and the session manager over them."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import trio

from duplex_trio.deploy import SessionLimits
from duplex_trio.engine.async_omni_engine import AsyncOmniEngine
from duplex_trio.engine.chats import chat_limits
from duplex_trio.engine.duplex_orchestrator import DuplexOrchestrator
from duplex_trio.engine.manager import DuplexSessionManager
from duplex_trio.engine.metrics import EngineMetrics
from duplex_trio.engine.omni_engine_base import Background
from duplex_trio.engine.stage_building import StageFactory, build_voice_activity, threads
from duplex_trio.engine.turn.live import BLANK_TURN
from duplex_trio.engine.turn.manager import RequestManager
from duplex_trio.engine.voice_activity import VoiceActivity
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.pipelines.requests import TurnInput
from duplex_trio.plugin.checks import build_checked_plugin
from duplex_trio.plugin.plugin import DuplexModelPlugin
from duplex_trio.stages.port import Stage


class DuplexOmniEngine(AsyncOmniEngine):
    """Loads the plugin and owns the stages, voice activity included, and the sessions.

    Args:
        pipeline: the model.
        max_sessions: sessions at once.
        max_chats: chats at once, beside them; none if the model has no chat completions.
        limits: limits of each session.
        instructions: default instructions of a session.
        stage_commands_max: opened requests and units that may wait for one stage; two for each session and
        chat by default.
        stage_factory: what carries each runtime; a thread by default.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        max_sessions: int,
        max_chats: int,
        limits: SessionLimits | None = None,
        instructions: str | None = None,
        stage_commands_max: int | None = None,
        stage_factory: StageFactory | None = None,
    ) -> None:
        self.plugin = build_checked_plugin(pipeline, max_sessions)
        if not self.plugin.capabilities(max_sessions).supports_chat_completions:
            max_chats = 0
        stage_commands_max = stage_commands_max or 2 * (max_sessions + max_chats)
        self.vad = build_voice_activity(pipeline, stage_factory or threads(stage_commands_max))
        limits = limits or SessionLimits()
        self.voice_activity = VoiceActivity(self.vad, job_timeout_s=limits.vad_timeout_s)
        super().__init__(pipeline, stage_commands_max=stage_commands_max, stage_factory=stage_factory)
        self.metrics = EngineMetrics(
            sessions=lambda: self.manager.live_counters(),
            waiting=lambda: self.manager.waiting(),
            live_requests=lambda: self.orchestrator.live_requests,
            stages=self.stage_statistics,
            live_chats=lambda: self.chats.count,
        )
        self.manager = DuplexSessionManager(
            self.plugin,
            self.duplex_orchestrator,
            max_sessions=max_sessions,
            limits=limits,
            model_name=pipeline.model_name(),
            instructions=instructions,
            tally=self.metrics,
        )
        self.chats = DuplexSessionManager(
            self.plugin,
            self.duplex_orchestrator,
            max_sessions=max_chats,
            limits=chat_limits(limits),
            model_name=pipeline.model_name(),
            instructions=None,
            tally=self.metrics.chats,
            noun="chat",
            id_prefix="chat-",
        )

    @property
    def all_stages(self) -> Sequence[Stage]:
        """The pipeline's stages and voice activity."""
        return self.stages if self.vad is None else (*self.stages, self.vad)

    @property
    def background(self) -> Sequence[Background]:
        """Voice activity: `pace` begins the jobs that were wanted too soon behind the last one, `watch` sees that
        the stage gives each job back.
        """
        voices = self.voice_activity
        return (("voice activity pace", voices.pace), ("voice activity watch", voices.watch))

    def use_nursery(self, nursery: trio.Nursery | None) -> None:
        """Let sessions, chats and requests live in this nursery."""
        super().use_nursery(nursery)
        for manager in (self.manager, self.chats):
            manager.use_nursery(nursery)

    async def drain(self, timeout_s: float) -> None:
        """Take nothing new, give the live sessions and chats `timeout_s`, then close them and wait for their end."""
        deadline_s = trio.current_time() + timeout_s
        self.chats.admit_nobody()
        self.requests.admit_nobody()
        await self.manager.drain(timeout_s)
        await self.chats.drain(max(0.0, deadline_s - trio.current_time()))
        await super().drain(max(0.0, deadline_s - trio.current_time()))

    def render_metrics(self) -> bytes:
        """All figures in Prometheus' text format."""
        return self.metrics.render()

    def _create_processor(self, pipeline: Pipeline) -> DuplexModelPlugin:
        return self.plugin

    def _create_orchestrator(self) -> DuplexOrchestrator:
        self.turn_orchestrator = self.duplex_orchestrator = DuplexOrchestrator(
            self.pipeline.stages, self.stages, self.plugin, self.voice_activity, self.sampling
        )
        return self.duplex_orchestrator

    def _create_requests(self, max_requests: int) -> RequestManager:
        return RequestManager(
            self.duplex_orchestrator,
            max_requests=max_requests,
            new_turn=self._new_turn,
        )

    def _new_turn(self) -> TurnInput:
        return attrs.evolve(BLANK_TURN, session_state=self.plugin.create_session_state())
