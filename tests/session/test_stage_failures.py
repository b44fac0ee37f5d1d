"""A fault of a stage reaches the session that owns the request, under its own code, and no other session."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.models.scripted.native import NativeAnswer, NativePipeline, NativeUnit, NativeWorker
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.models.scripted.workers import ScriptedAsr, ScriptedLlm, ScriptedTts
from duplex_trio.protocol.duplex import (
    ErrorEvent,
    ResponseDone,
    ResponseListen,
    SessionClosed,
    SessionExpired,
)
from duplex_trio.stages.port import StageFailed, StageRequest
from duplex_trio.stages.units import ChatPrompt, Clause, SpeechChunk, SpeechSegment, Transcript
from duplex_trio.stages.worker import StageWorker, UnitRefused, WorkerContext
from duplex_trio.testing import Talker, finish, open_session, open_talker, scripted_omni
from duplex_trio.testing.replicas import until

pytestmark = pytest.mark.usefixtures("faults_expected")

CODES = {
    "context_length_exceeded": "context_length_exceeded",
    "engine_error": "engine_error",
    "invalid_value": "invalid_value",
    "input_backpressure": "input_backpressure",
    "gpu_on_fire": "engine_error",
}
"""What a stage says, and what its session's client is told: the wire knows no other codes than its own."""


class _Plan:
    """One fault that a stage has once: it refuses a unit, cannot begin a request, or breaks as a whole."""

    def __init__(self, kind: str, code: str = "engine_error") -> None:
        self.kind, self.code = kind, code

    def at_open(self) -> None:
        if self.kind == "open":
            self._once()

    def at_unit(self) -> None:
        if self.kind == "unit":
            self._once()

    def at_submit(self) -> None:
        if self.kind == "death":
            self.kind = "over"
            raise RuntimeError("out of memory")

    def _once(self) -> None:
        self.kind = "over"
        raise UnitRefused(self.code, "scripted fault")


class _Asr(ScriptedAsr):
    def __init__(self, script: Script, plan: _Plan) -> None:
        super().__init__(script)
        self.plan = plan

    def new_state(self, request: StageRequest) -> Any:
        if not request.request_id.startswith("listen"):  # transcripts of speech that goes on are a courtesy
            self.plan.at_open()
        return super().new_state(request)

    def submit(self, request_id: str, unit: Any, final: bool, context: WorkerContext) -> None:
        if not request_id.startswith("listen"):
            self.plan.at_submit()
        super().submit(request_id, unit, final, context)

    def process(self, request: StageRequest, state: Any, unit: SpeechSegment) -> Iterable[Transcript]:
        if not unit.partial:
            self.plan.at_unit()
        return super().process(request, state, unit)


class _Tts(ScriptedTts):
    def __init__(self, script: Script, plan: _Plan) -> None:
        super().__init__(script)
        self.plan = plan

    def new_state(self, request: StageRequest) -> Any:
        self.plan.at_open()
        return super().new_state(request)

    def submit(self, request_id: str, unit: Any, final: bool, context: WorkerContext) -> None:
        self.plan.at_submit()
        super().submit(request_id, unit, final, context)

    def process(self, request: StageRequest, state: Any, unit: Clause) -> Iterable[SpeechChunk]:
        self.plan.at_unit()
        return super().process(request, state, unit)


class _Llm(ScriptedLlm):
    """Has no hook for its requests' state: it emits its refusals itself, as the real one does."""

    def __init__(self, script: Script, plan: _Plan) -> None:
        super().__init__(script)
        self.plan = plan

    def submit(self, request_id: str, unit: ChatPrompt, final: bool, context: WorkerContext) -> None:
        self.plan.at_submit()
        try:
            self.plan.at_open()
            self.plan.at_unit()
        except UnitRefused as refusal:
            self.abort([request_id])
            context.emit(StageFailed(request_id=request_id, code=refusal.code, message=str(refusal)))
        else:
            super().submit(request_id, unit, final, context)


