"""A cascade calls functions.

What of its answer is said, what the client is told, and how the answer comes in.
"""

from __future__ import annotations

import json

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.models.scripted.script import Script, tool_call
from duplex_trio.protocol.dialects import Dialect, render
from duplex_trio.protocol.duplex import (
    CancelResponse,
    ConversationItemDone,
    CreateItem,
    CreateResponse,
    ErrorEvent,
    FunctionCallItem,
    FunctionCallOutputItem,
    InputTextPart,
    MessageItem,
    OutputAudioPart,
    ResponseCreateOptions,
    ResponseDone,
    ResponseFunctionCallArgumentsDelta,
    ResponseFunctionCallArgumentsDone,
    ResponseOutputAudioDelta,
    ResponseOutputAudioTranscriptDelta,
    ResponseOutputItemDone,
    ResponseOutputTextDelta,
    SessionUpdated,
    UpdateSession,
)
from duplex_trio.testing import Talker, open_session

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}
WEATHER = {"type": "function", "name": "get_weather", "description": "The weather.", "parameters": CITY}
HANG_UP = {"type": "function", "name": "hang_up"}
CALL = [
    "response.output_item.added",
    "conversation.item.added",
    "conversation.item.created",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "response.output_item.done",
    "conversation.item.done",
]
PARIS = tool_call("get_weather", city="Paris", days=2)
SCRIPT = {
    "weather": PARIS,
    "weather please": "Let me look that up. " + PARIS,
    "both": PARIS + tool_call("hang_up") + " And it rains.",
    "bare": '{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}',
    "fenced": 'Sure. ```json\n{"name": "get_weather", "parameters": {"city": "Paris", "days": 2}}\n```',
    "sunny": "It is sunny in Paris.",
}


def script(**more: str) -> Script:
    return Script(replies=SCRIPT | more, heard=("weather", "weather please"))


def shown(talker: Talker, dialect: Dialect, first: str) -> list[dict[str, object]]:
    """What a client of a dialect reads, from the last event of a type on."""
    at = max(i for i, event in enumerate(talker.events) if event.type == first)
    written = [render(event, dialect) for event in talker.events[at:]]
    return [json.loads(text) for text in written if text is not None]


async def answered(talker: Talker, number: int, output: str = "sunny") -> ResponseDone:
    """Answer the call of the latest response, and let the next one come."""
    call = next(
        item
        for item in talker.heard.of(ResponseDone)[-1].response.output
        if isinstance(item, FunctionCallItem)
    )
    talker.send(
        CreateItem(item=FunctionCallOutputItem(call_id=call.call_id, output=output)), CreateResponse()
    )
    return await talker.heard.nth(ResponseDone, number)


@pytest.mark.parametrize("text", ["weather", "bare"])
async def test_a_call_without_words_is_the_whole_response(autojump_clock: MockClock, text: str) -> None:
    """No message and no sound; the arguments come in pieces and are complete in the end."""
    async with open_session(script(), patch={"tools": [WEATHER]}) as talker:
        talker.write(text)
        done = await talker.heard.nth(ResponseDone, 1)
        (call,) = done.response.output
        assert isinstance(call, FunctionCallItem)
        assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Paris", "days": 2})
        deltas = talker.heard.of(ResponseFunctionCallArgumentsDelta)
        assert len(deltas) >= 3
        assert "".join(delta.delta for delta in deltas) == call.arguments
        (said,) = talker.heard.of(ResponseFunctionCallArgumentsDone)
        assert (said.call_id, said.name, said.arguments) == (call.call_id, "get_weather", call.arguments)
        assert not talker.heard.of(ResponseOutputAudioDelta)
        types = [event.type for event in talker.events]
        types = types[types.index("response.created") :]
        assert [t for i, t in enumerate(types) if t != types[i - 1]] == [
            "response.created",
            *CALL,
            "response.done",
        ]
        assert (done.response.status, done.response.usage is not None) == ("completed", True)


