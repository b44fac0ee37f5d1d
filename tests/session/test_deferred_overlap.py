"""What is said over an answer and committed: acknowledged, deferred, promoted, or left for the next answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import permutations
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex import (
    BargeIn,
    CancelInput,
    CancelResponse,
    ClearInput,
    ClearOutputAudio,
    Commit,
    CommitRecord,
    ConversationItemAdded,
    ConversationItemInputAudioTranscriptionCompleted,
    CreateResponse,
    DeleteItem,
    DuplexCommand,
    ErrorEvent,
    InputAudioBufferCommitted,
    InputAudioBufferSpeechStarted,
    ResponseCreated,
    ResponseDone,
    ResponseListen,
    ResponseOutputAudioDelta,
    UpdateSession,
)
from duplex_trio.testing import Talker, open_session

Transcribed = ConversationItemInputAudioTranscriptionCompleted
LONG = "alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima mike november oscar papa"
BY_HAND = {"turn_detection": None}
LISTENING = {"turn_detection": {"type": "server_vad", "interrupt_response": False}}


def script(*heard: str, **more: Any) -> Script:
    return Script(heard=list(heard), otherwise=lambda text: LONG if text.endswith("go") else "short", **more)


@asynccontextmanager
async def answering(
    lines: Script, patch: dict[str, Any] | None = None, **engine: Any
) -> AsyncIterator[Talker]:
    """A second into an answer of almost five."""
    async with open_session(lines, patch=patch or BY_HAND, **engine) as talker:
        talker.write("go")
        await talker.heard.nth(ResponseOutputAudioDelta, 1)
        await trio.sleep(1.05)
        yield talker


def told(lines: Script) -> list[str]:
    return [message.content for message in lines.asked[-1].prompt.messages if message.role == "user"]


def record(talker: Talker, number: int = -1) -> CommitRecord:
    extension = talker.heard.of(InputAudioBufferCommitted)[number].duplex
    assert extension is not None
    assert extension.commit is not None
    return extension.commit


def responses(talker: Talker) -> list[str]:
    """Beginnings and ends, in order."""
    return [
        event.response.status if isinstance(event, ResponseDone) else "created"
        for event in talker.heard.events
        if isinstance(event, ResponseCreated | ResponseDone)
    ]


def say(talker: Talker, milliseconds: int = 900, *, asks: bool = True) -> None:
    talker.append(milliseconds, loud=True)
    talker.send(Commit(response_create=asks))


# ------------------------------------------------------------------ deferral


async def test_a_deferred_commit_is_answered_when_the_answer_is_done(autojump_clock: MockClock) -> None:
    """An item and its words at once, a record that says so, and the response behind `response.done`."""
    lines = script("and then")
    async with answering(lines) as talker:
        say(talker)
        committed = await talker.heard.nth(InputAudioBufferCommitted, 1)
        assert record(talker) == CommitRecord(
            is_speech=True, overlap_deferred=True, response_create_deferred=True
        )
        assert (await talker.heard.nth(Transcribed, 1)).item_id == committed.item_id
        assert responses(talker) == ["created"]
        await talker.heard.nth(ResponseDone, 2)
        assert responses(talker) == ["created", "completed"] * 2
    assert told(lines)[-1].endswith("and then")


async def test_several_get_one_answer(autojump_clock: MockClock) -> None:
    """Three utterances wait; one response takes up all of them."""
    lines = script("one", "two", "three")
    async with answering(lines) as talker:
        for asks in (True, False, True):
            say(talker, asks=asks)
            await talker.heard.nth(
                InputAudioBufferCommitted, len(talker.heard.of(InputAudioBufferCommitted)) + 1
            )
        wanted = [record(talker, number).response_create_deferred for number in range(3)]
        assert wanted == [True, False, True]
        await talker.heard.nth(ResponseDone, 2)
        await trio.sleep(10)
        assert responses(talker) == ["created", "completed"] * 2
    assert told(lines)[-1].endswith("one two three")


async def test_one_that_asks_for_nothing_gets_nothing(autojump_clock: MockClock) -> None:
    """It is heard over the answer and part of the conversation; a later request answers it."""
    lines = script("by the way")
    async with answering(lines) as talker:
        say(talker, asks=False)
        await talker.heard.nth(ResponseDone, 1)
        await trio.sleep(10)
        assert responses(talker) == ["created", "completed"]
        talker.send(CreateResponse())
        await talker.heard.nth(ResponseDone, 2)
    assert told(lines)[-1].endswith("by the way")


async def test_an_answer_is_not_given_to_nothing(autojump_clock: MockClock) -> None:
    """What was deferred turned out to hold no words: the session listens on."""
    async with answering(script("", "")) as talker:
        say(talker)
        await talker.heard.nth(ResponseDone, 1)
        listen = await talker.heard.wait_for(ResponseListen)
        assert (listen.response_id, listen.response.metadata.reason) == (None, "silence_or_noise")
        await trio.sleep(10)
        assert responses(talker) == ["created", "completed"]


async def test_an_item_that_was_deleted_meanwhile_is_not_answered(autojump_clock: MockClock) -> None:
    """The client took back what it had said."""
    async with answering(script("never mind")) as talker:
        say(talker)
        committed = await talker.heard.nth(InputAudioBufferCommitted, 1)
        talker.send(DeleteItem(item_id=committed.item_id))
        await talker.heard.nth(ResponseDone, 1)
        await trio.sleep(10)
        assert responses(talker) == ["created", "completed"]


async def test_speech_that_goes_on_behind_the_answer_is_a_turn_of_its_own(autojump_clock: MockClock) -> None:
    """It began over the answer and is committed after it was played: nothing is deferred or acknowledged."""
    lines = script("on and on")
    async with answering(lines) as talker:
        await talker.speak(7.0)
        talker.send(Commit(response_create=True))
        await talker.heard.nth(ResponseDone, 2)
        assert record(talker) == CommitRecord(is_speech=True)


async def test_long_speech_is_no_acknowledgement_though_most_of_it_came_before(
    autojump_clock: MockClock,
) -> None:
    """Only its last bit was spoken over the answer, yet it is more than "go on"."""
    async with open_session(script("a long story", "go"), patch=BY_HAND) as talker:
        await talker.speak(1.0)
        talker.write("go")
        await talker.heard.nth(ResponseOutputAudioDelta, 1)
        await talker.speak(0.4)
        talker.send(Commit(response_create=True))
        await talker.heard.nth(InputAudioBufferCommitted, 1)
        assert record(talker).overlap_deferred
        await talker.heard.nth(ResponseDone, 2)


# ------------------------------------------------------------------ acknowledgements


async def test_a_short_one_is_an_acknowledgement(autojump_clock: MockClock) -> None:
    """Up to `overlap_short_ack_ms` a commit over the answer is discarded: no item, no words, no response."""
    lines = script("never")
    async with answering(lines) as talker:
        say(talker, 600)
        committed = await talker.heard.nth(InputAudioBufferCommitted, 1)
        assert record(talker) == CommitRecord(is_speech=True, empty=True, no_response=True, overlap_ack=True)
        started = talker.heard.of(InputAudioBufferSpeechStarted)[0]
        assert committed.item_id == started.item_id
        await talker.heard.nth(ResponseDone, 1)
        await trio.sleep(10)
        assert responses(talker) == ["created", "completed"]
        assert not talker.heard.of(Transcribed)
        assert committed.item_id not in [event.item.id for event in talker.heard.of(ConversationItemAdded)]


async def test_each_acknowledgement_has_an_id_of_its_own(autojump_clock: MockClock) -> None:
    """And the next utterance one again."""
    async with answering(script("really")) as talker:
        for _ in range(2):
            say(talker, 300)
            await trio.sleep(0.05)
        say(talker, 900)
        await talker.heard.nth(ResponseDone, 2)
        ids = [event.item_id for event in talker.heard.of(InputAudioBufferCommitted)]
        assert len(set(ids)) == 3
        assert talker.heard.of(Transcribed)[0].item_id == ids[2]


async def test_how_short_is_the_sessions(autojump_clock: MockClock) -> None:
    """A lower limit takes effect at once."""
    async with answering(script("no")) as talker:
        talker.send(UpdateSession(patch={"overlap_short_ack_ms": 200}))
        await trio.sleep(0.01)
        say(talker, 400)
        await talker.heard.nth(InputAudioBufferCommitted, 1)
        assert record(talker).overlap_deferred
        await talker.heard.nth(ResponseDone, 2)


async def test_over_an_answer_that_is_only_played_it_is_one_too(autojump_clock: MockClock) -> None:
    """And what is longer is answered at once, for nothing would come to wait for."""
    async with open_session(script("stop that"), patch=BY_HAND) as talker:
        talker.write("hi")
        await talker.heard.nth(ResponseDone, 1)
        say(talker, 300)
        await talker.heard.nth(InputAudioBufferCommitted, 1)
        assert record(talker).overlap_ack
        say(talker, 900)
        await talker.heard.nth(ResponseDone, 2)
        assert record(talker) == CommitRecord(is_speech=True)


async def test_in_silence_a_short_one_is_a_turn(autojump_clock: MockClock) -> None:
    """Nothing was spoken over, so it is answered, however short."""
    async with open_session(script("yes"), patch=BY_HAND) as talker:
        say(talker, 300)
        await talker.heard.nth(ResponseDone, 1)
        assert record(talker) == CommitRecord(is_speech=True)


# ------------------------------------------------------------------ with a detector


async def test_a_detected_turn_is_deferred(autojump_clock: MockClock) -> None:
    """`interrupt_response: false`: the decision to listen, the turn, and its answer behind the one in progress."""
    lines = script("and then")
    async with answering(lines, LISTENING) as talker:
        await talker.turn(1.2)
        await talker.heard.nth(InputAudioBufferCommitted, 1)
        assert record(talker).overlap_deferred
        assert record(talker).response_create_deferred
        await talker.heard.nth(ResponseDone, 2)
    assert told(lines)[-1].endswith("and then")


async def test_a_short_detected_turn_is_an_acknowledgement(autojump_clock: MockClock) -> None:
    """A hum over the answer is no turn."""
    async with answering(script("mm"), LISTENING) as talker:
        await talker.turn(0.4)
        await talker.heard.nth(InputAudioBufferCommitted, 1)
        assert record(talker).overlap_ack
        await talker.heard.nth(ResponseDone, 1)
        await trio.sleep(10)
        assert responses(talker) == ["created", "completed"]
        assert not talker.heard.of(Transcribed)


async def test_openais_dialects_take_short_turns_at_their_word(autojump_clock: MockClock) -> None:
    """There a commit is an item and an item is answered."""
    lines = script("mm")
    patch = {"audio": {"input": {"turn_detection": {"type": "server_vad", "interrupt_response": False}}}}
    async with open_session(lines, dialect="ga", patch=patch) as talker:
        talker.write("go")
        await talker.heard.nth(ResponseOutputAudioDelta, 1)
        await talker.turn(0.4)
        await talker.heard.nth(ResponseDone, 2)
        assert talker.heard.of(Transcribed)[0].transcript == "mm"


async def test_a_detected_turn_that_asks_for_nothing(autojump_clock: MockClock) -> None:
    """`create_response: false`: it is heard, and nothing is promoted."""
    patch = {"turn_detection": {"interrupt_response": False, "create_response": False}}
    async with answering(script("by the way"), patch) as talker:
        await talker.turn(1.2)
        await talker.heard.nth(InputAudioBufferCommitted, 1)
        assert record(talker) == CommitRecord(
            is_speech=True, overlap_deferred=True, response_create_deferred=False
        )
        await talker.heard.nth(ResponseDone, 1)
        await trio.sleep(10)
        assert responses(talker) == ["created", "completed"]


async def test_speech_that_ends_behind_the_answer_is_no_acknowledgement(autojump_clock: MockClock) -> None:
    """It began over the last words and was short; but when it ended nobody was speaking any more."""
    async with answering(script("what"), LISTENING) as talker:
        await trio.sleep(3.6)
        await talker.turn(0.5)
        await talker.heard.nth(ResponseDone, 2)
        assert record(talker) == CommitRecord(is_speech=True)


# ------------------------------------------------------------------ when the answer is cut or fails


@pytest.mark.parametrize("command", [CancelResponse(), BargeIn(), CancelInput(), ClearOutputAudio()])
async def test_nothing_is_promoted_behind_a_cut(autojump_clock: MockClock, command: DuplexCommand) -> None:
    """What was said stays said, so the next response that is asked for knows of it."""
    lines = script("and then")
    async with answering(lines) as talker:
        say(talker)
        await talker.heard.nth(Transcribed, 1)
        talker.send(command)
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "cancelled"
        await trio.sleep(10)
        assert responses(talker) == ["created", "cancelled"]
        talker.send(CreateResponse())
        assert (await talker.heard.nth(ResponseDone, 2)).response.status == "completed"
        assert not talker.heard.of(ErrorEvent)
    assert told(lines)[-1].endswith("and then")


async def test_nothing_is_promoted_behind_a_failure(autojump_clock: MockClock) -> None:
    """The client learns of the failure; a later request answers what was said meanwhile."""
    lines = script("and then", fail_speaking="papa")
    async with answering(lines, step_s={"llm": 0.4}) as talker:
        say(talker)
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "failed"
        await trio.sleep(10)
        assert responses(talker) == ["created", "failed"]
        talker.send(CreateResponse())
        assert (await talker.heard.nth(ResponseDone, 2)).response.status == "completed"
    assert told(lines)[-1].endswith("and then")


@pytest.mark.parametrize(
    ("command", "kept"),
    [(CancelResponse(), True), (ClearOutputAudio(), True), (BargeIn(), False), (CancelInput(), False)],
)
async def test_what_becomes_of_uncommitted_sound(
    autojump_clock: MockClock, command: DuplexCommand, kept: bool
) -> None:
    """A cut of the answer keeps it; a barge-in and a cancel of the input drop it."""
    async with answering(script("go", "never")) as talker:
        talker.append(900, loud=True)
        talker.send(command, Commit(event_id="e1"))
        await trio.sleep(5)
        assert len(talker.heard.of(Transcribed)) == kept
        refused = [(event.error.code, event.error.event_id) for event in talker.heard.of(ErrorEvent)]
        assert refused == ([] if kept else [("input_audio_buffer_commit_empty", "e1")])


async def test_a_barge_in_by_voice_keeps_both(autojump_clock: MockClock) -> None:
    """What waited and what cut are answered together in the new epoch."""
    lines = script("first", "second")
    async with answering(lines) as talker:
        say(talker)
        await talker.heard.nth(Transcribed, 1)
        talker.append(400, loud=True)
        talker.append(400, loud=True, overlap_action="barge_in")
        talker.send(Commit(response_create=True))
        await talker.heard.nth(ResponseDone, 2)
        await trio.sleep(10)
        assert responses(talker) == ["created", "cancelled", "created", "completed"]
    assert told(lines)[-1].endswith("first second")


# ------------------------------------------------------------------ order


COMMIT, CANCEL, BARGE, CLEAR = "commit", "cancel", "barge_in", "clear"
MADE: dict[str, DuplexCommand] = {
    COMMIT: Commit(response_create=True),
    CANCEL: CancelResponse(),
    BARGE: BargeIn(),
    CLEAR: ClearInput(),
}
ORDERS = [
    order
    for count in (2, 3)
    for order in permutations([COMMIT, CANCEL, BARGE, CLEAR], count)
    if COMMIT in order
]


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
@pytest.mark.parametrize("apart", [False, True])
async def test_jumping_the_queue_does_not_change_what_is_meant(
    autojump_clock: MockClock, order: tuple[str, ...], apart: bool
) -> None:
    """900 ms of speech over an answer, then a commit and commands that cut or clear, at once or one after another.

    Sound in front of a clear or a barge-in is committed only if the commit comes before them and is not overtaken;
    a commit in front of a cut is not answered, one behind it is.
    """
    async with answering(script("words", replies={"words": LONG, "go words": LONG})) as talker:
        talker.append(900, loud=True)
        for name in order:
            talker.send(MADE[name])
            if apart:
                await trio.sleep(0.5)
        await trio.sleep(15)
        place = order.index(COMMIT)
        before, later = set(order[:place]), set(order[place + 1 :])
        dropped = bool(before & {BARGE, CLEAR}) or (not apart and bool(later & {BARGE, CLEAR}))
        committed = talker.heard.of(InputAudioBufferCommitted)
        assert len(committed) == (not dropped)
        cut = bool((before | later) & {CANCEL, BARGE})
        first, *more = [status for status in responses(talker) if status != "created"]
        assert first == ("cancelled" if cut else "completed")
        if dropped or (later & {CANCEL, BARGE} and apart and not before & {CANCEL, BARGE}):
            assert "completed" not in more
        elif not later & {CANCEL, BARGE}:
            assert more == ["completed"]
        else:
            assert more == ["cancelled"]
        assert await says_more(talker)


async def says_more(talker: Talker) -> bool:
    """The session answers as ever."""
    count = len(talker.heard.of(ResponseDone))
    talker.write("hi")
    return (await talker.heard.nth(ResponseDone, count + 1)).response.status == "completed"
