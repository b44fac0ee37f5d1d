"""Hooks that take their time: who waits for them, what cancels them, and what is true afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import trio
import trio.testing
from attrs import define, field
from trio.testing import MockClock

from duplex_trio.engine import SessionLimits
from duplex_trio.models.scripted.native import NativePipeline, NativePlugin
from duplex_trio.models.scripted.script import Script
from duplex_trio.models.scripted.turns import TurnsPipeline
from duplex_trio.models.scripted.turns_plugin import TurnsMemory, TurnsPlugin
from duplex_trio.pipelines.requests import RequestView, StageForward, TurnInput, TurnPlan
from duplex_trio.pipelines.results import ModelNote, ModelResult
from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.plugin.resumable import UnitInput
from duplex_trio.protocol.duplex import (
    BargeIn,
    CancelResponse,
    ClearInput,
    Commit,
    ErrorEvent,
    RealtimeError,
    ResponseCreated,
    ResponseDone,
    ResponseListen,
    ResponseOutputAudioDelta,
    SessionExpired,
)
from duplex_trio.stages.port import StageOutput
from duplex_trio.testing import Talker, open_session

SLOW_S = 2.0


@define
class Course:
    """What became of the calls of a slow hook.

    `takes_s` is how long they take, None for no checkpoint at all.
    """

    takes_s: float | None = SLOW_S
    begun: int = 0
    finished: int = 0
    cancelled: int = 0
    fault: Exception | None = None
    meanwhile: Callable[[], None] | None = None

    async def run(self) -> None:
        self.begun += 1
        try:
            if self.takes_s is not None:
                await trio.sleep(self.takes_s)
        except trio.Cancelled:
            self.cancelled += 1
            raise
        self.finished += 1
        if self.meanwhile is not None:
            self.meanwhile()
        if self.fault is not None:
            raise self.fault


# ------------------------------------------------------------------ turns


class SlowTurns(TurnsPlugin):
    def __init__(self, course: Course, pause_ms: int) -> None:
        self._course = course
        self._pause_ms = pause_ms

    def capabilities(self, max_sessions: int) -> DuplexCapabilities:
        return DuplexCapabilities(
            supports_text_only_turn=True,
            supports_multi_session=max_sessions > 1,
            speculation_pause_ms=self._pause_ms,
        )

    async def prepare_turn(self, turn: TurnInput) -> TurnPlan:
        await self._course.run()
        return await super().prepare_turn(turn)


class SlowTurnsPipeline(TurnsPipeline):
    def __init__(self, course: Course, pause_ms: int = 0) -> None:
        super().__init__(script=Script(replies={"hi": "one two three four five six seven"}))
        self._plugin = SlowTurns(course, pause_ms)

    def build_plugin(self) -> TurnsPlugin:
        return self._plugin


async def test_a_turn_waits_for_its_plan(autojump_clock: MockClock) -> None:
    """And is answered then."""
    course = Course()
    async with open_session(pipeline=SlowTurnsPipeline(course)) as talker:
        talker.write("hi")
        begun_s = trio.current_time()
        await talker.heard.nth(ResponseOutputAudioDelta, 1)
        assert trio.current_time() - begun_s >= SLOW_S
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"
    assert (course.begun, course.finished, course.cancelled) == (1, 1, 0)


@pytest.mark.parametrize("command", [BargeIn(), CancelResponse()])
async def test_a_cancellation_cuts_the_planning(
    autojump_clock: MockClock, command: BargeIn | CancelResponse
) -> None:
    """At once; the next turn is planned anew and answered."""
    course = Course()
    async with open_session(pipeline=SlowTurnsPipeline(course)) as talker:
        talker.write("hi")
        await talker.heard.nth(ResponseCreated, 1)
        await trio.sleep(SLOW_S / 2)
        talker.send(command)
        await talker.heard.nth(ResponseDone, 1)
        await trio.testing.wait_all_tasks_blocked()
        assert (course.begun, course.cancelled) == (1, 1)
        talker.write("hi")
        assert (await talker.heard.nth(ResponseDone, 2)).response.status == "completed"
    assert (course.begun, course.finished) == (2, 1)


async def test_a_plan_that_comes_too_late_begins_nothing(autojump_clock: MockClock) -> None:
    """Its epoch is over when it is there, though nothing could cancel it before."""
    course = Course(takes_s=None)
    pipeline = SlowTurnsPipeline(course)
    async with open_session(pipeline=pipeline) as talker:
        course.meanwhile = lambda: talker.send(BargeIn())
        talker.write("hi")
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "cancelled"
        await trio.testing.wait_all_tasks_blocked()
        assert not talker.handle._core.live_turns
        course.meanwhile = None
        talker.write("hi")
        assert (await talker.heard.nth(ResponseDone, 2)).response.status == "completed"


async def test_planning_has_a_limit(autojump_clock: MockClock) -> None:
    """That of a stage that does not take its input; the session goes on."""
    course = Course(takes_s=5.0)
    limits = SessionLimits(unit_timeout_s=1.0)
    async with open_session(pipeline=SlowTurnsPipeline(course), limits=limits) as talker:
        talker.write("hi")
        done = await talker.heard.nth(ResponseDone, 1)
        assert done.response.status == "failed"
        assert talker.heard.of(ErrorEvent)[0].error.code == "timeout"
        course.takes_s = 0.5
        talker.write("hi")
        assert (await talker.heard.nth(ResponseDone, 2)).response.status == "completed"


async def test_speech_that_goes_on_cuts_the_planning(autojump_clock: MockClock) -> None:
    """A turn that was prepared ahead is not wanted any more; the real one does not wait for it."""
    course = Course(takes_s=8.0)
    async with open_session(pipeline=SlowTurnsPipeline(course, pause_ms=200)) as talker:
        await talker.speak(1.0)
        await talker.pause(0.4)
        assert course.begun == 1
        await talker.speak(0.5)
        assert course.cancelled == 1
        course.takes_s = 0.1
        await talker.pause(1.0)
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (ValueError("no plan"), "runtime_data_plane_stream_failed"),
        (RealtimeError("unsupported", "not this"), "unsupported"),
    ],
)
@pytest.mark.usefixtures("faults_expected")
async def test_a_plan_that_breaks_fails_its_turn(
    autojump_clock: MockClock, fault: Exception, code: str
) -> None:
    """With the hook's own code if it has one; the session goes on."""
    course = Course(fault=fault)
    async with open_session(pipeline=SlowTurnsPipeline(course)) as talker:
        talker.write("hi")
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "failed"
        assert talker.heard.of(ErrorEvent)[0].error.code == code
        course.fault = None
        talker.write("hi")
        assert (await talker.heard.nth(ResponseDone, 2)).response.status == "completed"