@pytest.mark.parametrize("text", ["weather please", "fenced"])
@pytest.mark.parametrize("modality", ["audio", "text"])
async def test_words_before_a_call_are_said(autojump_clock: MockClock, text: str, modality: str) -> None:
    """The call comes behind their sound, as the next item; nothing of it is spoken or written."""
    async with open_session(script(), patch={"tools": [WEATHER], "output_modalities": [modality]}) as talker:
        talker.write(text)
        done = await talker.heard.nth(ResponseDone, 1)
        message, call = done.response.output
        assert isinstance(message, MessageItem)
        assert isinstance(call, FunctionCallItem)
        words = [
            event.delta
            for event in talker.events
            if isinstance(event, ResponseOutputAudioTranscriptDelta | ResponseOutputTextDelta)
        ]
        assert "".join(words).strip() in ("Let me look that up.", "Sure.")
        first_step = talker.heard.types.index("response.function_call_arguments.delta")
        media = [i for i, t in enumerate(talker.heard.types) if t.endswith(("audio.delta", "text.delta"))]
        assert max(media) < first_step
        assert [event.output_index for event in talker.heard.of(ResponseOutputItemDone)] == [1, 0]


@pytest.mark.parametrize("dialect", list(Dialect))
async def test_a_spoken_question_a_call_and_an_answer(autojump_clock: MockClock, dialect: Dialect) -> None:
    """The whole turn, as each dialect shows it: heard, called, answered, spoken."""
    held = script()
    async with open_session(held, dialect=dialect.value, patch={"tools": [WEATHER]}) as talker:
        await talker.turn()
        await talker.heard.nth(ResponseDone, 1)
        done = await answered(talker, 2)
        (message,) = done.response.output
        assert isinstance(message, MessageItem)
        assert message.content == (OutputAudioPart(transcript="It is sunny in Paris."),)
        events = shown(talker, dialect, "response.function_call_arguments.done")
        assert {"call_id", "name", "arguments", "response_id", "item_id", "output_index"} <= events[0].keys()
    told = held.asked[-1].prompt
    assert [message.role for message in told.messages] == ["user", "assistant", "tool"]
    assert told.messages[1].calls[0].name == "get_weather"
    assert told.messages[2].content == "sunny"
    assert [tool["name"] for tool in told.tools] == ["get_weather"]


@pytest.mark.parametrize(
    ("parallel", "names"), [(True, ["get_weather", "hang_up"]), (False, ["get_weather"])]
)
async def test_several_calls(autojump_clock: MockClock, parallel: bool, names: list[str]) -> None:
    """All of them unless the client wants one at most; what is said behind them is made up, and not said."""
    options = ResponseCreateOptions(parallel_tool_calls=parallel)
    async with open_session(script(), patch={"tools": [WEATHER, HANG_UP]}) as talker:
        item = MessageItem(role="user", content=(InputTextPart("both"),))
        talker.send(CreateItem(item=item), CreateResponse(options=options))
        done = await talker.heard.nth(ResponseDone, 1)
        calls = [item for item in done.response.output if isinstance(item, FunctionCallItem)]
        assert [call.name for call in calls] == names
        assert len(done.response.output) == len(names)
        assert len({call.call_id for call in calls}) == len(names)
        assert not talker.heard.of(ResponseOutputAudioDelta)
        usage = done.response.usage
        assert usage is not None
        assert usage.output_tokens >= len(PARIS.split())
        assert usage.total_tokens == usage.input_tokens + usage.output_tokens > usage.output_tokens


async def test_without_functions_the_text_is_just_text(autojump_clock: MockClock) -> None:
    """With `tool_choice` none the model is told of no functions, and nothing is looked for."""
    held = script()
    patch = {"tools": [WEATHER], "tool_choice": "none", "output_modalities": ["text"]}
    async with open_session(held, patch=patch) as talker:
        talker.write("weather")
        done = await talker.heard.nth(ResponseDone, 1)
        (message,) = done.response.output
        assert isinstance(message, MessageItem)
        assert held.asked[-1].prompt.tools == ()


async def test_a_call_that_does_not_fit_is_written_again(autojump_clock: MockClock) -> None:
    """The model is told what was wrong, once; the client hears nothing of it, and both answers count."""
    wrong = tool_call("get_weather", days="two")
    fault = "days: 'two' is not of type 'integer'; 'city' is a required property"
    told = f"That call could not be made: the arguments of get_weather do not fit: {fault}."
    again = f"{told} Write it again as it must be, or answer in plain words."
    held = script(weather=f"Well. {wrong}", **{again: PARIS})
    async with open_session(held, patch={"tools": [WEATHER]}) as talker:
        talker.write("weather")
        done = await talker.heard.nth(ResponseDone, 1)
        message, call = done.response.output
        assert isinstance(message, MessageItem)
        assert message.content == (OutputAudioPart(transcript="Well."),)
        assert isinstance(call, FunctionCallItem)
        assert json.loads(call.arguments) == {"city": "Paris", "days": 2}
        assert done.response.status == "completed"
        usage = done.response.usage
        assert usage is not None
        assert usage.output_tokens == len(f"Well. {wrong}".split()) + len(PARIS.split())
        assert not talker.heard.of(ErrorEvent)
    first, second = held.asked
    assert len(second.prompt.messages) == len(first.prompt.messages) + 2


