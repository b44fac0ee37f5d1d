"""Stage requests on behalf of sessions.

The plugin's hooks join the generic orchestrator to `DuplexStagePort`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import trio

from duplex_trio.engine.orchestrator import Orchestrator, ProcessorRouter
from duplex_trio.engine.pipeline_request import PipelineRequest
from duplex_trio.engine.voice_activity import VoiceActivity
from duplex_trio.pipelines.config import StageSpec
from duplex_trio.pipelines.requests import RequestView, StageForward
from duplex_trio.pipelines.results import DeliveredOutput, ModelFailure, ModelResult, TokenUsage
from duplex_trio.pipelines.sampling import StageSampling
from duplex_trio.plugin.plugin import DuplexModelPlugin
from duplex_trio.session.port import (
    DuplexStagePort,
    DuplexStageRequest,
    StageRequestContext,
    VoiceLine,
    VoiceListener,
)
from duplex_trio.stages.port import OutputSink, Stage, StageOutput, StageRequest, StageStream


class _PluginRouter(ProcessorRouter):
    def __init__(
        self,
        plugin: DuplexModelPlugin,
        view: RequestView,
        on_stages_free: Callable[[str], None] | None,
        on_usage: Callable[[TokenUsage], None] | None,
    ) -> None:
        super().__init__(plugin, view)
        self._plugin = plugin
        self._on_stages_free = on_stages_free
        self._on_usage = on_usage

    def project(self, stage_id: int, output: StageOutput) -> Sequence[ModelResult]:
        results = super().project(stage_id, output)
        if self._on_stages_free is not None and stage_id != self.view.final_stage_id:
            text = self._plugin.release_concurrent_turn_requests(stage_id, output, self.view)
            if text is not None:
                tell, self._on_stages_free = self._on_stages_free, None
                tell(text)
        return results if self._on_usage is None else self._told_usage(results, self._on_usage)

    def _told_usage(
        self, results: Sequence[ModelResult], tell: Callable[[TokenUsage], None]
    ) -> Sequence[ModelResult]:
        rest: list[ModelResult] = []
        for result in results:
            if isinstance(result, TokenUsage):
                tell(result)
            else:
                rest.append(result)
        return rest


class _SessionRequest(DuplexStageRequest):
    def __init__(self, request: PipelineRequest) -> None:
        self.request_id = request.request_id
        self.pipeline_request = request

    @property
    def outputs(self) -> trio.MemoryReceiveChannel[DeliveredOutput]:
        return self.pipeline_request.outputs

    @property
    def failure(self) -> ModelFailure | None:
        return self.pipeline_request.failure

    def consumed(self, delivered: DeliveredOutput) -> None:
        self.pipeline_request.consumed(delivered)

    async def submit(self, forward: StageForward) -> None:
        await self.pipeline_request.submit(forward)

    def abort(self) -> None:
        self.pipeline_request.abort()


class DuplexOrchestrator(Orchestrator, DuplexStagePort):
    """The stages as sessions see them.

    Args:
        specs: the declared stages.
        stages: the running ones.
        plugin: the model.
        voice_activity: scores the sound of sessions.
        sampling: how each stage samples; as the stages declare without.
    """

    def __init__(
        self,
        specs: Sequence[StageSpec],
        stages: Sequence[Stage],
        plugin: DuplexModelPlugin,
        voice_activity: VoiceActivity,
        sampling: Sequence[StageSampling] | None = None,
    ) -> None:
        super().__init__(specs, stages, plugin, sampling)
        self._plugin = plugin
        self._voice_activity = voice_activity
        self._serial = 0

    @property
    def stage_count(self) -> int:
        """Number of stages in the pipeline."""
        return len(self.specs)

    def ensure_request(self, context: StageRequestContext) -> DuplexStageRequest:
        """Begin a request of a session; see `DuplexStagePort`."""
        fence = context.fence
        view = RequestView(
            request_id=context.request_id,
            session_id=fence.session_id,
            epoch=fence.epoch,
            turn_id=fence.turn_id,
            final_stage_id=context.final_stage_id,
            state=context.state,
            session_state=context.session_state,
        )
        request = self.open_request(
            context.request_id,
            owner=fence.session_id,
            router=_PluginRouter(self._plugin, view, context.on_stages_free, context.on_usage),
            final_stage_id=context.final_stage_id,
            resumable=context.resumable,
            spells=context.spells,
        )
        return _SessionRequest(request)

    async def cleanup(self, request: DuplexStageRequest) -> None:
        """Abort, wait for the stages, forget; see `DuplexStagePort`."""
        assert isinstance(request, _SessionRequest)
        await self.release(request.pipeline_request)

    def open_listener(self, session_id: str, stage_id: int, sink: OutputSink) -> StageStream:
        """A session-long request on one stage; see `DuplexStagePort`."""
        return self.stages[stage_id].open(
            StageRequest(request_id=self._name("listen", session_id), owner=session_id), sink
        )

    def open_vad(self, listener: VoiceListener) -> VoiceLine | None:
        """A session's place in voice activity; see `DuplexStagePort`."""
        return self._voice_activity.open(listener)

    def _name(self, role: str, session_id: str) -> str:
        self._serial += 1
        return f"{role}-{self._serial}-{session_id}"
