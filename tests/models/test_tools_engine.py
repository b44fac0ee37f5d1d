"""Functions with the real engine and the packaged model.

Calls that must be, calls that what is said is about.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio

from duplex_trio.models.calling.guides import call_guide
from duplex_trio.models.calling.schemas import check_arguments
from duplex_trio.models.cascade.plugin import CascadePlugin
from duplex_trio.models.cascade.profiles import profile_for
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.protocol.duplex import (
    CreateItem,
    CreateResponse,
    ErrorEvent,
    FunctionCallItem,
    FunctionCallOutputItem,
    InputTextPart,
    MessageItem,
    ResponseCreateOptions,
    ResponseDone,
    ResponseFunctionCallArgumentsDelta,
    ResponseOutputAudioDelta,
)
from duplex_trio.stages.run import ThreadStage
from duplex_trio.stages.worker import StageWorker
from duplex_trio.testing import Talker, finish, open_talker, scripted_omni

pytestmark = pytest.mark.models

PATIENCE_S = 200.0
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "unit": {"enum": ["celsius", "fahrenheit"]}},
    "required": ["city", "unit"],
}
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": CITY,
}
HANG_UP = {"type": "function", "name": "hang_up", "description": "Ends the conversation."}


class _Chat(ScriptedPipeline):
    """The real language model between scripted ears and a scripted voice."""

    def __init__(self, worker: StageWorker, *, decides_calls: bool) -> None:
        super().__init__()
        self._worker = worker
        self._decides_calls = decides_calls

    def build_worker(self, stage_id: int) -> StageWorker:
        return self._worker if stage_id == 1 else super().build_worker(stage_id)

    def build_plugin(self) -> CascadePlugin:
        # The engine of all tests has the template of the model itself; the greedy model says the same each time.
        profile = attrs.evolve(
            profile_for("smollm2-135m"), temperature=0.0, decides_calls=self._decides_calls
        )
        return CascadePlugin(profile, voices=("tone",), guided=True)


@asynccontextmanager
async def asked(worker: StageWorker, *, decides_calls: bool = False, **patch: Any) -> AsyncIterator[Talker]:
    with trio.fail_after(PATIENCE_S):
        pipeline = _Chat(worker, decides_calls=decides_calls)
        async with scripted_omni(pipeline=pipeline, stage_factory=ThreadStage) as omni:
            talker = await open_talker(omni, patch={"tools": [WEATHER, HANG_UP], **patch})
            yield talker
            assert not talker.heard.of(ErrorEvent)
            await finish(omni, talker)


async def done(talker: Talker, number: int) -> ResponseDone:
    return await talker.heard.nth(ResponseDone, number, timeout_s=PATIENCE_S)


def call_of(event: ResponseDone) -> FunctionCallItem:
    (call,) = event.response.output
    assert isinstance(call, FunctionCallItem)
    return call


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "get_weather"}])
async def test_a_call_that_must_be_is_and_fits(llm_worker: StageWorker, choice: Any) -> None:
    """Whatever was said, and however small the model: a grammar holds it to the declaration."""
    async with asked(llm_worker, tool_choice=choice) as talker:
        talker.write("What is the weather in Paris?")
        call = call_of(await done(talker, 1))
        assert call.name in ("get_weather", "hang_up")
        check_arguments((WEATHER, HANG_UP), call.name, call.arguments)
        deltas = talker.heard.of(ResponseFunctionCallArgumentsDelta)
        assert "".join(delta.delta for delta in deltas) == call.arguments
        if call.name == "get_weather":
            assert len(deltas) > 3
        assert not talker.heard.of(ResponseOutputAudioDelta)


async def test_what_is_said_calls_what_it_is_about_and_its_output_is_spoken(llm_worker: StageWorker) -> None:
    """The small model is told which function to call and fills it in; it answers with what came of it."""
    async with asked(llm_worker) as talker:
        talker.write("What is the weather in Paris?")
        call = call_of(await done(talker, 1))
        assert call.name == "get_weather"
        assert "Paris" in json.loads(call.arguments)["city"]
        output = FunctionCallOutputItem(call_id=call.call_id, output="It is sunny, 21 degrees.")
        talker.send(CreateItem(item=output), CreateResponse())
        (message,) = (await done(talker, 2)).response.output
        assert isinstance(message, MessageItem)
        (part,) = message.content
        assert "<tool" not in getattr(part, "transcript", "")
        assert talker.heard.of(ResponseOutputAudioDelta)


async def test_what_is_about_nothing_is_answered(llm_worker: StageWorker) -> None:
    """And so is everything with `tool_choice` none."""
    async with asked(llm_worker) as talker:
        talker.write("Tell me a joke.")
        first = await done(talker, 1)
        none = ResponseCreateOptions(tool_choice="none")
        item = MessageItem(role="user", content=(InputTextPart("What is the weather in Paris?"),))
        talker.send(CreateItem(item=item), CreateResponse(options=none))
        for event in (first, await done(talker, 2)):
            assert [type(item) for item in event.response.output] == [MessageItem]


async def test_a_model_that_decides_may_write_anything(llm_worker: StageWorker) -> None:
    """It is told of the functions, and a grammar waits for a call: words pass."""
    async with asked(llm_worker, decides_calls=True) as talker:
        talker.write("What is the capital of France?")
        assert (await done(talker, 1)).response.status in ("completed", "incomplete")


SCHEMAS = {
    "pattern": {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}},
    "long": {"type": "object", "properties": {"a": {"type": "string", "minLength": 100_000}}},
    "reference": {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/x"}},
        "$defs": {"x": {"type": "string"}},
    },
    "circle": {"$ref": "#"},
    "unique": {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}},
    "format": {"type": "object", "properties": {"a": {"type": "string", "format": "iri"}}},
    "odd names": {"type": "object", "properties": {'a "b" \\ <|im_end|>': {"type": "integer"}}},
    "values": {"type": "object", "properties": {"a": {"enum": ['"', "\\", "\n", 1.5, None, {"b": [1]}]}}},
    "wide": {"type": "object", "properties": {f"p{n}": {"type": "boolean"} for n in range(100)}},
}


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("tagged", [True, False])
def test_any_schema_makes_a_grammar(name: str, tagged: bool) -> None:
    """The engine's grammar compiler takes what is made of it."""
    import xgrammar

    tool = {"type": "function", "name": f"f {name} \"'", "parameters": SCHEMAS[name]}
    for choice in ("auto", "required") if tagged else ("required",):
        guide = call_guide((tool,), choice, parallel=True, tagged=tagged)
        assert guide is not None
        assert xgrammar.Grammar.from_structural_tag(guide.structural_tag)
