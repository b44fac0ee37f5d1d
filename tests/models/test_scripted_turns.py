"""The scripted model that thinks ahead: what its mind makes of a turn, and its ways through the stages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from trio.testing import MockClock

from duplex_trio.models.scripted.mind import MindStep, MindTurn, MindWorker
from duplex_trio.models.scripted.script import Script
from duplex_trio.models.scripted.turns import TurnsPipeline
from duplex_trio.pipelines.registry import pipeline_config, pipeline_names
from duplex_trio.pipelines.topology import check_topology
from duplex_trio.protocol.duplex import (
    CreateItem,
    CreateResponse,
    InputTextPart,
    MessageItem,
    OutputTextPart,
    ResponseCreateOptions,
    ResponseDone,
    ResponseListen,
)
from duplex_trio.stages.units import ChatMessage, Pcm
from duplex_trio.testing import open_session
from duplex_trio.testing.workers import RecordingContext, run_requests, run_units

LOUD: Pcm = np.full(16_000, 0.1, np.float32)
QUIET: Pcm = np.zeros(16_000, np.float32)


def turn(text: str | None = None, **fields: Any) -> MindTurn:
    messages = (ChatMessage(role="user", content=text),) if text is not None else ()
    return MindTurn(**{"pcm": None, "messages": messages, **fields})


def steps(script: Script, *turns: MindTurn) -> list[MindStep]:
    return run_units(MindWorker(script), *turns).values("test")


def test_a_written_turn_is_answered_word_by_word() -> None:
    """The last word says that it is the last."""
    assert steps(Script(replies={"hi": "good day sir"}), turn("hi")) == [
        MindStep(word="good"),
        MindStep(word="day"),
        MindStep(word="sir", last=True),
    ]


def test_a_spoken_turn_is_heard_first() -> None:
    """Then it is part of what is answered."""
    script = Script(heard=["hello"], replies={"hello": "yes"})
    assert steps(script, turn("before", pcm=LOUD)) == [
        MindStep(heard="hello"),
        MindStep(word="yes", last=True),
    ]
    assert [message.content for message in script.asked[-1].prompt.messages] == ["before", "hello"]


@pytest.mark.parametrize(("pcm", "respond", "heard"), [(QUIET, True, ""), (LOUD, False, "hello")])
def test_some_turns_are_only_heard(pcm: Pcm, respond: bool, heard: str) -> None:
    """Silence, and one of which only the words are wanted."""
    script = Script(heard=["hello"])
    assert steps(script, turn(pcm=pcm, respond=respond)) == [MindStep(heard=heard, last=True)]
    assert not script.asked


def test_a_function_is_called_by_its_name() -> None:
    """If it is among the tools; else its name is a word like any other."""
    tools = frozenset({"look_up"})
    assert steps(Script(), turn("look_up", tools=tools)) == [MindStep(call="look_up", last=True)]
    assert steps(Script(otherwise=str.upper), turn("look_up")) == [MindStep(word="LOOK_UP", last=True)]


def test_what_is_seen_is_said() -> None:
    """Behind the answer."""
    words = [step.word for step in steps(Script(otherwise=str.upper), turn("look", seen=2))]
    assert words == ["LOOK", "seeing", "2", "pictures"]


def test_an_answer_without_words_is_one_empty_word() -> None:
    """So that it comes to an end."""
    assert steps(Script(replies={"hi": ""}), turn("hi")) == [MindStep(last=True)]


def test_it_fails_where_the_script_says() -> None:
    """And goes on with the other requests."""
    worker = MindWorker(Script(fail_on=frozenset({"bad"}), replies={"good": "yes"}))
    context = run_requests(worker, {"1": [turn("bad")], "2": [turn("good")]})
    failure = context.failure("1")
    assert failure is not None
    assert failure.code == "engine_error"
    assert context.values("2") == [MindStep(word="yes", last=True)]


def test_requests_take_turns_and_may_be_forgotten() -> None:
    """One that was aborted says nothing more."""
    worker = MindWorker(Script(replies={"one": "a b", "two": "c d"}))
    context = run_requests(worker, {"1": [turn("one")], "2": [turn("two")]})
    assert [output.request_id for output in context.outputs] == ["1", "2", "1", "2"]
    again = RecordingContext()
    run_requests(worker, {"3": []})
    worker.submit("3", turn("one"), True, again)
    worker.step(again)
    worker.abort(["3", "unknown"])
    assert not worker.step(again)
    assert not again.values("3")


def test_it_is_a_model_of_the_package() -> None:
    """Found by its name, with stages in order."""
    assert "scripted_turns" in pipeline_names()
    check_topology(pipeline_config("scripted_turns"))
    assert TurnsPipeline().model_name() == "scripted_turns"


async def test_it_may_write_instead_of_speak(autojump_clock: MockClock) -> None:
    """Its words join to the answer, and the voice is not asked."""
    script = Script(replies={"hi": "good day sir"})
    async with open_session(pipeline=TurnsPipeline(script=script)) as talker:
        item = MessageItem(role="user", content=(InputTextPart("hi"),))
        talker.send(CreateItem(item=item))
        talker.send(CreateResponse(options=ResponseCreateOptions(output_modalities=("text",))))
        (message,) = (await talker.heard.nth(ResponseDone, 1)).response.output
        assert isinstance(message, MessageItem)
        assert message.content == (OutputTextPart(text="good day sir"),)


async def test_it_listens_to_what_holds_no_words(autojump_clock: MockClock) -> None:
    """A turn in which it hears nothing ends by listening, with an empty transcript."""
    async with open_session(pipeline=TurnsPipeline(script=Script(heard=[""]))) as talker:
        await talker.turn()
        done = await talker.heard.nth(ResponseDone, 1)
        assert done.response.status == "completed"
        assert talker.heard.of(ResponseListen)[-1].response.metadata.reason == "silence_or_noise"