async def test_a_call_that_never_fits_fails_the_response(autojump_clock: MockClock) -> None:
    """It is said to have failed, and why; the session goes on."""
    held = Script(otherwise=lambda text: "Hello." if text.endswith("hi") else tool_call("fly"))
    async with open_session(held, patch={"tools": [WEATHER]}) as talker:
        talker.write("weather")
        done = await talker.heard.nth(ResponseDone, 1)
        assert done.response.status == "failed"
        error = (await talker.heard.nth(ErrorEvent, 1)).error
        assert (error.type, error.code) == ("server_error", "function_call_invalid")
        assert "there is no function 'fly', but get_weather" in error.message
        assert len(held.asked) == 2
        assert not talker.heard.of(ResponseFunctionCallArgumentsDelta)
        talker.write("hi")
        assert (await talker.heard.nth(ResponseDone, 2)).response.status == "completed"


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "get_weather"}])
async def test_a_call_can_be_demanded(autojump_clock: MockClock, choice: object) -> None:
    """The model is told so, for one response or for all."""
    held = script()
    async with open_session(held, patch={"tools": [WEATHER], "tool_choice": choice}) as talker:
        talker.write("weather")
        await talker.heard.nth(ResponseDone, 1)
    (asked,) = held.asked
    demanded = asked.prompt.messages[0]
    assert demanded.role == "system"
    assert demanded.content.startswith("Call ")


async def test_a_limit_in_the_middle_of_a_call(autojump_clock: MockClock) -> None:
    """The response is incomplete, and so is the call as far as it came; the model is not told of it."""
    held = script()
    async with open_session(held, patch={"tools": [WEATHER]}) as talker:
        item = MessageItem(role="user", content=(InputTextPart("weather"),))
        talker.send(CreateItem(item=item), CreateResponse(options=ResponseCreateOptions(max_output_tokens=5)))
        done = await talker.heard.nth(ResponseDone, 1)
        assert done.response.status == "incomplete"
        assert done.response.status_details is not None
        assert done.response.status_details.reason == "max_output_tokens"
        (call,) = done.response.output
        assert isinstance(call, FunctionCallItem)
        assert (call.status, call.arguments) == ("incomplete", '{"city": "Paris",')
        assert not talker.heard.of(ResponseFunctionCallArgumentsDone)
        talker.write("hi")
        await talker.heard.nth(ResponseDone, 2)
    assert [message.content for message in held.asked[-1].prompt.messages] == ["weather hi"]


async def test_a_cancelled_answer_takes_back_the_call_behind_its_words(autojump_clock: MockClock) -> None:
    """What was not announced never was: the response has its message and nothing else."""
    async with open_session(script(), patch={"tools": [WEATHER]}) as talker:
        talker.write("weather please")
        await talker.heard.nth(ResponseOutputAudioDelta, 1)
        talker.send(CancelResponse())
        done = await talker.heard.nth(ResponseDone, 1)
        assert done.response.status == "cancelled"
        assert [type(item) for item in done.response.output] == [MessageItem]
        await trio.sleep(5.0)
        assert not talker.heard.of(ResponseFunctionCallArgumentsDelta)


async def test_speech_over_the_words_before_a_call_takes_it_back(autojump_clock: MockClock) -> None:
    """The user has gone on: what the model wanted to call is not called."""
    async with open_session(script(), patch={"tools": [WEATHER]}) as talker:
        talker.write("weather please")
        await talker.heard.nth(ResponseOutputAudioDelta, 1)
        await talker.speak(1.0)
        done = await talker.heard.nth(ResponseDone, 1)
        assert done.response.status == "cancelled"
        assert not talker.heard.of(ResponseFunctionCallArgumentsDelta)


async def test_a_call_may_be_answered_later(autojump_clock: MockClock) -> None:
    """Nothing is answered by itself: an output waits for the next response, whatever is said meanwhile."""
    held = script()
    async with open_session(held, patch={"tools": [WEATHER]}) as talker:
        talker.write("weather")
        (call,) = (await talker.heard.nth(ResponseDone, 1)).response.output
        assert isinstance(call, FunctionCallItem)
        talker.send(CreateItem(item=FunctionCallOutputItem(call_id=call.call_id, output="sunny")))
        await talker.heard.nth(ConversationItemDone, 3)
        await trio.sleep(5.0)
        assert len(talker.heard.of(ResponseDone)) == 1
        talker.write("thanks")
        await talker.heard.nth(ResponseDone, 2)
    assert [message.role for message in held.asked[-1].prompt.messages] == [
        "user",
        "assistant",
        "tool",
        "user",
    ]


