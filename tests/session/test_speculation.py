"""Answers that are computed before the user's turn is known to be over, and what ends a turn.

The scripted detector calls a turn over after 600 ms of quiet and reports a pause after 200 ms; an answer is
prepared in that pause.
"""

from __future__ import annotations

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock

from duplex_trio.engine import SessionLimits
from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex import (
    Commit,
    ConversationItemInputAudioTranscriptionCompleted,
    CreateItem,
    ErrorEvent,
    InputAudioBufferCommitted,
    InputAudioBufferSpeechStopped,
    InputTextPart,
    MessageItem,
    ResponseCreated,
    ResponseDone,
    ResponseListen,
    ResponseOutputAudioDelta,
    SessionExpired,
    UpdateSession,
)
from duplex_trio.testing import Talker, open_session

SEMANTIC = {"turn_detection": {"type": "semantic_vad", "eagerness": "high"}}
TIMEOUT_S = 2.0
"""How long `eagerness: high` waits for a sentence that sounds unfinished."""


def first_time_s(talker: Talker, name: str) -> float:
    """When the first event of a type came."""
    return talker.heard.times_s[talker.heard.types.index(name)]


async def test_a_prepared_answer_is_there_when_the_turn_ends(autojump_clock: MockClock) -> None:
    """The answer was computed in the pause: its sound follows the commit at once, and it was asked once."""
    script = Script(heard=["hello there"])
    async with open_session(script) as talker:
        await talker.turn()
        done = await talker.heard.nth(ResponseDone, 1)
        wait_s = first_time_s(talker, "response.output_audio.delta") - first_time_s(
            talker, "response.created"
        )
        assert wait_s == 0.0
        assert done.duplex is not None
        assert done.duplex.request_metrics is not None
        assert done.duplex.request_metrics.speculative
        counters = talker.handle.counters
        assert (counters.speculations_started, counters.speculations_adopted) == (1, 1)
    assert len(script.asked) == 1


async def test_speech_that_goes_on_discards_the_prepared_answer(autojump_clock: MockClock) -> None:
    """A pause of 400 ms inside a turn ends nothing: one item, one answer, made of the whole turn."""
    script = Script()
    async with open_session(script) as talker:
        await talker.speak(1.0)
        await talker.pause(0.4)
        await talker.turn(1.0)
        await talker.heard.nth(ResponseDone, 1)
        assert len(talker.heard.of(InputAudioBufferCommitted)) == 1
        assert len(talker.heard.of(ResponseCreated)) == 1
        counters = talker.handle.counters
        assert (counters.speculations_started, counters.speculations_discarded) == (2, 1)
        (transcript,) = talker.heard.of(ConversationItemInputAudioTranscriptionCompleted)
        assert float(transcript.transcript.split()[2]) > 2.2
    assert script.asked[-1].prompt.messages[-1].content == transcript.transcript


async def test_a_noise_gets_no_answer(autojump_clock: MockClock) -> None:
    """Sound in which recognition finds no words: an item without text, a listen decision, no response."""
    script = Script(heard=["", "hello"])
    async with open_session(script) as talker:
        await talker.turn(0.3)
        listen = await talker.heard.nth(ResponseListen, 1)
        assert (listen.response_id, listen.response.metadata.reason) == (None, "silence_or_noise")
        assert talker.heard.of(ConversationItemInputAudioTranscriptionCompleted)[0].transcript == ""
        await trio.sleep(5)
        assert not talker.heard.of(ResponseCreated)
        await talker.turn()
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"
    assert [message.content for message in script.asked[-1].prompt.messages] == ["hello"]


async def test_a_noise_that_is_recognised_late_says_nothing(autojump_clock: MockClock) -> None:
    """When recognition takes longer than the turn's end, the response that was begun ends by listening."""
    async with open_session(Script(heard=[""]), step_s={"asr": 0.7}) as talker:
        await talker.turn(0.3)
        done = await talker.heard.nth(ResponseDone, 1)
        assert (done.response.status, done.response.status_details) == ("completed", None)
        assert not talker.heard.of(ResponseOutputAudioDelta)


