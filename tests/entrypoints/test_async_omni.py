"""Requests on a mock clock: many at once, cut off, slow, wrong, and on stages that die."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from duplex_trio.entrypoints.async_omni import (
    RELEASE_WAIT_S,
    AsyncOmni,
    CallOutput,
    EndOutput,
    Message,
    OmniOutput,
    OmniRequest,
    Picture,
    RequestError,
    RequestFailed,
    RequestRefused,
    Sampling,
    Sound,
    SpeechOutput,
    Text,
    TextOutput,
    TranscriptOutput,
    Usage,
    WarmUpError,
)
from duplex_trio.models.scripted.native import NativePipeline
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script, tool_call
from duplex_trio.models.scripted.turns import TurnsPipeline
from duplex_trio.models.scripted.workers import ScriptedAsr, ScriptedLlm, tone
from duplex_trio.protocol.pictures import grey_png
from duplex_trio.stages.units import ChatCall, ChatPrompt, GenerationParams
from duplex_trio.stages.worker import StageWorker, WorkerContext
from duplex_trio.testing import finish, open_talker, scripted_omni, scripted_requests
from duplex_trio.testing.run import inline_stages

LONG = "word " * 400
WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
TOOL = {"type": "function", "name": "look", "parameters": {"type": "object"}}


def said(milliseconds: int = 500, rate_hz: int = 24_000) -> Sound:
    return Sound(tone(milliseconds)[:: 24_000 // rate_hz], rate_hz)


async def outputs_of(omni: AsyncOmni, request: OmniRequest | str) -> list[OmniOutput]:
    async with omni.generate(request) as answer:
        return [output async for output in answer]


async def idle(omni: AsyncOmni) -> None:
    """Nothing is left of anybody's request."""
    await trio.sleep(1)
    statistics = omni.statistics()
    assert (statistics.requests, statistics.live_requests) == (0, 0)
    assert [stage.live_requests for stage in statistics.stages] == [0, 0, 0]


def figure(omni: AsyncOmni, name: str) -> float:
    lines = omni.render_metrics().decode().splitlines()
    return float(next(line for line in lines if line.startswith(f"{name} ")).rpartition(" ")[2])


# ------------------------------------------------------------------ answers


async def test_an_answer_comes_piece_by_piece(autojump_clock: MockClock) -> None:
    async with scripted_requests() as omni:
        *pieces, end = await outputs_of(omni, "hello you")
        assert [piece for piece in pieces if isinstance(piece, TextOutput)] == pieces
        assert (
            "".join(piece.text for piece in pieces if isinstance(piece, TextOutput)) == "You said: hello you"
        )
        assert isinstance(end, EndOutput)
        assert (end.finish_reason, end.usage) == ("stop", Usage(input_tokens=2, output_tokens=4))
        assert end.stages["1"]["stage_name"] == "llm"
        await idle(omni)


async def test_the_first_piece_comes_before_the_last_is_made(autojump_clock: MockClock) -> None:
    """What the language model writes is spoken while it goes on: stages hand over as they go."""
    script = Script(otherwise=lambda _: "One two three four five. " * 8)
    async with scripted_requests(script, step_s=0.1) as omni:
        began_s = trio.current_time()
        async with omni.generate(OmniRequest("go", modalities=["audio"])) as answer:
            assert isinstance(await anext(answer), SpeechOutput)
            first_s = trio.current_time() - began_s
            written = next(s for s in omni.stage_statistics() if s.name == "llm").outputs_total
            assert written < 40
            async for _ in answer:
                pass
            assert first_s < (trio.current_time() - began_s) / 3


async def test_a_whole_answer(autojump_clock: MockClock) -> None:
    async with scripted_requests(Script(heard=["what is it"])) as omni:
        result = await omni.complete(OmniRequest(said(), modalities=["text", "audio"], request_id="r"))
        assert (result.request_id, result.transcript) == ("r", "what is it")
        assert result.text == "You said: what is it"
        assert (result.sample_rate_hz, len(result.pcm)) == (24_000, 5 * 300 * 24)
        assert (result.finish_reason, result.error, result.calls) == ("stop", None, ())
        assert set(result.stages) == {"0", "1", "2"}


