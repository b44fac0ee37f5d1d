"""Push to talk: without turn detection the client says when its turn is over and when it wants an answer."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.engine import SessionLimits
from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex import (
    ClearInput,
    Commit,
    CommitRecord,
    ConversationItemDone,
    ConversationItemInputAudioTranscriptionCompleted,
    CreateResponse,
    ErrorEvent,
    InputAudioBufferCleared,
    InputAudioBufferCommitted,
    MessageItem,
    ResponseCreated,
    ResponseDone,
    ResponseListen,
)
from duplex_trio.testing import Talker, open_session

PUSH_TO_TALK = {"turn_detection": None}
GA_PUSH_TO_TALK = {"audio": {"input": {"turn_detection": None}}}
COMMITTED = [
    "conversation.item.added",
    "conversation.item.created",
    "input_audio_buffer.committed",
    "conversation.item.done",
]


async def refusal(talker: Talker, number: int = 1) -> tuple[str, str | None, str | None]:
    error = (await talker.heard.nth(ErrorEvent, number)).error
    return error.code, error.param, error.event_id


async def test_a_commit_is_transcribed_and_not_answered(autojump_clock: MockClock) -> None:
    """Speech begins and the pause is heard; the item with its transcript, and no response however long one waits."""
    async with open_session(Script(heard=["hello there"]), patch=PUSH_TO_TALK) as talker:
        begin = len(talker.heard.events)
        await talker.speak(1.0)
        await talker.pause(2.0)
        assert talker.heard.types[begin:] == ["input_audio_buffer.speech_started", "response.listen"]
        talker.send(Commit())
        await trio.sleep(10)
        assert talker.heard.types[begin + 2 :] == [
            "input_audio_buffer.speech_stopped",
            *COMMITTED,
            "conversation.item.input_audio_transcription.completed",
        ]


async def test_a_request_answers_what_was_committed(autojump_clock: MockClock) -> None:
    """Commit, then create in the same moment: the answer waits for the transcript and follows it."""
    script = Script(heard=["hello there"])
    async with open_session(script, patch=PUSH_TO_TALK) as talker:
        await talker.speak(1.0)
        talker.send(Commit(), CreateResponse())
        done = await talker.heard.nth(ResponseDone, 1)
        (item,) = done.response.output
        assert isinstance(item, MessageItem)
        assert item.content[0].transcript == "You said: hello there"  # type: ignore[union-attr]
        types = talker.heard.types
        completed = types.index("conversation.item.input_audio_transcription.completed")
        assert completed < types.index("response.output_audio.delta")


async def test_several_commits_are_answered_together(autojump_clock: MockClock) -> None:
    """Each commit is an item of its own; the model is told both when it is asked."""
    script = Script(heard=["one", "two"])
    async with open_session(script, patch=PUSH_TO_TALK) as talker:
        await talker.speak(0.5)
        talker.send(Commit())
        await talker.speak(0.5)
        talker.send(Commit(), CreateResponse())
        await talker.heard.nth(ResponseDone, 1)
        first, second = talker.heard.of(InputAudioBufferCommitted)
        assert second.previous_item_id == first.item_id
        transcripts = talker.heard.of(ConversationItemInputAudioTranscriptionCompleted)
        assert {t.item_id: t.transcript for t in transcripts} == {first.item_id: "one", second.item_id: "two"}
    assert [message.content for message in script.asked[-1].prompt.messages] == ["one two"]


async def test_a_commit_can_ask_for_the_answer_itself(autojump_clock: MockClock) -> None:
    """With `response_create` the opening block follows the committed block at once."""
    async with open_session(Script(heard=["hi"]), patch=PUSH_TO_TALK) as talker:
        await talker.speak(1.0)
        begin = len(talker.heard.events)
        talker.send(Commit(response_create=True))
        await talker.heard.nth(ResponseDone, 1)
        stopped = "input_audio_buffer.speech_stopped"
        assert talker.heard.types[begin : begin + 6] == [stopped, *COMMITTED, "response.created"]
        assert talker.heard.of(ConversationItemInputAudioTranscriptionCompleted)[0].transcript == "hi"


async def test_the_sound_up_to_the_commit_is_committed(autojump_clock: MockClock) -> None:
    """What arrives after the commit belongs to the next item, though both were sent in the same moment."""
    async with open_session(patch=PUSH_TO_TALK) as talker:
        talker.append(1000, loud=True)
        talker.send(Commit())
        talker.append(500, loud=True)
        talker.send(Commit())
        await talker.heard.nth(ConversationItemInputAudioTranscriptionCompleted, 2)
        transcripts = talker.heard.of(ConversationItemInputAudioTranscriptionCompleted)
        assert [t.transcript for t in transcripts] == ["sound of 1.0 seconds", "sound of 0.5 seconds"]


@pytest.mark.parametrize("patch", [PUSH_TO_TALK, {}])
async def test_an_empty_commit_is_refused(autojump_clock: MockClock, patch: dict[str, None]) -> None:
    """Before any sound, and again right after a commit; OpenAI's code, the client's event id."""
    async with open_session(patch=patch) as talker:
        talker.send(Commit(event_id="e1"))
        assert await refusal(talker) == ("input_audio_buffer_commit_empty", None, "e1")
        talker.append(300, loud=True)
        talker.send(Commit(), Commit(event_id="e2"))
        assert await refusal(talker, 2) == ("input_audio_buffer_commit_empty", None, "e2")
        await talker.heard.nth(ConversationItemInputAudioTranscriptionCompleted, 1)


async def test_a_clear_drops_the_sound(autojump_clock: MockClock) -> None:
    """After `cleared` the buffer is empty, so a commit is refused; new sound is committed alone."""
    async with open_session(patch=PUSH_TO_TALK) as talker:
        await talker.speak(1.0)
        talker.send(ClearInput(), Commit(event_id="e1"))
        await talker.heard.nth(InputAudioBufferCleared, 1)
        assert await refusal(talker) == ("input_audio_buffer_commit_empty", None, "e1")
        await talker.speak(0.5)
        talker.send(Commit())
        completed = await talker.heard.nth(ConversationItemInputAudioTranscriptionCompleted, 1)
        assert completed.transcript == "sound of 0.5 seconds"


async def test_a_clear_overtakes_a_commit_that_waits(autojump_clock: MockClock) -> None:
    """The commit of sound that was cleared before it came up commits nothing and is no error."""
    async with open_session(patch=PUSH_TO_TALK) as talker:
        await talker.speak(1.0)
        talker.send(Commit(), ClearInput())
        await trio.sleep(5)
        assert not talker.heard.of(InputAudioBufferCommitted)
        assert not talker.heard.of(ErrorEvent)


async def test_silence_is_heard_as_no_words(autojump_clock: MockClock) -> None:
    """A commit of silence that asks for an answer ends with a listen decision and an empty response.

    That is for the model to find out in OpenAI's dialects, where nobody else listens to sound that is not detected.
    """
    async with open_session(dialect="ga", patch=GA_PUSH_TO_TALK) as talker:
        await talker.pause(1.0)
        talker.send(Commit(response_create=True))
        done = await talker.heard.nth(ResponseDone, 1)
        assert (done.response.status, done.response.status_details) == ("completed", None)
        (listen,) = talker.heard.of(ResponseListen)
        assert listen.response_id == done.response.id
        assert listen.response.metadata.reason == "silence_or_noise"
        assert not [name for name in talker.heard.types if name.startswith("response.output_audio")]


async def test_a_client_may_say_that_there_was_no_speech(autojump_clock: MockClock) -> None:
    """`is_speech: false` makes an item without words, asks no model, and listens on."""
    script = Script(heard=["never"])
    async with open_session(script, patch=PUSH_TO_TALK) as talker:
        talker.append(500, loud=True)
        talker.send(Commit(is_speech=False, response_create=True))
        listen = await talker.heard.nth(ResponseListen, 1)
        assert listen.response_id is None
        (committed,) = talker.heard.of(InputAudioBufferCommitted)
        assert committed.duplex is not None
        assert committed.duplex.commit is not None
        assert committed.duplex.commit.no_response
        await trio.sleep(5)
        assert not talker.heard.of(ResponseCreated)
        assert len(talker.heard.of(ConversationItemDone)) == 1


async def test_a_commit_by_hand_cuts_detected_speech_short(autojump_clock: MockClock) -> None:
    """With detection on: `speech_stopped`, one item with the sound so far, and the rest is another utterance."""
    async with open_session(Script(heard=["one", "two"])) as talker:
        await talker.speak(1.0)
        talker.send(Commit())
        await talker.speak(1.0)
        await talker.pause(0.8)
        await talker.heard.nth(ResponseDone, 1)
        assert [name for name in talker.heard.types if name.startswith("input_audio_buffer")] == [
            "input_audio_buffer.speech_started",
            "input_audio_buffer.speech_stopped",
            "input_audio_buffer.committed",
            "input_audio_buffer.speech_started",
            "input_audio_buffer.speech_stopped",
            "input_audio_buffer.committed",
        ]
        transcripts = talker.heard.of(ConversationItemInputAudioTranscriptionCompleted)
        assert [t.transcript for t in transcripts] == ["one", "two"]


async def test_answers_wait_for_the_response_in_progress(autojump_clock: MockClock) -> None:
    """A commit that asks while a response is active is answered when that one is done."""
    script = Script(heard=["one", "two"], replies={"one": "a b c d e f"})
    async with open_session(script, dialect="ga", patch=GA_PUSH_TO_TALK) as talker:
        await talker.speak(0.5)
        talker.send(Commit(response_create=True))
        await talker.heard.nth(ResponseCreated, 1)
        await talker.speak(0.5)
        talker.send(Commit(response_create=True))
        await talker.heard.nth(ResponseDone, 2)
        types = [name for name in talker.heard.types if name in ("response.created", "response.done")]
        assert types == ["response.created", "response.done"] * 2
        assert not talker.heard.of(ErrorEvent)
    assert [message.content for message in script.asked[-1].prompt.messages] == ["one", "a b c d e f", "two"]


async def test_too_many_commits_are_refused(autojump_clock: MockClock) -> None:
    """Beyond the turns that may wait for a model that takes none, a commit's transcript fails and is told so."""
    async with open_session(patch=PUSH_TO_TALK, step_s={"asr": 3.0}) as talker:
        for _ in range(8):
            talker.append(200, loud=True)
            talker.send(Commit())
        await trio.sleep(60)
        failed = [e for e in talker.heard.events if e.type.endswith("transcription.failed")]
        completed = talker.heard.of(ConversationItemInputAudioTranscriptionCompleted)
        assert {e.error.code for e in failed} == {"input_backpressure"}  # type: ignore[attr-defined]
        assert len(failed) + len(completed) == 8
        assert len(completed) >= 4
        talker.append(200, loud=True)
        talker.send(Commit(response_create=True))
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"


