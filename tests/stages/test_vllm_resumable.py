"""Resumable requests as a caller sees them, on the real engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio

from duplex_trio.stages.port import StageRequest, StageStream
from duplex_trio.stages.run import ThreadStage
from duplex_trio.stages.units import ChatPrompt, PromptUpdate, SegmentEnd, TextDelta
from duplex_trio.stages.vllm import UPDATES_MAX
from duplex_trio.testing.segments import (
    Engine,
    ask,
    code_of_failure,
    count,
    ending,
    numbers,
    open_request,
    said,
    segment,
)

pytestmark = pytest.mark.models


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


async def test_metrics_are_those_of_a_segment(llm: ThreadStage) -> None:
    stream = open_request(llm)
    for _ in range(2):
        stream.submit_nowait(count(21, 30))
        outputs = [await stream.outputs.receive() for _ in range(3)]
        assert [("vllm_ttft_ms" in output.metrics) for output in outputs] == [True, False, False]
        assert outputs[-1].metrics["vllm_tpot_ms"] > 0
    await stream.aclose()
