"""Requests that stay in the real engine between their segments.

Texts are compared where the model counts on: there the next token is so likely that the rounding of another batch or
another path through the caches cannot change it. " 31," has four tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio

from duplex_trio.stages.port import UNLIMITED, StageOutput, StageRequest, StageStream
from duplex_trio.stages.run import ThreadStage
from duplex_trio.stages.units import (
    ChatMessage,
    ChatPrompt,
    GenerationParams,
    PromptUpdate,
    SegmentEnd,
    TextDelta,
)
from duplex_trio.stages.vllm import UPDATES_MAX, VllmWorker
from duplex_trio.stages.worker import StageWorker, WorkerContext
from duplex_trio.testing.keep_loaded import KeepLoaded
from duplex_trio.testing.stage_script import RunStage

pytestmark = pytest.mark.models


class Engine:
    """What the real engine did, read from its own scheduler."""

    def __init__(self, worker: StageWorker) -> None:
        assert isinstance(worker, KeepLoaded)
        inner = worker._inner
        assert isinstance(inner, VllmWorker)
        self.worker = inner
        self.computed: Counter[str] = Counter()

    @property
    def scheduler(self) -> Any:
        return self.worker._engine.engine_core.engine_core.scheduler

    @property
    def live(self) -> int:
        return len(self.scheduler.requests)

    def count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Count from now on how many tokens each engine request is computed for."""
        schedule = self.scheduler.schedule

        def counted(*args: Any) -> Any:
            output = schedule(*args)
            self.computed.update(output.num_scheduled_tokens)
            return output

        monkeypatch.setattr(self.scheduler, "schedule", counted)


@pytest.fixture
async def llm(llm_worker: StageWorker, running: RunStage) -> AsyncIterator[ThreadStage]:
    async with running(llm_worker) as stage:
        yield stage


@pytest.fixture
def engine(llm: ThreadStage, llm_worker: StageWorker) -> Engine:
    engine = Engine(llm_worker)
    assert engine.live == 0
    return engine


def open_request(
    stage: ThreadStage, request_id: str = "a", *, window: int = UNLIMITED, **params: Any
) -> StageStream:
    given = {"temperature": 0.0, "max_tokens": 3, "ignore_eos": True} | params
    return stage.open(
        StageRequest(request_id=request_id, resumable=True, params=GenerationParams(**given), window=window)
    )


def count(first: int, last: int) -> PromptUpdate:
    return PromptUpdate(text=f"{first}," + numbers(*range(first + 1, last + 1)))


def numbers(*values: int) -> str:
    return "".join(f" {value}," for value in values)


async def segment(stream: StageStream) -> tuple[str, TextDelta]:
    """The text of the next segment, and its last delta."""
    text = ""
    while True:
        try:
            output = await stream.outputs.receive()
        except trio.EndOfChannel:
            raise AssertionError(stream.failure) from None
        text += output.data.text
        if output.finished or isinstance(output.data, SegmentEnd):
            assert output.finished != isinstance(output.data, SegmentEnd)
            return text, output.data


async def ending(stream: StageStream) -> SegmentEnd:
    _, last = await segment(stream)
    assert isinstance(last, SegmentEnd)
    return last


async def code_of_failure(stream: StageStream) -> str:
    [_ async for _ in stream.outputs]
    assert stream.failure is not None
    return stream.failure.code


async def ask(
    stage: ThreadStage, request_id: str, *messages: ChatMessage, max_tokens: int
) -> list[StageOutput]:
    params = GenerationParams(temperature=0.0, max_tokens=max_tokens, ignore_eos=True)
    stream = stage.open(StageRequest(request_id=request_id, params=params))
    stream.submit_nowait(ChatPrompt(messages=messages))
    outputs = [output async for output in stream.outputs]
    assert stream.failure is None, stream.failure
    return outputs


def said(role: Any, content: str) -> ChatMessage:
    return ChatMessage(role=role, content=content)


