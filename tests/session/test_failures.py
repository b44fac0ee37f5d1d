"""What breaks, and what it takes with it: a turn, a response or a session, and never another session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.engine import SessionLimits
from duplex_trio.models.cascade.plugin import TTS, CascadePlugin
from duplex_trio.models.cascade.profiles import ChatProfile
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.models.scripted.workers import ScriptedLlm
from duplex_trio.pipelines.requests import RequestView, StageForward, TurnInput, TurnPlan
from duplex_trio.pipelines.results import ModelResult
from duplex_trio.protocol.duplex import (
    Commit,
    ConversationItemInputAudioTranscriptionCompleted,
    ConversationItemInputAudioTranscriptionDelta,
    ConversationItemInputAudioTranscriptionFailed,
    CreateResponse,
    DuplexEvent,
    ErrorEvent,
    ResponseCreated,
    ResponseDone,
    ResponseOutputAudioDelta,
    SessionClosed,
)
from duplex_trio.session.port import DuplexStageRequest
from duplex_trio.stages.port import StageOutput
from duplex_trio.stages.units import ChatPrompt, Pcm
from duplex_trio.stages.worker import StageWorker, WorkerContext
from duplex_trio.testing import RecordingAttachment, Talker, finish, open_session, open_talker, scripted_omni

pytestmark = pytest.mark.usefixtures("faults_expected")

LONG = "Alpha bravo charlie. Delta echo foxtrot. Golf hotel india. Juliet kilo lima. Mike november oscar."


def tail(talker: Talker, count: int) -> list[str]:
    return talker.heard.types[-count:]


async def failed(talker: Talker, number: int = 1) -> tuple[str, str]:
    """The code of the error of a failed response, which must be the event before its closing block."""
    done = await talker.heard.nth(ResponseDone, number)
    assert done.response.status == "failed"
    assert done.response.status_details is not None
    assert done.response.status_details.error is not None
    error = talker.heard.of(ErrorEvent)[-1]
    assert talker.heard.events.index(error) < talker.heard.events.index(done)
    assert error.error.code == done.response.status_details.error.code
    return error.error.code, error.error.message


async def goes_on(talker: Talker) -> None:
    count = len(talker.heard.of(ResponseDone))
    talker.write("hi")
    assert (await talker.heard.nth(ResponseDone, count + 1)).response.status == "completed"


# ------------------------------------------------------------------ stages


async def test_a_failing_language_model_fails_its_response(autojump_clock: MockClock) -> None:
    """The error, the closing block without any sound, and the next turn works."""
    async with open_session(Script(fail_on=frozenset({"bad"}))) as talker:
        talker.write("bad")
        code, text = await failed(talker)
        assert (code, text) == ("engine_error", "scripted failure at 'bad'")
        assert not talker.heard.of(ResponseOutputAudioDelta)
        await goes_on(talker)


async def test_a_voice_that_fails_in_the_middle(autojump_clock: MockClock) -> None:
    """What was said up to there was said; what waited to be sent is dropped; the block is complete."""
    async with open_session(Script(otherwise=lambda _: LONG, fail_speaking="kilo"), dialect="ga") as talker:
        talker.write("go")
        await failed(talker)
        sent = len(talker.heard.of(ResponseOutputAudioDelta))
        assert sent > 0
        await trio.sleep(10)
        assert len(talker.heard.of(ResponseOutputAudioDelta)) == sent
        assert tail(talker, 8) == [
            "response.output_audio.done",
            "response.output_audio_transcript.done",
            "response.content_part.done",
            "response.output_item.done",
            "conversation.item.done",
            "response.done",
            "rate_limits.updated",
            "output_audio_buffer.stopped",
        ]
        counters = talker.handle.counters
        assert (counters.responses_failed, counters.responses_completed) == (1, 0)


async def test_a_deferred_answer_does_not_follow_a_failure(autojump_clock: MockClock) -> None:
    """What was said over a response that failed waits for the client to ask, and then is answered."""
    script = Script(
        heard=["go", "and then"],
        replies={"go": LONG, "and then": "fine"},
        otherwise=lambda _: "fine",
        fail_speaking="november",
        word_ms=600,
    )
    async with open_session(script, patch={"turn_detection": {"interrupt_response": False}}) as talker:
        await talker.turn()
        await talker.turn()
        await failed(talker)
        await trio.sleep(20)
        assert len(talker.heard.of(ResponseCreated)) == 1
        talker.send(CreateResponse())
        assert (await talker.heard.nth(ResponseDone, 2)).response.status == "completed"
    assert script.asked[-1].prompt.messages[-1].content.endswith("and then")


async def test_recognition_that_fails(autojump_clock: MockClock) -> None:
    """A turn whose sound cannot be transcribed: the item's transcription fails, and so does its response."""
    async with open_session(pipeline=_Pipeline(plan_fails_at=1)) as talker:
        await talker.turn()
        await failed(talker)
        (event,) = talker.heard.of(ConversationItemInputAudioTranscriptionFailed)
        assert event.error.code == "runtime_data_plane_stream_failed"
        await goes_on(talker)


