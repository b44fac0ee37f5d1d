"""A plugin that is listened to: every hook is passed on, and what it was asked is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import trio
from attrs import define, field, frozen

from duplex_trio.pipelines.requests import RequestView, StageForward, TurnInput, TurnPlan
from duplex_trio.pipelines.results import ModelResult
from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.plugin.pcm_buffer import PcmAppendBuffer
from duplex_trio.plugin.plugin import DuplexModelPlugin
from duplex_trio.plugin.resumable import EpochInput, ResumableModelPlugin, UnitInput
from duplex_trio.protocol.duplex import FunctionCallOutputItem
from duplex_trio.protocol.duplex.session import DuplexSessionConfig
from duplex_trio.stages.port import StageOutput
from duplex_trio.stages.units import Pcm
from duplex_trio.testing.snapshots import Snapshot, snapshot

Hook = Literal["prepare_append", "forward", "project"]


@frozen(eq=False)
class Call:
    """One call of a hook: its arguments before the request's view, the view, and what it answered."""

    hook: Hook
    arguments: tuple[Any, ...]
    view: RequestView
    answer: Any


@frozen(eq=False)
class Kept:
    """A configuration that a plugin made or was given, and the picture of it as it was then."""

    config: Mapping[str, Any]
    picture: Snapshot


@define(eq=False)
class HookLog:
    """What a plugin was asked.

    `begun` are the inputs of its requests with the states that it made of them, `kept` the configurations
    that it made, `states` what it remembers of sessions. Its hooks that prepare something take `takes_s`
    longer; `cut` counts those that were cancelled meanwhile.
    """

    begun: list[tuple[TurnInput | EpochInput, Any]] = field(factory=list)
    calls: list[Call] = field(factory=list)
    kept: list[Kept] = field(factory=list)
    states: list[Any] = field(factory=list)
    takes_s: float = 0.0
    entered: int = 0
    cut: int = 0

    async def take_time(self) -> None:
        """Pass the time that hooks take."""
        self.entered += 1
        if not self.takes_s:
            return
        try:
            await trio.sleep(self.takes_s)
        except trio.Cancelled:
            self.cut += 1
            raise

    def keep(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """Remember a configuration as it is now."""
        self.kept.append(Kept(config, snapshot(config)))
        return config

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
        return self.hook_log.keep(await self.inner.prepare_runtime_config(config, model_name))

    def runtime_config_for_update(
        self, config: DuplexSessionConfig, current: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        return self.hook_log.keep(self.inner.runtime_config_for_update(config, current))

    def check_session(self, config: DuplexSessionConfig, runtime_config: Mapping[str, Any]) -> None:
        self.inner.check_session(config, runtime_config)

    def check_tools(self, tools: Sequence[Mapping[str, Any]], param: str) -> None:
        self.inner.check_tools(tools, param)

    def create_session_state(self) -> Any:
        self.hook_log.states.append(self.inner.create_session_state())
        return self.hook_log.states[-1]

    def release_concurrent_turn_requests(
        self, stage_id: int, output: StageOutput, request: RequestView
    ) -> str | None:
        return self.inner.release_concurrent_turn_requests(stage_id, output, request)

    def runtime_config_for_function_output(
        self, config: DuplexSessionConfig, current: Mapping[str, Any], item: FunctionCallOutputItem
    ) -> Mapping[str, Any] | None:
        changed = self.inner.runtime_config_for_function_output(config, current, item)
        return None if changed is None else self.hook_log.keep(changed)

    def runtime_config_after_model_output(
        self, current: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        changed = self.inner.runtime_config_after_model_output(current, metadata)
        return None if changed is None else self.hook_log.keep(changed)

    def commit_model_context(self, session_state: Any, text: str) -> None:
        self.inner.commit_model_context(session_state, text)

    def plan_turn(self, turn: TurnInput) -> TurnPlan:
        return self.inner.plan_turn(turn)

    async def prepare_turn(self, turn: TurnInput) -> TurnPlan:
        await self.hook_log.take_time()
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
        await self.hook_log.take_time()
        answer = await self.resumable.prepare_append(unit, request)
        self.hook_log.note("prepare_append", (unit,), request, answer)
        return answer


def heard_plugin(plugin: DuplexModelPlugin, hook_log: HookLog) -> DuplexModelPlugin:
    """Listen to a plugin.

    Args:
        plugin: the model's.
        hook_log: where what it is asked is kept.
    """
    if isinstance(plugin, ResumableModelPlugin):
        return _HeardResumable(plugin, hook_log)
    return _Heard(plugin, hook_log)