async def test_each_update_makes_one_segment_on_what_was_read_and_said(llm: ThreadStage) -> None:
    stream = open_request(llm, max_tokens=4)
    stream.submit_nowait(count(21, 30))
    text, first = await segment(stream)
    assert text == numbers(31)
    assert isinstance(first, SegmentEnd)
    assert first.finish_reason == "length"
    assert first.completion_tokens == 4
    assert first.context_tokens == first.prompt_tokens + 3
    assert first.dropped_token_id is not None
    stream.submit_nowait(PromptUpdate(token_ids=[first.dropped_token_id]))
    text, second = await segment(stream)
    assert text == numbers(32)
    assert second.prompt_tokens == first.context_tokens + 1
    stream.submit_nowait(PromptUpdate(text=", 33,"), final=True)
    text, third = await segment(stream)
    assert text == numbers(34)
    assert type(third) is TextDelta
    assert third.finish_reason == "length"
    await stream.wait_released()


async def test_the_engine_computes_only_what_is_new(
    llm: ThreadStage, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.count(monkeypatch)
    stream = open_request(llm, max_tokens=5)
    stream.submit_nowait(PromptUpdate(token_ids=range(1000, 1070)))
    first = await ending(stream)
    assert (first.prompt_tokens, first.cached_tokens, first.context_tokens) == (70, 0, 74)
    assert list(engine.computed.values()) == [74]
    for read in (7, 1):
        stream.submit_nowait(PromptUpdate(token_ids=range(2000, 2000 + read)))
        end = await ending(stream)
        assert end.prompt_tokens - end.cached_tokens == read
        assert end.cached_tokens == end.context_tokens - read - 4
    assert list(engine.computed.values()) == [74 + 7 + 4 + 1 + 4], (
        "one request of the engine, and nothing twice"
    )
    await stream.aclose()


async def test_a_request_in_pieces_says_what_one_with_the_whole_prompt_says(llm: ThreadStage) -> None:
    pieces = open_request(llm, "pieces", max_tokens=8)
    pieces.submit_nowait(count(21, 30))
    text, first = await segment(pieces)
    assert text == numbers(31, 32)
    pieces.submit_nowait(PromptUpdate(text=", 33, 34,"), final=True)
    text, last = await segment(pieces)
    whole = open_request(llm, "whole", max_tokens=8)
    whole.submit_nowait(count(21, 34), final=True)
    whole_text, whole_last = await segment(whole)
    assert text == whole_text == numbers(35, 36)
    assert last.prompt_tokens == whole_last.prompt_tokens
    assert last.cached_tokens == first.prompt_tokens + 7


async def test_what_is_dropped_is_not_remembered(llm: ThreadStage) -> None:
    stream = open_request(llm, max_tokens=4)
    stream.submit_nowait(count(21, 30))
    text, first = await segment(stream)
    assert text == numbers(31)
    # Together with what is kept of " 31," this reads "31 77, 78,".
    stream.submit_nowait(PromptUpdate(text=" 77, 78, 79, 80,"), final=True)
    text, last = await segment(stream)
    assert text == numbers(81)
    whole = open_request(llm, "whole", max_tokens=4)
    whole.submit_nowait(PromptUpdate(text=f"21,{numbers(*range(22, 31))} 31 77, 78, 79, 80,"), final=True)
    assert (await segment(whole))[1].prompt_tokens == last.prompt_tokens
    assert first.completion_tokens == 4


async def test_a_conversation_in_pieces_has_the_prompt_of_the_whole_one(
    llm: ThreadStage, engine: Engine
) -> None:
    """The user's next turn as an update is, token for token, what the chat template makes of the conversation."""
    chat = engine.worker._chat
    assert chat is not None
    question, next_question = said("user", "Name a colour."), said("user", "And another one?")
    stream = open_request(llm, max_tokens=9)
    stream.submit_nowait(ChatPrompt(messages=[question]))
    deltas = [(await stream.outputs.receive()).data for _ in range(9)]
    assert isinstance(deltas[-1], SegmentEnd)
    answer = said("assistant", "".join(delta.text for delta in deltas[:-1]))
    whole = chat.encode([question, answer, next_question])
    stream.submit_nowait(PromptUpdate(token_ids=whole[deltas[-1].context_tokens :]), final=True)
    text, last = await segment(stream)
    assert last.prompt_tokens == len(whole)
    (*_, ordinary) = await ask(llm, "whole", question, answer, next_question, max_tokens=9)
    assert ordinary.data.prompt_tokens == last.prompt_tokens
    assert text


async def test_many_requests_in_one_batch_do_not_mix(llm: ThreadStage) -> None:
    async def talk(start: int) -> None:
        stream = open_request(llm, f"from-{start}", max_tokens=4)
        stream.submit_nowait(count(start, start + 9))
        for number in range(start + 10, start + 13):
            assert (await segment(stream))[0] == numbers(number)
            stream.submit_nowait(PromptUpdate(text=","))
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        for start in (21, 41, 71):
            nursery.start_soon(talk, start)
        for number in range(2):
            outputs = await ask(llm, f"ordinary-{number}", said("user", "Count to ten."), max_tokens=10)
            assert outputs[-1].data.completion_tokens == 10


async def test_updates_that_arrive_early_wait_and_keep_their_order(llm: ThreadStage) -> None:
    stream = open_request(llm, max_tokens=2)
    stream.submit_nowait(count(21, 30))
    for read in (1, 2, 3):
        stream.submit_nowait(PromptUpdate(token_ids=[1000] * read), final=read == 3)
    ends = [last async for last in _lasts(stream)]
    assert [type(last) for last in ends] == [SegmentEnd] * 3 + [TextDelta]
    new = [last.prompt_tokens - last.cached_tokens for last in ends[1:]]
    assert new == [1, 2, 3]


async def _lasts(stream: StageStream) -> AsyncIterator[TextDelta]:
    async for output in stream.outputs:
        if output.data.finish_reason is not None:
            yield output.data


async def test_too_many_early_updates_fail_their_request_only(llm: ThreadStage, engine: Engine) -> None:
    stream, other = open_request(llm), open_request(llm, "other")
    other.submit_nowait(count(41, 50))
    for _ in range(UPDATES_MAX + 2):
        stream.submit_nowait(PromptUpdate(token_ids=[1000]))
    assert await code_of_failure(stream) == "input_backpressure"
    await ending(other)
    assert engine.live == 1
    await other.aclose()


async def test_the_end_of_the_input_ends_a_request_that_waits(llm: ThreadStage, engine: Engine) -> None:
    stream = open_request(llm)
    stream.submit_nowait(count(21, 30))
    await ending(stream)
    assert engine.live == 1
    await stream.submit(None, final=True)
    output = await stream.outputs.receive()
    assert output.finished
    assert output.data == TextDelta(text="", finish_reason="stop")
    assert engine.live == 0


async def test_the_end_of_the_input_lets_a_segment_be_completed(llm: ThreadStage, engine: Engine) -> None:
    stream = open_request(llm, max_tokens=20)
    stream.submit_nowait(count(21, 30))
    await stream.outputs.receive()
    await stream.submit(None, final=True)
    _, last = await segment(stream)
    assert type(last) is TextDelta
    assert last.completion_tokens == 20
    assert engine.live == 0


@pytest.mark.parametrize("early_updates", [0, 3])
async def test_an_abort_while_a_segment_is_generated(
    llm: ThreadStage, engine: Engine, early_updates: int
) -> None:
    stream = open_request(llm, max_tokens=500)
    stream.submit_nowait(count(21, 30))
    for _ in range(early_updates):
        stream.submit_nowait(PromptUpdate(token_ids=[1000]))
    await stream.outputs.receive()
    await stream.aclose()
    assert engine.live == 0
    again = open_request(llm, max_tokens=4)
    again.submit_nowait(count(41, 50), final=True)
    assert (await segment(again))[0] == numbers(51)


async def test_an_abort_while_the_request_waits(llm: ThreadStage, engine: Engine) -> None:
    stream = open_request(llm)
    stream.submit_nowait(count(21, 30))
    await ending(stream)
    await stream.aclose()
    assert engine.live == 0
    assert engine.scheduler.num_waiting_for_streaming_input == 0
    assert (await ask(llm, "a", said("user", "Hello."), max_tokens=2))[-1].data.completion_tokens == 2


async def test_an_update_that_leaves_no_room_fails_its_request_only(llm: ThreadStage, engine: Engine) -> None:
    stream, other = open_request(llm), open_request(llm, "other", max_tokens=4)
    for each in (stream, other):
        each.submit_nowait(count(21, 30))
    end = await ending(stream)
    await ending(other)
    # One token fits behind 2047.
    stream.submit_nowait(PromptUpdate(token_ids=[1000] * (2047 - end.context_tokens)))
    full = await ending(stream)
    assert (full.prompt_tokens, full.completion_tokens, full.context_tokens) == (2047, 1, 2047)
    stream.submit_nowait(PromptUpdate(token_ids=[1000]))
    assert await code_of_failure(stream) == "context_length_exceeded"
    assert engine.live == 1
    other.submit_nowait(PromptUpdate(text=","), final=True)
    assert (await segment(other))[0] == numbers(32)


@pytest.mark.parametrize(
    "update",
    [
        PromptUpdate(),
        PromptUpdate(token_ids=[10**6]),
        PromptUpdate(text=""),
        PromptUpdate(text="\ud800"),
        "just text",
        ChatPrompt(messages=[said("user", "Hello.")]),
    ],
)
async def test_a_bad_update_fails_its_request_only(llm: ThreadStage, engine: Engine, update: Any) -> None:
    stream, other = open_request(llm), open_request(llm, "other", max_tokens=4)
    for each in (stream, other):
        each.submit_nowait(count(21, 30))
        await ending(each)
    stream.submit_nowait(update)
    expected = "unsupported" if isinstance(update, ChatPrompt) else "invalid_value"
    assert await code_of_failure(stream) == expected
    assert engine.live == 1
    other.submit_nowait(PromptUpdate(text=","), final=True)
    assert (await segment(other))[0] == numbers(32)


async def test_text_of_an_update_cannot_speak_as_a_control_token(llm: ThreadStage, engine: Engine) -> None:
    chat = engine.worker._chat
    assert chat is not None
    assert chat.encode_text("<|im_end|>\n") == chat.encode_text(" \n")
    stream = open_request(llm, max_tokens=1)
    stream.submit_nowait(PromptUpdate(text="<|im_end|>"))
    assert (await ending(stream)).prompt_tokens == len(chat.encode_text(" "))
    await stream.aclose()


async def test_a_prompt_update_needs_a_resumable_request(llm: ThreadStage) -> None:
    stream = llm.open(StageRequest(request_id="a"))
    stream.submit_nowait(count(21, 30))
    assert await code_of_failure(stream) == "invalid_value"


async def test_requests_that_wait_take_no_place_from_others_and_go_on_later(
    llm: ThreadStage, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More requests wait for their users than the engine has places; others run side by side all the same."""
    places = engine.worker._engine.vllm_config.scheduler_config.max_num_seqs
    streams = [open_request(llm, f"r{number}", max_tokens=4) for number in range(places + 1)]
    for number, stream in enumerate(streams):
        stream.submit_nowait(count(21 + number, 32 + number))
        assert (await segment(stream))[0] == numbers(33 + number)
    assert engine.live == places
    together = 0

    async def ordinary(number: int) -> None:
        await ask(llm, f"ordinary-{number}", said("user", "Count to ten."), max_tokens=10)

    schedule = engine.scheduler.schedule

    def watched(*args: Any) -> Any:
        nonlocal together
        output = schedule(*args)
        together = max(together, len(output.num_scheduled_tokens))
        return output

    monkeypatch.setattr(engine.scheduler, "schedule", watched)
    async with trio.open_nursery() as nursery:
        for number in range(places):
            nursery.start_soon(ordinary, number)
    assert together == places
    assert engine.live == 0, "all who wait are parked"
    for number, stream in enumerate(streams):
        stream.submit_nowait(PromptUpdate(text=","), final=True)
        text, last = await segment(stream)
        assert text == numbers(34 + number)
        assert last.cached_tokens >= 32, "the prefix cache has the beginning still"
    assert engine.live == 0


async def test_a_stop_string_ends_a_segment(llm: ThreadStage, engine: Engine) -> None:
    stream = open_request(llm, max_tokens=20, stop=["33", "36"])
    stream.submit_nowait(count(21, 30))
    text, first = await segment(stream)
    assert text == " 31, 32, "
    assert first.finish_reason == "stop"
    assert isinstance(first, SegmentEnd)
    assert first.context_tokens == first.prompt_tokens + 10
    assert first.dropped_token_id is not None
    assert engine.live == 0
    stream.submit_nowait(PromptUpdate(token_ids=[first.dropped_token_id]))
    text, second = await segment(stream)
    assert text == ", 34, 35, "
    assert second.prompt_tokens == first.context_tokens + 1
    await stream.aclose()


async def test_a_structure_holds_for_each_segment(llm: ThreadStage) -> None:
    stream = open_request(
        llm, max_tokens=30, ignore_eos=False, extra={"structured_outputs": {"choice": ["alpha beta"]}}
    )
    stream.submit_nowait(count(21, 30))
    for _ in range(2):
        assert (await segment(stream))[0] == "alpha beta"
        stream.submit_nowait(PromptUpdate(text=" and"))
    assert (await segment(stream))[0] == "alpha beta"
    await stream.aclose()


async def test_a_closed_window_delays_the_next_segment_and_nobody_else(llm: ThreadStage) -> None:
    slow = open_request(llm, "slow", window=1, max_tokens=4)
    slow.submit_nowait(count(21, 30))
    slow.submit_nowait(PromptUpdate(text=","))
    first = await slow.outputs.receive()
    for number in range(2):
        await ask(llm, f"quick-{number}", said("user", "Hello."), max_tokens=6)
    with pytest.raises(trio.WouldBlock):
        slow.outputs.receive_nowait()
    slow.consumed()
    rest = await slow.outputs.receive()
    assert first.data.text + rest.data.text == numbers(31)
    assert isinstance(rest.data, SegmentEnd)
    slow.consumed()
    again = await slow.outputs.receive()
    assert again.data.prompt_tokens == rest.data.context_tokens + 1
    await slow.aclose()


class Steps(KeepLoaded):
    """Remembers what the last step said."""

    more = True

    def step(self, context: WorkerContext) -> bool:
        self.more = super().step(context)
        return self.more


async def test_a_request_that_waits_costs_no_steps(llm_worker: StageWorker, running: RunStage) -> None:
    worker = Steps(llm_worker)
    async with running(worker) as stage:
        stream = open_request(stage)
        stream.submit_nowait(count(21, 30))
        await ending(stream)
        while worker.more:
            await trio.lowlevel.checkpoint()
        stream.submit_nowait(PromptUpdate(text=","))
        assert (await ending(stream)).completion_tokens == 3


async def test_metrics_are_those_of_a_segment(llm: ThreadStage) -> None:
    stream = open_request(llm)
    for _ in range(2):
        stream.submit_nowait(count(21, 30))
        outputs = [await stream.outputs.receive() for _ in range(3)]
        assert "ttft_ms" in outputs[0].metrics
        assert outputs[-1].metrics["stage_gen_time_ms"] > outputs[0].metrics["ttft_ms"]
    await stream.aclose()
