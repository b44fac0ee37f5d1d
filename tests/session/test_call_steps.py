"""A call that comes piece by piece, and what cuts it: it is begun, grows, and ends complete or incomplete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.models.scripted.mind import MindStep
from duplex_trio.models.scripted.script import Script
from duplex_trio.models.scripted.turns import MIND, TurnsPipeline
from duplex_trio.models.scripted.turns_plugin import TurnsPlugin
from duplex_trio.pipelines.requests import RequestView, TurnInput, TurnPlan
from duplex_trio.pipelines.results import (
    FunctionCallArguments,
    FunctionCallBegin,
    FunctionCallEnd,
    ModelResult,
    TextResult,
    TurnEnd,
)
from duplex_trio.protocol.duplex import (
    BargeIn,
    CancelResponse,
    ConversationItemDone,
    CreateItem,
    CreateResponse,
    DeleteItem,
    FunctionCallItem,
    FunctionCallOutputItem,
    InputTextPart,
    MessageItem,
    ResponseCreateOptions,
    ResponseDone,
    ResponseFunctionCallArgumentsDelta,
    ResponseFunctionCallArgumentsDone,
    ResponseOutputItemDone,
    TruncateItem,
)
from duplex_trio.stages.port import StageOutput
from duplex_trio.testing import Talker, open_session

TOOL = {"type": "function", "name": "look_up"}


class _Calling(TurnsPipeline):
    """Its answer is a call: each word a piece of the arguments, `|` begins another call, `.` ends the last one."""

    class _Plugin(TurnsPlugin):
        def plan_turn(self, turn: TurnInput) -> TurnPlan:
            plan = super().plan_turn(turn)
            return TurnPlan(entry=plan.entry, final_stage_id=MIND, state=plan.state)

        def project(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[ModelResult]:
            step: MindStep = output.data
            if step.heard is not None:
                return super().project(stage_id, output, request)
            begins = not request.state.words or step.word == "|"
            request.state.words.append(step.word)
            results: list[ModelResult] = [FunctionCallBegin(name="look_up")] if begins else []
            match step.word:
                case "|":
                    pass
                case ".":
                    results.append(FunctionCallEnd())
                case "so":
                    results.append(TextResult(text="so"))
                case word:
                    results.append(FunctionCallArguments(word))
            return (
                [*results, TurnEnd(finish_reason="length" if step.word == "cut" else "stop")]
                if step.last
                else results
            )

    def build_plugin(self) -> TurnsPlugin:
        return self._Plugin()


def calling(answer: str) -> dict[str, Any]:
    script = Script(heard=["call"], otherwise=lambda _: answer)
    patch = {"tools": [TOOL], "output_modalities": ["text"]}
    return {"pipeline": _Calling(script=script), "patch": patch, "step_s": 0.2}


def calls(done: ResponseDone) -> list[tuple[str, str]]:
    return [(one.arguments, one.status) for one in done.response.output if isinstance(one, FunctionCallItem)]


async def begun(talker: Talker) -> FunctionCallItem:
    """Ask, and wait until two pieces of the call have come."""
    talker.write("call")
    await talker.heard.nth(ResponseFunctionCallArgumentsDelta, 2)
    entries = talker.handle._core.state.conversation.entries()
    return next(entry.item for entry in entries if isinstance(entry.item, FunctionCallItem))


async def test_a_call_grows_and_is_complete(autojump_clock: MockClock) -> None:
    """Each piece goes out as it comes; the item in the conversation has its arguments when they are complete."""
    async with open_session(**calling("{ } .")) as talker:
        item = await begun(talker)
        assert (item.arguments, item.status) == ("", "in_progress")
        done = await talker.heard.nth(ResponseDone, 1)
        assert calls(done) == [("{}", "completed")]
        assert talker.handle._core.state.conversation.get(item.id).item == done.response.output[0]
        assert done.response.status == "completed"
        (said,) = talker.heard.of(ResponseFunctionCallArgumentsDone)
        assert said.arguments == "{}"


@pytest.mark.parametrize("how", ["cancel", "barge_in", "speech"])
async def test_what_cuts_a_call_leaves_it_incomplete(autojump_clock: MockClock, how: str) -> None:
    """Its item is done and incomplete, its arguments never are; the model is not told of it afterwards."""
    async with open_session(**calling("{ } a b c d e f g h .")) as talker:
        item = await begun(talker)
        if how == "speech":
            await talker.speak(1.0)
        else:
            talker.send(CancelResponse() if how == "cancel" else BargeIn())
        done = await talker.heard.nth(ResponseDone, 1)
        assert done.response.status == "cancelled"
        ((arguments, status),) = calls(done)
        assert (arguments.startswith("{}"), status) == (True, "incomplete")
        assert not talker.heard.of(ResponseFunctionCallArgumentsDone)
        (ended,) = talker.heard.of(ResponseOutputItemDone)
        assert ended.item == done.response.output[0]
        assert talker.heard.of(ConversationItemDone)[-1].item == ended.item
        assert talker.handle._core.state.conversation.get(item.id).text == ""
        deltas = len(talker.heard.of(ResponseFunctionCallArgumentsDelta))
        await trio.sleep(3.0)
        assert len(talker.heard.of(ResponseFunctionCallArgumentsDelta)) == deltas


async def test_a_limit_leaves_it_incomplete(autojump_clock: MockClock) -> None:
    """So is the response, and its reason is the limit."""
    async with open_session(**calling("{ cut")) as talker:
        talker.write("call")
        done = await talker.heard.nth(ResponseDone, 1)
        assert (done.response.status, calls(done)) == ("incomplete", [("{cut", "incomplete")])


async def test_another_call_ends_the_one_before_it(autojump_clock: MockClock) -> None:
    """One call at a time; the second has a place of its own."""
    async with open_session(**calling("{ | { } .")) as talker:
        talker.write("call")
        done = await talker.heard.nth(ResponseDone, 1)
        assert calls(done) == [("{", "incomplete"), ("{}", "completed")]
        assert [event.output_index for event in talker.heard.of(ResponseOutputItemDone)] == [0, 1]


async def test_words_behind_a_call_are_a_message_behind_it(autojump_clock: MockClock) -> None:
    """The items of a response are in the order of their places."""
    async with open_session(**calling("{ } . so")) as talker:
        talker.write("call")
        done = await talker.heard.nth(ResponseDone, 1)
        assert [type(item) for item in done.response.output] == [FunctionCallItem, MessageItem]
        assert [event.output_index for event in talker.heard.of(ResponseOutputItemDone)] == [0, 1]


async def test_pieces_of_a_call_that_has_ended_are_nothing(autojump_clock: MockClock) -> None:
    """Nor is a second end."""
    async with open_session(**calling("{ } . a .")) as talker:
        talker.write("call")
        assert calls(await talker.heard.nth(ResponseDone, 1)) == [("{}", "completed")]
        assert len(talker.heard.of(ResponseFunctionCallArgumentsDone)) == 1


async def test_a_client_may_delete_a_call_that_grows(autojump_clock: MockClock) -> None:
    """The response goes on and is done with it; the conversation has it no more."""
    async with open_session(**calling("{ } a b c .")) as talker:
        item = await begun(talker)
        talker.send(DeleteItem(item_id=item.id))
        done = await talker.heard.nth(ResponseDone, 1)
        assert calls(done) == [("{}abc", "completed")]
        assert item.id not in [event.item.id for event in talker.heard.of(ConversationItemDone)]
        talker.send(CreateItem(item=FunctionCallOutputItem(call_id=item.call_id, output="x"), event_id="e1"))
        await talker.heard.wait_for(object, lambda event: getattr(event, "type", "") == "error")


async def test_a_call_has_no_sound_to_truncate(autojump_clock: MockClock) -> None:
    """It is refused as anything that is no message is."""
    async with open_session(**calling("{ } .")) as talker:
        item = await begun(talker)
        await talker.heard.nth(ResponseDone, 1)
        talker.send(TruncateItem(item_id=item.id, audio_end_ms=0, content_index=0, event_id="e1"))
        error: Any = await talker.heard.wait_for(object, lambda event: getattr(event, "type", "") == "error")
        assert (error.error.code, error.error.param) == ("bad_event", "item_id")


async def test_outside_the_conversation_it_grows_too(autojump_clock: MockClock) -> None:
    """It is an item of its response alone."""
    async with open_session(**calling("{ } .")) as talker:
        item = MessageItem(role="user", content=(InputTextPart("call"),))
        talker.send(CreateResponse(options=ResponseCreateOptions(conversation="none", input=(item,))))
        done = await talker.heard.nth(ResponseDone, 1)
        assert (calls(done), done.response.conversation_id) == ([("{}", "completed")], None)
        assert len(talker.handle._core.state.conversation) == 0