async def test_sound_of_earlier_messages_is_transcribed_first(autojump_clock: MockClock) -> None:
    script = Script(heard=["first", "second", "third"])
    messages = [
        Message("system", "be kind"),
        Message("user", [said(), "and", said(rate_hz=8_000)]),
        Message("assistant", "yes"),
        Message("user", ["listen:", said(rate_hz=12_000)]),
    ]
    async with scripted_requests(script) as omni:
        outputs = await outputs_of(omni, OmniRequest(messages))
        heard = [output for output in outputs if isinstance(output, TranscriptOutput)]
        assert [(one.text, one.message, one.part) for one in heard] == [
            ("first", 1, 0), ("second", 1, 2), ("third", 3, 1),
        ]  # fmt: skip
        assert all(one.duration_s == pytest.approx(0.5, abs=0.01) for one in heard)
        asked = [(message.role, message.content) for message in script.asked[-1].prompt.messages]
        assert asked == [
            ("system", "be kind"), ("user", "first and second"), ("assistant", "yes"), ("user", "listen: third"),
        ]  # fmt: skip
        await idle(omni)


async def test_sound_with_its_transcript_is_not_heard_again(autojump_clock: MockClock) -> None:
    script = Script(heard=["something else"])
    async with scripted_requests(script) as omni:
        result = await omni.complete(OmniRequest(Sound(tone(500), 24_000, transcript="as I said")))
        assert (result.text, result.transcript) == ("You said: as I said", None)
        assert next(s for s in omni.stage_statistics() if s.name == "asr").outputs_total == 0


async def test_silence_is_not_answered(autojump_clock: MockClock) -> None:
    async with scripted_requests() as omni:
        result = await omni.complete(OmniRequest(Sound(np.zeros(8_000, np.float32), 16_000)))
        assert (result.text, result.transcript, result.finish_reason) == ("", "", "listen")
        await idle(omni)


async def test_what_is_written_before_silence_is_answered(autojump_clock: MockClock) -> None:
    async with scripted_requests() as omni:
        silence = Sound(np.zeros(8_000, np.float32), 16_000)
        result = await omni.complete(OmniRequest([Message("user", ["hello", silence])]))
        assert (result.text, result.transcript, result.finish_reason) == ("You said: hello", "", "stop")
        await idle(omni)


async def test_functions_are_called(autojump_clock: MockClock) -> None:
    script = Script(
        otherwise=lambda _: f"Well. {tool_call('look', at='the sky')}", replies={"blue": "It is blue."}
    )
    async with scripted_requests(script) as omni:
        outputs = await outputs_of(omni, OmniRequest("how is the sky", tools=[TOOL], modalities=["audio"]))
        calls = [output for output in outputs if isinstance(output, CallOutput)]
        assert {(call.index, call.name) for call in calls} == {(0, "look")}
        assert [call.done for call in calls] == [False] * (len(calls) - 1) + [True]
        assert "".join(call.arguments for call in calls) == '{"at": "the sky"}'
        assert isinstance(outputs[-1], EndOutput)
        assert outputs[-1].finish_reason == "tool_calls"
        result = await omni.complete(OmniRequest("how is the sky", tools=[TOOL]))
        assert (result.text.strip(), result.calls[0].name) == ("Well.", "look")
        messages = [
            Message("user", "how is the sky"),
            Message("assistant", result.text, calls=result.calls),
            Message("tool", "blue", call_id=result.calls[0].call_id),
        ]
        assert (await omni.complete(OmniRequest(messages, tools=[TOOL]))).text == "It is blue."
        assert script.asked[-1].prompt.messages[1].calls == result.calls
        kept = await omni.complete(OmniRequest("how is the sky", tools=[TOOL], tool_choice="none"))
        assert kept.calls == ()


async def test_knobs_reach_the_model(autojump_clock: MockClock) -> None:
    script = Script()
    async with scripted_requests(script) as omni:
        knobs = Sampling(top_p=0.5, seed=3, stop=("END",))
        await omni.complete(
            OmniRequest("x", temperature=0.2, max_output_tokens=7, sampling=knobs, instructions="sing")
        )
        assert script.asked[-1].params == GenerationParams(
            temperature=0.2, max_tokens=7, top_p=0.5, seed=3, stop=("END",), repetition_penalty=1.05
        )
        assert script.asked[-1].prompt.messages[0].content == "sing"