async def test_a_commit_of_silence_asks_no_model(autojump_clock: MockClock) -> None:
    """An item without words, the record that says so, and that the session listens on; no response, though asked."""
    script = Script(heard=["never"])
    async with open_session(script, patch=PUSH_TO_TALK) as talker:
        talker.append(500, loud=False)
        await trio.sleep(0.01)
        begin = len(talker.heard.events)
        talker.send(Commit(response_create=True))
        await trio.sleep(5)
        assert talker.heard.types[begin:] == [*COMMITTED, "response.listen"]
        (committed,) = talker.heard.of(InputAudioBufferCommitted)
        assert committed.duplex is not None
        assert committed.duplex.commit == CommitRecord(is_speech=False, empty=True, no_response=True)
        assert not script.asked


async def test_a_client_may_say_that_there_was_speech(autojump_clock: MockClock) -> None:
    """`is_speech: true` with the commit stands above how quiet the sound was."""
    async with open_session(Script(heard=["psst"]), patch=PUSH_TO_TALK) as talker:
        talker.append(500, loud=False)
        talker.send(Commit(is_speech=True))
        await talker.heard.nth(ConversationItemInputAudioTranscriptionCompleted, 1)


@pytest.mark.parametrize("patch", [PUSH_TO_TALK, {}])
async def test_nothing_is_silence_only_if_the_client_says_so(
    autojump_clock: MockClock, patch: dict[str, None]
) -> None:
    """With `is_speech: false` an empty buffer is committed as silence; without, it is refused."""
    async with open_session(patch=patch) as talker:
        talker.send(Commit(is_speech=False))
        await talker.heard.nth(ResponseListen, 1)
        talker.send(Commit(is_speech=True, event_id="e1"))
        assert await refusal(talker) == ("input_audio_buffer_commit_empty", None, "e1")


