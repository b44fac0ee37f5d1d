"""`turn.signal` from a client in this process: the same commands as from one behind a socket."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.models.scripted.lockstep import LockstepPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex import (
    ConversationItemRetrieved,
    ErrorEvent,
    OutputAudioBufferCleared,
    PlaybackAcknowledged,
    ResponseDone,
    ResponseOutputAudioDelta,
    SessionClosed,
    SessionUpdated,
    SignalTurn,
    TurnEvent,
)
from duplex_trio.testing import Talker, open_session

LONG = "alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima"
BY_HAND = {"turn_detection": None}


def signal(event: str, event_id: str | None = None, **payload: Any) -> SignalTurn:
    return SignalTurn(event=event, payload=payload, event_id=event_id)


async def answering(talker: Talker) -> None:
    talker.write("go")
    await talker.heard.nth(ResponseOutputAudioDelta, 3)


async def test_playback_is_acknowledged_and_answered(autojump_clock: MockClock) -> None:
    """The payload is a `playback.ack`: the cursor moves, that is told, and the signal is answered as any other."""
    async with open_session(Script(otherwise=lambda _: LONG), patch=BY_HAND) as talker:
        await answering(talker)
        talker.send(signal("playback_ack", played_ms=200, committed_ms=100))
        acknowledged = (await talker.heard.nth(PlaybackAcknowledged, 1)).event
        assert (acknowledged.played_ms, acknowledged.committed_ms) == (200, 100)
        answer = await talker.heard.nth(TurnEvent, 1)
        assert (answer.event, answer.turn_state) == ("playback_ack", "assistant_playing")


async def test_playback_counts_before_a_cut_in_the_same_moment(autojump_clock: MockClock) -> None:
    """It acts as it comes, as the command does: the interrupted answer keeps what was heard."""
    async with open_session(Script(otherwise=lambda _: LONG), patch=BY_HAND) as talker:
        await answering(talker)
        await trio.sleep(0.6)
        talker.send(signal("playback_ack", played_ms=600), signal("barge_in"))
        done = await talker.heard.nth(ResponseDone, 1)
        assert done.duplex is not None
        assert done.duplex.playback is not None
        assert done.duplex.playback.committed_ms == 600


@pytest.mark.parametrize(
    "event", ["barge_in", "input.cancel", "response.cancel", "output_audio_buffer.clear"]
)
async def test_signals_that_cut(autojump_clock: MockClock, event: str) -> None:
    """Each is the command that it names, and is answered by what that does, not by a turn event."""
    async with open_session(Script(otherwise=lambda _: LONG), patch=BY_HAND) as talker:
        await answering(talker)
        talker.send(signal(event))
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "cancelled"
        assert len(talker.heard.of(OutputAudioBufferCleared)) == 1
        assert not talker.heard.of(TurnEvent)


async def test_a_barge_in_needs_the_ability(autojump_clock: MockClock) -> None:
    """As the command: refused by a model that cannot be interrupted, with the signal's own id."""
    async with open_session(pipeline=LockstepPipeline(), patch=BY_HAND) as talker:
        await talker.speak(0.5)
        talker.send(signal("barge_in", "e1"))
        error = (await talker.heard.nth(ErrorEvent, 1)).error
        assert (error.code, error.event_id) == ("barge_in_unsupported", "e1")
        assert not talker.heard.of(ResponseDone)


async def test_signals_about_items_and_the_session(autojump_clock: MockClock) -> None:
    """Their fields are in the payload."""
    async with open_session(patch=BY_HAND) as talker:
        item = {
            "id": "a",
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "x"}],
        }
        talker.send(
            signal("conversation.item.create", item=item),
            signal("conversation.item.retrieve", item_id="a"),
            signal("conversation.item.delete", item_id="a"),
            signal("session.update", session={"instructions": "Be brief."}),
        )
        updated = await talker.heard.nth(SessionUpdated, 2)
        assert updated.session["instructions"] == "Be brief."
        assert len(talker.heard.of(ConversationItemRetrieved)) == 1
        assert "conversation.item.deleted" in talker.heard.types


@pytest.mark.parametrize(
    ("event", "payload", "reason"),
    [("close", {}, "client_close"), ("close", {"reason": "enough"}, "enough"), ("timeout", {}, "timeout")],
)
async def test_an_end_is_a_real_end(
    autojump_clock: MockClock, event: str, payload: dict[str, str], reason: str
) -> None:
    """The session closes: an answer in progress is cut and nothing is left that only says `session_closed`."""
    async with open_session(Script(otherwise=lambda _: LONG), patch=BY_HAND) as talker:
        await answering(talker)
        talker.send(signal(event, **payload))
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "cancelled"
        assert (await talker.heard.nth(SessionClosed, 1)).reason == reason
        assert (await talker.heard.wait_closed())[0] == 1000


async def test_an_answer_in_progress_stays_in_progress(autojump_clock: MockClock) -> None:
    """A client that says it is done is told the state as it is."""
    async with open_session(Script(otherwise=lambda _: LONG), patch=BY_HAND) as talker:
        await answering(talker)
        talker.send(signal("assistant_done"))
        assert (await talker.heard.nth(TurnEvent, 1)).turn_state == "assistant_playing"
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"