async def test_a_model_that_speaks_at_one_speed_is_sped_up(autojump_clock: MockClock) -> None:
    async with scripted_requests(pipeline=TurnsPipeline()) as omni:
        normal = await omni.complete(OmniRequest("a b c d", modalities=["audio"]))
        fast = await omni.complete(OmniRequest("a b c d", modalities=["audio"], speed=2.0))
        assert len(fast.pcm) == len(normal.pcm) / 2 > 0
        assert fast.text == normal.text


async def test_pictures_are_seen(autojump_clock: MockClock) -> None:
    async with scripted_requests(pipeline=TurnsPipeline()) as omni:
        shown = [Message("user", ["look", Picture(grey_png(4, 4)), Picture(grey_png(4, 4))])]
        assert (await omni.complete(OmniRequest(shown))).text.endswith("seeing 2 pictures")


# ------------------------------------------------------------------ many at once


async def test_many_are_answered_at_once(autojump_clock: MockClock) -> None:
    """Each gets its own answer, in less time than one after the other."""
    async with scripted_requests(max_requests=64) as omni:
        texts: dict[int, str] = {}

        async def one(index: int) -> None:
            texts[index] = (await omni.complete(f"number {index}")).text

        began_s = trio.current_time()
        await omni.complete("number x")
        alone_s = trio.current_time() - began_s
        async with trio.open_nursery() as nursery:
            for index in range(64):
                nursery.start_soon(one, index)
        assert texts == {index: f"You said: number {index}" for index in range(64)}
        assert trio.current_time() - began_s < 4 * alone_s
        await idle(omni)


