"""Whole turns, spoken and written: which events come, in which order, and what the model is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.models.scripted.script import Script
from duplex_trio.models.scripted.turns import TurnsPipeline
from duplex_trio.models.scripted.turns_plugin import TurnsPlugin
from duplex_trio.pipelines.requests import RequestView
from duplex_trio.pipelines.results import ModelResult, UserTranscript
from duplex_trio.protocol.duplex import (
    AppendAudio,
    Commit,
    ConversationItemDone,
    ConversationItemInputAudioTranscriptionCompleted,
    ConversationItemInputAudioTranscriptionDelta,
    ConversationItemInputAudioTranscriptionFailed,
    CreateItem,
    CreateResponse,
    ErrorEvent,
    InputAudioBufferCommitted,
    InputAudioBufferSpeechStarted,
    InputAudioBufferSpeechStopped,
    InputTextPart,
    ItemReference,
    MessageItem,
    OutputAudioPart,
    OutputTextPart,
    RateLimitsUpdated,
    ResponseContentPartAdded,
    ResponseCreated,
    ResponseCreateOptions,
    ResponseDone,
    ResponseOutputAudioDelta,
    ResponseOutputTextDone,
    UpdateSession,
)
from duplex_trio.protocol.duplex.session import DialectName
from duplex_trio.stages.port import StageOutput
from duplex_trio.testing import Talker, open_session

COMMITTED = [
    "input_audio_buffer.speech_stopped",
    "conversation.item.added",
    "conversation.item.created",
    "input_audio_buffer.committed",
    "conversation.item.done",
]
OPENED = [
    "response.created",
    "response.output_item.added",
    "conversation.item.added",
    "conversation.item.created",
    "response.content_part.added",
]
CLOSED = [
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "response.output_item.done",
    "conversation.item.done",
    "response.done",
    "rate_limits.updated",
]


def told(script: Script, number: int = -1) -> list[tuple[str, str]]:
    """The messages of one prompt of the language model, the latest by default."""
    return [(message.role, message.content) for message in script.asked[number].prompt.messages]


def message(text: str, item_id: str = "") -> CreateItem:
    return CreateItem(item=MessageItem(id=item_id, role="user", content=(InputTextPart(text),)))


def collapsed(types: list[str]) -> list[str]:
    """Event types with repeated audio deltas shown once."""
    kept: list[str] = []
    for name in types:
        if not (kept and kept[-1] == name == "response.output_audio.delta"):
            kept.append(name)
    return kept


@pytest.mark.parametrize("dialect", ["ga", "beta", "duplex"])
async def test_a_spoken_turn(autojump_clock: MockClock, dialect: DialectName) -> None:
    """Speech, its commit, the opening block, the transcript, sound with its text, the closing block."""
    async with open_session(Script(heard=["hello there"]), dialect=dialect) as talker:
        await talker.turn()
        await talker.heard.nth(RateLimitsUpdated, 1)
        (done,) = talker.heard.of(ResponseDone)
        start = talker.heard.types.index("input_audio_buffer.speech_started")
        types = [name for name in talker.heard.types[start:] if not name.endswith("transcription.delta")]
        assert collapsed(types) == [
            "input_audio_buffer.speech_started",
            *COMMITTED,
            *OPENED,
            "conversation.item.input_audio_transcription.completed",
            "response.speak",
            "output_audio_buffer.started",
            "response.output_audio.delta",
            "response.output_audio_transcript.delta",
            "response.output_audio.delta",
            *CLOSED,
        ]
        (item,) = done.response.output
        assert isinstance(item, MessageItem)
        assert item.content == (OutputAudioPart(transcript="You said: hello there"),)


async def test_a_spoken_turn_is_told_in_figures(autojump_clock: MockClock) -> None:
    """Where speech began and ended, its length as the transcript's usage, and the tokens of the answer."""
    async with open_session(Script(heard=["hello there"])) as talker:
        await talker.pause(1.0)
        await talker.turn(1.0)
        done = await talker.heard.nth(ResponseDone, 1)
        (started,) = talker.heard.of(InputAudioBufferSpeechStarted)
        (stopped,) = talker.heard.of(InputAudioBufferSpeechStopped)
        (committed,) = talker.heard.of(InputAudioBufferCommitted)
        (transcript,) = talker.heard.of(ConversationItemInputAudioTranscriptionCompleted)
        assert started.audio_start_ms == pytest.approx(1000 - 300, abs=64)
        assert stopped.audio_end_ms == pytest.approx(1000 + 1000 + 600, abs=64)
        assert started.item_id == stopped.item_id == committed.item_id == transcript.item_id
        assert (transcript.transcript, transcript.content_index) == ("hello there", 0)
        assert done.response.usage is not None
        usage = done.response.usage
        assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (2, 4, 6)


