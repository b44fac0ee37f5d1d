"""The commands that stop something: in each situation what ends, what is said, and what is refused.

Also their order among other commands: a cancel acts at once, but what was sent before it keeps its meaning.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex import (
    BargeIn,
    CancelInput,
    CancelResponse,
    ClearOutputAudio,
    Commit,
    ConversationItemInputAudioTranscriptionCompleted,
    CreateItem,
    CreateResponse,
    DuplexCommand,
    ErrorEvent,
    InputAudioBufferCommitted,
    InputTextPart,
    MessageItem,
    OutputAudioBufferCleared,
    ResponseCreated,
    ResponseDone,
    ResponseOutputAudioDelta,
)
from duplex_trio.testing import Talker, open_session

LONG = "alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima mike november oscar papa"
Situation = Callable[[], AbstractAsyncContextManager[Talker]]
PUSH_TO_TALK = {"turn_detection": None}
CUT = [
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "response.output_item.done",
    "conversation.item.done",
    "response.done",
    "rate_limits.updated",
]

SPOKEN_OVER = ["overlap.decision", "input_audio_buffer.speech_started"]


def message(text: str) -> CreateItem:
    return CreateItem(item=MessageItem(role="user", content=(InputTextPart(text),)))


def script() -> Script:
    return Script(otherwise=lambda text: LONG if text.startswith("long") else "short answer")


@asynccontextmanager
async def answering() -> AsyncIterator[Talker]:
    """A session in the middle of a long spoken answer, whose next event has not come yet."""
    async with open_session(script(), patch=PUSH_TO_TALK) as talker:
        talker.write("long please")
        await talker.heard.nth(ResponseOutputAudioDelta, 1)
        await trio.sleep(1.05)
        yield talker


@asynccontextmanager
async def playing() -> AsyncIterator[Talker]:
    """A session whose answer is done but still being played."""
    async with open_session(script(), patch=PUSH_TO_TALK) as talker:
        talker.write("hi")
        await talker.heard.nth(ResponseDone, 1)
        await trio.sleep(0.01)
        yield talker


@asynccontextmanager
async def silent() -> AsyncIterator[Talker]:
    """A session whose answer is done and long played."""
    async with playing() as talker:
        await trio.sleep(30)
        yield talker


async def behind(talker: Talker, *commands: DuplexCommand, wait_s: float = 0.005) -> list[str]:
    """The types of the events that commands bring, shortly after them."""
    begin = len(talker.heard.events)
    talker.send(*commands)
    await trio.sleep(wait_s)
    return talker.heard.types[begin:]


def error(talker: Talker) -> tuple[str, str | None, str | None]:
    (event,) = talker.heard.of(ErrorEvent)
    return event.error.code, event.error.param, event.error.event_id


async def goes_on(talker: Talker) -> None:
    """The session still answers, in as many responses more as asked."""
    count = len(talker.heard.of(ResponseDone))
    talker.write("hi")
    done = await talker.heard.nth(ResponseDone, count + 1)
    assert done.response.status == "completed"


# ------------------------------------------------------------------ response.cancel


@pytest.mark.parametrize("named", [False, True])
async def test_cancel_ends_the_response_in_progress(autojump_clock: MockClock, named: bool) -> None:
    """With or without its id: the flush, the cancelled block, `client_cancelled`, and the next turn works."""
    async with answering() as talker:
        response_id = talker.heard.of(ResponseCreated)[0].response.id if named else None
        assert await behind(talker, CancelResponse(response_id=response_id)) == [
            "output_audio_buffer.cleared",
            *CUT,
        ]
        (done,) = talker.heard.of(ResponseDone)
        assert done.response.status == "cancelled"
        assert done.response.status_details is not None
        assert done.response.status_details.reason == "client_cancelled"
        assert done.duplex is not None
        assert done.duplex.cancel_reason == "client_cancelled"
        await goes_on(talker)


@pytest.mark.parametrize("where", [playing, silent])
async def test_cancel_without_a_response_is_refused(autojump_clock: MockClock, where: Situation) -> None:
    """OpenAI's code and beginning of the message, with the client's event id, whether or not sound plays."""
    async with where() as talker:
        assert await behind(talker, CancelResponse(event_id="e1")) == ["error"]
        assert error(talker) == ("response_cancel_not_active", None, "e1")
        assert talker.heard.of(ErrorEvent)[0].error.message.startswith("Cancellation failed")
        await goes_on(talker)


@pytest.mark.parametrize("where", [answering, playing, silent])
async def test_cancel_of_another_response_is_refused(autojump_clock: MockClock, where: Situation) -> None:
    """An unknown or ended response cannot be cancelled; one in progress goes on."""
    async with where() as talker:
        active = bool(talker.handle.counters.responses_completed == 0)
        assert "error" in await behind(talker, CancelResponse(response_id="resp-other", event_id="e1"))
        assert error(talker) == ("response_cancel_not_active", "response_id", "e1")
        if active:
            assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"
        await goes_on(talker)


async def test_a_cancel_keeps_the_input(autojump_clock: MockClock) -> None:
    """Sound that was appended before the cancel is still there to be committed."""
    async with answering() as talker:
        talker.append(700, loud=True)
        talker.send(CancelResponse())
        await talker.heard.nth(ResponseDone, 1)
        talker.send(Commit())
        completed = await talker.heard.nth(ConversationItemInputAudioTranscriptionCompleted, 1)
        assert completed.transcript == "sound of 0.7 seconds"


# ------------------------------------------------------------------ barge_in and input.cancel


@pytest.mark.parametrize("command", [BargeIn(), CancelInput()])
async def test_barge_in_cuts_the_response_and_drops_input(
    autojump_clock: MockClock, command: DuplexCommand
) -> None:
    """As a cancel, with the precise reason; buffered sound is gone."""
    async with answering() as talker:
        talker.append(700, loud=True)
        assert await behind(talker, command) == [
            *SPOKEN_OVER,
            "input_audio_buffer.speech_stopped",
            "output_audio_buffer.cleared",
            *CUT,
        ]
        (done,) = talker.heard.of(ResponseDone)
        assert done.response.status_details is not None
        assert done.response.status_details.reason == "client_cancelled"
        assert done.duplex is not None
        assert done.duplex.cancel_reason == "barge_in"
        talker.send(Commit(event_id="e1"))
        await talker.heard.nth(ErrorEvent, 1)
        assert error(talker) == ("input_audio_buffer_commit_empty", None, "e1")
        await goes_on(talker)


@pytest.mark.parametrize("command", [BargeIn(), CancelInput()])
async def test_barge_in_flushes_an_answer_that_is_done(
    autojump_clock: MockClock, command: DuplexCommand
) -> None:
    """The flush names the response that is still heard, once."""
    async with playing() as talker:
        assert await behind(talker, command) == ["output_audio_buffer.cleared"]
        (cleared,) = talker.heard.of(OutputAudioBufferCleared)
        assert cleared.response_id == talker.heard.of(ResponseDone)[0].response.id
        assert await behind(talker, command) == ["input_audio_buffer.cleared"]
        await goes_on(talker)


@pytest.mark.parametrize("command", [BargeIn(), CancelInput()])
async def test_barge_in_in_silence_clears_the_input(
    autojump_clock: MockClock, command: DuplexCommand
) -> None:
    """With nothing to interrupt the client learns that its input was dropped."""
    async with silent() as talker:
        assert await behind(talker, command) == ["input_audio_buffer.cleared"]
        await goes_on(talker)


async def test_barge_in_ends_open_speech(autojump_clock: MockClock) -> None:
    """Detected speech is stopped and forgotten; the next sound is new speech with an id of its own."""
    async with open_session(script()) as talker:
        await talker.speak(1.0)
        assert await behind(talker, CancelInput()) == [
            "input_audio_buffer.speech_stopped",
            "input_audio_buffer.cleared",
        ]
        await talker.turn()
        await talker.heard.nth(ResponseDone, 1)
        assert len(talker.heard.of(InputAudioBufferCommitted)) == 1


# ------------------------------------------------------------------ output_audio_buffer.clear


@pytest.mark.parametrize("named", [False, True])
async def test_clear_stops_sound_and_response(autojump_clock: MockClock, named: bool) -> None:
    """`cleared` first, once, then the cancelled block; input stays."""
    async with answering() as talker:
        talker.append(700, loud=True)
        response_id = talker.heard.of(ResponseCreated)[0].response.id if named else None
        command = ClearOutputAudio(response_id=response_id)
        assert await behind(talker, command) == [*SPOKEN_OVER, "output_audio_buffer.cleared", *CUT]
        (done,) = talker.heard.of(ResponseDone)
        assert done.duplex is not None
        assert done.duplex.cancel_reason == "output_audio_buffer_clear"
        talker.send(Commit())
        await talker.heard.nth(ConversationItemInputAudioTranscriptionCompleted, 1)


async def test_clear_before_any_sound(autojump_clock: MockClock) -> None:
    """A response that has not spoken yet is cleared by name all the same, once."""
    async with open_session(script(), patch=PUSH_TO_TALK, step_s={"llm": 5.0}) as talker:
        talker.write("hi")
        await talker.heard.nth(ResponseCreated, 1)
        types = await behind(talker, ClearOutputAudio(), wait_s=0.2)
        cleared = types.index("output_audio_buffer.cleared")
        assert types[cleared:] == ["output_audio_buffer.cleared", *CUT[2:]]


async def test_clear_when_the_response_ran_dry(autojump_clock: MockClock) -> None:
    """All sound that was made is played and the model is still writing: one `cleared`, then the block."""
    async with open_session(Script(word_ms=100), patch=PUSH_TO_TALK, step_s={"llm": 4.0}) as talker:
        talker.write("one. two, three. four, five six.")
        await talker.heard.nth(ResponseOutputAudioDelta, 1)
        await trio.sleep(3.0)
        types = await behind(talker, ClearOutputAudio())
        assert types == ["output_audio_buffer.cleared", *CUT]


async def test_clear_of_an_answer_that_is_done(autojump_clock: MockClock) -> None:
    """While it plays and afterwards: `cleared` with its id, each time it is asked for."""
    async with playing() as talker:
        done = talker.heard.of(ResponseDone)[0].response.id
        assert await behind(talker, ClearOutputAudio()) == ["output_audio_buffer.cleared"]
        assert await behind(talker, ClearOutputAudio(response_id=done)) == ["output_audio_buffer.cleared"]
        assert [event.response_id for event in talker.heard.of(OutputAudioBufferCleared)] == [done, done]
        await goes_on(talker)


async def test_clear_of_an_older_answer_leaves_the_newer(autojump_clock: MockClock) -> None:
    """Only the named response is cleared; the one in progress goes on to its end."""
    async with playing() as talker:
        older = talker.heard.of(ResponseDone)[0].response.id
        talker.write("long please")
        await talker.heard.nth(ResponseCreated, 2)
        talker.send(ClearOutputAudio(response_id=older))
        assert (await talker.heard.nth(ResponseDone, 2)).response.status == "completed"
        assert [event.response_id for event in talker.heard.of(OutputAudioBufferCleared)] == [older]


async def test_clear_in_a_session_that_never_spoke(autojump_clock: MockClock) -> None:
    """`cleared` without a name; an unknown name is refused."""
    async with open_session(script()) as talker:
        assert await behind(talker, ClearOutputAudio()) == ["output_audio_buffer.cleared"]
        assert talker.heard.of(OutputAudioBufferCleared)[0].response_id is None
        assert await behind(talker, ClearOutputAudio(response_id="resp-x", event_id="e1")) == ["error"]
        assert error(talker) == ("response_not_active", "response_id", "e1")


# ------------------------------------------------------------------ order


@pytest.mark.parametrize("asks", ["commit", "create"])
async def test_a_cancel_behind_a_question_cancels_its_answer(autojump_clock: MockClock, asks: str) -> None:
    """All in one moment: the input is committed, and the response it asked for is over before it began."""
    async with open_session(Script(heard=["hi"]), patch=PUSH_TO_TALK) as talker:
        await talker.speak(1.0)
        if asks == "commit":
            talker.send(Commit(response_create=True), CancelResponse(event_id="e1"))
        else:
            talker.send(Commit(), CreateResponse(), CancelResponse(event_id="e1"))
        done = await talker.heard.nth(ResponseDone, 1)
        assert done.response.status == "cancelled"
        completed = await talker.heard.nth(ConversationItemInputAudioTranscriptionCompleted, 1)
        assert completed.transcript == "hi"
        assert not talker.heard.of(ErrorEvent)
        await trio.sleep(5)
        assert len(talker.heard.of(ResponseCreated)) == 1
        await goes_on(talker)


async def test_a_question_behind_a_cancel_is_answered(autojump_clock: MockClock) -> None:
    """Cancel, commit and create in one moment: the cancel ends the old response, the new one is completed."""
    async with answering() as talker:
        talker.append(500, loud=True)
        talker.send(CancelResponse(), Commit(), CreateResponse())
        first = await talker.heard.nth(ResponseDone, 1)
        second = await talker.heard.nth(ResponseDone, 2)
        assert (first.response.status, second.response.status) == ("cancelled", "completed")
        assert not talker.heard.of(ErrorEvent)


async def test_two_cancels_in_one_moment(autojump_clock: MockClock) -> None:
    """The second has nothing to cancel, and says so."""
    async with answering() as talker:
        talker.send(CancelResponse(), CancelResponse(event_id="e2"))
        await talker.heard.nth(ErrorEvent, 1)
        assert error(talker) == ("response_cancel_not_active", None, "e2")
        assert len(talker.heard.of(ResponseDone)) == 1
        await goes_on(talker)


async def test_a_cancel_between_two_questions(autojump_clock: MockClock) -> None:
    """The first question's answer is cancelled, the second one's is given."""
    async with open_session(script(), patch=PUSH_TO_TALK) as talker:
        talker.send(message("a"), CreateResponse(), CancelResponse(), message("b"), CreateResponse())
        first = await talker.heard.nth(ResponseDone, 1)
        second = await talker.heard.nth(ResponseDone, 2)
        assert (first.response.status, second.response.status) == ("cancelled", "completed")
        assert not talker.heard.of(ErrorEvent)


async def test_a_cancel_behind_an_item_has_nothing_to_cancel(autojump_clock: MockClock) -> None:
    """Only a question makes a response: what waits in line may be there for other reasons."""
    async with open_session(script(), patch=PUSH_TO_TALK) as talker:
        talker.send(message("a"), CancelResponse(event_id="e1"))
        await talker.heard.nth(ErrorEvent, 1)
        assert error(talker) == ("response_cancel_not_active", None, "e1")


@pytest.mark.parametrize("command", [BargeIn(), CancelInput()])
async def test_a_barge_in_behind_a_commit_drops_its_sound(
    autojump_clock: MockClock, command: DuplexCommand
) -> None:
    """Sound older than a barge-in is dropped, also when its commit was on its way."""
    async with open_session(script(), patch=PUSH_TO_TALK) as talker:
        talker.append(700, loud=True)
        talker.send(Commit(response_create=True), command)
        await trio.sleep(5)
        assert not talker.heard.of(InputAudioBufferCommitted)
        assert not talker.heard.of(ResponseCreated)
        assert not talker.heard.of(ErrorEvent)
        await goes_on(talker)


async def test_sound_behind_a_barge_in_is_kept(autojump_clock: MockClock) -> None:
    """Barge-in, sound and commit in one moment: the sound is committed alone."""
    async with answering() as talker:
        talker.append(900, loud=True)
        talker.send(BargeIn())
        talker.append(500, loud=True)
        talker.send(Commit())
        completed = await talker.heard.nth(ConversationItemInputAudioTranscriptionCompleted, 1)
        assert completed.transcript == "sound of 0.5 seconds"