async def test_more_than_there_are_places_wait_in_order(autojump_clock: MockClock) -> None:
    async with scripted_requests(max_requests=2) as omni:
        order: list[int] = []
        most = 0

        async def one(index: int) -> None:
            nonlocal most
            async with omni.generate(f"number {index}") as answer:
                most = max(most, omni.statistics().requests)
                async for _ in answer:
                    pass
            order.append(index)

        async with trio.open_nursery() as nursery:
            for index in range(8):
                nursery.start_soon(one, index)
                await trio.testing.wait_all_tasks_blocked()
            assert figure(omni, "duplex_requests_running") == 2
            assert figure(omni, "duplex_requests_waiting") == 6
        assert [index // 2 for index in order] == [0, 0, 1, 1, 2, 2, 3, 3]
        assert most == 2
        assert figure(omni, "duplex_requests_waiting") == 0
        await idle(omni)


async def test_who_does_not_wait_is_refused(autojump_clock: MockClock) -> None:
    async with scripted_requests(max_requests=1) as omni:
        async with omni.generate("x"):
            with pytest.raises(RequestRefused) as caught:
                async with omni.generate("y", wait=False):
                    raise AssertionError("there was room")
            assert caught.value.code == "resource_exhausted"
        assert (await omni.complete("y", wait=False)).finish_reason == "stop"
        assert figure(omni, 'duplex_requests_total{status="refused"}') == 1


async def test_who_stops_waiting_leaves_no_trace(autojump_clock: MockClock) -> None:
    async with scripted_requests(Script(replies={"x": LONG}), max_requests=1) as omni:
        async with omni.generate("x"):
            with trio.move_on_after(0.5) as scope:
                await omni.complete("y")
            assert scope.cancelled_caught
        assert (await omni.complete("z")).finish_reason == "stop"
        await idle(omni)


async def test_a_slow_reader_pauses_only_its_own_request(autojump_clock: MockClock) -> None:
    script = Script(otherwise=lambda _: "One two three four five six. " * 60)
    async with scripted_requests(script, step_s=0.01) as omni:
        slow = OmniRequest("x", modalities=["audio"], max_output_tokens=400, request_id="slow")
        async with omni.generate(slow) as answer:
            await anext(answer)
            await trio.sleep(50)
            spoken = next(s for s in omni.stage_statistics() if s.name == "tts").outputs_total
            await trio.sleep(50)
            assert next(s for s in omni.stage_statistics() if s.name == "tts").outputs_total == spoken < 15
            began_s = trio.current_time()
            other = await omni.complete(OmniRequest("y", modalities=["audio"], max_output_tokens=60))
            assert other.finish_reason == "length"
            assert trio.current_time() - began_s < 5
            *_, end = [output async for output in answer]
            assert isinstance(end, EndOutput)
            assert end.finish_reason == "stop"


# ------------------------------------------------------------------ cut off


async def test_who_leaves_stops_the_model(autojump_clock: MockClock) -> None:
    async with scripted_requests(Script(otherwise=lambda _: LONG)) as omni:
        async with omni.generate(OmniRequest("x", modalities=["text", "audio"])) as answer:
            await anext(answer)
        statistics = omni.statistics()
        assert (statistics.requests, statistics.live_requests) == (0, 0)
        made = sum(stage.outputs_total for stage in statistics.stages)
        await trio.sleep(10)
        assert sum(stage.outputs_total for stage in omni.stage_statistics()) == made
        assert figure(omni, 'duplex_requests_total{status="aborted"}') == 1


async def test_an_aborted_answer_says_so_and_keeps_what_came(autojump_clock: MockClock) -> None:
    async with scripted_requests(Script(otherwise=lambda _: LONG)) as omni:
        outputs: list[OmniOutput] = []

        async def read() -> None:
            outputs.extend(await outputs_of(omni, OmniRequest("x", request_id="r")))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await trio.sleep(0.5)
            assert omni.abort("r")
            assert not omni.abort("nobody")
        assert isinstance(outputs[-1], EndOutput)
        assert outputs[-1].finish_reason == "abort"
        assert outputs[-1].usage.output_tokens == len(outputs) - 1 > 10
        assert not omni.abort("r")
        await idle(omni)


async def test_one_that_waits_can_be_aborted(autojump_clock: MockClock) -> None:
    async with scripted_requests(Script(replies={"x": LONG}), max_requests=1) as omni:
        async with trio.open_nursery() as nursery, omni.generate("x"):
            waiting = OmniRequest("y", request_id="y")
            results: list[list[OmniOutput]] = []

            async def read() -> None:
                results.append(await outputs_of(omni, waiting))

            nursery.start_soon(read)
            await trio.sleep(0.1)
            assert omni.abort("y")
            await trio.sleep(0.1)
            assert results == [[EndOutput(finish_reason="abort")]]
        await idle(omni)


async def test_who_leaves_a_stage_that_is_busy_waits_a_bounded_time(autojump_clock: MockClock) -> None:
    """The request keeps its place until the stage has let go of it, and the stage's next step is somebody else's."""
    async with scripted_requests(Script(otherwise=lambda _: LONG), step_s={"llm": 60.0}) as omni:
        began_s = trio.current_time()
        with trio.move_on_after(1.0):
            await omni.complete("x")
        assert trio.current_time() - began_s == pytest.approx(1.0 + RELEASE_WAIT_S)
        assert omni.statistics().requests == 1
        await trio.sleep(120)
        await idle(omni)


async def test_a_shutdown_does_not_wait_for_a_stage_that_is_busy(autojump_clock: MockClock) -> None:
    began_s = trio.current_time()
    async with scripted_requests(Script(otherwise=lambda _: LONG), step_s={"llm": 600.0}) as omni:
        with trio.move_on_after(1.0):
            await omni.complete("x")
    assert trio.current_time() - began_s < 30


@pytest.mark.parametrize("after_s", [0.0, 0.01, 0.03, 0.05, 0.11, 0.31, 0.7])
async def test_whenever_it_is_cut_off_nothing_is_left(autojump_clock: MockClock, after_s: float) -> None:
    """While sound is transcribed, the turn is heard, written or spoken."""
    script = Script(heard=["one", "two"], otherwise=lambda _: "One two three. " * 5)
    messages = [Message("user", said()), Message("assistant", "yes"), Message("user", said())]
    async with scripted_requests(script) as omni:
        with trio.move_on_after(after_s):
            await omni.complete(OmniRequest(messages, modalities=["audio"]))
        await idle(omni)
        assert (await omni.complete("still there?")).finish_reason == "stop"


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0, 1), st.floats(0.001, 2), st.booleans(), st.booleans()), min_size=1, max_size=12
    ),
    st.integers(1, 4),
)
def test_any_coming_and_going_leaves_nothing(
    plans: Sequence[tuple[float, float, bool, bool]], places: int
) -> None:
    """Requests that begin, are aborted or left at any time: none is lost, none leaks, nobody else is hurt."""

    async def one(
        omni: AsyncOmni, index: int, plan: tuple[float, float, bool, bool], ended: list[int]
    ) -> None:
        begin_s, stay_s, speaks, aborts = plan
        await trio.sleep(begin_s)
        request = OmniRequest(
            f"say {WORDS[index]}", modalities=["audio"] if speaks else ["text"], request_id=str(index)
        )
        with trio.move_on_after(stay_s):
            if aborts:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_abort_after, omni, str(index), stay_s / 2)
                    result = await omni.complete(request)
                    nursery.cancel_scope.cancel()
            else:
                result = await omni.complete(request)
            if result.finish_reason != "abort":
                assert result.text == f"You said: say {WORDS[index]}"
        ended.append(index)

    async def main() -> None:
        ended: list[int] = []
        async with scripted_requests(max_requests=places) as omni:
            async with trio.open_nursery() as nursery:
                for index, plan in enumerate(plans):
                    nursery.start_soon(one, omni, index, plan, ended)
            await idle(omni)
            assert (await omni.complete("x")).text == "You said: x"
        assert sorted(ended) == list(range(len(plans)))

    trio.run(main, clock=MockClock(autojump_threshold=0))