class _Pipeline(ScriptedPipeline):
    def __init__(self, stage_id: int, plan: _Plan) -> None:
        super().__init__(script=Script(heard=["hello", "and again"]))
        self._failing, self._plan = stage_id, plan

    def build_worker(self, stage_id: int) -> StageWorker:
        if stage_id != self._failing:
            return super().build_worker(stage_id)
        kind: Any = (_Asr, _Llm, _Tts)[stage_id]
        worker: StageWorker = kind(self.script, self._plan)
        return worker


async def speak_and_fail(talker: Talker) -> str:
    """The code with which the answer to a spoken turn failed."""
    await talker.turn()
    done = await talker.heard.nth(ResponseDone, 1)
    assert done.response.status == "failed"
    assert done.response.status_details is not None
    assert done.response.status_details.error is not None
    error = talker.heard.of(ErrorEvent)[-1].error
    assert error.code == done.response.status_details.error.code
    return error.code


NO_SPECULATION = {"turn_detection": {"type": "server_vad", "silence_duration_ms": 160}}
"""The turn is over before an answer would be prepared, so that the fault meets the turn itself."""


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("stage_id", [0, 1, 2])
@pytest.mark.parametrize("kind", ["unit", "open"])
async def test_a_refusal_fails_one_turn(
    autojump_clock: MockClock, stage_id: int, kind: str, code: str
) -> None:
    """The client is told the stage's own code, and the next turn is answered; the other session hears nothing."""
    pipeline = _Pipeline(stage_id, _Plan(kind, code))
    async with scripted_omni(pipeline=pipeline) as omni:
        talker = await open_talker(omni, patch=NO_SPECULATION)
        other = await open_talker(omni, patch=NO_SPECULATION)
        assert await speak_and_fail(talker) == CODES[code]
        for each, number in ((talker, 2), (other, 1)):
            await each.turn()
            assert (await each.heard.nth(ResponseDone, number)).response.status == "completed"
        assert not other.heard.of(ErrorEvent)
        await finish(omni, talker, other)
        assert talker.handle.counters.leaked_requests == 0


@pytest.mark.parametrize("stage_id", [0, 1, 2])
async def test_a_dead_stage_fails_the_turns_that_need_it_until_it_is_back(
    autojump_clock: MockClock, stage_id: int
) -> None:
    """A turn that it dies of and one that comes while it is down fail with the same code; then they are answered."""
    pipeline = _Pipeline(stage_id, _Plan("death"))
    async with scripted_omni(pipeline=pipeline) as omni:
        talkers = [await open_talker(omni, patch=NO_SPECULATION) for _ in range(2)]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(talkers[0].turn)
            await until(lambda: not omni.healthy)
            talkers[1].write("is anybody there?")
            done = await talkers[1].heard.wait_for(ResponseDone)
        if stage_id == 0:
            assert done.response.status == "completed", "a written turn has nothing to recognise"
        else:
            assert done.response.status == "failed"
            error = talkers[1].heard.of(ErrorEvent)[-1].error
            assert error.code == "engine_dead"
            assert re.search(r"is down; the next try to load it is in 0\.\d s", error.message)
        unlucky = await talkers[0].heard.wait_for(ResponseDone)
        assert unlucky.response.status == "failed"
        assert talkers[0].heard.of(ErrorEvent)[-1].error.code == "engine_dead"
        await trio.sleep(1)
        assert omni.healthy
        for talker in talkers:
            await talker.turn()
            assert (await talker.heard.nth(ResponseDone, 2)).response.status == "completed"
            assert not talker.heard.of(SessionClosed)
        await finish(omni, *talkers)


# ------------------------------------------------------------------ a model whose memory is its request