async def test_the_next_prompt_has_the_turn_before(autojump_clock: MockClock) -> None:
    """Both sides of the first exchange come before the second question, the answer as far as it was heard."""
    script = Script(heard=["first", "second"], replies={"first": "one two three four"})
    async with open_session(script, dialect="ga") as talker:
        await talker.turn()
        await talker.heard.nth(ResponseDone, 1)
        await talker.pause(2.0)
        await talker.turn()
        await talker.heard.nth(ResponseDone, 2)
    assert told(script) == [("user", "first"), ("assistant", "one two three four"), ("user", "second")]


async def test_without_a_transcript_there_is_no_delta(autojump_clock: MockClock) -> None:
    """Deltas show words of speech that goes on; they join to a beginning of the final transcript."""
    async with open_session(Script(heard=["one two three"])) as talker:
        await talker.speak(2.0)
        deltas = talker.heard.of(ConversationItemInputAudioTranscriptionDelta)
        assert "".join(delta.delta for delta in deltas) == "one two three"
        await talker.pause(0.8)
        (committed,) = talker.heard.of(InputAudioBufferCommitted)
        assert {delta.item_id for delta in deltas} == {committed.item_id}
        await talker.heard.nth(ResponseDone, 1)


async def test_a_written_turn_is_answered_in_speech(autojump_clock: MockClock) -> None:
    """A text message and a request for a response: the item block, the opening block, sound, the closing block."""
    async with open_session(Script(replies={"how are you": "fine"})) as talker:
        begin = len(talker.heard.events)
        talker.write("how are you")
        await talker.heard.nth(RateLimitsUpdated, 1)
        assert collapsed(talker.heard.types[begin:]) == [
            "conversation.item.added",
            "conversation.item.created",
            "conversation.item.done",
            *OPENED,
            "response.speak",
            "output_audio_buffer.started",
            "response.output_audio.delta",
            "response.output_audio_transcript.delta",
            "response.output_audio.delta",
            *CLOSED,
        ]
        user, assistant = talker.heard.of(ConversationItemDone)
        assert assistant.previous_item_id == user.item.id


@pytest.mark.parametrize("where", ["session", "response"])
async def test_without_the_audio_modality_the_answer_is_text(autojump_clock: MockClock, where: str) -> None:
    """The `output_text` family and no event of sound, whether the session or the one response asks for text."""
    script = Script(replies={"hi": "well hello"})
    patch = {"output_modalities": ["text"]} if where == "session" else {}
    options = (
        ResponseCreateOptions() if where == "session" else ResponseCreateOptions(output_modalities=("text",))
    )
    async with open_session(script, patch=patch) as talker:
        talker.send(message("hi"), CreateResponse(options=options))
        done = await talker.heard.nth(ResponseDone, 1)
        types = talker.heard.types
        assert not [name for name in types if "audio" in name and name.startswith(("response", "output"))]
        assert [name for name in types if name.startswith("response.output_text")] == [
            "response.output_text.delta",
            "response.output_text.delta",
            "response.output_text.done",
        ]
        (part,) = talker.heard.of(ResponseContentPartAdded)
        assert part.part.type == "text"
        (text,) = talker.heard.of(ResponseOutputTextDone)
        assert text.text == "well hello"
        (item,) = done.response.output
        assert isinstance(item, MessageItem)
        assert item.content == (OutputTextPart("well hello"),)
        assert done.response.modalities == ("text",)
        talker.write("next")
        await talker.heard.nth(ResponseDone, 2)
    assert told(script)[:2] == [("user", "hi"), ("assistant", "well hello")]


async def test_a_spoken_question_can_be_answered_in_text(autojump_clock: MockClock) -> None:
    """Sound in, text out: the transcript of the question and `output_text` for the answer."""
    async with open_session(Script(heard=["hi"]), patch={"output_modalities": ["text"]}) as talker:
        await talker.turn()
        await talker.heard.nth(ResponseDone, 1)
        assert talker.heard.of(ConversationItemInputAudioTranscriptionCompleted)[0].transcript == "hi"
        assert talker.heard.of(ResponseOutputTextDone)[0].text == "You said: hi"
        assert not talker.heard.of(ResponseOutputAudioDelta)


async def test_a_response_outside_the_conversation_leaves_no_trace(autojump_clock: MockClock) -> None:
    """`conversation: none` sees the conversation but adds nothing to it."""
    script = Script()
    async with open_session(script, dialect="ga") as talker:
        talker.send(message("hi"), CreateResponse(options=ResponseCreateOptions(conversation="none")))
        done = await talker.heard.nth(ResponseDone, 1)
        assert done.response.conversation_id is None
        assert len(talker.heard.of(ConversationItemDone)) == 1
        assert told(script) == [("user", "hi")]
        talker.send(message("again"), CreateResponse())
        done = await talker.heard.nth(ResponseDone, 2)
        assert done.response.conversation_id is not None
    assert told(script) == [("user", "hi again")]