async def _abort_after(omni: AsyncOmni, request_id: str, seconds: float) -> None:
    await trio.sleep(seconds)
    omni.abort(request_id)


async def test_a_shutdown_ends_every_answer_with_a_reason(autojump_clock: MockClock) -> None:
    codes: list[str] = []

    async def one(omni: AsyncOmni) -> None:
        try:
            await omni.complete("x")
        except RequestError as error:
            codes.append(error.code)

    async with (
        trio.open_nursery() as nursery,
        scripted_requests(Script(otherwise=lambda _: LONG), max_requests=2) as omni,
    ):
        for _ in range(2):
            nursery.start_soon(one, omni)
        await trio.sleep(0.1)
        nursery.start_soon(one, omni)
        await trio.sleep(0.1)
    assert sorted(codes) == ["resource_exhausted", "server_shutdown", "server_shutdown"]
    with pytest.raises(RequestRefused, match="takes no new requests"):
        await omni.complete("x")


async def test_a_drain_lets_answers_end_and_takes_no_new_ones(autojump_clock: MockClock) -> None:
    async with scripted_requests() as omni:
        async with omni.generate("one two three") as answer, trio.open_nursery() as nursery:
            nursery.start_soon(omni.drain, 10.0)
            await trio.sleep(0.01)
            with pytest.raises(RequestRefused) as caught:
                await omni.complete("x")
            assert caught.value.code == "resource_exhausted"
            *_, end = [output async for output in answer]
        assert isinstance(end, EndOutput)
        assert end.finish_reason == "stop"


async def test_a_drain_that_is_over_ends_what_is_left(autojump_clock: MockClock) -> None:
    async with scripted_requests(Script(otherwise=lambda _: LONG)) as omni, omni.generate("x") as answer:
        await omni.drain(0.5)
        with pytest.raises(RequestFailed) as caught:
            async for _ in answer:
                pass
        assert caught.value.code == "server_shutdown"
        with pytest.raises(StopAsyncIteration):
            await anext(answer)


# ------------------------------------------------------------------ failures


@pytest.mark.parametrize("script", [Script(fail_on=frozenset({"boom"})), Script(fail_speaking="boom")])
async def test_a_failed_request_fails_alone(autojump_clock: MockClock, script: Script) -> None:
    async with (
        scripted_requests(script) as omni,
        omni.generate(OmniRequest("fine", modalities=["audio"])) as other,
    ):
        with pytest.raises(RequestFailed) as caught:
            await omni.complete(OmniRequest("boom", modalities=["audio"]))
        assert caught.value.code == "engine_error"
        *_, end = [output async for output in other]
        assert isinstance(end, EndOutput)
        assert figure(omni, 'duplex_requests_total{status="failed"}') == 1


class _MortalLlm(ScriptedLlm):
    """Dies in the middle of an answer to `die`."""

    def __init__(self, script: Script) -> None:
        super().__init__(script)
        self._steps: int | None = None

    def submit(self, request_id: str, unit: ChatPrompt, final: bool, context: WorkerContext) -> None:
        super().submit(request_id, unit, final, context)
        if unit.messages[-1].content == "die":
            self._steps = 3

    def step(self, context: WorkerContext) -> bool:
        if self._steps is not None:
            self._steps -= 1
            if self._steps < 0:
                raise RuntimeError("out of memory")
        return super().step(context)


