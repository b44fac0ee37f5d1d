"""Conversations in which everything happens that the protocol has words for, each as a client plays it.

One scenario for each way in which turns go and for each way in which responses end. They are the same for all
dialects; what a dialect makes of them is in the golden transcripts of the tests.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import trio.testing
from attrs import Factory, frozen

from duplex_trio.models.scripted.native import NativePipeline
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.models.scripted.turns import TurnsPipeline
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.protocol.duplex import (
    ConversationItemInputAudioTranscriptionCompleted,
    ConversationItemInputAudioTranscriptionFailed,
    DuplexEvent,
    ErrorEvent,
    FunctionCallItem,
    InputAudioBufferSpeechStarted,
    InputAudioBufferTimeoutTriggered,
    OutputAudioBufferStopped,
    ResponseCreated,
    ResponseDone,
    ResponseOutputAudioDelta,
)
from duplex_trio.testing.odd_models import (
    BreakingPipeline,
    DeadAsr,
    DeafAsr,
    FailingAsr,
    MoodyPipeline,
    WithAsr,
    failing_voice,
)
from duplex_trio.testing.transcript import TranscriptTalker

E = TypeVar("E", bound=DuplexEvent)

BY_HAND: dict[str, Any] = {"audio": {"input": {"turn_detection": None}}}
COMMIT = {"type": "input_audio_buffer.commit"}
CREATE = {"type": "response.create"}
CANCEL = {"type": "response.cancel"}
TOOL = {"type": "function", "name": "look_up", "parameters": {"type": "object"}}
STEPS_S = {"asr": 0.05, "llm": 0.03, "tts": 0.07, "mind": 0.03, "native": 0.05}
"""Different for each stage, so that nothing of two stages happens in one moment."""


def scripted() -> Pipeline:
    """Two words of 150 ms as an answer to everything; and a long answer to `long`."""
    replies = {"long": "one two three four five six"}
    return ScriptedPipeline(
        script=Script(
            heard=["hello there", "long"], replies=replies, otherwise=lambda _: "very well", word_ms=150
        )
    )


@frozen(kw_only=True)
class Scenario:
    """One conversation: the model, the session object that the client opens with, and what happens."""

    play: Callable[[TranscriptTalker], Awaitable[object]]
    pipeline: Callable[[], Pipeline] = scripted
    patch: Mapping[str, Any] = Factory(dict)
    opening: bool = False


def written(talker: TranscriptTalker, text: str) -> None:
    """The user writes something and wants an answer."""
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    talker.say({"type": "conversation.item.create", "item": item})
    talker.say(CREATE)


async def reached(talker: TranscriptTalker, cls: type[E], number: int) -> E:
    """An event has come, and whatever else happens in its moment is over: tasks run in any order."""
    event = await talker.heard.nth(cls, number)
    await trio.testing.wait_all_tasks_blocked()
    return event


async def played(talker: TranscriptTalker) -> None:
    """A response is done, and played."""
    await reached(talker, OutputAudioBufferStopped, 1)


# ------------------------------------------------------------------ how turns go


async def opening(talker: TranscriptTalker) -> None:
    """An update that is taken, one that is refused, and a message that nobody knows."""
    talker.say(
        {"type": "session.update", "session": {"type": "realtime", "audio": {"output": {"voice": "tone"}}}}
    )
    bad = {"audio": {"output": {"speed": 9}}}
    talker.say({"type": "session.update", "event_id": "e1", "session": bad})
    await reached(talker, ErrorEvent, 1)


async def spoken_turn(talker: TranscriptTalker) -> None:
    """Append, commit, create."""
    talker.append(500, loud=True)
    talker.say(COMMIT)
    talker.say(CREATE)
    await played(talker)


async def commit_and_create_in_one(talker: TranscriptTalker) -> None:
    """A commit that asks for a response itself."""
    talker.append(500, loud=True)
    talker.say({**COMMIT, "response_create": True})
    await played(talker)


async def input_commit(talker: TranscriptTalker) -> None:
    """The other name of a commit, which asks for a response by default."""
    talker.append(500, loud=True)
    talker.say({"type": "input.commit"})
    await played(talker)


async def detected_turn(talker: TranscriptTalker) -> None:
    """Speech and a pause; words are shown while it goes on."""
    await talker.turn(1.5)
    await played(talker)


async def own_turn(talker: TranscriptTalker) -> None:
    """A model that owns its turns hears, and answers by itself."""
    talker.append(1000, loud=True)
    await trio.sleep(0.5)
    talker.append(3000, loud=False)
    await played(talker)


async def tool_call(talker: TranscriptTalker) -> None:
    """The model has a function called, gets its output, and goes on."""
    written(talker, "look_up")
    done = await reached(talker, ResponseDone, 1)
    call = done.response.output[-1]
    assert isinstance(call, FunctionCallItem)
    item = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    talker.say({"type": "conversation.item.create", "item": item})
    talker.say(CREATE)
    await reached(talker, ResponseDone, 2)


async def written_answer(talker: TranscriptTalker) -> None:
    """The session chooses text: the `output_text` family."""
    talker.say({"type": "session.update", "session": {"output_modalities": ["text"]}})
    written(talker, "hello")
    await reached(talker, ResponseDone, 1)


async def outside_the_conversation(talker: TranscriptTalker) -> None:
    """A response with its own input that leaves no trace in the conversation."""
    options = {"conversation": "none", "metadata": {"topic": "weather"}, "output_modalities": ["text"]}
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}
    talker.say({**CREATE, "response": {**options, "input": [item]}})
    await reached(talker, ResponseDone, 1)


async def items(talker: TranscriptTalker) -> None:
    """Insertion at the front, retrieval, truncation, playback, deletion."""
    written(talker, "long")
    done = await reached(talker, ResponseDone, 1)
    spoken = done.response.output[0].id
    brief = {"type": "input_text", "text": "be brief"}
    front = {"id": "mine", "type": "message", "role": "system", "content": [brief]}
    talker.say({"type": "conversation.item.create", "previous_item_id": "root", "item": front})
    talker.say({"type": "conversation.item.retrieve", "item_id": "mine"})
    talker.say({"type": "playback.ack", "played_ms": 450})
    talker.say(
        {"type": "conversation.item.truncate", "item_id": spoken, "content_index": 0, "audio_end_ms": 300}
    )
    talker.say({"type": "conversation.item.delete", "item_id": "mine"})
    talker.say({"type": "session.heartbeat"})
    talker.say({"type": "turn.signal", "event": "user_started"})
    await played(talker)


async def nobody_speaks(talker: TranscriptTalker) -> None:
    """The user says nothing for `idle_timeout_ms` after an answer."""
    written(talker, "hello")
    await talker.pause(2.6)
    await reached(talker, InputAudioBufferTimeoutTriggered, 1)
    await reached(talker, ResponseDone, 2)


async def silence_by_hand(talker: TranscriptTalker) -> None:
    """A commit of silence, and one of nothing."""
    talker.append(300, loud=False)
    talker.say(COMMIT)
    await trio.sleep(0.5)
    talker.say({**COMMIT, "event_id": "e1"})
    await trio.sleep(0.5)
    talker.say({"type": "input_audio_buffer.clear"})
    await trio.sleep(0.5)


# ------------------------------------------------------------------ how responses end


async def cancelled_after_output(talker: TranscriptTalker) -> None:
    """The client cancels while the answer is spoken."""
    written(talker, "long")
    await reached(talker, ResponseOutputAudioDelta, 2)
    talker.say(CANCEL)
    await reached(talker, ResponseDone, 1)


async def cancelled_before_output(talker: TranscriptTalker) -> None:
    """The client cancels before the answer has begun."""
    written(talker, "long")
    await reached(talker, ResponseCreated, 1)
    talker.say(CANCEL)
    await reached(talker, ResponseDone, 1)


async def interrupted(talker: TranscriptTalker) -> None:
    """The user speaks over the answer."""
    written(talker, "long")
    await reached(talker, ResponseOutputAudioDelta, 2)
    await talker.speak(0.6)
    await reached(talker, InputAudioBufferSpeechStarted, 1)


async def barge_in(talker: TranscriptTalker) -> None:
    """The client cuts the answer and drops input."""
    written(talker, "long")
    await reached(talker, ResponseOutputAudioDelta, 2)
    talker.say({"type": "barge_in"})
    await reached(talker, ResponseDone, 1)


async def output_cleared(talker: TranscriptTalker) -> None:
    """The client clears what is played, which cuts the answer."""
    written(talker, "long")
    await reached(talker, ResponseOutputAudioDelta, 2)
    talker.say({"type": "output_audio_buffer.clear"})
    await reached(talker, ResponseDone, 1)


async def failed(talker: TranscriptTalker) -> None:
    """The voice fails in the middle of the answer."""
    written(talker, "hello")
    await played(talker)


async def recognition_failed(talker: TranscriptTalker) -> None:
    """Neither a transcript nor an answer."""
    talker.append(500, loud=True)
    talker.say({**COMMIT, "response_create": True})
    await reached(talker, ConversationItemInputAudioTranscriptionFailed, 1)
    await reached(talker, ResponseDone, 1)


async def listened(talker: TranscriptTalker) -> None:
    """The model finds that there is nothing to answer."""
    talker.append(500, loud=True, is_speech=True)
    talker.say({**COMMIT, "response_create": True})
    await reached(talker, ConversationItemInputAudioTranscriptionCompleted, 1)
    await reached(talker, ResponseDone, 1)


async def long_enough(talker: TranscriptTalker) -> None:
    """The answer reaches the limit that the client has set."""
    talker.say({"type": "session.update", "session": {"max_output_tokens": 1}})
    written(talker, "long")
    await reached(talker, ResponseDone, 1)


async def closed(talker: TranscriptTalker) -> None:
    """The client closes the session while the answer is spoken."""
    written(talker, "long")
    await reached(talker, ResponseOutputAudioDelta, 2)
    talker.say({"type": "session.close"})
    await talker.heard.wait_closed()


async def stage_failed(talker: TranscriptTalker) -> None:
    """The one request that a session lives in fails while it speaks."""
    talker.append(1000, loud=True)
    await trio.sleep(0.5)
    talker.append(3000, loud=False)
    await talker.heard.wait_closed()


IDLE = {
    "audio": {"input": {"turn_detection": {"type": "server_vad", "idle_timeout_ms": 1000}}},
}
SCENARIOS: Mapping[str, Scenario] = {
    "opening": Scenario(play=opening, opening=True),
    "spoken_turn": Scenario(play=spoken_turn, patch=BY_HAND),
    "commit_with_response_create": Scenario(play=commit_and_create_in_one, patch=BY_HAND),
    "input_commit": Scenario(play=input_commit, patch=BY_HAND),
    "detected_turn": Scenario(play=detected_turn),
    "auto_session": Scenario(
        play=own_turn, pipeline=lambda: NativePipeline(answer="yes I do"), patch=BY_HAND
    ),
    "tool_call": Scenario(play=tool_call, pipeline=TurnsPipeline, patch={"tools": [TOOL]}),
    "written_answer": Scenario(play=written_answer),
    "outside_the_conversation": Scenario(play=outside_the_conversation),
    "items": Scenario(play=items),
    "model_event": Scenario(
        play=written_answer, pipeline=lambda: MoodyPipeline(script=Script(otherwise=lambda _: "very well"))
    ),
    "idle_timeout": Scenario(play=nobody_speaks, patch=IDLE),
    "silence_by_hand": Scenario(play=silence_by_hand, patch=BY_HAND),
    "end_cancelled_after_output": Scenario(play=cancelled_after_output),
    "end_cancelled_before_output": Scenario(play=cancelled_before_output),
    "end_interrupted": Scenario(play=interrupted),
    "end_barge_in": Scenario(play=barge_in),
    "end_output_cleared": Scenario(play=output_cleared),
    "end_failed": Scenario(play=failed, pipeline=failing_voice),
    "end_append_failed": Scenario(play=recognition_failed, pipeline=lambda: WithAsr(DeadAsr), patch=BY_HAND),
    "end_recognition_failed": Scenario(
        play=recognition_failed, pipeline=lambda: WithAsr(FailingAsr), patch=BY_HAND
    ),
    "end_listened": Scenario(play=listened, pipeline=lambda: WithAsr(DeafAsr), patch=BY_HAND),
    "end_limit_reached": Scenario(play=long_enough),
    "end_session_closed": Scenario(play=closed),
    "end_stage_failed": Scenario(play=stage_failed, pipeline=BreakingPipeline, patch=BY_HAND),
}