async def test_an_item_that_comes_in_between_is_known_to_the_answer(autojump_clock: MockClock) -> None:
    """A prepared answer that does not know of a new item is discarded and made anew."""
    script = Script(heard=["what now", "what now"])
    async with open_session(script) as talker:
        await talker.speak(1.0)
        await talker.pause(0.35)
        assert len(script.asked) == 1
        note = MessageItem(role="system", content=(InputTextPart("The door is open."),))
        talker.send(CreateItem(item=note))
        await talker.pause(0.5)
        await talker.heard.nth(ResponseDone, 1)
    assert len(script.asked) == 2
    assert [message.content for message in script.asked[-1].prompt.messages] == [
        "The door is open.",
        "what now",
    ]


async def test_new_instructions_hold_for_the_turn_in_progress(autojump_clock: MockClock) -> None:
    """An update in the pause reaches the answer."""
    script = Script(heard=["hi"])
    async with open_session(script) as talker:
        await talker.speak(1.0)
        await talker.pause(0.35)
        talker.send(UpdateSession(patch={"instructions": "Be brief."}))
        await talker.pause(0.5)
        await talker.heard.nth(ResponseDone, 1)
    assert script.asked[-1].prompt.messages[0].content == "Be brief."


async def test_a_commit_by_hand_takes_the_place_of_the_prepared_answer(autojump_clock: MockClock) -> None:
    """The client's own commit decides; what was prepared is thrown away."""
    async with open_session(Script(heard=["hi"])) as talker:
        await talker.speak(1.0)
        await talker.pause(0.35)
        talker.send(Commit())
        await talker.heard.nth(ConversationItemInputAudioTranscriptionCompleted, 1)
        await trio.sleep(5)
        assert not talker.heard.of(ResponseCreated)
        assert talker.handle.counters.speculations_discarded == 1


async def test_without_create_response_nothing_is_prepared(autojump_clock: MockClock) -> None:
    """Turns are committed and transcribed; the model is not asked."""
    script = Script(heard=["hi"])
    async with open_session(script, patch={"turn_detection": {"create_response": False}}) as talker:
        await talker.turn()
        await talker.heard.nth(ConversationItemInputAudioTranscriptionCompleted, 1)
        await trio.sleep(5)
        assert not talker.heard.of(ResponseCreated)
        assert talker.handle.counters.speculations_started == 0
    assert not script.asked


async def test_a_failed_preparation_is_made_again(autojump_clock: MockClock) -> None:
    """What fails ahead of the turn's end is no news to the client: the turn is answered, or fails, on its own."""
    script = Script(heard=["bad", "good"], fail_on=frozenset({"bad"}))
    async with open_session(script) as talker:
        await talker.turn()
        done = await talker.heard.nth(ResponseDone, 1)
        assert done.response.status == "completed"
        assert not talker.heard.of(ErrorEvent)


async def test_long_turns_keep_their_beginning(autojump_clock: MockClock) -> None:
    """However long the user speaks, and without any preparation, all of the sound is committed."""
    patch = {"turn_detection": {"create_response": False}}
    async with open_session(patch=patch) as talker:
        for _ in range(3):
            await talker.turn(7.0)
        await talker.heard.nth(ConversationItemInputAudioTranscriptionCompleted, 3)
        for transcript in talker.heard.of(ConversationItemInputAudioTranscriptionCompleted):
            assert float(transcript.transcript.split()[2]) > 7.5


async def test_turns_in_one_burst_are_told_apart(autojump_clock: MockClock) -> None:
    """A recording of two turns sent at once becomes two items, each with its own id, sound and transcript."""
    patch = {"turn_detection": {"create_response": False, "silence_duration_ms": 300}}
    async with open_session(Script(heard=["one", "two"]), patch=patch) as talker:
        for loud_ms, quiet_ms in ((400, 400), (400, 800)):
            talker.append(loud_ms, loud=True)
            talker.append(quiet_ms, loud=False)
        await talker.heard.nth(ConversationItemInputAudioTranscriptionCompleted, 2)
        assert [name for name in talker.heard.types if name.startswith("input_audio_buffer")] == [
            "input_audio_buffer.speech_started",
            "input_audio_buffer.speech_stopped",
            "input_audio_buffer.committed",
        ] * 2
        transcripts = talker.heard.of(ConversationItemInputAudioTranscriptionCompleted)
        assert [t.transcript for t in transcripts] == ["one", "two"]