async def test_the_clients_words_stand_for_its_sound(autojump_clock: MockClock) -> None:
    """Hints of the appends are joined; nothing is recognised, and the answer is to them."""
    script = Script(heard=["something else"])
    async with open_session(script, patch=PUSH_TO_TALK) as talker:
        talker.append(300, loud=True, transcript="turn on ")
        talker.append(300, loud=True)
        talker.append(300, loud=True, transcript="the light")
        await trio.sleep(0.01)
        begin = len(talker.heard.events)
        talker.send(Commit(response_create=True))
        await talker.heard.nth(ResponseDone, 1)
        assert talker.heard.types[begin : begin + 7] == [
            "input_audio_buffer.speech_stopped",
            *COMMITTED[:3],
            "conversation.item.input_audio_transcription.completed",
            "conversation.item.done",
            "response.created",
        ]
        (completed,) = talker.heard.of(ConversationItemInputAudioTranscriptionCompleted)
        assert completed.transcript == "turn on the light"
        assert completed.usage is not None
        assert completed.usage.seconds == pytest.approx(0.9, abs=0.05)
    assert [message.content for message in script.asked[-1].prompt.messages] == ["turn on the light"]


async def test_words_of_one_turn_are_not_those_of_the_next(autojump_clock: MockClock) -> None:
    """Also when the next is appended before the commit of the first has its turn; and a clear forgets them."""
    async with open_session(Script(heard=["two"]), patch=PUSH_TO_TALK) as talker:
        talker.append(300, loud=True, transcript="one")
        talker.send(Commit())
        talker.append(300, loud=True)
        talker.send(Commit())
        await talker.heard.nth(ConversationItemInputAudioTranscriptionCompleted, 2)
        talker.append(300, loud=True, transcript="dropped")
        talker.send(ClearInput())
        talker.append(600, loud=True)
        talker.send(Commit())
        await talker.heard.nth(ConversationItemInputAudioTranscriptionCompleted, 3)
        said = [e.transcript for e in talker.heard.of(ConversationItemInputAudioTranscriptionCompleted)]
        assert said == ["one", "two", "sound of 0.6 seconds"]