async def test_given_input_stands_for_the_conversation(autojump_clock: MockClock) -> None:
    """With `input` the model is told these items only; one may name an item of the conversation."""
    script = Script()
    given = (
        MessageItem(role="user", content=(InputTextPart("given"),)),
        MessageItem(role="assistant", content=(OutputTextPart("noted"),)),
        ItemReference("m2"),
    )
    options = ResponseCreateOptions(conversation="none", input=given, metadata={"topic": "classify"})
    async with open_session(script) as talker:
        talker.send(message("one", "m1"), message("two", "m2"), CreateResponse(options=options))
        done = await talker.heard.nth(ResponseDone, 1)
        assert done.response.metadata == {"topic": "classify"}
    assert told(script) == [("user", "given"), ("assistant", "noted"), ("user", "two")]


async def test_input_needs_no_conversation(autojump_clock: MockClock) -> None:
    """In an empty session `input` alone is something to answer."""
    script = Script()
    given = (MessageItem(role="user", content=(InputTextPart("given"),)),)
    async with open_session(script) as talker:
        talker.send(CreateResponse(options=ResponseCreateOptions(input=given)))
        await talker.heard.nth(ResponseDone, 1)
    assert told(script) == [("user", "given")]


async def test_input_with_an_unknown_reference_begins_nothing(autojump_clock: MockClock) -> None:
    """The reference is refused with the client's event id; no response is created and the session goes on."""
    options = ResponseCreateOptions(input=(ItemReference("nowhere"),))
    async with open_session() as talker:
        talker.send(CreateResponse(options=options, event_id="e1"))
        error = (await talker.heard.nth(ErrorEvent, 1)).error
        assert (error.code, error.param, error.event_id) == ("item_not_found", "response.input[0].id", "e1")
        assert not talker.heard.of(ResponseCreated)
        talker.write("hi")
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"


async def test_a_response_has_its_own_instructions(autojump_clock: MockClock) -> None:
    """They replace the session's for this response only."""
    script = Script()
    async with open_session(script, dialect="ga", patch={"instructions": "Be kind."}) as talker:
        talker.send(message("a"), CreateResponse(options=ResponseCreateOptions(instructions="Be brief.")))
        await talker.heard.nth(ResponseDone, 1)
        assert told(script)[0] == ("system", "Be brief.")
        talker.write("b")
        await talker.heard.nth(ResponseDone, 2)
        assert told(script)[0] == ("system", "Be kind.")
        talker.send(UpdateSession(patch={"instructions": "Be loud."}))
        talker.write("c")
        await talker.heard.nth(ResponseDone, 3)
        assert told(script)[0] == ("system", "Be loud.")


async def test_a_response_has_its_own_limits(autojump_clock: MockClock) -> None:
    """Tokens and temperature reach the model; an answer that hits the limit is `incomplete`."""
    script = Script(replies={"count": "one two three four"})
    async with open_session(script, dialect="ga", patch={"max_output_tokens": 100}) as talker:
        options = ResponseCreateOptions(max_output_tokens=2, temperature=0.9)
        talker.send(message("count"), CreateResponse(options=options))
        response = (await talker.heard.nth(ResponseDone, 1)).response
        assert (response.status, response.max_output_tokens) == ("incomplete", 2)
        assert response.status_details is not None
        assert response.status_details.reason == "max_output_tokens"
        assert (script.asked[-1].params.max_tokens, script.asked[-1].params.temperature) == (2, 0.9)
        talker.send(message("count"), CreateResponse())
        assert (await talker.heard.nth(ResponseDone, 2)).response.status == "completed"
        assert script.asked[-1].params.max_tokens == 100


async def test_metadata_is_the_clients_own(autojump_clock: MockClock) -> None:
    """What the client attached is in both response objects, and nothing else is."""
    options = ResponseCreateOptions(metadata={"client_event_id": "x", "n": "1"})
    async with open_session() as talker:
        talker.send(message("hi"), CreateResponse(options=options))
        done = await talker.heard.nth(ResponseDone, 1)
        (created,) = talker.heard.of(ResponseCreated)
        assert created.response.metadata == done.response.metadata == {"client_event_id": "x", "n": "1"}