# ------------------------------------------------------------------ units


@define(eq=False)
class Careful(NativePlugin):
    """Prepares its units slowly; `planned` are their numbers."""

    course: Course = field(factory=Course)
    planned: list[tuple[int, int]] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        super().__init__(1000)

    async def prepare_append(self, unit: UnitInput, request: RequestView) -> StageForward:
        self.planned.append((request.epoch, unit.seq))
        await self.course.run()
        return await super().prepare_append(unit, request)


def careful() -> tuple[Careful, NativePipeline]:
    pipeline = NativePipeline(answer="one two")
    pipeline.plugin = Careful()
    return pipeline.plugin, pipeline


async def heard_units(talker: Talker, count: int) -> None:
    await talker.heard.nth(ResponseListen, count)


async def test_units_are_prepared_one_at_a_time(autojump_clock: MockClock) -> None:
    """In order, each after the one before it was taken."""
    plugin, pipeline = careful()
    async with open_session(pipeline=pipeline) as talker:
        talker.append(3100, loud=True)
        await trio.sleep(SLOW_S / 2)
        assert plugin.planned == [(0, 1)]
        await heard_units(talker, 3)
        assert plugin.planned == [(0, 1), (0, 2), (0, 3)]


async def test_a_barge_in_cuts_the_preparation(autojump_clock: MockClock) -> None:
    """What was being prepared is dropped with the rest of the input, and the next epoch begins from its
    sound.
    """
    plugin, pipeline = careful()
    async with open_session(pipeline=pipeline) as talker:
        talker.append(2100, loud=True)
        await trio.sleep(SLOW_S / 2)
        talker.send(BargeIn())
        await trio.testing.wait_all_tasks_blocked()
        assert (plugin.course.begun, plugin.course.cancelled) == (1, 1)
        talker.append(1100, loud=True)
        await heard_units(talker, 1)
        assert plugin.planned == [(0, 1), (1, 1)]


