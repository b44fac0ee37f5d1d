"""A model has functions called.

The call is an item, the client's answer another, and the conversation goes on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import pytest
import trio
from attrs import define, field
from trio.testing import MockClock

from duplex_trio.models.scripted.native import NativePipeline, NativePlugin
from duplex_trio.models.scripted.script import Script
from duplex_trio.models.scripted.turns import TurnsPipeline
from duplex_trio.models.scripted.turns_plugin import TurnsPlugin
from duplex_trio.pipelines.requests import RequestView, StageForward
from duplex_trio.pipelines.results import FunctionCallResult, ModelResult, SpeechResult
from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.plugin.resumable import EpochInput, UnitInput
from duplex_trio.protocol.dialects import Dialect, render
from duplex_trio.protocol.duplex import (
    ConversationItemDone,
    CreateItem,
    CreateResponse,
    ErrorEvent,
    FunctionCallItem,
    FunctionCallOutputItem,
    InputTextPart,
    MessageItem,
    RealtimeError,
    ResponseCreateOptions,
    ResponseDone,
    ResponseFunctionCallArgumentsDone,
    ResponseListen,
    ResponseOutputItemAdded,
)
from duplex_trio.protocol.duplex.session import DuplexSessionConfig
from duplex_trio.stages.port import StageOutput
from duplex_trio.testing import Talker, open_session

TOOL = {"type": "function", "name": "look_up", "parameters": {"type": "object"}}
CALL = [
    "response.output_item.added",
    "conversation.item.added",
    "conversation.item.created",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "response.output_item.done",
    "conversation.item.done",
]


def output(call_id: str, text: str = "sunny", event_id: str | None = None) -> CreateItem:
    return CreateItem(item=FunctionCallOutputItem(call_id=call_id, output=text), event_id=event_id)


def types_from(talker: Talker, first: str) -> list[str]:
    """The types of the events from the last one of a type on."""
    types = talker.heard.types
    return types[len(types) - 1 - types[::-1].index(first) :]


# ------------------------------------------------------------------ a model that answers turns


@pytest.mark.parametrize("dialect", list(Dialect))
async def test_a_call_is_the_item_of_its_response(autojump_clock: MockClock, dialect: Dialect) -> None:
    """A response that is nothing but a call has no message: no content part, and no limits behind it."""
    async with open_session(
        pipeline=TurnsPipeline(), dialect=dialect.value, patch={"tools": [TOOL]}
    ) as talker:
        talker.write("look_up")
        done = await talker.heard.nth(ResponseDone, 1)
        (call,) = done.response.output
        assert isinstance(call, FunctionCallItem)
        assert (call.name, call.arguments, call.status) == ("look_up", "{}", "completed")
        assert call.call_id
        (begun,) = talker.heard.of(ResponseOutputItemAdded)
        assert (begun.output_index, begun.response_id) == (0, done.response.id)
        assert types_from(talker, "response.created") == ["response.created", *CALL, "response.done"]
        named = talker.heard.of(ResponseFunctionCallArgumentsDone)[0]
        written = render(named, dialect)
        assert written is not None
        shown = json.loads(written)
        assert (shown["call_id"], shown["name"], shown["output_index"]) == (call.call_id, "look_up", 0)


async def test_the_answer_continues_the_conversation(autojump_clock: MockClock) -> None:
    """The next response is told of the call and of what came of it."""
    script = Script()
    async with open_session(pipeline=TurnsPipeline(script=script), patch={"tools": [TOOL]}) as talker:
        talker.write("look_up")
        call = (await talker.heard.nth(ResponseDone, 1)).response.output[0]
        assert isinstance(call, FunctionCallItem)
        talker.send(output(call.call_id), CreateResponse())
        done = await talker.heard.nth(ResponseDone, 2)
        assert done.response.status == "completed"
    told = [(message.role, message.content) for message in script.asked[-1].prompt.messages]
    assert told == [("user", "look_up"), ("assistant", "look_up({})"), ("tool", "sunny")]


async def test_tools_of_one_response_stand_for_the_sessions(autojump_clock: MockClock) -> None:
    """None means the session's, an empty list none at all."""
    async with open_session(pipeline=TurnsPipeline(), patch={"tools": [TOOL]}) as talker:
        item = MessageItem(role="user", content=(InputTextPart("look_up"),))
        talker.send(CreateItem(item=item), CreateResponse(options=ResponseCreateOptions(tools=())))
        done = await talker.heard.nth(ResponseDone, 1)
        assert len(done.response.output) == 1


