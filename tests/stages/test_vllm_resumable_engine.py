"""What resumable requests cost the real engine: what it computes, holds and gives back."""

from __future__ import annotations

import pytest
import trio

from duplex_trio.stages.port import StageStream
from duplex_trio.stages.run import ThreadStage
from duplex_trio.stages.units import ChatPrompt, PromptUpdate, SegmentEnd
from duplex_trio.stages.worker import StageWorker, WorkerContext
from duplex_trio.testing.keep_loaded import KeepLoaded
from duplex_trio.testing.segments import Engine, ask, count, ending, numbers, open_request, said, segment
from duplex_trio.testing.stage_script import RunStage

pytestmark = pytest.mark.models


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


async def test_an_abort_while_the_request_waits(llm: ThreadStage, engine: Engine) -> None:
    stream = open_request(llm)
    stream.submit_nowait(count(21, 30))
    await ending(stream)
    await stream.aclose()
    assert engine.live == 0
    assert engine.scheduler.num_waiting_for_streaming_input == 0
    assert (await ask(llm, "a", said("user", "Hello."), max_tokens=2))[-1].data.completion_tokens == 2


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

    async def ordinary(number: int) -> None:
        await ask(llm, f"ordinary-{number}", said("user", "Count to ten."), max_tokens=10)

    engine.count(monkeypatch)
    async with trio.open_nursery() as nursery:
        for number in range(places):
            nursery.start_soon(ordinary, number)
    assert engine.most_together == places
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


async def test_requests_that_wait_give_up_their_memory_for_others(llm: ThreadStage, engine: Engine) -> None:
    """All blocks are taken by requests that wait; one of them is parked for the one who is there."""
    pool = engine.scheduler.kv_cache_manager.block_pool
    capacity = (pool.num_gpu_blocks - 1) * engine.scheduler.block_size
    streams: list[StageStream] = []
    while capacity >= 1900:
        stream = open_request(llm, f"r{len(streams)}", max_tokens=2)
        stream.submit_nowait(PromptUpdate(token_ids=[1000 + len(streams)] * 1880))
        await ending(stream)
        streams.append(stream)
        capacity -= 1900
    assert engine.live == len(streams)
    (*_, last) = await ask(llm, "ordinary", said("user", "word " * 1950), max_tokens=2)
    assert last.data.completion_tokens == 2
    assert engine.live < len(streams)
    streams[0].submit_nowait(PromptUpdate(token_ids=[1000]), final=True)
    assert (await segment(streams[0]))[1].prompt_tokens == 1880 + 1 + 1
    for stream in streams:
        await stream.aclose()
    assert engine.live == 0
