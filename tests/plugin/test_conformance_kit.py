"""The conformance kit sees a model that does not keep what it must."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import pytest
import trio
from trio.testing import MockClock

from duplex_trio.models.cascade.plugin import CascadePlugin
from duplex_trio.models.scripted.lockstep import LockstepPipeline, LockstepPlugin
from duplex_trio.models.scripted.native import NativeAnswer, NativePipeline, NativeUnit, NativeWorker
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.models.scripted.turns import TurnsPipeline, TurnsProcessor
from duplex_trio.models.scripted.turns_plugin import TurnsMemory, TurnsPlugin
from duplex_trio.pipelines.declared import DeclaredPathError
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.pipelines.requests import RequestView, StageForward, TurnInput, TurnPlan
from duplex_trio.pipelines.results import ModelResult, TurnEnd
from duplex_trio.pipelines.topology import TopologyError
from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.plugin.pcm_buffer import FixedUnitBuffer, PcmAppendBuffer, PcmAppendReservation
from duplex_trio.protocol.duplex.session import DuplexSessionConfig
from duplex_trio.stages.port import StageOutput, StageRequest
from duplex_trio.stages.worker import StageWorker
from duplex_trio.testing.conformance import ConformanceCheck, conformance_checks


class Changed(ScriptedPipeline):
    """The cascade with other attributes of its plugin."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__()
        self._attributes = attributes

    def build_plugin(self) -> CascadePlugin:
        plugin = super().build_plugin()
        for name, value in self._attributes.items():
            setattr(plugin, name, value)
        return plugin


class Nameless(ScriptedPipeline):
    def model_name(self) -> str:
        return ""


class Unfinished(ScriptedPipeline):
    """Its recognition leads nowhere."""

    config = attrs.evolve(ScriptedPipeline.config, stages=ScriptedPipeline.config.stages[:1])


class Misled(TurnsPipeline):
    """Its path leads to another plugin than the one that it uses."""

    def build_plugin(self) -> TurnsPlugin:
        return Holding()


class Lost(TurnsPipeline):
    """Its path leads nowhere."""

    config = attrs.evolve(TurnsPipeline.config, processor="duplex_trio.nowhere:make")


class Frugal(ScriptedPipeline):
    """Makes one worker for ever."""

    def __init__(self) -> None:
        super().__init__()
        self._workers = [super(Frugal, self).build_worker(stage.stage_id) for stage in self.stages]

    def build_worker(self, stage_id: int) -> StageWorker:
        return self._workers[stage_id]


class Bound(ScriptedPipeline):
    """Its workers hold what no other process can have."""

    def build_worker(self, stage_id: int) -> StageWorker:
        worker = super().build_worker(stage_id)
        vars(worker)["lock"] = threading.Lock()
        return worker


class Hoarse(TurnsPipeline):
    """Has another voice in sessions than in turns."""

    def build_plugin(self) -> TurnsPlugin:
        plugin = TurnsPlugin()
        plugin.voices, plugin.default_voice = ("whisper",), "whisper"
        return plugin