class _FragileLlm(ScriptedLlm):
    """Breaks, as a whole, at the word `boom`."""

    def submit(self, request_id: str, unit: ChatPrompt, final: bool, context: WorkerContext) -> None:
        if unit.messages[-1].content == "boom":
            raise RuntimeError("out of memory")
        super().submit(request_id, unit, final, context)


class _FragilePipeline(ScriptedPipeline):
    def build_worker(self, stage_id: int) -> StageWorker:
        return _FragileLlm(self.script) if stage_id == 1 else super().build_worker(stage_id)


async def test_a_stage_that_dies_fails_what_needs_it(autojump_clock: MockClock) -> None:
    """Every session's turn fails with `engine_dead`; sessions stay, and say so again for the next turn."""
    async with scripted_omni(pipeline=_FragilePipeline()) as omni:
        talkers = [await open_talker(omni) for _ in range(2)]
        talkers[0].write("boom")
        assert (await failed(talkers[0]))[0] == "engine_dead"
        for number, talker in enumerate(talkers):
            talker.write("hi")
            assert (await failed(talker, 2 - number))[0] in ("engine_dead", "runtime_append_failed")
        assert not omni.healthy
        await finish(omni, *talkers)


async def test_a_stage_that_takes_no_input_in_time(autojump_clock: MockClock) -> None:
    """After the limit the turn fails with `timeout`; when the stage is free again the session works."""
    limits = SessionLimits(unit_timeout_s=10.0)
    async with scripted_omni(step_s={"llm": 40.0}, limits=limits) as omni:
        first, second = await open_talker(omni), await open_talker(omni)
        first.write("hi")
        await trio.sleep(1)
        started_s = trio.current_time()
        second.write("hi")
        assert (await failed(second))[0] == "timeout"
        assert trio.current_time() - started_s == pytest.approx(10.0)
        assert (await first.heard.nth(ResponseDone, 1, timeout_s=300)).response.status == "completed"
        second.write("again")
        assert (await second.heard.nth(ResponseDone, 2, timeout_s=300)).response.status == "completed"
        await finish(omni, first, second)


# ------------------------------------------------------------------ hooks


class _Pipeline(ScriptedPipeline):
    """The scripted model with hooks that raise where a test says so."""

    def __init__(self, **faults: Any) -> None:
        super().__init__(script=Script(heard=["one", "two", "three"]))
        self.faults = faults

    def build_plugin(self) -> CascadePlugin:
        return _Plugin(self.faults)


