"""A model with something around it: a plugin that is listened to, and runtimes that fail for one session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from attrs import define, field, frozen

from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.plugin.pcm_buffer import PcmAppendBuffer
from duplex_trio.plugin.pipeline import Pipeline
from duplex_trio.plugin.plugin import DuplexModelPlugin
from duplex_trio.plugin.requests import RequestView, StageForward, TurnInput, TurnPlan
from duplex_trio.plugin.results import ModelResult
from duplex_trio.plugin.resumable import EpochInput, ResumableModelPlugin, UnitInput
from duplex_trio.protocol.duplex import FunctionCallOutputItem
from duplex_trio.protocol.duplex.session import DuplexSessionConfig
from duplex_trio.stages.port import StageFailed, StageOutput, StageRequest
from duplex_trio.stages.units import Pcm
from duplex_trio.stages.worker import StageWorker, WorkerContext

Hook = Literal["prepare_append", "forward", "project"]


@frozen(eq=False)
class Call:
    """One call of a hook: its arguments before the request's view, the view, and what it answered."""

    hook: Hook
    arguments: tuple[Any, ...]
    view: RequestView
    answer: Any


@define(eq=False)
class HookLog:
    """What a plugin was asked. `begun` are the inputs of its requests with the states that it made of them."""

    begun: list[tuple[TurnInput | EpochInput, Any]] = field(factory=list)
    calls: list[Call] = field(factory=list)

    def note(self, hook: Hook, arguments: tuple[Any, ...], view: RequestView, answer: Any) -> None:
        """Keep a call."""
        self.calls.append(Call(hook, arguments, view, answer))


