"""The transition table: what each thing that can happen does to the epoch, the model turn and the turn state.

Everything is read from outside, in the session object that `session.updated` shows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from attrs import frozen
from trio.testing import MockClock

from duplex_trio.models.scripted.native import NativePipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex import (
    AckPlayback,
    BargeIn,
    CancelInput,
    CancelResponse,
    ClearInput,
    ClearOutputAudio,
    Commit,
    DuplexCommand,
    Heartbeat,
    ResponseCreated,
    ResponseDone,
    ResponseOutputAudioDelta,
    SessionUpdated,
    SignalTurn,
    TruncateItem,
    TurnEvent,
    UpdateSession,
)
from duplex_trio.testing import Talker, open_session

LONG = "alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima mike november oscar papa"
BY_HAND = {"turn_detection": None}


@frozen
class Place:
    """Where a session stands."""

    epoch: int
    turn_id: int
    turn_state: str
    active: bool


def script() -> Script:
    return Script(otherwise=lambda text: LONG if text.startswith("long") else "short answer")


async def place(talker: Talker) -> Place:
    """Ask the session, without changing anything."""
    count = len(talker.heard.of(SessionUpdated))
    talker.send(UpdateSession(patch={}))
    shown = (await talker.heard.nth(SessionUpdated, count + 1)).session
    return Place(
        shown["epoch"], shown["turn_id"], shown["turn_state"], shown["active_response_id"] is not None
    )


async def idle(talker: Talker) -> None:
    """Nothing has happened."""


async def generating(talker: Talker) -> None:
    """A response has begun and made no sound."""
    talker.write("long")
    await talker.heard.nth(ResponseCreated, 1)


async def answering(talker: Talker) -> None:
    """A response is in the middle of its sound."""
    talker.write("long")
    await talker.heard.nth(ResponseOutputAudioDelta, 5)


async def playing(talker: Talker) -> None:
    """A response is done, and the client still plays it."""
    talker.write("short")
    await talker.heard.nth(ResponseDone, 1)


async def played(talker: Talker) -> None:
    """A response is done and was played to its end."""
    await playing(talker)
    talker.send(AckPlayback(played_ms=10_000))
    await trio.sleep(10.0)


async def appended(talker: Talker) -> None:
    """Sound waits to be committed."""
    talker.append(500, loud=True)


Situation = Callable[[Talker], Any]


def item_of_last(talker: Talker) -> str:
    return f"item_{talker.heard.of(ResponseCreated)[-1].response.id}"


@pytest.mark.parametrize(
    ("situation", "state"),
    [
        (idle, "idle"),
        (generating, "assistant_generating"),
        (answering, "assistant_playing"),
        (playing, "idle"),
        (played, "idle"),
    ],
)
async def test_a_response_from_its_beginning_to_its_end(
    autojump_clock: MockClock, situation: Situation, state: str
) -> None:
    """The epoch stays; the model turn counts answers."""
    async with open_session(script(), patch=BY_HAND) as talker:
        assert await place(talker) == Place(0, 0, "idle", active=False)
        await situation(talker)
        now = await place(talker)
        assert now == Place(0, int(situation is not idle), state, active=situation in (generating, answering))


@pytest.mark.parametrize(
    ("situation", "command", "bumps", "state"),
    [
        (generating, CancelResponse(), 1, "barge_in"),
        (answering, CancelResponse(), 1, "barge_in"),
        (idle, CancelResponse(), 0, "idle"),
        (played, CancelResponse(), 0, "idle"),
        (idle, BargeIn(), 1, "barge_in"),
        (generating, BargeIn(), 1, "barge_in"),
        (answering, BargeIn(), 1, "barge_in"),
        (playing, BargeIn(), 1, "barge_in"),
        (appended, BargeIn(), 1, "barge_in"),
        (idle, CancelInput(), 1, "barge_in"),
        (answering, CancelInput(), 1, "barge_in"),
        (appended, CancelInput(), 1, "barge_in"),
        (idle, ClearOutputAudio(), 0, "idle"),
        (played, ClearOutputAudio(), 0, "idle"),
        (generating, ClearOutputAudio(), 1, "barge_in"),
        (answering, ClearOutputAudio(), 1, "barge_in"),
        (playing, ClearOutputAudio(), 1, "barge_in"),
        (answering, ClearInput(), 0, "assistant_playing"),
        (answering, Heartbeat(), 0, "assistant_playing"),
        (answering, AckPlayback(played_ms=100), 0, "assistant_playing"),
        (answering, UpdateSession(patch={"instructions": "Be brief."}), 0, "assistant_playing"),
        (playing, AckPlayback(played_ms=10_000), 0, "idle"),
    ],
)
async def test_commands(
    autojump_clock: MockClock, situation: Situation, command: DuplexCommand, bumps: int, state: str
) -> None:
    """What cancels raises the epoch by one, and only that; whatever is refused or only reports leaves it."""
    async with open_session(script(), patch=BY_HAND) as talker:
        await situation(talker)
        before = await place(talker)
        talker.send(command)
        after = await place(talker)
        assert (after.epoch - before.epoch, after.turn_id - before.turn_id) == (bumps, 0)
        assert after.turn_state == state
        assert after.active == (before.active and not bumps)


async def test_an_item_truncated_while_it_plays(autojump_clock: MockClock) -> None:
    """History and the cursor follow; the session stays where it was."""
    async with open_session(script(), patch=BY_HAND) as talker:
        await answering(talker)
        before = await place(talker)
        talker.send(TruncateItem(item_id=item_of_last(talker), audio_end_ms=100))
        assert await place(talker) == before


async def test_a_commit_and_its_answer(autojump_clock: MockClock) -> None:
    """Committed; then the answer is a new turn of the model."""
    async with open_session(script(), patch=BY_HAND) as talker:
        await appended(talker)
        talker.send(Commit(response_create=False))
        assert (await place(talker)).turn_state == "user_committed"
        talker.append(500, loud=True)
        talker.send(Commit(response_create=True))
        now = await place(talker)
        assert (now.epoch, now.turn_state, now.active) == (0, "assistant_generating", True)
        await talker.heard.nth(ResponseDone, 1)
        assert (await place(talker)).turn_state == "idle"


async def test_speech_over_an_answer(autojump_clock: MockClock) -> None:
    """It interrupts once, and the next turn is answered in the new epoch."""
    async with open_session(script()) as talker:
        await talker.turn()
        await talker.heard.nth(ResponseOutputAudioDelta, 1)
        before = await place(talker)
        await talker.speak(0.5)
        after = await place(talker)
        assert (after.epoch - before.epoch, after.active) == (1, False)
        await talker.pause(0.8)
        done = await talker.heard.nth(ResponseDone, 2)
        assert done.response.status == "completed"
        assert (await place(talker)).epoch == after.epoch


@pytest.mark.parametrize("interrupt", [BargeIn(), CancelResponse()])
async def test_each_cancellation_raises_the_epoch_by_one(
    autojump_clock: MockClock, interrupt: DuplexCommand
) -> None:
    """Ten in a row, each with an answer between: ten epochs, and no turn number is given twice."""
    async with open_session(script(), patch=BY_HAND) as talker:
        turns = []
        for epoch in range(10):
            talker.write("long")
            await talker.heard.nth(ResponseCreated, epoch + 1)
            turns.append((await place(talker)).turn_id)
            talker.send(interrupt)
            assert (await place(talker)).epoch == epoch + 1
        assert turns == sorted(set(turns))


@pytest.mark.parametrize(
    ("event", "state"),
    [
        ("user_started", "user_speaking"),
        ("user_committed", "user_committed"),
        ("assistant_started", "assistant_generating"),
        ("assistant_done", "idle"),
        ("weather_changed", "idle"),
    ],
)
async def test_signals_of_a_client_that_knows_better(
    autojump_clock: MockClock, event: str, state: str
) -> None:
    """They move the state and nothing else; a name without meaning is echoed."""
    async with open_session(script(), patch=BY_HAND) as talker:
        talker.send(SignalTurn(event=event))
        told = await talker.heard.nth(TurnEvent, 1)
        assert (told.event, told.turn_state) == (event, state)
        assert await place(talker) == Place(0, 0, state, active=False)


async def test_the_turns_of_a_model_that_owns_them(autojump_clock: MockClock) -> None:
    """Each turn that it ends raises the turn number; an interruption raises the epoch and leaves the number."""
    async with open_session(pipeline=NativePipeline(answer="one two"), patch=BY_HAND) as talker:
        for turn in (1, 2):
            await talker.speak(1.0)
            await talker.pause(2.0)
            await talker.heard.nth(ResponseDone, turn)
            assert await place(talker) == Place(0, turn, "idle", active=False)
        await talker.speak(1.0)
        await talker.pause(1.5)
        assert (await place(talker)).active
        talker.send(BargeIn())
        assert await place(talker) == Place(1, 2, "barge_in", active=False)