async def test_a_cancel_lets_the_unit_come_again(autojump_clock: MockClock) -> None:
    """The user's sound stays: the same unit is prepared for the next epoch."""
    plugin, pipeline = careful()
    async with open_session(pipeline=pipeline) as talker:
        talker.append(1100, loud=True)
        await trio.sleep(SLOW_S / 2)
        talker.send(Commit(), CancelResponse())
        talker.handle._control.cancel("client_cancelled")
        await heard_units(talker, 1)
        assert plugin.planned[:2] == [(0, 1), (1, 1)]


async def test_cleared_sound_is_not_taken(autojump_clock: MockClock) -> None:
    """The model has prepared it, and does not get it; what comes next has its number."""
    plugin, pipeline = careful()
    async with open_session(pipeline=pipeline) as talker:
        talker.append(1100, loud=True)
        await trio.sleep(SLOW_S / 2)
        talker.send(ClearInput())
        talker.append(1100, loud=True)
        await heard_units(talker, 1)
        assert plugin.planned == [(0, 1), (0, 1)]
        assert (plugin.course.finished, plugin.course.cancelled) == (2, 0)


async def test_a_preparation_that_takes_too_long_ends_the_session(autojump_clock: MockClock) -> None:
    """As a stage that does not take a unit does."""
    plugin, pipeline = careful()
    limits = SessionLimits(unit_timeout_s=1.0)
    async with open_session(pipeline=pipeline, limits=limits) as talker:
        talker.append(1100, loud=True)
        await talker.heard.wait_for(SessionExpired)
        assert [event.error.code for event in talker.heard.of(ErrorEvent)] == ["timeout"]
        assert plugin.course.cancelled == 1


# ------------------------------------------------------------------ what a model says beside its speech


async def test_only_an_answer_that_came_to_its_end_is_remembered(autojump_clock: MockClock) -> None:
    """The model's text comes back to it in the session's state; that of a cut answer does not."""
    script = Script(replies={"long": "one two three four five six seven eight", "short": "yes"})
    async with open_session(pipeline=TurnsPipeline(script=script)) as talker:
        memory = talker.handle._core.state.model_state
        assert isinstance(memory, TurnsMemory)
        talker.write("long")
        await talker.heard.nth(ResponseOutputAudioDelta, 2)
        talker.send(CancelResponse())
        await talker.heard.nth(ResponseDone, 1)
        talker.write("short")
        await talker.heard.nth(ResponseDone, 2)
        assert list(memory.said) == ["yes"]


class Forgetful(TurnsPlugin):
    """Cannot keep what it said."""

    def commit_model_context(self, session_state: Any, text: str) -> None:
        raise KeyError(text)


class ForgetfulPipeline(TurnsPipeline):
    def build_plugin(self) -> TurnsPlugin:
        return Forgetful()


@pytest.mark.usefixtures("faults_expected")
async def test_a_hook_that_breaks_at_the_end_fails_the_turn(autojump_clock: MockClock) -> None:
    """Once; its request is let go and the next turn is taken."""
    async with open_session(pipeline=ForgetfulPipeline()) as talker:
        for number in (1, 2):
            talker.write("hi")
            assert (await talker.heard.nth(ResponseDone, number)).response.status == "failed"
        codes = [event.error.code for event in talker.heard.of(ErrorEvent)]
        assert codes == ["runtime_data_plane_stream_failed"] * 2


class Noting(NativePlugin):
    """Counts its answers in its configuration, which its units bring back."""

    def __init__(self) -> None:
        super().__init__(1000)
        self.told: list[int] = []

    def runtime_config_after_model_output(
        self, current: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        return {**current, "answers": current.get("answers", 0) + 1} if metadata["counts"] else None

    def plan_append(self, unit: UnitInput, request: RequestView) -> StageForward:
        self.told.append(unit.runtime_config.get("answers", 0))
        return super().plan_append(unit, request)

    def project(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[ModelResult]:
        count = output.data.word is None
        return [ModelNote(metadata={"counts": count}), *super().project(stage_id, output, request)]


async def test_a_note_changes_the_models_configuration(autojump_clock: MockClock) -> None:
    """The next unit knows of it; a note that changes nothing makes no new generation."""
    pipeline = NativePipeline(answer="one")
    pipeline.plugin = plugin = Noting()
    async with open_session(pipeline=pipeline) as talker:
        state = talker.handle._core.state
        opened = state.runtime_config
        await talker.speak(2.05)
        await talker.pause(3.0)
        await talker.heard.nth(ResponseDone, 1)
        assert plugin.told[:5] == [0, 1, 2, 3, 3]
        assert opened == {}
        assert state.config_generation == state.runtime_config["answers"]