class WithoutTools(TurnsPipeline):
    class _Plugin(TurnsPlugin):
        def capabilities(self, max_sessions: int) -> DuplexCapabilities:
            return attrs.evolve(super().capabilities(max_sessions), supports_tools=False)

    def build_plugin(self) -> TurnsPlugin:
        return self._Plugin()


async def test_a_model_without_tools_is_told_of_none(autojump_clock: MockClock) -> None:
    """The session keeps what the client declared; for one response they are refused."""
    async with open_session(pipeline=WithoutTools(), patch={"tools": [TOOL]}) as talker:
        talker.write("look_up")
        done = await talker.heard.nth(ResponseDone, 1)
        assert len(done.response.output) == 1
        talker.send(CreateResponse(options=ResponseCreateOptions(tools=(TOOL,)), event_id="e1"))
        error = (await talker.heard.nth(ErrorEvent, 1)).error
        assert (error.code, error.param) == ("unsupported_native_response_options", "response.tools")


async def test_an_answer_is_given_once_and_to_a_call(autojump_clock: MockClock) -> None:
    """Whatever else is refused and leaves the conversation as it was."""
    async with open_session(pipeline=TurnsPipeline(), patch={"tools": [TOOL]}) as talker:
        talker.write("look_up")
        call = (await talker.heard.nth(ResponseDone, 1)).response.output[0]
        assert isinstance(call, FunctionCallItem)
        talker.send(output(call.call_id))
        items = 3  # what the user wrote, the call, its answer
        await talker.heard.nth(ConversationItemDone, items)
        talker.send(output(call.call_id), output("nobody"))
        for number in (1, 2):
            error = (await talker.heard.nth(ErrorEvent, number)).error
            assert (error.code, error.param) == ("invalid_function_call_output", "item.call_id")
        assert len(talker.handle._core.state.conversation) == items


async def test_a_call_outside_the_conversation(autojump_clock: MockClock) -> None:
    """It is an item of its response and of nothing else."""
    async with open_session(pipeline=TurnsPipeline(), patch={"tools": [TOOL]}) as talker:
        item = MessageItem(role="user", content=(InputTextPart("look_up"),))
        options = ResponseCreateOptions(conversation="none", input=(item,))
        talker.send(CreateResponse(options=options))
        done = await talker.heard.nth(ResponseDone, 1)
        assert [type(item) for item in done.response.output] == [FunctionCallItem]
        assert "conversation.item.added" not in talker.heard.types


# ------------------------------------------------------------------ a model that owns its turns