class _MortalAsr(ScriptedAsr):
    """Dies of sound."""

    def step(self, context: WorkerContext) -> bool:
        raise RuntimeError("out of memory")


class _Mortal(ScriptedPipeline):
    def __init__(self, mortal: int, make: Callable[[Script], StageWorker], script: Script) -> None:
        super().__init__(script=script)
        self._mortal, self._make = mortal, make

    def build_worker(self, stage_id: int) -> StageWorker:
        return self._make(self.script) if stage_id == self._mortal else super().build_worker(stage_id)


async def test_a_stage_that_dies_in_mid_request_is_told_and_let_go_of(autojump_clock: MockClock) -> None:
    pipeline = _Mortal(1, _MortalLlm, Script(otherwise=lambda _: "One two three four. " * 9))
    async with scripted_requests(pipeline=pipeline) as omni:
        async with omni.generate(OmniRequest("live", modalities=["audio"])) as other:
            with pytest.raises(RequestFailed) as caught:
                await omni.complete(OmniRequest("die", modalities=["audio"]))
            assert caught.value.code == "engine_dead"
            with pytest.raises(RequestFailed) as caught:
                async for _ in other:
                    pass
            assert caught.value.code == "engine_dead"
        statistics = omni.statistics()
        assert (statistics.requests, statistics.live_requests) == (0, 0)
        # While the stage is down, a request fails at once; it is back after a while.
        with pytest.raises(RequestFailed) as caught:
            await omni.complete("x")
        assert caught.value.code == "engine_dead"
        await trio.sleep(60)
        assert (await omni.complete("x")).finish_reason == "stop"
        await idle(omni)


async def test_a_stage_that_dies_while_it_transcribes_fails_the_request(autojump_clock: MockClock) -> None:
    async with scripted_requests(pipeline=_Mortal(0, _MortalAsr, Script())) as omni:
        with pytest.raises(RequestFailed) as caught:
            await omni.complete(OmniRequest([Message("user", said()), Message("user", "what did I say?")]))
        assert caught.value.code == "engine_dead"
        statistics = omni.statistics()
        assert (statistics.requests, statistics.live_requests) == (0, 0)


class _Broken(ScriptedPipeline):
    """Its hooks raise what they like."""

    def build_processor(self) -> Any:
        processor = super().build_processor()
        planned = processor.plan_turn

        def plan_turn(turn: Any) -> Any:
            if turn.conversation and turn.conversation[-1].content == "crash":
                raise ZeroDivisionError("oh")
            if turn.conversation and turn.conversation[-1].content == "refuse":
                raise RequestRefused("context_length_exceeded", "too long")
            return planned(turn)

        processor.plan_turn = plan_turn  # type: ignore[method-assign]
        return processor


async def test_a_broken_hook_fails_its_request_alone(autojump_clock: MockClock) -> None:
    async with scripted_requests(pipeline=_Broken()) as omni:
        with pytest.raises(RequestFailed, match="ZeroDivisionError") as caught:
            await omni.complete("crash")
        assert caught.value.code == "internal_error"
        with pytest.raises(RequestRefused) as refused:
            await omni.complete("refuse")
        assert refused.value.code == "context_length_exceeded"
        assert (await omni.complete("fine")).text == "You said: fine"
        await idle(omni)


async def test_a_warm_up_that_fails_is_told(autojump_clock: MockClock) -> None:
    pipeline = ScriptedPipeline(script=Script(fail_on=frozenset({"Hello!"})))
    with pytest.RaisesGroup(pytest.RaisesExc(WarmUpError, match="scripted failure"), flatten_subgroups=True):
        async with AsyncOmni(pipeline, stage_factory=inline_stages(0.01)).running():
            raise AssertionError("it was offered")


async def test_a_model_is_warm_when_it_is_offered(autojump_clock: MockClock) -> None:
    script = Script()
    made = AsyncOmni(ScriptedPipeline(script=script), stage_factory=inline_stages(0.01))
    async with made.running() as omni:
        assert script.asked[-1].prompt.messages[-1].content == "Hello!"
        assert omni.statistics().requests == 0


