"""Speech over an answer: what stops, what is said about it, and what either side remembers."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex import (
    AckPlayback,
    ConversationItemInputAudioTranscriptionCompleted,
    InputAudioBufferCommitted,
    InputAudioBufferSpeechStarted,
    MessageItem,
    OutputAudioBufferCleared,
    OutputAudioPart,
    OverlapDecision,
    ResponseCreated,
    ResponseDone,
    ResponseOutputAudioDelta,
)
from duplex_trio.protocol.duplex.session import DialectName
from duplex_trio.testing import Talker, open_session

LONG = (
    "alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima mike november oscar papa quebec"
    " romeo sierra tango"
)
"""Twenty words, six seconds of sound."""
NO_INTERRUPT = {"turn_detection": {"interrupt_response": False}}


def told(script: Script) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in script.asked[-1].prompt.messages]


def shown_transcript(done: ResponseDone) -> str:
    (item,) = done.response.output
    assert isinstance(item, MessageItem)
    (part,) = item.content
    assert isinstance(part, OutputAudioPart)
    return part.transcript or ""


async def first_sound(talker: Talker) -> None:
    await talker.heard.nth(ResponseOutputAudioDelta, 1)


async def test_speech_cuts_the_answer(autojump_clock: MockClock) -> None:
    """Speech started, the decision, the flush, the cancelled block; then silence until the user is answered."""
    script = Script(heard=["go on", "stop"], replies={"go on": LONG, "stop": "fine"})
    async with open_session(script) as talker:
        await talker.turn()
        await first_sound(talker)
        await trio.sleep(1.0)
        begin = len(talker.heard.events)
        await talker.turn()
        first = await talker.heard.nth(ResponseDone, 1)
        second = await talker.heard.nth(ResponseDone, 2)

        types = talker.heard.types[begin:]
        types = types[types.index("input_audio_buffer.speech_started") :]
        assert types[: types.index("input_audio_buffer.speech_stopped")] == [
            "input_audio_buffer.speech_started",
            "overlap.decision",
            "output_audio_buffer.cleared",
            "response.output_audio.done",
            "response.output_audio_transcript.done",
            "response.content_part.done",
            "response.output_item.done",
            "conversation.item.done",
            "response.done",
            "rate_limits.updated",
            "conversation.item.input_audio_transcription.delta",
        ]
        assert (first.response.status, second.response.status) == ("cancelled", "completed")
        assert first.response.status_details is not None
        assert first.response.status_details.reason == "turn_detected"
        (cleared,) = talker.heard.of(OutputAudioBufferCleared)
        assert cleared.response_id == first.response.id
        (decision,) = talker.heard.of(OverlapDecision)
        assert (decision.action, decision.policy) == ("barge_in", "barge_in_on_speech")


async def test_the_epoch_is_raised_once(autojump_clock: MockClock) -> None:
    """One interruption is one epoch: the old response was of epoch 0, everything after it is of epoch 1."""
    script = Script(heard=["go on", "stop"], replies={"go on": LONG})
    async with open_session(script) as talker:
        await talker.turn()
        await first_sound(talker)
        await talker.turn()
        await talker.heard.nth(ResponseDone, 2)
        epochs = [event.duplex.epoch for event in talker.heard.of(ResponseCreated) if event.duplex]
        assert epochs == [0, 1]
        (cleared,) = talker.heard.of(OutputAudioBufferCleared)
        assert cleared.duplex is not None
        assert cleared.duplex.epoch == 1
        assert talker.handle.counters.barge_ins == 1


async def test_the_interrupting_words_are_answered(autojump_clock: MockClock) -> None:
    """What cut the answer is transcribed whole, from its first word, and is the next question."""
    script = Script(heard=["go on", "wait a moment"], replies={"go on": LONG})
    async with open_session(script) as talker:
        await talker.turn()
        await first_sound(talker)
        await talker.turn(1.0)
        await talker.heard.nth(ResponseDone, 2)
        assert (
            talker.heard.of(ConversationItemInputAudioTranscriptionCompleted)[1].transcript == "wait a moment"
        )
        started = talker.heard.of(InputAudioBufferSpeechStarted)[1]
        assert started.item_id == talker.heard.of(InputAudioBufferCommitted)[1].item_id
    assert told(script)[-1][1].endswith("wait a moment")


async def test_openai_sessions_remember_what_fits_into_the_time(autojump_clock: MockClock) -> None:
    """Without acknowledgements: interrupted about two seconds in, some seven of twenty words were heard."""
    script = Script(heard=["go on", "stop"], replies={"go on": LONG})
    async with open_session(script, dialect="ga") as talker:
        await talker.turn()
        await first_sound(talker)
        await trio.sleep(1.9)
        await talker.turn()
        done = await talker.heard.nth(ResponseDone, 1)
        await talker.heard.nth(ResponseDone, 2)
        kept = shown_transcript(done)
        assert LONG.startswith(kept)
        assert 5 <= len(kept.split()) <= 8
    assert told(script) == [("user", "go on"), ("assistant", kept), ("user", "stop")]


async def test_duplex_sessions_remember_what_was_acknowledged(autojump_clock: MockClock) -> None:
    """With acknowledgements: whatever was sent, 900 ms of it were played, so three words were heard."""
    script = Script(heard=["go on", "stop"], replies={"go on": LONG})
    async with open_session(script, dialect="duplex") as talker:
        await talker.turn()
        await first_sound(talker)
        await trio.sleep(1.9)
        talker.send(AckPlayback(played_ms=900))
        await talker.turn()
        done = await talker.heard.nth(ResponseDone, 1)
        await talker.heard.nth(ResponseDone, 2)
        kept = shown_transcript(done)
        assert LONG.startswith(kept)
        assert len(kept.split()) in (3, 4)
    assert told(script) == [("user", "go on"), ("assistant", kept), ("user", "stop")]


async def test_an_answer_nobody_acknowledged_was_not_heard(autojump_clock: MockClock) -> None:
    """A duplex client that acknowledges nothing has heard nothing, as far as the model is told."""
    script = Script(heard=["go on", "stop"], replies={"go on": LONG})
    async with open_session(script, dialect="duplex") as talker:
        await talker.turn()
        await first_sound(talker)
        await trio.sleep(1.9)
        await talker.turn()
        await talker.heard.nth(ResponseDone, 2)
    assert told(script) == [("user", "go on stop")]


@pytest.mark.parametrize("dialect", ["ga", "duplex"])
async def test_an_answer_that_is_done_still_plays(autojump_clock: MockClock, dialect: DialectName) -> None:
    """Sound runs ahead, so `response.done` comes before the ear is done: the flush names that response, once."""
    script = Script(heard=["go on", "stop"], replies={"go on": "one two three four"})
    async with open_session(script, dialect=dialect) as talker:
        await talker.turn()
        done = await talker.heard.nth(ResponseDone, 1)
        assert done.response.status == "completed"
        await talker.turn()
        await talker.heard.nth(ResponseDone, 2)
        (cleared,) = talker.heard.of(OutputAudioBufferCleared)
        assert cleared.response_id == done.response.id
        assert len(talker.heard.of(ResponseDone)) == 2
        assert talker.handle.counters.barge_ins == 1


async def test_an_answer_that_was_played_is_not_interrupted(autojump_clock: MockClock) -> None:
    """After its last sound there is nothing to stop: no decision, no flush, no new epoch."""
    script = Script(heard=["one", "two"])
    async with open_session(script, dialect="ga") as talker:
        await talker.turn()
        await talker.heard.nth(ResponseDone, 1)
        await talker.pause(1.0)
        await talker.turn()
        await talker.heard.nth(ResponseDone, 2)
        assert not talker.heard.of(OutputAudioBufferCleared)
        assert not talker.heard.of(OverlapDecision)
        epochs = [event.duplex.epoch for event in talker.heard.of(ResponseCreated) if event.duplex]
        assert epochs == [0, 0]


async def test_interrupted_again_and_again(autojump_clock: MockClock) -> None:
    """Five interruptions: five cancelled answers, one epoch each, and one stage request at most in between."""
    script = Script(otherwise=lambda _: LONG)
    async with open_session(script) as talker:
        await talker.turn()
        for number in range(1, 6):
            await talker.heard.nth(ResponseCreated, number)
            await trio.sleep(0.5)
            await talker.turn()
        await talker.heard.nth(ResponseDone, 6)
        statuses = [event.response.status for event in talker.heard.of(ResponseDone)]
        assert statuses == ["cancelled"] * 5 + ["completed"]
        epochs = [event.duplex.epoch for event in talker.heard.of(ResponseCreated) if event.duplex]
        assert epochs == list(range(6))


async def test_words_said_before_recognition_was_done_are_kept(autojump_clock: MockClock) -> None:
    """An interruption cancels the request that was still transcribing the last turn; its words come anyway."""
    script = Script(heard=["first words", "first words", "second words"], otherwise=lambda _: "ok")
    async with open_session(script, dialect="ga", step_s={"asr": 1.6}) as talker:
        await talker.turn()
        await talker.heard.nth(ResponseCreated, 1)
        assert not talker.heard.of(ConversationItemInputAudioTranscriptionCompleted)
        await talker.turn()
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "cancelled"
        await talker.heard.nth(ResponseDone, 2)
        committed = [event.item_id for event in talker.heard.of(InputAudioBufferCommitted)]
        transcripts = talker.heard.of(ConversationItemInputAudioTranscriptionCompleted)
        assert sorted(t.item_id for t in transcripts) == sorted(committed)
        assert {t.item_id: t.transcript for t in transcripts}[committed[0]] == "first words"


@pytest.mark.parametrize("dialect", ["ga", "duplex"])
async def test_without_interruption_the_answer_is_finished_first(
    autojump_clock: MockClock, dialect: DialectName
) -> None:
    """`interrupt_response: false`: nothing is cut, and what was said meanwhile is answered afterwards."""
    script = Script(heard=["go on", "and then"], replies={"go on": LONG, "and then": "nothing"})
    async with open_session(script, dialect=dialect, patch=NO_INTERRUPT) as talker:
        await talker.turn()
        await first_sound(talker)
        await talker.turn()
        await talker.heard.nth(ResponseDone, 2)
        responses = [name for name in talker.heard.types if name in ("response.created", "response.done")]
        assert responses == ["response.created", "response.done"] * 2
        assert {event.response.status for event in talker.heard.of(ResponseDone)} == {"completed"}
        assert not talker.heard.of(OutputAudioBufferCleared)
        (decision,) = talker.heard.of(OverlapDecision)
        assert (decision.action, decision.policy) == ("listen", "listen_only")
        positions = [n for n, name in enumerate(talker.heard.types) if name == "input_audio_buffer.committed"]
        assert positions[1] < talker.heard.types.index("response.done")
    assert told(script)[-1][1].endswith("and then")


async def test_two_turns_over_one_answer_are_answered_once(autojump_clock: MockClock) -> None:
    """Both wait, and one answer takes up both."""
    script = Script(heard=["go on", "one", "two"], replies={"go on": LONG})
    async with open_session(script, dialect="ga", patch=NO_INTERRUPT) as talker:
        await talker.turn()
        await first_sound(talker)
        await talker.turn(0.5)
        await talker.turn(0.5)
        await talker.heard.nth(ResponseDone, 2)
        await trio.sleep(5)
        assert len(talker.heard.of(ResponseCreated)) == 2
    assert told(script) == [("user", "go on"), ("assistant", LONG), ("user", "one two")]


async def test_old_sound_does_not_follow_the_cut(autojump_clock: MockClock) -> None:
    """The model had made more than was sent; none of it reaches the client, and it is counted as discarded."""
    script = Script(heard=["go on", "stop"], replies={"go on": LONG}, words_per_step=20)
    async with open_session(script) as talker:
        await talker.turn()
        await first_sound(talker)
        await trio.sleep(0.5)
        await talker.turn()
        first = await talker.heard.nth(ResponseDone, 1)
        await talker.heard.nth(ResponseDone, 2)
        behind = talker.heard.events[talker.heard.events.index(first) + 1 :]
        assert not [
            event
            for event in behind
            if isinstance(event, ResponseOutputAudioDelta) and event.response_id == first.response.id
        ]
        assert talker.handle.counters.discarded_audio_ms > 0