async def test_what_one_commit_heard_is_not_what_the_next_does(autojump_clock: MockClock) -> None:
    """Speech, then silence, both committed in one moment: the first is speech, the second is not."""
    async with open_session(patch=PUSH_TO_TALK) as talker:
        talker.append(500, loud=True)
        talker.send(Commit())
        talker.append(500, loud=False, is_speech=False)
        talker.send(Commit())
        await talker.heard.nth(InputAudioBufferCommitted, 2)
        records = [
            event.duplex.commit for event in talker.heard.of(InputAudioBufferCommitted) if event.duplex
        ]
        assert [made.is_speech for made in records if made] == [True, False]


async def test_words_that_have_no_room_are_recognised_instead(autojump_clock: MockClock) -> None:
    """Older items make room for words that fit; for those that never would, the sound is transcribed."""
    limits = SessionLimits(conversation_chars_max=20)
    async with open_session(Script(heard=["short"]), patch=PUSH_TO_TALK, limits=limits) as talker:
        for words in ("fifteen letters", "other fifteens!", "far more than there is room for"):
            talker.append(300, loud=True, transcript=words)
            talker.send(Commit())
        await talker.heard.nth(ConversationItemInputAudioTranscriptionCompleted, 3)
        said = [e.transcript for e in talker.heard.of(ConversationItemInputAudioTranscriptionCompleted)]
        assert said == ["fifteen letters", "other fifteens!", "short"]
        assert not talker.heard.of(ErrorEvent)
