"""The stage against vLLM's own server on the CPU, and the same requests against the engine in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from duplex_trio.deploy.stage import RemoteDeploy
from duplex_trio.models.calling.guides import call_guide
from duplex_trio.models.calling.watch import CallWatch
from duplex_trio.pipelines.results import FunctionCallBegin, FunctionCallEnd
from duplex_trio.stages.remote.facts import RemoteFacts
from duplex_trio.stages.remote.run import RemoteChatStage
from duplex_trio.stages.run import run_stage
from duplex_trio.stages.units import ChatMessage, ChatPrompt
from duplex_trio.testing.http_faults.asking import answer, ask, failure, outputs_of
from duplex_trio.testing.vllm_server import VllmServer

pytestmark = [pytest.mark.models, pytest.mark.slow]

PATIENCE_S = 180.0
GREEDY: dict[str, Any] = {"temperature": 0.0}


@asynccontextmanager
async def asking(
    vllm: VllmServer, facts: RemoteFacts | None = None, **keys: Any
) -> AsyncIterator[RemoteChatStage]:
    remote = RemoteDeploy(base_url=vllm.base_url, api_key_env="KEY", **keys)
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            stage = RemoteChatStage("llm", remote, facts=facts, environment={"KEY": "k-secret"})
            await nursery.start(run_stage, stage)
            yield stage
            nursery.cancel_scope.cancel()


def user(text: str) -> ChatPrompt:
    return ChatPrompt(messages=[ChatMessage(role="user", content=text)])


async def test_the_server_tells_its_model_and_its_context(vllm: VllmServer) -> None:
    facts = RemoteFacts()
    async with asking(vllm, facts):
        assert (facts.model, facts.context_tokens) == ("smollm2-135m", 1024)


async def test_an_answer_comes_in_deltas_with_counts(vllm: VllmServer) -> None:
    async with asking(vllm) as stage:
        outputs = await outputs_of(
            ask(stage, prompt=user("Count to ten."), max_tokens=12, ignore_eos=True, **GREEDY)
        )
    assert len(outputs) > 4
    last = outputs[-1].data
    assert (last.finish_reason, last.completion_tokens) == ("length", 12)
    assert last.prompt_tokens > 20
    assert outputs[3].data.prompt_tokens == last.prompt_tokens  # told with every piece


async def test_a_stop_string_is_told_from_the_models_own_end(vllm: VllmServer) -> None:
    async with asking(vllm) as stage:
        said = {"structured_outputs": {"choice": ["one two three four"]}}
        stopped = await outputs_of(ask(stage, prompt=user("Count."), stop=("three",), extra=said))
        whole = await outputs_of(ask(stage, prompt=user("Count."), extra=said))
    assert "".join(output.data.text for output in stopped) == "one two "
    assert "".join(output.data.text for output in whole) == "one two three four"
    assert (stopped[-1].data.finish_reason, stopped[-1].data.stopped_by_text) == ("stop", True)
    assert (whole[-1].data.finish_reason, whole[-1].data.stopped_by_text) == ("stop", False)


async def test_an_abort_frees_the_server(vllm: VllmServer) -> None:
    async with asking(vllm) as stage:
        stream = ask(stage, prompt=user("Tell a story."), max_tokens=900, ignore_eos=True)
        await stream.outputs.receive()
        assert await trio.to_thread.run_sync(vllm.running_requests) == 1
        await stream.aclose()
        while await trio.to_thread.run_sync(vllm.running_requests):  # noqa: ASYNC110  another process decides
            await trio.sleep(0.1)


async def test_a_call_is_held_to_its_declaration(vllm: VllmServer) -> None:
    parameters = {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"]}
    tools = [{"type": "function", "name": "weather", "parameters": parameters}]
    guide = call_guide(tools, "required", parallel=False, tagged=True)
    assert guide is not None
    async with asking(vllm) as stage:
        form = {"structured_outputs": {"structural_tag": guide.structural_tag}}
        text = await answer(
            ask(stage, prompt=user("What is the weather in Oslo?"), max_tokens=60, extra=form)
        )
    watch = CallWatch(tools)
    told = watch.feed(text) + watch.flush(cut=False)
    assert [result.name for result in told if isinstance(result, FunctionCallBegin)] == ["weather"]
    assert any(isinstance(result, FunctionCallEnd) for result in told)


@pytest.mark.parametrize("flavor", ["vllm", "openai"])
async def test_a_schema_is_kept(vllm: VllmServer, flavor: str) -> None:
    form = {"structured_outputs": {"json": {"enum": ["eggs"]}}}
    async with asking(vllm, flavor=flavor) as stage:
        assert (
            await answer(ask(stage, prompt=user("Breakfast?"), max_tokens=20, extra=form))
        ).strip() == '"eggs"'


@pytest.mark.parametrize(
    ("text", "params", "code"),
    [
        ("word " * 2000, {}, "context_length_exceeded"),
        ("word " * 50000, {}, "context_length_exceeded"),
        ("Hello.", {"temperature": -3.0}, "invalid_value"),
    ],
)
async def test_what_the_server_refuses_is_told(
    vllm: VllmServer, text: str, params: dict[str, Any], code: str
) -> None:
    async with asking(vllm) as stage:
        failed = await failure(ask(stage, prompt=user(text), **params))
        assert failed.code == code
        assert stage.alive


async def test_the_estimate_of_tokens_learns_from_answers(vllm: VllmServer) -> None:
    facts = RemoteFacts()
    long = user("tick tock " * 150)
    async with asking(vllm, facts) as stage:
        outputs = await outputs_of(ask(stage, prompt=long, max_tokens=1))
    counted = outputs[-1].data.prompt_tokens
    assert counted * 0.8 < facts.count(long.messages) < counted * 1.8