async def test_a_model_runs_once(autojump_clock: MockClock) -> None:
    """Neither twice at once nor again: its stages would be two people's."""
    made = AsyncOmni(ScriptedPipeline(script=Script()), stage_factory=inline_stages(0.01))
    once = pytest.RaisesGroup(pytest.RaisesExc(RuntimeError, match="runs once"), flatten_subgroups=True)
    async with made.running() as omni:
        with once:
            async with made.running():
                raise AssertionError("it ran twice")
        assert (await omni.complete("still there?")).text == "You said: still there?"
    with once:
        async with made.running():
            raise AssertionError("it ran again")


async def test_a_model_that_does_not_run_says_so(autojump_clock: MockClock) -> None:
    made = AsyncOmni(ScriptedPipeline(script=Script()), stage_factory=inline_stages(0.01))
    with pytest.raises(RequestRefused, match="it is not running"):
        await made.complete("x")
    async with made.running():
        pass
    with pytest.raises(RequestRefused, match="it is not running"):
        await made.complete("x")


def test_another_event_loop_is_told_of() -> None:
    with pytest.raises(RuntimeError, match="Trio does not run here"):
        AsyncOmni(ScriptedPipeline(script=Script())).running()


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize("given", [None, 5, ["a", "b"]])
async def test_what_is_no_request_is_a_type_error(autojump_clock: MockClock, given: Any) -> None:
    async with scripted_requests() as omni:
        with pytest.raises(TypeError, match=f"request is a {type(given).__name__}, not a text"):
            await omni.complete(given)
        with pytest.raises(TypeError, match=f"request is a {type(given).__name__}, not a text"):
            async with omni.generate(given):
                raise AssertionError("it was asked")


async def test_an_id_that_is_live_is_refused(autojump_clock: MockClock) -> None:
    async with scripted_requests(max_requests=1) as omni:
        async with omni.generate(OmniRequest("x", request_id="r")):
            with pytest.raises(RequestRefused) as caught:
                await omni.complete(OmniRequest("y", request_id="r"))
            assert (caught.value.code, caught.value.param) == ("invalid_value", "request_id")
        assert (await omni.complete(OmniRequest("y", request_id="r"))).request_id == "r"


SILENT = np.zeros(10, np.float32)
WRONG: Sequence[tuple[Callable[[], OmniRequest], str, str]] = [
    (lambda: OmniRequest([]), "invalid_value", "messages"),
    (lambda: OmniRequest([5]), "invalid_value", "messages[0]"),  # type: ignore[list-item]
    (lambda: OmniRequest(5), "invalid_value", "messages[0]"),
    (lambda: OmniRequest(""), "invalid_value", "messages[0].content"),
    (lambda: OmniRequest(Message("user", 5)), "invalid_value", "messages[0].content[0]"),
    (lambda: OmniRequest("x", modalities=5), "invalid_value", "modalities"),
    (lambda: OmniRequest("x", tools=5), "invalid_value", "tools[0].name"),
    (lambda: OmniRequest(Message("assistant", calls=5)), "invalid_value", "messages[0].calls[0]"),
    (lambda: OmniRequest([Message("robot", "x")]), "invalid_value", "messages[0].role"),  # type: ignore[arg-type]
    (lambda: OmniRequest([Message("user", [5])]), "invalid_value", "messages[0].content[0]"),
    (lambda: OmniRequest([Message("user", Text(5))]), "invalid_value", "messages[0].content[0].text"),  # type: ignore[arg-type]
    (lambda: OmniRequest([Message("tool", "x")]), "invalid_value", "messages[0].call_id"),
    (lambda: OmniRequest([Message("user", "x", call_id="c")]), "invalid_value", "messages[0].call_id"),
    (
        lambda: OmniRequest([Message("user", "x", calls=[ChatCall(name="f", arguments="{}", call_id="c")])]),
        "invalid_value",
        "messages[0].calls[0]",
    ),
    (lambda: OmniRequest([Message("assistant", said())]), "invalid_value", "messages[0].content[0]"),
    (lambda: OmniRequest(Sound(SILENT, 0)), "invalid_value", "messages[0].content[0].sample_rate_hz"),
    (lambda: OmniRequest(Sound(SILENT[:0], 16_000)), "invalid_value", "messages[0].content[0].pcm"),
    (lambda: OmniRequest(Sound(SILENT.reshape(2, 5), 16_000)), "invalid_value", "messages[0].content[0].pcm"),
    (
        lambda: OmniRequest(Sound(SILENT.astype(np.int16), 16_000)),
        "invalid_value",
        "messages[0].content[0].pcm",
    ),
    (lambda: OmniRequest(Sound(SILENT / 0, 16_000)), "invalid_value", "messages[0].content[0].pcm"),
    (lambda: OmniRequest(Sound([0.0], 16_000)), "invalid_value", "messages[0].content[0].pcm"),  # type: ignore[arg-type]
    (lambda: OmniRequest(Picture(grey_png(4, 4))), "unsupported", "messages[0].content[0]"),
    (lambda: OmniRequest("x", instructions=5), "invalid_value", "instructions"),  # type: ignore[arg-type]
    (lambda: OmniRequest("x", modalities=[]), "invalid_value", "modalities"),
    (lambda: OmniRequest("x", modalities="video"), "invalid_value", "modalities"),
    (lambda: OmniRequest("x", voice="nobody"), "invalid_value", "voice"),
    (lambda: OmniRequest("x", speed=9), "invalid_value", "speed"),
    (lambda: OmniRequest("x", temperature=float("nan")), "invalid_value", "temperature"),
    (lambda: OmniRequest("x", max_output_tokens=0), "invalid_value", "max_output_tokens"),
    (lambda: OmniRequest("x", request_id=""), "invalid_value", "request_id"),
    (lambda: OmniRequest("x", request_id="x" * 300), "invalid_value", "request_id"),
    (lambda: OmniRequest("x", sampling={"seed": 1}), "invalid_value", "sampling"),  # type: ignore[arg-type]
    (lambda: OmniRequest("x", sampling=Sampling(json_schema={})), "unsupported", "sampling.json_schema"),
    (lambda: OmniRequest("x", tools=[{"name": ""}]), "invalid_value", "tools[0].name"),
    (lambda: OmniRequest("x", tools=[TOOL, TOOL]), "invalid_value", "tools[1].name"),
    (
        lambda: OmniRequest("x", tools=[{**TOOL, "parameters": {"type": "nonsense"}}]),
        "invalid_value",
        "tools[0].parameters",
    ),
    (lambda: OmniRequest("x", tool_choice="required"), "invalid_value", "tool_choice"),
    (lambda: OmniRequest("x", tools=[TOOL], tool_choice={"name": "f"}), "invalid_value", "tool_choice.name"),
]