class _Native(NativeWorker):
    def __init__(self, plan: _Plan, at_unit: int) -> None:
        super().__init__("one two three four")
        self.plan, self.left = plan, at_unit

    def new_state(self, request: StageRequest) -> Any:
        self.plan.at_open()
        return super().new_state(request)

    def submit(self, request_id: str, unit: Any, final: bool, context: WorkerContext) -> None:
        self.left -= 1
        if self.left < 0:
            self.plan.at_submit()
        super().submit(request_id, unit, final, context)

    def process(self, request: StageRequest, state: Any, unit: NativeUnit) -> list[NativeAnswer]:
        if self.left < 0:
            self.plan.at_unit()
        return list(super().process(request, state, unit))


class _NativePipeline(NativePipeline):
    def __init__(self, plan: _Plan, at_unit: int) -> None:
        super().__init__()
        self._fault = (plan, at_unit)

    def build_worker(self, stage_id: int) -> StageWorker:
        return _Native(*self._fault)


@pytest.mark.parametrize("at_unit", [1, 4], ids=["while it listens", "while it speaks"])
@pytest.mark.parametrize("code", CODES)
async def test_a_failed_request_ends_a_session_that_lived_in_it(
    autojump_clock: MockClock, code: str, at_unit: int
) -> None:
    """The error, the failed response if there is one, and `session.expired` last: the model knows nothing more."""
    pipeline = _NativePipeline(_Plan("unit", code), at_unit)
    async with open_session(pipeline=pipeline, patch={"turn_detection": None}) as talker:
        await talker.speak(2.1)
        await talker.pause(4.0)
        assert await talker.heard.wait_closed() == (1011, "request_cleanup")
        (error,) = talker.heard.of(ErrorEvent)
        assert error.error.code == CODES[code]
        statuses = [done.response.status for done in talker.heard.of(ResponseDone)]
        assert statuses == (["failed"] if at_unit == 4 else [])
        last = talker.heard.events[-1]
        assert isinstance(last, SessionExpired)
        assert last.reason == "request_cleanup"
        await talker.handle.wait_closed()
        assert talker.handle.counters.leaked_requests == 0


@pytest.mark.parametrize("at_unit", [1, 4], ids=["while it listens", "while it speaks"])
async def test_a_dead_stage_costs_such_a_session_its_answer_and_no_more(
    autojump_clock: MockClock, at_unit: int
) -> None:
    """The client is told once, however many units come meanwhile; what comes later is heard by another request."""
    pipeline = _NativePipeline(_Plan("death"), at_unit)
    async with scripted_omni(pipeline=pipeline) as omni:
        talker = await open_talker(omni, patch={"turn_detection": None})
        await talker.speak(2.1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(talker.pause, 4.0)
            await until(lambda: not omni.healthy)
            late = await open_talker(omni, patch={"turn_detection": None})
            await late.speak(0.2)
        assert omni.healthy
        for each, failed in ((talker, at_unit == 4), (late, False)):
            assert [event.error.code for event in each.heard.of(ErrorEvent)] == ["engine_dead"] * (
                each is talker
            )
            statuses = [done.response.status for done in each.heard.of(ResponseDone)]
            assert statuses == ["failed"] * failed
            await each.speak(2.1)
            await each.pause(8.0)
            assert each.heard.of(ResponseDone)[-1].response.status == "completed"
            assert each.heard.closed is None
        await finish(omni, talker, late)
        assert talker.handle.counters.leaked_requests == 0


async def test_a_request_that_cannot_begin_ends_such_a_session(autojump_clock: MockClock) -> None:
    """Nothing was heard, and nothing would be."""
    pipeline = _NativePipeline(_Plan("open", "unsupported"), 0)
    async with open_session(pipeline=pipeline, patch={"turn_detection": None}) as talker:
        await talker.speak(1.5)
        assert await talker.heard.wait_closed() == (1011, "request_cleanup")
        assert [event.error.code for event in talker.heard.of(ErrorEvent)] == ["unsupported"]
        assert not talker.heard.of(ResponseListen)
