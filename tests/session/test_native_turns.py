"""A model that owns its turns: units, silence in place of a silent client, interruptions, and what stops it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from trio.testing import MockClock

from duplex_trio.engine import SessionLimits
from duplex_trio.models.scripted.native import (
    NativeAnswer,
    NativePipeline,
    NativePlugin,
    NativeUnit,
    NativeWorker,
)
from duplex_trio.pipelines.requests import RequestView
from duplex_trio.pipelines.results import ModelResult, SegmentEnd, UserTranscript
from duplex_trio.protocol.duplex import (
    BargeIn,
    CancelResponse,
    ClearInput,
    Commit,
    ConversationItemInputAudioTranscriptionCompleted,
    CreateResponse,
    ErrorEvent,
    InputAudioBufferCommitted,
    OutputAudioBufferCleared,
    OutputTextPart,
    ResponseCreated,
    ResponseDone,
    ResponseListen,
    ResponseOutputAudioDelta,
    ResponseOutputAudioTranscriptDelta,
    SessionExpired,
    UpdateSession,
)
from duplex_trio.stages.port import StageOutput, StageRequest
from duplex_trio.stages.worker import StageWorker
from duplex_trio.testing import Talker, open_session, open_talker, scripted_omni
from duplex_trio.testing.invariants import core_of
from duplex_trio.testing.watched import WatchedNativePipeline, WatchedNativePlugin

NO_VAD = {"turn_detection": None}


def reasons(talker: Talker) -> list[str]:
    return [event.response.metadata.reason for event in talker.heard.of(ResponseListen)]


async def test_it_answers_when_the_user_falls_silent(autojump_clock: MockClock) -> None:
    """Each unit is listened to until one is quiet; then a response begins by itself and says its words in order."""
    pipeline = WatchedNativePipeline()
    async with open_session(pipeline=pipeline, patch=NO_VAD) as talker:
        await talker.speak(2.0)
        await talker.pause(6.0)
        done = await talker.heard.nth(ResponseDone, 1)
    assert reasons(talker)[:2] == ["model_listen", "model_listen"]
    assert done.response.status == "completed"
    words = [event.delta.strip() for event in talker.heard.of(ResponseOutputAudioTranscriptDelta)]
    assert words == ["one", "two", "three", "four"]
    assert [unit.seq for unit in pipeline.plugin.units] == list(range(1, len(pipeline.plugin.units) + 1))
    assert len(pipeline.plugin.epochs) == 1


async def test_silence_is_fed_at_the_pace_of_units(autojump_clock: MockClock) -> None:
    """A client that sends nothing hears the whole answer: one silent unit a second keeps the model speaking."""
    pipeline = WatchedNativePipeline()
    async with open_session(pipeline=pipeline, patch=NO_VAD, step_s=0.0) as talker:
        await talker.speak(1.0)
        await talker.pause(1.1)
        await talker.heard.nth(ResponseDone, 1)
        spoken_s = [
            time_s
            for time_s, event in zip(talker.heard.times_s, talker.heard.events, strict=True)
            if isinstance(event, ResponseOutputAudioTranscriptDelta)
        ]
    gaps = [later - earlier for earlier, later in pairwise(spoken_s)]
    assert gaps == pytest.approx([1.0, 1.0, 1.0], abs=0.05)
    assert [unit.silence for unit in pipeline.plugin.units] == [False, False, True, True, True]


async def test_one_append_yields_every_unit_it_holds(autojump_clock: MockClock) -> None:
    """Three seconds at once are three units, not one now and two later."""
    pipeline = WatchedNativePipeline()
    async with open_session(pipeline=pipeline, patch=NO_VAD) as talker:
        talker.append(3100, loud=True)
        await talker.heard.nth(ResponseListen, 3)
    assert len(pipeline.plugin.units) == 3


async def test_speech_cuts_the_answer_and_reaches_the_next_request(autojump_clock: MockClock) -> None:
    """A barge-in by voice ends the response once; the next request is told what was heard, and hears the user."""
    pipeline = WatchedNativePipeline("one two three four five six seven eight")
    detection = {"turn_detection": {"type": "server_vad"}}
    async with open_session(pipeline=pipeline, patch=detection, dialect="ga") as talker:
        await talker.speak(1.5)
        await talker.pause(3.5)
        first = await talker.heard.wait_for(ResponseCreated)
        await talker.speak(1.5)
        cut = await talker.heard.nth(ResponseDone, 1)
        await talker.pause(12.0)
        second = await talker.heard.nth(ResponseDone, 2)
    assert cut.response.id == first.response.id
    assert cut.response.status == "cancelled"
    assert cut.response.status_details is not None
    assert cut.response.status_details.reason == "turn_detected"
    assert [event.response_id for event in talker.heard.of(OutputAudioBufferCleared)] == [cut.response.id]
    assert second.response.status == "completed"
    before, after = pipeline.plugin.epochs
    assert before.conversation == []
    heard = after.conversation[0].content.split()
    assert heard == ["one", "two", "three", "four", "five", "six", "seven", "eight"][: len(heard)]
    assert 0 < len(heard) < 8


async def test_a_cancel_keeps_the_sound_that_waits(autojump_clock: MockClock) -> None:
    """`response.cancel` ends the response only; sound that the model has not taken goes to the next epoch."""
    pipeline = WatchedNativePipeline()
    async with open_session(pipeline=pipeline, patch=NO_VAD) as talker:
        await talker.speak(1.0)
        await talker.pause(1.1)
        await talker.heard.wait_for(ResponseCreated)
        talker.append(700, loud=True)
        talker.send(CancelResponse())
        talker.append(300, loud=True)
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "cancelled"
        await talker.pause(6.0)
        assert (await talker.heard.nth(ResponseDone, 2)).response.status == "completed"
    assert len(pipeline.plugin.epochs) == 2


@pytest.mark.parametrize("command", [BargeIn(), ClearInput()])
async def test_a_clear_drops_the_sound_that_waits(autojump_clock: MockClock, command: Any) -> None:
    """Nothing of what was appended before reaches the model afterwards."""
    pipeline = WatchedNativePipeline()
    async with open_session(pipeline=pipeline, patch=NO_VAD) as talker:
        talker.append(900, loud=True)
        talker.send(command)
        talker.append(990, loud=False)
        await talker.pause(1.1)
        await talker.heard.wait_for(ResponseListen)
    assert max(abs(pipeline.plugin.units[0].pcm)) < 0.01


async def test_a_model_that_never_ends_its_turn_is_stopped(autojump_clock: MockClock) -> None:
    """After 64 silent units the last one asks it to listen, which ends the response; the next turn works."""
    pipeline = WatchedNativePipeline("and", endless=True)
    async with open_session(pipeline=pipeline, patch=NO_VAD) as talker:
        await talker.speak(1.0)
        await talker.pause(1.1)
        done = await talker.heard.wait_for(ResponseDone, timeout_s=120)
        assert done.response.status == "completed"
    silent = [unit for unit in pipeline.plugin.units if unit.silence]
    assert len(silent) == 64
    assert [unit.force_listen for unit in silent] == [False] * 63 + [True]


class Deaf(NativeWorker):
    """Speaks on although it was asked to listen."""

    def process(self, request: StageRequest, state: Any, unit: NativeUnit) -> Iterable[NativeAnswer]:
        return super().process(request, state, NativeUnit(pcm=unit.pcm))


class DeafPipeline(WatchedNativePipeline):
    def build_worker(self, stage_id: int) -> StageWorker:
        return Deaf("and", endless=True)


async def test_a_model_that_does_not_listen_loses_its_request(autojump_clock: MockClock) -> None:
    """When the budget of silence is spent the response ends, and the next unit begins a new request."""
    pipeline = DeafPipeline()
    async with open_session(pipeline=pipeline, patch=NO_VAD) as talker:
        await talker.speak(1.0)
        await talker.pause(1.1)
        await talker.heard.wait_for(ResponseDone, timeout_s=120)
        await talker.speak(1.0)
        await talker.pause(3.2)
        await talker.heard.nth(ResponseCreated, 2)
    assert "continuation_limit" in reasons(talker)
    assert len(pipeline.plugin.epochs) >= 2


async def test_a_commit_is_an_item_and_a_last_unit(autojump_clock: MockClock) -> None:
    """What is left becomes a padded unit; the item has no transcript, for the model hears the sound itself."""
    pipeline = WatchedNativePipeline()
    async with open_session(pipeline=pipeline, patch=NO_VAD) as talker:
        talker.append(1400, loud=True)
        talker.send(Commit(event_id="c1"))
        await talker.heard.nth(ResponseListen, 2)
        assert len(talker.heard.of(InputAudioBufferCommitted)) == 1
        talker.send(Commit(event_id="c2"), CreateResponse(event_id="r1"))
        await talker.heard.nth(ErrorEvent, 2)
        refused = [(event.error.code, event.error.event_id) for event in talker.heard.of(ErrorEvent)]
    assert refused == [("input_audio_buffer_commit_empty", "c2"), ("unsupported", "r1")]
    assert [unit.final for unit in pipeline.plugin.units] == [False, True]


async def test_too_much_sound_at_once_is_refused(autojump_clock: MockClock) -> None:
    """Sound beyond the limit is refused with a typed error, and the session goes on."""
    limits = SessionLimits(pending_input_bytes_max=4 * 16_000 * 4)
    async with open_session(pipeline=WatchedNativePipeline(), patch=NO_VAD, limits=limits) as talker:
        talker.append(3000, loud=True)
        talker.append(3000, loud=True)
        error = await talker.heard.wait_for(ErrorEvent)
        assert error.error.code == "input_backpressure"
        await talker.pause(8.0)
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"


class Breaking(NativeWorker):
    """Fails at the third unit."""

    units = 0

    def process(self, request: StageRequest, state: Any, unit: NativeUnit) -> Iterable[NativeAnswer]:
        self.units += 1
        if self.units == 3:
            raise RuntimeError("scripted failure")
        return super().process(request, state, unit)


class BreakingPipeline(WatchedNativePipeline):
    def build_worker(self, stage_id: int) -> StageWorker:
        return Breaking("one two three")


async def test_a_failed_request_ends_its_session_alone(
    autojump_clock: MockClock, faults_expected: None
) -> None:
    """The error comes first, then the failed response, then the end; a session beside it can still be opened."""
    async with scripted_omni(pipeline=BreakingPipeline()) as omni:
        talker = await open_talker(omni, patch=NO_VAD)
        await talker.speak(1.0)
        await talker.pause(2.2)
        assert await talker.heard.wait_closed() == (1011, "request_cleanup")
        assert talker.heard.of(ErrorEvent)[0].error.code == "engine_error"
        assert talker.heard.of(ResponseDone)[0].response.status == "failed"
        assert talker.heard.of(SessionExpired)[0].reason == "request_cleanup"
        await talker.handle.wait_closed()
        assert omni.statistics().live_requests == 0
        other = await open_talker(omni, patch=NO_VAD)
        await other.turn(1.2)
        await other.pause(5.0)
        assert (await other.heard.nth(ResponseDone, 1)).response.status == "completed"


async def test_a_session_that_chooses_text_is_answered_in_text(autojump_clock: MockClock) -> None:
    """The model was asked to speak and goes on speaking; from the next response on its words are written."""
    async with open_session(pipeline=NativePipeline(answer="one two three")) as talker:
        await talker.speak(1.0)
        talker.send(UpdateSession(patch={"modalities": ["text"]}))
        await talker.pause(4.0)
        done = await talker.heard.nth(ResponseDone, 1)
        assert done.response.output[0].content[0] == OutputTextPart("one two three")  # type: ignore[union-attr]
        assert not talker.heard.of(ResponseOutputAudioDelta)


class Transcribing(WatchedNativePlugin):
    """Tells what it heard, with the last unit of a commit or with every unit."""

    def __init__(self, *, always: bool) -> None:
        super().__init__()
        self._always = always

    def project(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[ModelResult]:
        results = super().project(stage_id, output, request)
        told = self._always or self.units[-1].final
        return [UserTranscript(text="good morning", audio_duration_s=1.5), *results] if told else results


class TranscribingPipeline(NativePipeline):
    def __init__(self, *, always: bool = False) -> None:
        super().__init__()
        self.plugin = Transcribing(always=always)


@pytest.mark.parametrize("always", [False, True])
async def test_what_the_model_heard_becomes_the_words_of_the_item(
    autojump_clock: MockClock, always: bool
) -> None:
    """The client gets the transcript of its committed item, once, and the next request is told the words."""
    async with open_session(pipeline=TranscribingPipeline(always=always), patch=NO_VAD) as talker:
        talker.append(1500, loud=True)
        talker.send(Commit())
        told = await talker.heard.nth(ConversationItemInputAudioTranscriptionCompleted, 1)
        (committed,) = talker.heard.of(InputAudioBufferCommitted)
        assert (told.item_id, told.transcript) == (committed.item_id, "good morning")
        await talker.pause(4.0)
        messages = core_of(talker.handle).state.conversation.messages()
        assert [message.content for message in messages if message.role == "user"] == ["good morning"]
        assert len(talker.heard.of(ConversationItemInputAudioTranscriptionCompleted)) == 1


async def test_what_the_model_heard_of_sound_that_is_no_item_is_not_shown(autojump_clock: MockClock) -> None:
    """There is no item to show it at; the answer comes all the same."""
    async with open_session(pipeline=TranscribingPipeline(always=True), patch=NO_VAD) as talker:
        await talker.speak(2.0)
        await talker.pause(4.0)
        await talker.heard.nth(ResponseDone, 1)
        assert not talker.heard.of(ConversationItemInputAudioTranscriptionCompleted)


class Hesitant(NativeWorker):
    """Answers in two turns, and begins the second with a pause."""

    def process(self, request: StageRequest, state: Any, unit: NativeUnit) -> Sequence[NativeAnswer]:
        state.heard += 1
        said = {2: "one", 3: "", 4: "", 5: "two"}.get(state.heard)
        return [NativeAnswer(word=said, end_of_turn=said in ("one", "two"))]


class HesitantPlugin(NativePlugin):
    def project(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[ModelResult]:
        return [SegmentEnd()] if output.data.word == "" else super().project(stage_id, output, request)


class HesitantPipeline(NativePipeline):
    def __init__(self) -> None:
        super().__init__()
        self.plugin = HesitantPlugin(word_ms=3000)

    def build_worker(self, stage_id: int) -> StageWorker:
        return Hesitant("")


async def test_a_pause_while_the_last_answer_plays_is_fed_on(autojump_clock: MockClock) -> None:
    """Its next turn has begun before the client had all of the last one: it needs silence behind that."""
    async with open_session(pipeline=HesitantPipeline(), patch=NO_VAD) as talker:
        talker.append(2100, loud=True)
        await talker.heard.nth(ResponseOutputAudioDelta, 3)
        talker.append(1000, loud=True)
        await talker.heard.nth(ResponseDone, 2)