@pytest.mark.filterwarnings("ignore:invalid value encountered")
async def test_what_is_wrong_is_refused_by_its_field(autojump_clock: MockClock) -> None:
    async with scripted_requests() as omni:
        for make, code, param in WRONG:
            with pytest.raises(RequestRefused) as caught:
                await omni.complete(make())
            assert (caught.value.code, caught.value.param) == (code, param)
        assert figure(omni, 'duplex_requests_total{status="refused"}') == len(WRONG)
        await idle(omni)


async def test_pictures_that_are_none_are_refused(autojump_clock: MockClock) -> None:
    async with scripted_requests(pipeline=TurnsPipeline()) as omni:
        for data in (b"GIF89a", "https://example.org/cat.png", grey_png(4, 4)[:-3]):
            with pytest.raises(RequestRefused) as caught:
                await omni.complete(OmniRequest(Picture(data)))
            assert (caught.value.code, caught.value.param) == ("invalid_image", "messages[0].content[0].data")


async def test_a_model_without_a_way_to_answer_requests_is_no_omni() -> None:
    with pytest.raises(ValueError, match="processor is not declared"):
        AsyncOmni(NativePipeline())


# ------------------------------------------------------------------ beside sessions


async def test_a_model_that_has_sessions_answers_requests_too(autojump_clock: MockClock) -> None:
    """By the same method, and in nobody's session; a model that owns its turns has no answer to a request."""
    async with scripted_omni(Script(heard=["and I said"])) as omni:
        assert (await omni.complete(OmniRequest(said(), modalities=["audio"]))).text == "You said: and I said"
        assert omni.statistics().sessions == 0
        talker = await open_talker(omni)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(omni.drain, 1.0)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(RequestRefused):
                await omni.complete("hello")
        await finish(omni, talker)
    async with scripted_omni(pipeline=NativePipeline()) as omni:
        with pytest.raises(RequestRefused) as caught:
            await omni.complete(OmniRequest("hello", modalities=["audio"]))
        assert caught.value.code == "text_only_turn_unsupported"
