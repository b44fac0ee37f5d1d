"""The tokens of a response that does not come to its end: what was computed of it is told, however it ended."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.models.cascade.plugin import LLM
from duplex_trio.models.scripted.native import NativePipeline, NativePlugin
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.models.scripted.workers import ScriptedLlm
from duplex_trio.pipelines.requests import RequestView
from duplex_trio.pipelines.results import ListenResult, ModelResult, TokenUsage, TurnEnd
from duplex_trio.protocol.duplex import (
    BargeIn,
    CancelResponse,
    CreateResponse,
    ResponseCreated,
    ResponseCreateOptions,
    ResponseDone,
    ResponseOutputAudioDelta,
    ResponseOutputTextDelta,
)
from duplex_trio.stages.port import StageOutput
from duplex_trio.stages.worker import StageWorker, WorkerContext
from duplex_trio.testing import Talker, open_session

ASKED = "tell me a story"
REPLY = "one two three. four five six. seven eight nine."
COUNTS = tuple[int, int, int]


class _Stalling(ScriptedLlm):
    """Writes so many words and no more."""

    def __init__(self, script: Script, words: int) -> None:
        super().__init__(script)
        self.left = words

    def step(self, context: WorkerContext) -> bool:
        self.left -= bool(self._waiting)
        return self.left >= 0 and super().step(context)


class _StallingPipeline(ScriptedPipeline):
    def __init__(self, words: int) -> None:
        super().__init__(script=Script(replies={ASKED: REPLY}))
        self._words = words

    def build_worker(self, stage_id: int) -> StageWorker:
        if stage_id == LLM:
            return _Stalling(self.script, self._words)
        return super().build_worker(stage_id)


async def counts(talker: Talker, number: int = 1) -> tuple[str, COUNTS | None]:
    """The status of a response that is done, and its input, output and total tokens."""
    response = (await talker.heard.nth(ResponseDone, number)).response
    usage = response.usage
    if usage is None:
        return response.status, None
    assert usage.input_token_details.text_tokens == usage.input_tokens
    assert usage.output_token_details.text_tokens == usage.output_tokens
    return response.status, (usage.input_tokens, usage.output_tokens, usage.total_tokens)


@pytest.mark.parametrize("command", [CancelResponse(), BargeIn()], ids=["cancel", "barge in"])
@pytest.mark.parametrize("modality", ["audio", "text"])
async def test_a_cancelled_answer_tells_what_was_written(
    autojump_clock: MockClock, command: CancelResponse | BargeIn, modality: str
) -> None:
    """All of the prompt, and the words that the model has written by then."""
    async with open_session(pipeline=_StallingPipeline(5)) as talker:
        talker.write(ASKED)
        heard: type[ResponseOutputAudioDelta | ResponseOutputTextDelta] = ResponseOutputAudioDelta
        if modality == "text":
            talker.send(CancelResponse())
            await talker.heard.nth(ResponseDone, 1)
            options = ResponseCreateOptions(output_modalities=("text",))
            talker.send(CreateResponse(options=options))
            heard = ResponseOutputTextDelta
        await talker.heard.wait_for(heard)
        await trio.sleep(5)
        talker.send(command)
        assert await counts(talker, 2 if modality == "text" else 1) == ("cancelled", (4, 5, 9))


async def test_speech_that_interrupts_leaves_the_count(autojump_clock: MockClock) -> None:
    async with open_session(pipeline=_StallingPipeline(5)) as talker:
        talker.write(ASKED)
        await talker.heard.wait_for(ResponseOutputAudioDelta)
        await talker.speak(1.0)
        assert await counts(talker) == ("cancelled", (4, 5, 9))


async def test_speech_that_waits_to_be_sent_delays_no_count(autojump_clock: MockClock) -> None:
    """Minutes of sound are held back for the client, and the model has written it all long since."""
    text = " ".join(f"word{number}." for number in range(60))
    async with open_session(Script(replies={ASKED: text}, word_ms=5000)) as talker:
        talker.write(ASKED)
        await talker.heard.wait_for(ResponseOutputAudioDelta)
        await trio.sleep(3)
        talker.send(CancelResponse())
        assert await counts(talker) == ("cancelled", (4, 60, 64))


async def test_a_session_that_ends_tells_the_count(autojump_clock: MockClock) -> None:
    async with open_session(pipeline=_StallingPipeline(5)) as talker:
        talker.write(ASKED)
        await talker.heard.wait_for(ResponseOutputAudioDelta)
        await trio.sleep(0.1)
        talker.handle.close("over")
        assert await counts(talker) == ("cancelled", (4, 5, 9))


async def test_a_failed_answer_tells_what_it_took(autojump_clock: MockClock) -> None:
    """The voice fails at its second clause, when all was written."""
    script = Script(replies={ASKED: REPLY}, fail_speaking="five")
    async with open_session(script) as talker:
        talker.write(ASKED)
        assert await counts(talker) == ("failed", (4, 9, 13))


async def test_an_answer_that_is_cut_off_tells_its_limit(autojump_clock: MockClock) -> None:
    async with open_session(Script(replies={ASKED: REPLY}), patch={"max_output_tokens": 4}) as talker:
        talker.write(ASKED)
        assert await counts(talker) == ("incomplete", (4, 4, 8))


async def test_where_nothing_was_computed_there_is_no_count(autojump_clock: MockClock) -> None:
    """Failed before the language model had read anything, or cancelled before it did."""
    async with open_session(Script(fail_on=frozenset({ASKED}))) as talker:
        talker.write(ASKED)
        assert await counts(talker) == ("failed", None)
    async with open_session(pipeline=_StallingPipeline(0)) as talker:
        talker.write(ASKED)
        await talker.heard.wait_for(ResponseCreated)
        talker.send(CancelResponse())
        assert await counts(talker) == ("cancelled", None)


class _Counting(NativePlugin):
    """Tells of a token for each unit, of its turn or of listening."""

    units = 0
    words = 0

    def project(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[ModelResult]:
        results = super().project(stage_id, output, request)
        if any(isinstance(result, ListenResult) for result in results):
            return results
        self.units, self.words = self.units + 1, self.words + 1
        told = TokenUsage(input_tokens=self.units, output_tokens=self.words)
        ended = any(isinstance(result, TurnEnd) for result in results)
        if ended:
            self.units = self.words = 0
            end = TurnEnd(input_tokens=told.input_tokens, output_tokens=told.output_tokens)
            return [told, *(end if isinstance(result, TurnEnd) else result for result in results)]
        return [told, *results]


async def test_a_model_that_owns_its_turns_tells_of_each(autojump_clock: MockClock) -> None:
    """The count of a turn is not carried into the next one, and a cancelled one has its own."""
    pipeline = NativePipeline(answer="one two three four")
    pipeline.plugin = _Counting()
    async with open_session(pipeline=pipeline, patch={"turn_detection": None}) as talker:
        for number in (1, 2):
            await talker.speak(2.0)
            await talker.pause(9.0)
            assert await counts(talker, number) == ("completed", (4, 4, 8))
        await talker.speak(2.0)
        await talker.pause(2.5)
        await talker.heard.nth(ResponseCreated, 3)
        core = talker.handle._core
        talker.send(CancelResponse())
        assert core.state.last_response is not None
        status, told = await counts(talker, 3)
        assert status == "cancelled"
        assert told is not None
        assert 0 < told[1] < 4
