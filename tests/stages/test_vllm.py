from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
import trio

from duplex_trio.stages.errors import StageLoadError
from duplex_trio.stages.port import UNLIMITED, StageFailed, StageOutput, StageRequest, StageStream
from duplex_trio.stages.run import ThreadStage
from duplex_trio.stages.units import ChatMessage, ChatPrompt, GenerationParams, TextDelta
from duplex_trio.stages.worker import StageWorker, WorkerContext
from duplex_trio.testing.keep_loaded import KeepLoaded
from duplex_trio.testing.stage_script import RunStage

pytestmark = pytest.mark.models

GREEDY: dict[str, Any] = {"temperature": 0.0}


def user(text: str) -> ChatPrompt:
    return ChatPrompt(messages=[ChatMessage(role="user", content=text)])


def ask(
    stage: ThreadStage, request_id: str, prompt: ChatPrompt, *, window: int = UNLIMITED, **params: Any
) -> StageStream:
    request = StageRequest(request_id=request_id, params=GenerationParams(**(GREEDY | params)), window=window)
    stream = stage.open(request)
    stream.submit_nowait(prompt, final=True)
    return stream


async def answer(stream: StageStream) -> list[StageOutput]:
    outputs = [output async for output in stream.outputs]
    assert stream.failure is None, stream.failure
    return outputs


async def failure(stream: StageStream) -> StageFailed:
    assert [output async for output in stream.outputs] == []
    assert stream.failure is not None
    return stream.failure


def text_of(outputs: Sequence[StageOutput]) -> str:
    return "".join(output.data.text for output in outputs)


async def generate(stage: ThreadStage, text: str, **params: Any) -> tuple[str, TextDelta]:
    outputs = await answer(ask(stage, "generate", user(text), **params))
    return text_of(outputs), outputs[-1].data


async def test_a_greedy_answer_is_the_same_twice(llm: ThreadStage) -> None:
    await generate(llm, "Name three colours.", max_tokens=1)  # the prompt is in the prefix cache from here on
    first, _ = await generate(llm, "Name three colours.", max_tokens=30)
    second, last = await generate(llm, "Name three colours.", max_tokens=30)
    assert first == second
    assert len(first) > 20
    assert last.finish_reason == "length"


async def test_the_model_makes_sense(llm: ThreadStage) -> None:
    """Weights, rotation and tokenizer fit together: the converted model answers in English, and about what was asked.

    Which words it chooses depends on how the processor rounds.
    """
    text, _ = await generate(llm, "Write one short sentence about dogs.", max_tokens=30)
    assert re.search(r"\b(dog|canine|pupp|pet|companion)", text, re.IGNORECASE)


async def test_deltas_arrive_one_by_one_and_the_last_tells_the_counts(llm: ThreadStage) -> None:
    prompt = user("Count from one to ten.")
    outputs = await answer(ask(llm, "a", prompt, max_tokens=12, ignore_eos=True))
    assert 2 < len(outputs) <= 12
    assert all(isinstance(output.data, TextDelta) for output in outputs)
    assert [output.data.finish_reason for output in outputs[:-1]] == [None] * (len(outputs) - 1)
    assert [output.finished for output in outputs] == [False] * (len(outputs) - 1) + [True]
    last = outputs[-1].data
    assert last.finish_reason == "length"
    assert last.completion_tokens == 12
    assert last.prompt_tokens > 20
    assert last.cached_tokens < last.prompt_tokens


async def test_metrics_tell_when_text_was_made(llm: ThreadStage) -> None:
    outputs = await answer(ask(llm, "a", user("Hello."), max_tokens=5, ignore_eos=True))
    assert all(output.metrics["step_ms"] > 0 for output in outputs)
    assert outputs[0].metrics["vllm_ttft_ms"] > 0
    assert all("vllm_ttft_ms" not in output.metrics for output in outputs[1:])
    waits = [wait for output in outputs for wait in output.metrics.get("vllm_itls_ms", ())]
    assert len(waits) == 4
    assert all(wait > 0 for wait in waits)
    last = outputs[-1].metrics
    assert last["vllm_tpot_ms"] == pytest.approx(sum(last["vllm_itls_ms"]) / len(last["vllm_itls_ms"]))