async def test_an_empty_conversation_has_nothing_to_answer(autojump_clock: MockClock) -> None:
    """A request without input or instructions is refused; instructions alone are something to go by."""
    async with open_session() as talker:
        talker.send(CreateResponse(event_id="e1"))
        error = (await talker.heard.nth(ErrorEvent, 1)).error
        assert (error.code, error.event_id) == ("response_create_without_input", "e1")
        talker.send(CreateResponse(options=ResponseCreateOptions(instructions="Greet the caller.")))
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"


async def test_a_second_response_is_refused_while_one_is_active(autojump_clock: MockClock) -> None:
    """OpenAI's code, the client's event id, and the first response untouched."""
    async with open_session() as talker:
        talker.write("hi")
        await talker.heard.nth(ResponseCreated, 1)
        talker.send(CreateResponse(event_id="e2"))
        error = (await talker.heard.nth(ErrorEvent, 1)).error
        assert (error.code, error.event_id) == ("conversation_already_has_active_response", "e2")
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"
        assert len(talker.heard.of(ResponseCreated)) == 1


@pytest.mark.parametrize("names", [("audio/pcmu", "audio/pcma"), ("g711_ulaw", "g711_alaw")])
async def test_telephone_sound_both_ways(autojump_clock: MockClock, names: tuple[str, str]) -> None:
    """One byte a sample at 8000 Hz: speech is understood, and the answer is 8 bytes for each millisecond."""
    inward, outward = names
    patch: dict[str, Any] = {
        "audio": {"input": {"format": {"type": inward}}, "output": {"format": {"type": outward}}}
    }
    if not inward.startswith("audio/"):
        patch = {"input_audio_format": inward, "output_audio_format": outward}
    async with open_session(Script(heard=["hello there"], word_ms=250), patch=patch) as talker:
        await _speak_ulaw(talker, loud_s=1.0, quiet_s=0.8)
        done = await talker.heard.nth(ResponseDone, 1)
        assert (
            talker.heard.of(ConversationItemInputAudioTranscriptionCompleted)[0].transcript == "hello there"
        )
        deltas = talker.heard.of(ResponseOutputAudioDelta)
        assert sum(len(delta.delta) for delta in deltas) == pytest.approx(8 * 4 * 250, rel=0.01)
        assert {delta.duplex and delta.duplex.sample_rate_hz for delta in deltas} == {8000}
        assert done.duplex is not None
        assert done.duplex.playback is not None
        assert done.duplex.playback.sent_ms == 1000


async def _speak_ulaw(talker: Talker, *, loud_s: float, quiet_s: float) -> None:
    # A square wave of 200 Hz at 8000 Hz: 20 samples up, 20 down, about a third of full scale; 0xff is silence.
    loud, quiet = (b"\x9f" * 20 + b"\x1f" * 20) * 4, b"\xff" * 160
    for chunk, seconds in ((loud, loud_s), (quiet, quiet_s)):
        for _ in range(round(seconds / 0.02)):
            talker.send(AppendAudio(audio=chunk))
            await trio.sleep(0.02)


async def test_a_response_that_waits_keeps_its_modalities(autojump_clock: MockClock) -> None:
    """Created with sound, it speaks, though the session chose text before the model was asked."""
    patch = {"turn_detection": None}
    async with open_session(Script(heard=["hello"]), patch=patch, step_s={"asr": 1.0}) as talker:
        talker.append(500, loud=True)
        talker.send(Commit(), CreateResponse(), UpdateSession(patch={"modalities": ["text"]}))
        done = await talker.heard.nth(ResponseDone, 1)
        assert done.response.modalities == ("text", "audio")
        assert talker.heard.of(ResponseOutputAudioDelta)


class _Mute(TurnsPlugin):
    """Answers, and does not tell what it heard."""

    def project(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[ModelResult]:
        results = super().project(stage_id, output, request)
        return [result for result in results if not isinstance(result, UserTranscript)]


class _MutePipeline(TurnsPipeline):
    def build_plugin(self) -> TurnsPlugin:
        return _Mute()


@pytest.mark.parametrize("asks", [True, False])
async def test_a_model_that_gives_no_transcript(autojump_clock: MockClock, asks: bool) -> None:
    """The client is told so when the turn is over; nothing waits for it, and nothing is kept for it."""
    async with open_session(pipeline=_MutePipeline(), patch={"turn_detection": None}) as talker:
        talker.append(800, loud=True)
        talker.send(Commit(response_create=asks))
        failed = await talker.heard.wait_for(ConversationItemInputAudioTranscriptionFailed)
        assert failed.error.code == "runtime_data_plane_stream_failed"
        if asks:
            assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"
        assert not talker.handle._core.transcribing
        asked_s = trio.current_time()
        talker.write("hi")
        done = await talker.heard.nth(ResponseDone, 2 if asks else 1)
        assert done.response.status == "completed"
        assert trio.current_time() - asked_s < 5