def nested(depth: int) -> dict[str, object]:
    schema: dict[str, object] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


DEEP = nested(300)
NO_SCHEMAS = [
    {"type": "objekt"},
    {"type": "object", "properties": {"a": {"enum": ["x" * 1000] * 70}}},
    DEEP,
]
FLY = {"type": "function", "name": "fly"}
HI = MessageItem(role="user", content=(InputTextPart("hi"),))


async def refused(
    talker: Talker, command: UpdateSession | CreateResponse, number: int
) -> tuple[str, str | None, str | None]:
    """What is said of a command: one error, and nothing more until the update behind it is confirmed."""
    before = len(talker.heard.types)
    talker.send(command)
    error = (await talker.heard.nth(ErrorEvent, number)).error
    updates = len(talker.heard.of(SessionUpdated))
    talker.send(UpdateSession(patch={}))
    await talker.heard.nth(SessionUpdated, updates + 1)
    assert talker.heard.types[before:] == ["error", "session.updated"]
    return error.code, error.param, error.event_id


@pytest.mark.parametrize("parameters", NO_SCHEMAS, ids=["none", "long", "deep"])
async def test_parameters_that_are_no_schema_are_refused(
    autojump_clock: MockClock, parameters: dict[str, object]
) -> None:
    """The command that declares them is, of a session and of one response; neither begins or breaks anything."""
    broken = {"type": "function", "name": "broken", "parameters": parameters}
    async with open_session(script(), patch={"tools": [WEATHER]}) as talker:
        update = UpdateSession(patch={"tools": [WEATHER, broken]}, event_id="e1")
        # The configuration of a session has no room for very deep values, whatever they mean.
        at = "session.tools[1]" if parameters == DEEP else "session.tools[1].parameters"
        assert await refused(talker, update, 1) == ("invalid_value", at, "e1")
        options = ResponseCreateOptions(tools=(broken,), conversation="none", input=(HI,))
        asked = await refused(talker, CreateResponse(options=options, event_id="e2"), 2)
        assert asked == ("invalid_value", "response.tools[0].parameters", "e2")
        talker.write("weather")
        (call,) = (await talker.heard.nth(ResponseDone, 1)).response.output
        assert isinstance(call, FunctionCallItem)


@pytest.mark.parametrize(
    ("patch", "param"),
    [
        ({"tool_choice": FLY}, "session.tool_choice.name"),
        ({"tools": [WEATHER], "tool_choice": FLY}, "session.tool_choice.name"),
        ({"tools": [HANG_UP]}, "session.tools"),
        ({"tools": None}, "session.tools"),
    ],
)
async def test_a_session_cannot_choose_a_function_that_is_not_there(
    autojump_clock: MockClock, patch: dict[str, object], param: str
) -> None:
    """Nor lose the one that it has chosen; what is named is what the update says."""
    chosen = {"type": "function", "name": "get_weather"}
    async with open_session(script(), patch={"tools": [WEATHER], "tool_choice": chosen}) as talker:
        update = UpdateSession(patch=patch, event_id="e1")
        assert await refused(talker, update, 1) == ("invalid_value", param, "e1")


@pytest.mark.parametrize(
    ("options", "param"),
    [
        (ResponseCreateOptions(tool_choice=FLY, input=(HI,)), "response.tool_choice.name"),
        (ResponseCreateOptions(tool_choice=FLY, tools=(), input=(HI,)), "response.tool_choice.name"),
        (ResponseCreateOptions(tools=(HANG_UP,), input=(HI,)), "response.tools"),
    ],
)
async def test_a_function_that_must_be_called_must_be_there(
    autojump_clock: MockClock, options: ResponseCreateOptions, param: str
) -> None:
    """Else no response begins; without the choice the next one is given."""
    chosen = {"type": "function", "name": "get_weather"}
    async with open_session(script(), patch={"tools": [WEATHER], "tool_choice": chosen}) as talker:
        asked = await refused(talker, CreateResponse(options=options, event_id="e1"), 1)
        assert asked == ("invalid_value", param, "e1")
        talker.send(CreateResponse(options=ResponseCreateOptions(tool_choice="none", input=(HI,))))
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"