class _Heard(DuplexModelPlugin):
    """Passes every hook on to a plugin and keeps what it was asked."""

    def __init__(self, inner: DuplexModelPlugin, hook_log: HookLog) -> None:
        self.inner = inner
        self.hook_log = hook_log
        self.plugin_id = inner.plugin_id
        self.input_sample_rate_hz = inner.input_sample_rate_hz
        self.output_sample_rate_hz = inner.output_sample_rate_hz
        self.default_voice = inner.default_voice
        self.voices = inner.voices
        self.default_silence_duration_ms = inner.default_silence_duration_ms
        self.private_runtime_config_keys = inner.private_runtime_config_keys
        self.requires_ref_audio = inner.requires_ref_audio

    def capabilities(self, max_sessions: int) -> DuplexCapabilities:
        return self.inner.capabilities(max_sessions)

    def validate_client_extra_body(self, extra_body: Mapping[str, Any]) -> None:
        self.inner.validate_client_extra_body(extra_body)

    async def prepare_runtime_config(self, config: DuplexSessionConfig, model_name: str) -> Mapping[str, Any]:
        return await self.inner.prepare_runtime_config(config, model_name)

    def runtime_config_for_update(
        self, config: DuplexSessionConfig, current: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        return self.inner.runtime_config_for_update(config, current)

    def check_session(self, config: DuplexSessionConfig, runtime_config: Mapping[str, Any]) -> None:
        self.inner.check_session(config, runtime_config)

    def create_session_state(self) -> Any:
        return self.inner.create_session_state()

    def release_concurrent_turn_requests(
        self, stage_id: int, output: StageOutput, request: RequestView
    ) -> str | None:
        return self.inner.release_concurrent_turn_requests(stage_id, output, request)

    def runtime_config_for_function_output(
        self, config: DuplexSessionConfig, current: Mapping[str, Any], item: FunctionCallOutputItem
    ) -> Mapping[str, Any] | None:
        return self.inner.runtime_config_for_function_output(config, current, item)

    def runtime_config_after_model_output(
        self, current: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        return self.inner.runtime_config_after_model_output(current, metadata)

    def commit_model_context(self, session_state: Any, text: str) -> None:
        self.inner.commit_model_context(session_state, text)

    def plan_turn(self, turn: TurnInput) -> TurnPlan:
        return self.inner.plan_turn(turn)

    async def prepare_turn(self, turn: TurnInput) -> TurnPlan:
        plan = await self.inner.prepare_turn(turn)
        self.hook_log.begun.append((turn, plan.state))
        return plan

    def plan_partial(self, pcm: Pcm, language: str | None) -> StageForward | None:
        return self.inner.plan_partial(pcm, language)

    def partial_transcript(self, output: StageOutput) -> str | None:
        return self.inner.partial_transcript(output)

    def forward(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[StageForward]:
        answer = self.inner.forward(stage_id, output, request)
        self.hook_log.note("forward", (stage_id, output), request, answer)
        return answer

    def project(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[ModelResult]:
        answer = self.inner.project(stage_id, output, request)
        self.hook_log.note("project", (stage_id, output), request, answer)
        return answer


class _HeardResumable(_Heard, ResumableModelPlugin):
    """The same for a plugin that owns its turns."""

    def __init__(self, inner: ResumableModelPlugin, hook_log: HookLog) -> None:
        super().__init__(inner, hook_log)
        self.resumable = inner
        self.unit_samples = inner.unit_samples

    def create_audio_buffer(self) -> PcmAppendBuffer:
        return self.resumable.create_audio_buffer()

    def begin_request(self, epoch: EpochInput) -> Any:
        state = self.resumable.begin_request(epoch)
        self.hook_log.begun.append((epoch, state))
        return state

    def plan_append(self, unit: UnitInput, request: RequestView) -> StageForward:
        return self.resumable.plan_append(unit, request)

    async def prepare_append(self, unit: UnitInput, request: RequestView) -> StageForward:
        answer = await self.resumable.prepare_append(unit, request)
        self.hook_log.note("prepare_append", (unit,), request, answer)
        return answer


class WrappedPipeline(Pipeline):
    """A pipeline as it is.

    Args:
        inner: the model.
        hook_log: where to keep what the plugin is asked; nowhere by default.
        wrap_worker: puts something around the worker of a stage.
    """

    def __init__(
        self,
        inner: Pipeline,
        *,
        hook_log: HookLog | None = None,
        wrap_worker: Callable[[int, StageWorker], StageWorker] | None = None,
    ) -> None:
        self.name = inner.name
        self.stages = inner.stages
        self._inner = inner
        self._hook_log = hook_log
        self._wrap_worker = wrap_worker

    def model_name(self) -> str:
        """The model's own name."""
        return self._inner.model_name()

    def build_worker(self, stage_id: int) -> StageWorker:
        """The model's worker, wrapped."""
        worker = self._inner.build_worker(stage_id)
        return worker if self._wrap_worker is None else self._wrap_worker(stage_id, worker)

    def build_plugin(self) -> DuplexModelPlugin:
        """The model's plugin, listened to."""
        plugin = self._inner.build_plugin()
        if self._hook_log is None:
            return plugin
        if isinstance(plugin, ResumableModelPlugin):
            return _HeardResumable(plugin, self._hook_log)
        return _Heard(plugin, self._hook_log)

    def build_vad_worker(self) -> StageWorker | None:
        """The model's detector."""
        return self._inner.build_vad_worker()


@define
class Doom:
    """The session whose requests fail, and the stage where they do; none at first."""

    owner: str | None = None
    stage_id: int | None = None

    def wrap(self, stage_id: int, worker: StageWorker) -> StageWorker:
        """Put it on a runtime."""
        return DoomedWorker(worker, stage_id, self)


class DoomedWorker(StageWorker):
    """A runtime that fails the units of one session, and works for all others.

    Args:
        inner: the runtime.
        stage_id: its stage.
        doom: whose units fail.
    """

    def __init__(self, inner: StageWorker, stage_id: int, doom: Doom) -> None:
        self.name = inner.name
        self._inner = inner
        self._stage_id = stage_id
        self._doom = doom
        self._owners: dict[str, str] = {}

    def load(self) -> None:
        """Load the runtime."""
        self._inner.load()

    def open(self, request: StageRequest, context: WorkerContext) -> None:
        """Begin a request and remember whose it is."""
        self._owners[request.request_id] = request.owner
        self._inner.open(request, context)

    def submit(self, request_id: str, unit: Any, final: bool, context: WorkerContext) -> None:
        """Hand on a unit, or fail its request."""
        doom = self._doom
        if doom.stage_id != self._stage_id or self._owners.get(request_id) != doom.owner:
            self._inner.submit(request_id, unit, final, context)
            return
        self.abort([request_id])
        context.emit(StageFailed(request_id=request_id, code="engine_error", message="failed on purpose"))

    def abort(self, request_ids: Sequence[str]) -> None:
        """Forget requests."""
        for request_id in request_ids:
            self._owners.pop(request_id, None)
        self._inner.abort(request_ids)

    def step(self, context: WorkerContext) -> bool:
        """Do one quantum."""
        return self._inner.step(context)

    def close(self) -> None:
        """Release the runtime."""
        self._inner.close()

    def statistics(self) -> Mapping[str, float]:
        """Figures of the runtime."""
        return self._inner.statistics()