async def test_a_conversation_finds_its_beginning_in_the_cache(llm: ThreadStage) -> None:
    history = [
        ChatMessage(
            role="user", content="My favourite animals are otters, because they hold hands in the water."
        ),
        ChatMessage(role="assistant", content="What a lovely choice. Otters are playful, clever and kind."),
    ]
    first = ChatPrompt(messages=[*history, ChatMessage(role="user", content="What do they eat?")])
    await answer(ask(llm, "a", first, max_tokens=2))
    second = ChatPrompt(messages=[*history, ChatMessage(role="user", content="Where do they live?")])
    last = (await answer(ask(llm, "b", second, max_tokens=2)))[-1].data
    assert last.cached_tokens >= 32


async def test_requests_at_once_each_get_their_own_answer(llm: ThreadStage) -> None:
    lines = [
        "the cat sat on the mat",
        "two and two are four",
        "rain falls in spring",
        "sleep well until morning",
    ]
    texts: dict[str, str] = {}

    async def collect(line: str, stream: StageStream) -> None:
        outputs = await answer(stream)
        assert {output.request_id for output in outputs} == {line}
        texts[line] = text_of(outputs)

    async with trio.open_nursery() as nursery:
        for line in lines:
            said = {"structured_outputs": {"choice": [line]}}
            nursery.start_soon(collect, line, ask(llm, line, user(f"Repeat: {line}"), extra=said))
    assert texts == {line: line for line in lines}


async def test_more_requests_than_fit_into_a_step_wait_for_their_turn(llm: ThreadStage) -> None:
    streams = [ask(llm, f"r{i}", user(f"Say {i}."), max_tokens=3, ignore_eos=True) for i in range(11)]
    for stream in streams:
        assert (await answer(stream))[-1].data.completion_tokens == 3


async def test_an_aborted_request_is_silent_and_the_next_one_works(llm: ThreadStage) -> None:
    stream = ask(llm, "a", user("Tell me a very long story."), ignore_eos=True)
    received = [await stream.outputs.receive() for _ in range(3)]
    assert text_of(received)
    stream.abort()
    waiting = stream.outputs.statistics().current_buffer_used
    await stream.wait_released()
    assert stream.outputs.statistics().current_buffer_used == waiting
    again = ask(llm, "a", user("Hello."), max_tokens=3, ignore_eos=True)
    assert (await answer(again))[-1].data.completion_tokens == 3
    assert llm.statistics().aborted_total == 1


async def test_an_abort_of_one_leaves_the_others_alone(llm: ThreadStage) -> None:
    kept = ask(llm, "kept", user("Count to twenty."), max_tokens=12, ignore_eos=True)
    dropped = ask(llm, "dropped", user("Count to thirty."), ignore_eos=True)
    await dropped.outputs.receive()
    await dropped.aclose()
    assert (await answer(kept))[-1].data.completion_tokens == 12


async def test_an_abort_before_the_first_step_costs_nothing(llm: ThreadStage) -> None:
    stream = ask(llm, "a", user("Hello."))
    stream.abort()
    await stream.wait_released()
    assert (await generate(llm, "Hello.", max_tokens=2))[1].completion_tokens == 2


async def test_a_prompt_that_does_not_fit_is_refused_with_the_numbers(llm: ThreadStage) -> None:
    failed = await failure(ask(llm, "a", user("word " * 3000)))
    assert failed.code == "context_length_exceeded"
    numbers = [int(number) for number in re.findall(r"\d+", failed.message)]
    assert numbers[0] > 3000
    assert numbers[-1] == 2048


async def test_an_answer_is_as_long_as_fits(llm: ThreadStage) -> None:
    """`max_tokens` beyond the room is no error; the answer ends where the context does."""
    prompt = user("word " * 1990)
    outputs = await answer(ask(llm, "a", prompt, max_tokens=1000, ignore_eos=True))
    last = outputs[-1].data
    assert last.finish_reason == "length"
    assert 1 < last.completion_tokens < 60
    assert last.prompt_tokens + last.completion_tokens == 2048


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": math.nan}, "temperature"),
        ({"temperature": "warm"}, "temperature"),
        ({"top_p": 7.0}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"seed": True}, "seed"),
        ({"stop": [3]}, "sampling parameters"),
        ({"extra": {"nonsense": 1}}, "nonsense"),
        ({"extra": {"n": 2}}, "n cannot be set"),
        ({"extra": {"max_tokens": "many"}}, "max_tokens"),
        ({"extra": {"logit_bias": {10**9: 1.0}}}, "logit_bias"),
        ({"extra": {"structured_outputs": {"json": "{"}}}, "JSON"),
        ({"extra": {"structured_outputs": {"colour": "red"}}}, "colour"),
        ({"extra": {"structured_outputs": {}}}, "structured outputs"),
        ({"extra": {"structured_outputs": None}}, "must be a mapping"),
        ({"extra": {"repetition_detection": {"colour": "red"}}}, "colour"),
    ],
)
async def test_bad_parameters_fail_their_request_only(
    llm: ThreadStage, params: dict[str, Any], named: str
) -> None:
    other = ask(llm, "other", user("Hello."), max_tokens=4, ignore_eos=True)
    failed = await failure(ask(llm, "bad", user("Hello."), **params))
    assert failed.code == "invalid_value"
    assert named in failed.message
    assert (await answer(other))[-1].data.completion_tokens == 4


