"""Chats on a mock clock, by sessions and by requests: what they answer, what they cost, and what they leave alone."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import attrs
import orjson
import pytest
import trio
from attrs import frozen
from trio.testing import MockClock

from duplex_trio.engine.turn.manager import CHAT_READ_TIMEOUT_S
from duplex_trio.entrypoints.async_omni import AsyncOmni
from duplex_trio.entrypoints.chat_backend import ChatBackend
from duplex_trio.entrypoints.duplex_chat import DuplexChatCompletionsAdapter
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.entrypoints.turn_chat import TurnChatBackend
from duplex_trio.models.scripted.native import NativePipeline
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script, tool_call
from duplex_trio.models.scripted.turns import TurnsPipeline
from duplex_trio.models.scripted.workers import tone
from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.protocol.chat import (
    CallPiece,
    ChatError,
    ChatPiece,
    ChatRequest,
    ChatUsage,
    FinishPiece,
    SpeechPiece,
    TextPiece,
    TranscriptPiece,
    read_chat_request,
)
from duplex_trio.protocol.duplex import ResponseDone
from duplex_trio.protocol.duplex.audio import pcm16_bytes
from duplex_trio.stages.units import GenerationParams
from duplex_trio.testing import finish, open_talker, scripted_omni, scripted_requests

LONG = "word " * 400


def request(*content: Any, messages: list[Any] | None = None, **fields: Any) -> ChatRequest:
    said = messages or [{"role": "user", "content": content[0] if len(content) == 1 else list(content)}]
    return read_chat_request(orjson.dumps({"messages": said, **fields}), 16_000)


def sound(milliseconds: int = 500) -> dict[str, Any]:
    data = base64.b64encode(pcm16_bytes(tone(milliseconds))).decode()
    return {"type": "input_audio", "input_audio": {"data": data, "format": "pcm16"}}


Kind = Literal["sessions", "requests"]
both = pytest.mark.parametrize("kind", ["sessions", "requests"])
"""Whoever answers, they answer alike."""


@frozen
class Chats:
    """An engine and who answers chats by it."""

    omni: AsyncOmni
    backend: ChatBackend


@asynccontextmanager
async def chatting(kind: Kind, script: Script | None = None, **engine: Any) -> AsyncIterator[Chats]:
    """An engine that must be idle again at the end."""
    running = scripted_omni if kind == "sessions" else scripted_requests
    async with running(script, **engine) as omni:
        backend = (
            DuplexChatCompletionsAdapter(omni)
            if isinstance(omni, DuplexOmni)
            else TurnChatBackend(omni, max_chats=4)
        )
        yield Chats(omni, backend)
        await idle(omni)


def omni_of(chats: Chats) -> DuplexOmni:
    assert isinstance(chats.omni, DuplexOmni)
    return chats.omni


async def idle(omni: AsyncOmni) -> None:
    """Let what was closed end, and see that nothing of it is left."""
    await trio.sleep(1)
    statistics = omni.statistics()
    assert (getattr(statistics, "chats", 0), statistics.requests, statistics.live_requests) == (0, 0, 0)
    assert all(stage.live_requests == 0 for stage in statistics.stages)


async def ask(chats: Chats, asked: ChatRequest) -> list[ChatPiece]:
    pieces: list[ChatPiece] = []
    async with chats.backend.answer(asked) as answer:
        while not pieces or not isinstance(pieces[-1], FinishPiece):
            pieces.append(await answer.next_piece())
    return pieces


async def refused(chats: Chats, asked: ChatRequest) -> ChatError:
    with pytest.raises(ChatError) as caught:
        await ask(chats, asked)
    return caught.value


def figure(chats: Chats, name: str) -> float:
    lines = chats.omni.render_metrics().decode().splitlines()
    return float(next(line for line in lines if line.startswith(f"{name} ")).rpartition(" ")[2])


def words(pieces: list[ChatPiece]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, TextPiece | TranscriptPiece))


@both
async def test_a_written_answer_with_its_tokens(autojump_clock: MockClock, kind: Kind) -> None:
    async with chatting(kind) as chats:
        pieces = await ask(chats, request("hello you"))
        assert words(pieces) == "You said: hello you"
        assert not any(isinstance(piece, SpeechPiece) for piece in pieces)
        finish = pieces[-1]
        assert isinstance(finish, FinishPiece)
        assert (finish.reason, finish.usage) == ("stop", ChatUsage(input_tokens=2, output_tokens=4))
        assert finish.stage_metrics["1"]["stage_name"] == "llm"


@both
async def test_a_spoken_answer_is_not_held_back_to_the_pace_of_a_player(
    autojump_clock: MockClock, kind: Kind
) -> None:
    async with chatting(kind, step_s=0.001) as chats:
        began_s = trio.current_time()
        pieces = await ask(chats, request("tell me " + "more " * 50, modalities=["text", "audio"]))
        sound_s = sum(len(piece.pcm16) for piece in pieces if isinstance(piece, SpeechPiece)) / 48_000
        assert sound_s == pytest.approx(54 * 0.3)
        assert trio.current_time() - began_s < sound_s / 10
        assert words(pieces).startswith("You said: tell me more more")


@both
async def test_messages_become_the_conversation_in_their_order(autojump_clock: MockClock, kind: Kind) -> None:
    script = Script(heard=["what is it"])
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages = [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "sunny"},
        {"role": "user", "content": [{"type": "text", "text": "look:"}, sound()]},
    ]
    async with chatting(kind, script) as chats:
        pieces = await ask(chats, request(messages=messages))
        prompt = script.asked[-1].prompt.messages
        assert prompt[0].role == "system"
        assert "be kind" in prompt[0].content
        asked = " ".join([" ".join([one.content, *(call.name for call in one.calls)]) for one in prompt])
        places = [asked.index(part) for part in ("hello", "hi", "look", "sunny", "look:", "what is it")]
        assert places == sorted(places)
        assert "what is it" in words(pieces)


@both
async def test_every_piece_of_sound_is_heard_however_many_there_are(
    autojump_clock: MockClock, kind: Kind
) -> None:
    script = Script(heard=[f"sound{index}" for index in range(12)])
    async with chatting(kind, script) as chats:
        await ask(chats, request(*[sound(60)] * 12))
        asked = script.asked[-1].prompt.messages[-1].content
        assert all(f"sound{index}" in asked for index in range(12))


@both
async def test_knobs_reach_the_language_model(autojump_clock: MockClock, kind: Kind) -> None:
    script = Script()
    async with chatting(kind, script) as chats:
        await ask(chats, request(
            "x", temperature=0.25, top_p=0.5, top_k=3, min_p=0.1, seed=7, presence_penalty=1, frequency_penalty=-1,
            repetition_penalty=1.5, max_tokens=9, stop=["END"],
        ))  # fmt: skip
        assert script.asked[-1].params == GenerationParams(
            temperature=0.25, top_p=0.5, top_k=3, repetition_penalty=1.5, max_tokens=9, stop=("END",), seed=7,
            extra={"min_p": 0.1, "presence_penalty": 1.0, "frequency_penalty": -1.0},
        )  # fmt: skip


@both
async def test_a_limit_and_a_stop_end_the_answer(autojump_clock: MockClock, kind: Kind) -> None:
    async with chatting(kind, Script(otherwise=lambda _: "one two three four")) as chats:
        pieces = await ask(chats, request("count", max_tokens=2))
        assert words(pieces).split() == ["one", "two"]
        assert isinstance(pieces[-1], FinishPiece)
        assert pieces[-1].reason == "length"
        pieces = await ask(chats, request("count", stop=["o three", "four"]))
        assert words(pieces) == "one tw"
        assert isinstance(pieces[-1], FinishPiece)
        assert pieces[-1].reason == "stop"


@both
async def test_a_model_is_asked_for_nothing_it_does_not_have(autojump_clock: MockClock, kind: Kind) -> None:
    tool = {"type": "function", "function": {"name": "look"}}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    async with chatting(kind, pipeline=TurnsPipeline()) as chats:
        for fields, param in (
            ({"seed": 1}, "seed"),
            ({"response_format": {"type": "json_object"}}, "response_format"),
        ):
            error = await refused(chats, request("x", **fields))
            assert (error.status, error.code, error.param) == (400, "unsupported_parameter", param)
    async with chatting(kind, pipeline=_WithoutTools()) as chats:
        assert (await refused(chats, request("x", tools=[tool]))).param == "tools"
        assert (
            await refused(chats, request({"type": "text", "text": "x"}, image))
        ).param == "messages[0].content"


async def test_a_model_that_owns_its_turns_has_no_chat(autojump_clock: MockClock) -> None:
    async with scripted_omni(pipeline=NativePipeline()) as omni:
        assert not DuplexChatCompletionsAdapter(omni).available
    async with chatting("sessions") as chats:
        assert chats.backend.available


@both
async def test_a_function_is_called(autojump_clock: MockClock, kind: Kind) -> None:
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    async with chatting(kind, pipeline=TurnsPipeline()) as chats:
        pieces = await ask(chats, request("look", tools=[tool]))
        calls = [piece for piece in pieces if isinstance(piece, CallPiece)]
        assert (calls[0].index, calls[0].name) == (0, "look")
        assert calls[0].call_id
        assert "".join(call.arguments for call in calls) == "{}"
        assert isinstance(pieces[-1], FinishPiece)
        assert pieces[-1].reason == "tool_calls"


@both
@pytest.mark.parametrize("speech", [{}, {"modalities": ["text", "audio"]}])
async def test_a_stop_within_a_call_ends_the_answer(
    autojump_clock: MockClock, kind: Kind, speech: dict[str, Any]
) -> None:
    """There is no call, and the model is not asked to write again what it was not let write."""
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    script = Script(otherwise=lambda _: f"So. {tool_call('look', at='a b c d e')}")
    async with chatting(kind, script) as chats:
        pieces = await ask(chats, request("look", tools=[tool], stop=[" d "], **speech))
        assert words(pieces).strip() == "So."
        assert not any(isinstance(piece, CallPiece) for piece in pieces)
        assert isinstance(pieces[-1], FinishPiece)
        assert pieces[-1].reason == "stop"
        assert len(script.asked) == 1
        pieces = await ask(chats, request("look", tools=[tool], stop=["never"], **speech))
        assert any(isinstance(piece, CallPiece) for piece in pieces)


@both
async def test_a_refused_function_is_named(autojump_clock: MockClock, kind: Kind) -> None:
    """Where its parameters are no JSON schema, by the place that the client wrote them at."""
    tools = [
        {"type": "function", "function": {"name": name, "parameters": {"type": kind}}}
        for name, kind in (("look", "object"), ("listen", "nonsense"))
    ]
    async with chatting(kind) as chats:
        error = await refused(chats, request("look", tools=tools))
        assert (error.status, error.code) == (400, "invalid_value")
        assert error.param == "tools[1].function.parameters"


@both
async def test_a_refused_picture_names_its_message(autojump_clock: MockClock, kind: Kind) -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}}
    async with chatting(kind, pipeline=TurnsPipeline()) as chats:
        error = await refused(chats, request(messages=[
            {"role": "user", "content": "see"}, {"role": "user", "content": [image]},
        ]))  # fmt: skip
        assert (error.status, error.code, error.param) == (400, "invalid_image", "messages[1]")


@both
@pytest.mark.parametrize("script", [Script(fail_on=frozenset({"boom"})), Script(fail_speaking="boom")])
async def test_a_failing_model_is_a_server_error(
    autojump_clock: MockClock, kind: Kind, script: Script
) -> None:
    async with chatting(kind, script) as chats:
        error = await refused(chats, request("boom", modalities=["text", "audio"]))
        assert (error.status, error.code) == (500, "engine_error")
        assert error.body()["error"]["type"] == "server_error"
        assert words(await ask(chats, request("hello"))) == "You said: hello"


@both
async def test_who_leaves_stops_the_model_within_one_step(autojump_clock: MockClock, kind: Kind) -> None:
    """B03: the request is gone from every stage as soon as the step in progress is over."""
    async with chatting(kind, Script(otherwise=lambda _: LONG), step_s=0.02) as chats:
        with trio.move_on_after(1.01):
            await ask(chats, request("count to 5000", max_tokens=4000))
        await trio.sleep(0.03)
        statistics = chats.omni.statistics()
        assert statistics.live_requests == 0
        assert all(stage.live_requests == 0 for stage in statistics.stages)
        outputs = sum(stage.outputs_total for stage in statistics.stages)
        await trio.sleep(5)
        assert sum(stage.outputs_total for stage in chats.omni.statistics().stages) == outputs < 60
        cancelled = {
            "sessions": 'duplex_chat_completions_total{status="cancelled"}',
            "requests": 'duplex_requests_total{status="aborted"}',
        }
        assert figure(chats, cancelled[kind]) == 1


@both
async def test_who_reads_no_further_stops_a_speaking_model_too(autojump_clock: MockClock, kind: Kind) -> None:
    asked = request("talk", modalities=["text", "audio"])
    async with (
        chatting(kind, Script(otherwise=lambda _: LONG), step_s=0.001) as chats,
        chats.backend.answer(asked) as answer,
    ):
        assert isinstance(await answer.next_piece(), SpeechPiece)
        await trio.sleep(20)
        spoken = next(stage for stage in chats.omni.statistics().stages if stage.name == "tts").outputs_total
        await trio.sleep(20)
        assert next(s for s in chats.omni.statistics().stages if s.name == "tts").outputs_total == spoken < 40


@both
async def test_who_reads_too_late_is_told_so(autojump_clock: MockClock, kind: Kind) -> None:
    """What was made before is still there; then it does not wait for ever for what was given up."""
    asked = request(LONG, modalities=["text", "audio"])
    pieces: list[ChatPiece] = []
    async with chatting(kind) as chats, chats.backend.answer(asked) as answer:

        async def read_on() -> None:
            while True:
                pieces.append(await answer.next_piece())

        await trio.sleep(CHAT_READ_TIMEOUT_S + 20)
        with trio.fail_after(20), pytest.raises(ChatError) as caught:
            await read_on()
    assert pieces
    assert not any(isinstance(piece, FinishPiece) for piece in pieces)
    assert (caught.value.status, caught.value.code) == (503, "slow_reader")


async def test_chats_have_a_bound_of_their_own(autojump_clock: MockClock) -> None:
    """No chat takes a session's slot, and no session a chat's; a slot is free the moment its answer is read."""
    async with chatting("sessions", Script(otherwise=lambda _: LONG), max_sessions=1) as chats:
        bound = omni_of(chats).duplex_engine.chats
        talker = await open_talker(omni_of(chats))
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(ask, chats, request("x"))
            await trio.sleep(0.1)
            assert bound.count == 4
            with pytest.raises(ChatError) as caught:
                async with chats.backend.answer(request("x")):
                    raise AssertionError("there was room")
            assert (caught.value.status, caught.value.code) == (429, "resource_exhausted")
            assert caught.value.retry_after_s == 1
            assert chats.omni.statistics().sessions == 1
            nursery.cancel_scope.cancel()
        await trio.sleep(0.1)
        for _ in range(6):
            await ask(chats, request("x", max_tokens=1))
            assert bound.count == 0
        await finish(omni_of(chats), talker)


async def test_no_chat_is_counted_or_found_as_a_session(autojump_clock: MockClock) -> None:
    async with chatting("sessions") as chats:
        async with chats.backend.answer(request("x")) as answer:
            assert figure(chats, "duplex_chats") == 1
            assert figure(chats, "duplex_sessions") == 0
            while not isinstance(await answer.next_piece(), FinishPiece):
                pass
        assert figure(chats, "duplex_sessions_opened_total") == 0
        assert figure(chats, 'duplex_responses_total{status="completed"}') == 0
        assert figure(chats, 'duplex_chat_completions_total{status="completed"}') == 1
        assert figure(chats, "duplex_chats") == 0


async def test_a_voice_session_knows_nothing_of_chats(autojump_clock: MockClock) -> None:
    """Its conversation, its answers and its events are its own, whatever is asked beside it."""
    script = Script(heard=["hello there"])
    async with chatting("sessions", script) as chats:
        talker = await open_talker(omni_of(chats))
        await talker.turn(1.0)
        await talker.heard.wait_for(ResponseDone)
        await trio.sleep(5)
        seen = len(talker.events)
        await ask(chats, request("a secret of somebody else"))
        assert len(talker.events) == seen
        talker.write("and now?")
        await trio.sleep(5)
        told = " ".join(message.content for message in script.asked[-1].prompt.messages)
        assert "secret" not in told
        assert "hello there" in told
        await finish(omni_of(chats), talker)


@both
async def test_a_drain_lets_chats_end_and_takes_no_new_ones(autojump_clock: MockClock, kind: Kind) -> None:
    async with chatting(kind, Script(otherwise=lambda _: "one two three four")) as chats:
        done: list[list[ChatPiece]] = []

        async def one() -> None:
            done.append(await ask(chats, request("x")))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one)
            await trio.sleep(0.03)
            nursery.start_soon(chats.omni.drain, 10.0)
            await trio.sleep(0.01)
            assert (await refused(chats, request("x"))).status == 429
        assert words(done[0]) == "one two three four"


@both
async def test_a_drain_that_is_over_cuts_chats_off(autojump_clock: MockClock, kind: Kind) -> None:
    async with chatting(kind, Script(otherwise=lambda _: LONG)) as chats:
        errors: list[ChatError] = []

        async def one() -> None:
            errors.append(await refused(chats, request("x")))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one)
            await trio.sleep(0.1)
            nursery.start_soon(chats.omni.drain, 0.5)
        assert (errors[0].status, errors[0].code) == (503, "server_shutdown")


class _WithoutTools(ScriptedPipeline):
    def build_plugin(self) -> Any:
        plugin = super().build_plugin()
        declared = plugin.capabilities

        def capabilities(max_sessions: int) -> DuplexCapabilities:
            return attrs.evolve(declared(max_sessions), supports_tools=False, supports_image_input=False)

        plugin.capabilities = capabilities
        return plugin

    def build_processor(self) -> Any:
        processor = super().build_processor()
        processor.supports_tools = False
        return processor