class _Plugin(CascadePlugin):
    def __init__(self, faults: Mapping[str, Any]) -> None:
        super().__init__(ChatProfile(default_instructions=None), voices=("tone",))
        self._faults = faults
        self._planned = 0

    def plan_turn(self, turn: TurnInput) -> TurnPlan:
        if turn.respond and turn.pcm is not None:
            self._planned += 1
            # The first plan of a spoken turn is the prepared one.
            if self._planned <= 2 * self._faults.get("plan_fails_at", 0):
                raise ValueError("no plan")
        return super().plan_turn(turn)

    def plan_partial(self, pcm: Pcm, language: str | None) -> StageForward | None:
        if self._faults.get("partial_fails"):
            raise ValueError("no partial")
        return super().plan_partial(pcm, language)

    def partial_transcript(self, output: StageOutput) -> str | None:
        if self._faults.get("partial_transcript_fails"):
            raise ValueError("no transcript")
        return super().partial_transcript(output)

    def forward(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[StageForward]:
        if self._faults.get("forward_fails"):
            raise ValueError("no forward")
        return super().forward(stage_id, output, request)

    def project(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[ModelResult]:
        if self._faults.get("project_fails") and stage_id == TTS:
            raise ValueError("no projection")
        return super().project(stage_id, output, request)


@pytest.mark.parametrize("fault", ["forward_fails", "project_fails"])
async def test_a_hook_that_raises_fails_its_request(autojump_clock: MockClock, fault: str) -> None:
    """The response fails with the hook's message and the session stays usable."""
    pipeline = _Pipeline(**{fault: True})
    async with open_session(pipeline=pipeline) as talker:
        talker.write("hi")
        code, text = await failed(talker)
        assert code == "runtime_data_plane_stream_failed"
        assert "no " in text
        pipeline.faults.clear()
        await goes_on(talker)


@pytest.mark.parametrize("fault", ["partial_fails", "partial_transcript_fails"])
async def test_partial_transcripts_are_a_courtesy(autojump_clock: MockClock, fault: str) -> None:
    """A hook that fails for speech in progress ends the partial transcripts, and nothing else."""
    async with open_session(pipeline=_Pipeline(**{fault: True})) as talker:
        await talker.turn(2.0)
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"
        assert not talker.heard.of(ConversationItemInputAudioTranscriptionDelta)
        assert len(talker.heard.of(ConversationItemInputAudioTranscriptionCompleted)) == 1


# ------------------------------------------------------------------ sessions


async def test_a_crash_ends_its_own_session_only(autojump_clock: MockClock) -> None:
    """The client is told with `internal_error`, its response fails, it is closed with 1011; the others go on."""
    async with scripted_omni(pipeline=_Pipeline()) as omni:
        broken, *others = [await open_talker(omni) for _ in range(4)]
        for talker in (broken, *others):
            talker.write("one two three four five six seven eight")
        await broken.heard.nth(ResponseOutputAudioDelta, 1)
        broken.handle._core.state.capabilities = None  # type: ignore[assignment]
        broken.send(CreateResponse())
        assert await broken.heard.wait_closed() == (1011, "internal_error")
        (error,) = broken.heard.of(ErrorEvent)
        assert (error.error.code, error.error.type) == ("internal_error", "server_error")
        assert broken.heard.of(ResponseDone)[0].response.status == "failed"
        assert isinstance(broken.heard.events[-1], SessionClosed)
        for talker in others:
            assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"
        await finish(omni, broken, *others)


async def test_a_crash_at_the_door_ends_its_own_session_only(autojump_clock: MockClock) -> None:
    """A fault met while a message is taken reaches the client and not the reader that brought the message."""
    async with scripted_omni() as omni:
        broken, other = await open_talker(omni), await open_talker(omni)
        broken.handle._core.state.timeline = None  # type: ignore[assignment]
        broken.append(20, loud=True)
        assert await broken.heard.wait_closed() == (1011, "internal_error")
        assert [event.error.code for event in broken.heard.of(ErrorEvent)] == ["internal_error"]
        await goes_on(other)
        await finish(omni, broken, other)


async def test_broken_ledgers_cannot_keep_a_session_alive(autojump_clock: MockClock) -> None:
    """When even ending it fails, the session still ends, says so, and gives its slot back."""
    async with scripted_omni() as omni:
        broken, other = await open_talker(omni), await open_talker(omni)
        broken.write("hi")
        await broken.heard.nth(ResponseCreated, 1)
        broken.handle._core.state.conversation = None  # type: ignore[assignment]
        assert await broken.heard.wait_closed() == (1011, "internal_error")
        assert isinstance(broken.heard.events[-1], SessionClosed)
        await goes_on(other)
        await finish(omni, other)


async def test_broken_ledgers_cannot_keep_a_server_alive(autojump_clock: MockClock) -> None:
    """Whoever ends all sessions ends the others too when one of them cannot be ended properly."""
    async with scripted_omni() as omni:
        talkers = [await open_talker(omni) for _ in range(3)]
        for talker in talkers:
            talker.write("one two three four five six seven eight")
            await talker.heard.nth(ResponseOutputAudioDelta, 1)
            talker.handle._core.state.conversation = None  # type: ignore[assignment]
        await omni.drain(0.0)
        assert [talker.heard.closed for talker in talkers] == [(1001, "server_shutdown")] * 3
        assert omni.statistics().sessions == 0


async def test_ledgers_that_break_at_the_door(autojump_clock: MockClock) -> None:
    """The reader that brought the message notices nothing though not even the failure can be told."""
    async with scripted_omni() as omni:
        broken, other = await open_talker(omni), await open_talker(omni)
        broken.write("one two three four five six seven eight")
        await broken.heard.nth(ResponseOutputAudioDelta, 1)
        broken.handle._core.state.conversation = None  # type: ignore[assignment]
        broken.handle._core.state.timeline = None  # type: ignore[assignment]
        broken.append(20, loud=True)
        assert await broken.heard.wait_closed() == (1011, "internal_error")
        await goes_on(other)
        await finish(omni, other)


class _Unwritable(RecordingAttachment):
    """A client whose events cannot be rendered."""

    def __init__(self) -> None:
        super().__init__()
        self.broken_renderer = False

    async def send(self, event: DuplexEvent) -> None:
        if self.broken_renderer:
            raise TypeError("cannot render")
        await super().send(event)


async def test_a_client_that_cannot_be_written_to(autojump_clock: MockClock) -> None:
    """A fault in writing ends that session, though its farewell cannot be written either."""
    async with scripted_omni() as omni:
        attachment = _Unwritable()
        handle = await omni.open_session(dialect="duplex", attachment=attachment)
        other = await open_talker(omni)
        attachment.broken_renderer = True
        Talker(handle, attachment).write("hi")
        with trio.fail_after(30):
            assert (await handle.wait_closed()).code == 1011
        await goes_on(other)
        await finish(omni, other)


async def test_a_release_that_fails_keeps_the_slot_and_is_tried_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, faults_expected: None
) -> None:
    """The client hears of the end once and at once; the slot is free when the stages have let go at last."""
    async with scripted_omni() as omni:
        orchestrator = omni.duplex_engine.duplex_orchestrator
        cleanup, failures = orchestrator.cleanup, iter(range(5))

        async def failing(request: DuplexStageRequest) -> None:
            if next(failures, None) is not None:
                raise OSError("the stage does not answer")
            await cleanup(request)

        monkeypatch.setattr(orchestrator, "cleanup", failing)
        talker = await open_talker(omni)
        talker.write("hi")
        await talker.heard.nth(ResponseOutputAudioDelta, 1)
        talker.handle.close("over")
        assert await talker.heard.wait_closed() == (1000, "over")
        closed_s = trio.current_time()
        assert omni.statistics().sessions == 1
        await talker.handle.wait_closed()
        assert trio.current_time() - closed_s == pytest.approx(0.1 + 0.2 + 0.4 + 0.8 + 1.6, abs=0.1)
        assert talker.handle.counters.cleanup_retries == 5
        await finish(omni, talker)


async def test_a_client_that_leaves_in_the_middle(autojump_clock: MockClock) -> None:
    """Its answer is no longer computed, its slot is free, and the other three finish theirs."""
    async with scripted_omni(Script(otherwise=lambda _: LONG)) as omni:
        leaving, *others = [await open_talker(omni) for _ in range(4)]
        for talker in (leaving, *others):
            talker.write("go")
        await leaving.heard.nth(ResponseOutputAudioDelta, 3)
        leaving.heard.broken = True
        with trio.fail_after(10):
            assert (await leaving.handle.wait_closed()).reason == "disconnect"
        assert omni.statistics().sessions == 3
        for talker in others:
            assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"
        await finish(omni, leaving, *others)


async def test_a_reader_that_reports_a_lost_client(autojump_clock: MockClock) -> None:
    """`disconnected` ends the session at once; nothing more is written."""
    async with scripted_omni(Script(otherwise=lambda _: LONG)) as omni:
        talker = await open_talker(omni)
        talker.write("go")
        await talker.heard.nth(ResponseOutputAudioDelta, 1)
        count = len(talker.heard.events)
        talker.handle.disconnected()
        assert (await talker.handle.wait_closed()).reason == "disconnect"
        assert len(talker.heard.events) <= count + 1  # the one that was being written
        assert talker.heard.closed is None
        assert omni.statistics().live_requests == 0


async def test_without_a_detector_the_client_commits_by_hand(autojump_clock: MockClock) -> None:
    """A deployment without voice activity says so when it is needed, once; the rest works."""
    async with open_session(pipeline=_Deaf()) as talker:
        await talker.turn()
        (error,) = talker.heard.of(ErrorEvent)
        assert (error.error.code, error.error.type) == ("server_vad_unavailable", "server_error")
        talker.send(Commit(response_create=True))
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"
        assert len(talker.heard.of(ErrorEvent)) == 1


class _Deaf(ScriptedPipeline):
    def build_vad_worker(self) -> StageWorker | None:
        return None