class Untyped(CascadePlugin):
    """Asks its language model by a mapping of its own."""

    def forward(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[StageForward]:
        forwards = super().forward(stage_id, output, request)
        return [attrs.evolve(forward, params={"temperature": 1.0}) for forward in forwards]


class UntypedPipeline(ScriptedPipeline):
    def build_plugin(self) -> CascadePlugin:
        plugin = super().build_plugin()
        plugin.__class__ = Untyped
        return plugin


class Speechless(TurnsProcessor):
    """Makes nothing of what its voice says."""

    def project(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[ModelResult]:
        return [TurnEnd()] if output.finished and stage_id == request.final_stage_id else []


class SpeechlessPipeline(TurnsPipeline):
    """Has no sessions, and answers requests with nothing."""

    config = attrs.evolve(TurnsPipeline.config, duplex_plugin=None, default_session_mode="turn")

    def build_processor(self) -> TurnsProcessor:
        return Speechless()


class Boasting(LockstepPlugin):
    """Says that its frames are longer than they are."""

    def capabilities(self, max_sessions: int) -> DuplexCapabilities:
        return attrs.evolve(super().capabilities(max_sessions), chunk_period_ms=100)


class Counting(LockstepPlugin):
    """Counts in the plugin what belongs to a request."""

    count = 0

    def project(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[ModelResult]:
        self.count += 1
        return [*super().project(stage_id, output, request)][self.count % 2 :]


class Doubting(LockstepPlugin):
    """Ends its turn behind each frame with which it goes on."""

    def project(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[ModelResult]:
        return [*super().project(stage_id, output, request), TurnEnd()]


class Leaking(FixedUnitBuffer):
    """Does not give back what was not taken."""

    def prepare_append(self) -> PcmAppendReservation | None:
        unit = super().prepare_append()
        if unit is not None:
            unit.rollback = lambda: setattr(unit, "active", False)  # type: ignore[method-assign]
        return unit


class LeakingPlugin(LockstepPlugin):
    def create_audio_buffer(self) -> PcmAppendBuffer:
        return Leaking(self.unit_samples)


class Forgetful(CascadePlugin):
    """Plans the same turn in another way each time."""

    turns = 0

    def plan_turn(self, turn: TurnInput) -> TurnPlan:
        self.turns += 1
        if turn.pcm is not None:
            turn = attrs.evolve(turn, pcm=np.roll(turn.pcm, self.turns))
        return super().plan_turn(turn)


class ForgetfulPipeline(ScriptedPipeline):
    def build_plugin(self) -> CascadePlugin:
        plugin = super().build_plugin()
        plugin.__class__ = Forgetful
        return plugin


class Frail(NativeWorker):
    """Breaks when it is told to stop."""

    def abort(self, request_ids: Sequence[str]) -> None:
        raise RuntimeError("broken on purpose")


class Mute(NativeWorker):
    """Never says anything."""

    def process(self, request: StageRequest, state: Any, unit: NativeUnit) -> Sequence[NativeAnswer]:
        return [NativeAnswer(word=None)]


class Shared(NativeWorker):
    """Has one memory for all of its requests."""

    def __init__(self) -> None:
        super().__init__("one two three four")
        self._memory = super().new_state(StageRequest(request_id="all"))

    def new_state(self, request: StageRequest) -> Any:
        return self._memory


class Silent(NativeWorker):
    """Leaves every other unit without an answer."""

    units = 0

    def process(self, request: StageRequest, state: Any, unit: NativeUnit) -> Sequence[NativeAnswer]:
        self.units += 1
        answers = super().process(request, state, unit)
        return answers if self.units % 2 else []


class OneMemory(TurnsPlugin):
    """Remembers all sessions together."""

    memory = TurnsMemory()

    def create_session_state(self) -> TurnsMemory:
        return self.memory


class SharedMemory(TurnsPlugin):
    """Remembers each session by itself, in the same place."""

    def __init__(self) -> None:
        self._said: deque[str] = deque()

    def create_session_state(self) -> TurnsMemory:
        memory = TurnsMemory()
        memory.said = self._said
        return memory


class Hasty(TurnsPlugin):
    """Remembers a turn that is only planned."""

    def plan_turn(self, turn: TurnInput) -> TurnPlan:
        turn.session_state.said.append("planned")
        return super().plan_turn(turn)


class Scribbling(TurnsPlugin):
    """Counts in a configuration that it has handed out."""

    async def prepare_runtime_config(self, config: DuplexSessionConfig, model_name: str) -> Mapping[str, Any]:
        return {"turns": 0}

    def plan_turn(self, turn: TurnInput) -> TurnPlan:
        assert isinstance(turn.runtime_config, dict)
        turn.runtime_config["turns"] += 1
        return super().plan_turn(turn)


class Holding(TurnsPlugin):
    """Says that turns may overlap, and never that the next one may come."""

    def release_concurrent_turn_requests(
        self, stage_id: int, output: StageOutput, request: RequestView
    ) -> str | None:
        return None


def turns(plugin: Callable[[], TurnsPlugin]) -> Callable[[], Pipeline]:
    class Made(TurnsPipeline):
        def build_plugin(self) -> TurnsPlugin:
            return plugin()

    return Made


def lockstep(plugin: Callable[[], LockstepPlugin]) -> Callable[[], Pipeline]:
    def make() -> Pipeline:
        pipeline = LockstepPipeline()
        pipeline.plugin = plugin()
        return pipeline

    return make


def native(worker: Callable[[], StageWorker]) -> Callable[[], Pipeline]:
    class Made(NativePipeline):
        def build_worker(self, stage_id: int) -> StageWorker:
            return worker()

    return Made


FAULTS: dict[str, tuple[Callable[[], Pipeline], str]] = {
    "no name": (Nameless, "its_pipeline_is_whole"),
    "a dead end": (Unfinished, "its_pipeline_is_whole"),
    "another plugin": (Misled, "its_paths_lead_to_what_it_uses"),
    "a path that leads nowhere": (Lost, "its_paths_lead_to_what_it_uses"),
    "one worker for ever": (Frugal, "its_workers_are_made_anew"),
    "a worker with a lock": (Bound, "its_workers_can_go_to_another_process"),
    "another voice in turns": (Hoarse, "its_processor_and_plugin_agree"),
    "params of its own": (UntypedPipeline, "its_writers_get_generation_params"),
    "no answer to a request": (SpeechlessPipeline, "requests_are_answered"),
    "no id": (lambda: Changed(plugin_id=""), "its_plugin_is_whole"),
    "no rate": (lambda: Changed(input_sample_rate_hz=0), "its_plugin_is_whole"),
    "unknown voice": (lambda: Changed(default_voice="nobody"), "its_plugin_is_whole"),
    "wrong period": (lockstep(Boasting), "its_plugin_is_whole"),
    "lossy buffer": (lockstep(LeakingPlugin), "its_buffer_gives_back_what_was_not_taken"),
    "counting hook": (lockstep(Counting), "its_hooks_are_pure"),
    "changing plan": (ForgetfulPipeline, "its_hooks_are_pure"),
    "one memory": (turns(OneMemory), "sessions_share_no_state"),
    "a shared memory": (turns(SharedMemory), "sessions_share_no_state"),
    "a memory of what is planned": (turns(Hasty), "its_hooks_are_pure"),
    "a changed configuration": (turns(Scribbling), "configurations_stay_as_they_were"),
    "turns that do not overlap": (turns(Holding), "turns_overlap_as_declared"),
    "two answers": (lockstep(Doubting), "it_answers_every_unit_once"),
    "missing answers": (native(lambda: Silent("one two three")), "it_answers_every_unit_once"),
    "mute": (native(lambda: Mute("")), "a_spoken_turn_is_answered_once"),
    "frail stage": (native(lambda: Frail("one two three")), "a_second_turn_is_answered"),
    "frail for others": (native(lambda: Frail("one two three")), "a_failing_stage_fails_one_session"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_is_seen(autojump_clock: MockClock, fault: str) -> None:
    """By the check that is there for it."""
    factory, name = FAULTS[fault]
    (check,) = [check for check in conformance_checks(factory) if check.name == name]
    expected = pytest.RaisesGroup(
        pytest.RaisesExc((AssertionError, trio.TooSlowError, DeclaredPathError, TopologyError)),
        flatten_subgroups=True,
        allow_unwrapped=True,
    )
    with expected:
        await check.run()


class TurnsOnly(TurnsPipeline):
    """The model without its sessions."""

    config = attrs.evolve(TurnsPipeline.config, duplex_plugin=None, default_session_mode="turn")


@pytest.mark.parametrize("check", conformance_checks(TurnsOnly), ids=str)
async def test_a_model_without_sessions_is_held_to_the_rest(
    autojump_clock: MockClock, check: ConformanceCheck
) -> None:
    """What is said of sessions holds for it, since it has none."""
    await check.run()


def test_checks_are_told_apart() -> None:
    """Each has a name of its own, and collecting them makes no pipeline."""

    def never() -> Pipeline:
        raise AssertionError("a pipeline was made")

    names = [str(check) for check in conformance_checks(never)]
    assert len(set(names)) == len(names) > 15


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a_spoken_turn_is_answered_once", "a_stuck_stage_is_given_up"])
async def test_stages_may_run_in_threads(name: str) -> None:
    """On the real clock, with a short turn."""

    def factory() -> Pipeline:
        return ScriptedPipeline(script=Script(word_ms=100, otherwise=lambda _: "one two three four five"))

    speech = np.full(4800, 0.3, np.float32)
    checks = conformance_checks(factory, speech=speech, threads=True)
    (check,) = [check for check in checks if check.name == name]
    await check.run()