async def test_an_answer_that_repeats_itself_can_be_ended(llm: ThreadStage) -> None:
    again = {"max_pattern_size": 2, "min_pattern_size": 1, "min_count": 3}
    always = {"repetition_detection": again, "allowed_token_ids": [28]}
    last = (await answer(ask(llm, "a", user("Hello."), max_tokens=20, ignore_eos=True, extra=always)))[
        -1
    ].data
    assert last.completion_tokens < 20


@pytest.mark.parametrize(
    ("unit", "code"),
    [
        ("just text", "invalid_value"),
        (ChatPrompt(messages=[ChatMessage(role="user", content=3)]), "invalid_value"),  # type: ignore[arg-type]
    ],
)
async def test_a_unit_of_another_kind_fails_its_request(llm: ThreadStage, unit: Any, code: str) -> None:
    stream = llm.open(StageRequest(request_id="a"))
    await stream.submit(unit)
    assert (await failure(stream)).code == code


async def test_params_of_another_kind_fail_the_request(llm: ThreadStage) -> None:
    stream = llm.open(StageRequest(request_id="a", params={"temperature": 1}))
    await stream.submit(user("Hello."))
    assert (await failure(stream)).code == "invalid_value"


async def test_a_second_prompt_fails_the_request(llm: ThreadStage) -> None:
    stream = llm.open(StageRequest(request_id="a"))
    stream.submit_nowait(user("Hello."))
    stream.submit_nowait(user("Hello again."))
    [_ async for _ in stream.outputs]
    assert stream.failure is not None
    assert stream.failure.code == "unsupported"


async def test_a_request_that_ends_without_a_prompt_is_empty(llm: ThreadStage) -> None:
    stream = llm.open(StageRequest(request_id="a"))
    await stream.submit(None, final=True)
    (output,) = await answer(stream)
    assert output.data == TextDelta(text="", finish_reason="stop")


async def test_the_end_of_the_input_after_a_prompt_changes_nothing(llm: ThreadStage) -> None:
    stream = llm.open(StageRequest(request_id="a", params=GenerationParams(max_tokens=3, ignore_eos=True)))
    stream.submit_nowait(user("Hello."))
    stream.submit_nowait(None, final=True)
    assert (await answer(stream))[-1].data.completion_tokens == 3


async def test_a_stop_string_ends_the_answer_and_is_not_part_of_it(llm: ThreadStage) -> None:
    choice = {"structured_outputs": {"choice": ["alpha beta gamma delta"]}}
    text, last = await generate(llm, "Say it.", stop=["gamma"], extra=choice)
    assert text == "alpha beta "
    assert (last.finish_reason, last.stopped_by_text) == ("stop", True)
    _, last = await generate(llm, "Say it.", stop=["omega"], extra=choice)
    assert (last.finish_reason, last.stopped_by_text) == ("stop", False)


async def test_characters_are_never_cut(llm: ThreadStage) -> None:
    forced = "🙂🐉 naïve 你好 👩‍👩‍👧 é"
    stream = ask(llm, "a", user("Say it."), extra={"structured_outputs": {"choice": [forced]}})
    deltas = [output.data.text for output in await answer(stream)]
    assert "".join(deltas) == forced
    assert len(deltas) > 10
    for delta in deltas:
        assert "\N{REPLACEMENT CHARACTER}" not in delta
        delta.encode("utf-8")


async def test_an_answer_cut_inside_a_character_ends_before_it(llm: ThreadStage) -> None:
    choice = {"structured_outputs": {"choice": ["a🐉"]}}
    text, last = await generate(llm, "Say it.", max_tokens=2, extra=choice)
    assert text == "a"
    assert last.finish_reason == "length"