@pytest.mark.parametrize(
    ("heard", "early"),
    [("Tell me a story.", True), ("Is it late?", True), ("Tell me about", False), ("", False)],
)
async def test_a_complete_sentence_ends_a_semantic_turn(
    autojump_clock: MockClock, heard: str, early: bool
) -> None:
    """What sounds complete ends after the model's short silence, anything else after the time-out."""
    async with open_session(Script(heard=[heard]), patch=SEMANTIC) as talker:
        await talker.speak(1.0)
        quiet_from_s = trio.current_time()
        await talker.pause(TIMEOUT_S + 0.2)
        await talker.heard.nth(InputAudioBufferSpeechStopped, 1)
        waited_s = first_time_s(talker, "input_audio_buffer.speech_stopped") - quiet_from_s
        assert waited_s == pytest.approx(0.6 if early else TIMEOUT_S, abs=0.1)
        if heard:
            await talker.heard.nth(ResponseDone, 1)


CHANGES = {
    "an item": CreateItem(item=MessageItem(role="system", content=(InputTextPart("be brief"),))),
    "an update": UpdateSession(patch={"instructions": "Be brief."}),
    "an update of detection": UpdateSession(
        patch={"turn_detection": {"type": "semantic_vad", "eagerness": "low"}}
    ),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_what_changes_in_a_pause_does_not_make_it_longer(autojump_clock: MockClock, name: str) -> None:
    """The answer that does not know of it is made again, and the complete sentence ends the turn as ever."""
    script = Script(heard=["How are you?", "How are you?"])
    async with open_session(script, patch=SEMANTIC) as talker:
        await talker.speak(1.0)
        quiet_s = trio.current_time()
        while not talker.handle.counters.speculations_started:
            await talker.pause(0.02)
        talker.send(CHANGES[name])
        await talker.pause(1.0)
        stopped_s = first_time_s(talker, "input_audio_buffer.speech_stopped")
        assert stopped_s - quiet_s < 0.8
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"
        counters = talker.handle.counters
        assert (counters.speculations_started, counters.speculations_adopted) == (2, 1)


async def test_many_changes_in_a_pause_cost_little(autojump_clock: MockClock) -> None:
    """However many there are, an answer is made again once for the sound that comes behind them."""
    async with open_session(Script()) as talker:
        await talker.speak(1.0)
        await talker.pause(0.3)
        for _ in range(30):
            talker.send(CHANGES["an item"])
            await trio.lowlevel.checkpoint()
        await talker.pause(1.0)
        await talker.heard.nth(ResponseDone, 1)
        assert talker.handle.counters.speculations_started <= 3


async def test_a_semantic_turn_that_goes_on_waits_again(autojump_clock: MockClock) -> None:
    """A complete sentence followed by more speech ends nothing, and the time-out is in force again."""
    script = Script(heard=["Well.", "Well. And then"])
    async with open_session(script, patch=SEMANTIC) as talker:
        await talker.speak(1.0)
        await talker.pause(0.4)
        await talker.speak(1.0)
        await talker.pause(TIMEOUT_S - 0.2)
        assert not talker.heard.of(InputAudioBufferSpeechStopped)
        await talker.pause(0.4)
        await talker.heard.nth(ResponseDone, 1)
        (transcript,) = talker.heard.of(ConversationItemInputAudioTranscriptionCompleted)
        assert transcript.transcript == "Well. And then"


async def test_a_prepared_answer_keeps_nobody_alive(autojump_clock: MockClock) -> None:
    """A client whose sound stops in the middle of a pause is forgotten as any other one that is silent."""
    async with open_session(limits=SessionLimits(idle_ttl_s=50.0)) as talker:
        await talker.speak(0.6)
        await talker.pause(0.4)
        assert talker.handle.counters.speculations_started == 1
        await talker.heard.wait_for(SessionExpired, timeout_s=60.0)