@define(eq=False)
class Asking(NativePlugin):
    """Wants something looked up with its first word; is given what came of it with its units."""

    tools: Sequence[Mapping[str, Any]] = ()
    given: list[str] = field(factory=list)
    seqs: list[tuple[int, bool]] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        super().__init__(1000)

    def capabilities(self, max_sessions: int) -> DuplexCapabilities:
        return attrs.evolve(super().capabilities(max_sessions), supports_tools=True)

    def begin_request(self, epoch: EpochInput) -> Mapping[str, Any]:
        self.tools = epoch.tools
        return super().begin_request(epoch)

    def runtime_config_for_function_output(
        self, config: DuplexSessionConfig, current: Mapping[str, Any], item: FunctionCallOutputItem
    ) -> Mapping[str, Any] | None:
        results = current.get("results", ())
        if len(results) >= 1:
            raise RealtimeError("function_response_backlog", "one at a time", param="item.output")
        return {**current, "results": (*results, item.output)}

    def plan_append(self, unit: UnitInput, request: RequestView) -> StageForward:
        self.given += unit.runtime_config.get("results", ())
        self.seqs.append((unit.seq, unit.silence))
        return super().plan_append(unit, request)

    def project(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[ModelResult]:
        results = super().project(stage_id, output, request)
        call = FunctionCallResult(name="look_up", arguments='{"at": 1}', call_id="call-1")
        if self.between_responses:
            return [call, *results] if not any(isinstance(r, SpeechResult) for r in results) else results
        speaks = [r for r in results if isinstance(r, SpeechResult) and r.text == "one"]
        return [*results, call] if speaks else results

    between_responses: bool = False


def asking(between_responses: bool) -> NativePipeline:
    pipeline = NativePipeline(answer="one two three four")
    pipeline.plugin = Asking(between_responses=between_responses)
    return pipeline


async def test_a_call_while_it_speaks(autojump_clock: MockClock) -> None:
    """It is one more item of the response in progress, which goes on."""
    async with open_session(pipeline=asking(between_responses=False), patch={"tools": [TOOL]}) as talker:
        await talker.speak(2.0)
        await talker.pause(6.0)
        done = await talker.heard.nth(ResponseDone, 1)
        call = done.response.output[1]
        assert isinstance(call, FunctionCallItem)
        assert (call.call_id, call.arguments) == ("call-1", '{"at": 1}')
        plugin = talker.handle._core.plugin
        assert isinstance(plugin, Asking)
        assert [tool["name"] for tool in plugin.tools] == ["look_up"]


async def test_a_call_between_responses_is_a_response_of_its_own(autojump_clock: MockClock) -> None:
    """It is complete as it begins, and has no other item."""
    async with open_session(pipeline=asking(between_responses=True)) as talker:
        talker.append(1100, loud=True)
        done = await talker.heard.nth(ResponseDone, 1)
        (call,) = done.response.output
        assert isinstance(call, FunctionCallItem)
        assert done.response.status == "completed"
        await talker.heard.nth(ResponseListen, 1)
        assert types_from(talker, "response.created") == [
            "response.created",
            *CALL,
            "response.done",
            "response.listen",
        ]
        assert talker.handle._core.state.active is None


async def test_its_answer_reaches_a_model_that_is_fed_nothing_else(autojump_clock: MockClock) -> None:
    """One silent unit goes to it; one answer too many is refused and changes nothing."""
    async with open_session(pipeline=asking(between_responses=True)) as talker:
        plugin = talker.handle._core.plugin
        assert isinstance(plugin, Asking)
        talker.append(2100, loud=True)
        await talker.heard.nth(ResponseDone, 2)
        await trio.sleep(1.0)
        assert plugin.seqs == [(1, False), (2, False)]
        talker.send(output("call-1", "sunny"))
        await trio.sleep(3.0)
        assert plugin.seqs[2] == (3, True)
        assert plugin.given[0] == "sunny"
        state = talker.handle._core.state
        before = state.runtime_config, state.config_generation, len(state.conversation)
        call = next(e.item for e in state.conversation.entries() if isinstance(e.item, FunctionCallItem))
        other = attrs.evolve(call, id="item_other", call_id="call-2")
        talker.send(CreateItem(item=other), output("call-2", "rain", event_id="e1"))
        error = (await talker.heard.nth(ErrorEvent, 1)).error
        assert (error.code, error.param, error.event_id) == ("function_response_backlog", "item.output", "e1")
        after = state.runtime_config, state.config_generation, len(state.conversation) - 1
        assert after == before


async def test_its_answer_waits_for_the_users_sound(autojump_clock: MockClock) -> None:
    """While sound is on its way no silence is put between."""
    async with open_session(pipeline=asking(between_responses=True)) as talker:
        plugin = talker.handle._core.plugin
        assert isinstance(plugin, Asking)
        talker.append(1500, loud=True)
        await talker.heard.nth(ResponseDone, 1)
        talker.send(output("call-1", "sunny"))
        await trio.sleep(0.2)
        assert plugin.seqs == [(1, False)]
        talker.append(600, loud=True)
        await talker.heard.nth(ResponseDone, 2)
        assert plugin.seqs == [(1, False), (2, False)]
        assert plugin.given == ["sunny"]