async def test_a_schema_is_kept(llm: ThreadStage) -> None:
    schema = {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"]}
    text, last = await generate(llm, "Oslo?", max_tokens=30, extra={"structured_outputs": {"json": schema}})
    assert json.loads(text)["city"] in ("Oslo", "Rome")
    assert "\n" not in text
    assert last.finish_reason == "stop"


async def test_a_seed_repeats_a_random_answer(llm: ThreadStage) -> None:
    await generate(llm, "Invent a name.", max_tokens=1)
    random = {"temperature": 1.5, "max_tokens": 20, "ignore_eos": True}
    first, _ = await generate(llm, "Invent a name.", seed=5, **random)
    same, _ = await generate(llm, "Invent a name.", seed=5, **random)
    other, _ = await generate(llm, "Invent a name.", seed=6, **random)
    assert first == same
    assert first != other


async def test_a_slow_consumer_gets_the_rest_in_one_piece_and_delays_nobody(llm: ThreadStage) -> None:
    slow = ask(llm, "slow", user("Count to thirty."), window=1, max_tokens=10, ignore_eos=True)
    first = await slow.outputs.receive()
    for number in range(3):
        quick = ask(llm, f"quick-{number}", user("Count to thirty."), max_tokens=10, ignore_eos=True)
        assert (await answer(quick))[-1].data.completion_tokens == 10
    with pytest.raises(trio.WouldBlock):
        slow.outputs.receive_nowait()
    slow.consumed()
    rest = await answer(slow)
    assert len(rest) == 1
    assert rest[0].finished
    assert rest[0].data.completion_tokens == 10
    assert len(first.data.text + rest[0].data.text) > 10


class Watched(KeepLoaded):
    """Notes the threads that step the engine."""

    def __init__(self, inner: StageWorker) -> None:
        super().__init__(inner)
        self.threads: set[threading.Thread] = set()

    def step(self, context: WorkerContext) -> bool:
        self.threads.add(threading.current_thread())
        return super().step(context)


async def test_the_engine_runs_in_the_stages_thread_and_the_loop_goes_on(
    llm_worker: StageWorker, running: RunStage
) -> None:
    turns = 0

    async def other_work() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    worker = Watched(llm_worker)
    seen: list[int] = []
    async with running(worker) as stage, trio.open_nursery() as nursery:
        nursery.start_soon(other_work)
        async for _ in ask(stage, "a", user("Tell me a story."), max_tokens=8, ignore_eos=True).outputs:
            seen.append(turns)
        nursery.cancel_scope.cancel()
    assert threading.current_thread() not in worker.threads
    assert len(worker.threads) == 1
    between = [later - earlier for earlier, later in pairwise(seen)]
    assert max(between) > 10, "the loop turned on and on while the engine took a step"


async def test_what_it_would_refuse_of_every_request_keeps_it_from_starting(
    llm_worker: StageWorker, running: RunStage
) -> None:
    """The sampling dry-run: the engine itself is asked, and nothing is generated."""
    worker = KeepLoaded(llm_worker)
    worker.default_params = GenerationParams(max_tokens=4, extra={"min_tokens": 9})
    told = r"refuses the parameters of a request that asks for none.*min_tokens"
    with pytest.RaisesGroup(pytest.RaisesExc(StageLoadError, match=told), flatten_subgroups=True):
        async with running(worker):
            pass
    worker.default_params = GenerationParams(max_tokens=9, extra={"min_tokens": 4})
    async with running(worker) as stage:
        assert stage.alive


async def test_totals(llm_worker: StageWorker, running: RunStage) -> None:
    before = dict(llm_worker.statistics())
    async with running(llm_worker) as stage:
        await generate(stage, "Hello.", max_tokens=4, ignore_eos=True)
    after = llm_worker.statistics()
    assert after["completion_tokens"] - before.get("completion_tokens", 0) == 4
    assert after["engine_steps"] >= before.get("engine_steps", 0) + 4
    assert after["running_requests"] == 0


async def test_a_stage_that_stops_leaves_nothing_in_the_engine(
    llm_worker: StageWorker, running: RunStage
) -> None:
    async with running(llm_worker) as stage:
        stream = ask(stage, "a", user("Tell me a very long story."), ignore_eos=True)
        await stream.outputs.receive()
    async with running(llm_worker) as stage:
        assert (await generate(stage, "Hello.", max_tokens=2))[1].completion_tokens == 2
    assert llm_worker.statistics()["running_requests"] == 0
