"""Sound over an answer of a model that owns its turns: it hears everything, unless the client says otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from trio.testing import MockClock

from duplex_trio.models.scripted.lockstep import LockstepPipeline
from duplex_trio.protocol.duplex import (
    BargeIn,
    Commit,
    CommitRecord,
    ErrorEvent,
    InputAudioBufferCommitted,
    InputAudioBufferSpeechStarted,
    OverlapDecision,
    ResponseCreated,
    ResponseDone,
    ResponseListen,
)
from duplex_trio.testing import Talker, open_session
from duplex_trio.testing.watched import WatchedNativePipeline

BY_HAND = {"turn_detection": None}
DETECTED = {"turn_detection": {"type": "server_vad"}}
EIGHT = "one two three four five six seven eight"


def decisions(talker: Talker) -> list[tuple[str, str]]:
    return [(event.action, event.reason) for event in talker.heard.of(OverlapDecision)]


def record(talker: Talker) -> CommitRecord:
    extension = talker.heard.of(InputAudioBufferCommitted)[-1].duplex
    assert extension is not None
    assert extension.commit is not None
    return extension.commit


async def answering(talker: Talker) -> None:
    """It says its first word."""
    await talker.speak(1.0)
    await talker.pause(1.1)
    await talker.heard.nth(ResponseCreated, 1)


async def test_without_hints_there_is_nothing_to_decide(autojump_clock: MockClock) -> None:
    """It hears the user over its answer and goes on; speech is reported, decisions are not made."""
    async with open_session(pipeline=WatchedNativePipeline(EIGHT), patch=BY_HAND) as talker:
        await answering(talker)
        await talker.speak(1.0)
        await talker.pause(10.0)
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"
        assert decisions(talker) == []
        assert len(talker.heard.of(InputAudioBufferSpeechStarted)) == 1


async def test_force_listen_reaches_the_model(autojump_clock: MockClock) -> None:
    """The unit that holds the append asks it to listen, and it falls silent; the next unit does not."""
    pipeline = WatchedNativePipeline(EIGHT)
    async with open_session(pipeline=pipeline, patch=BY_HAND) as talker:
        await answering(talker)
        units = len(pipeline.plugin.forced)
        await talker.speak(0.4)
        await talker.speak(0.1, force_listen=True)
        await talker.speak(1.0)
        await talker.pause(1.0)
        done = await talker.heard.nth(ResponseDone, 1)
        assert (done.response.status, done.response.status_details) == ("completed", None)
        assert pipeline.plugin.forced[:units] == [False] * units
        assert pipeline.plugin.forced[units:].count(True) == 1
        (decision,) = talker.heard.of(OverlapDecision)
        assert (decision.action, decision.reason) == ("listen", "auto_response_continuous")
        assert decision.metadata["force_listen"] is True
        assert decision.metadata["defer_runtime_append"] is False


async def test_force_listen_over_several_units(autojump_clock: MockClock) -> None:
    """One append of three units and a bit: each of them asks, and so does the one that holds the rest."""
    pipeline = WatchedNativePipeline(EIGHT)
    async with open_session(pipeline=pipeline, patch=BY_HAND) as talker:
        talker.append(3500, loud=True, force_listen=True)
        talker.append(2000, loud=False)
        await talker.heard.nth(ResponseListen, 5)
        assert pipeline.plugin.forced == [True, True, True, True, False]
        assert decisions(talker) == []


async def test_a_barge_in_forgets_what_was_forced(autojump_clock: MockClock) -> None:
    """Sound that the barge-in drops takes its hint with it."""
    pipeline = WatchedNativePipeline(EIGHT)
    async with open_session(pipeline=pipeline, patch=BY_HAND) as talker:
        talker.append(500, loud=True, force_listen=True)
        talker.send(BargeIn())
        talker.append(1100, loud=True)
        await talker.heard.wait_for(ResponseListen)
        assert pipeline.plugin.forced == [False]


@pytest.mark.parametrize("patch", [BY_HAND, DETECTED])
async def test_a_client_cuts_the_answer(autojump_clock: MockClock, patch: dict[str, Any]) -> None:
    """Once, with or without a detector; the sound goes on into the next epoch's request."""
    pipeline = WatchedNativePipeline(EIGHT)
    async with open_session(pipeline=pipeline, patch=patch) as talker:
        await answering(talker)
        talker.append(500, loud=True, overlap_action="interrupt")
        done = await talker.heard.nth(ResponseDone, 1)
        assert done.response.status == "cancelled"
        assert done.duplex is not None
        assert done.duplex.cancel_reason == "barge_in"
        await talker.speak(1.0)
        await talker.pause(10.0)
        assert (await talker.heard.nth(ResponseDone, 2)).response.status == "completed"
        assert decisions(talker) == [("barge_in", "client_overlap_action")]
        assert len(pipeline.plugin.epochs) == 2


async def test_dropped_sound_is_heard_as_silence(autojump_clock: MockClock) -> None:
    """It takes its time, so the model keeps its pace, and says nothing."""
    pipeline = WatchedNativePipeline(EIGHT)
    async with open_session(pipeline=pipeline, patch=BY_HAND) as talker:
        await answering(talker)
        units = len(pipeline.plugin.units)
        await talker.speak(2.2, overlap_action="drop")
        assert decisions(talker) == [("drop", "client_overlap_action")]
        heard = [float(np.abs(unit.pcm[1000:]).max()) for unit in pipeline.plugin.units[units:]]
        assert heard
        assert max(heard[1:]) == 0.0


async def test_a_client_tells_it_to_go_on(autojump_clock: MockClock) -> None:
    """`listen` is heard, `ack` is not; the answer is given to its end either way."""
    pipeline = WatchedNativePipeline(EIGHT)
    async with open_session(pipeline=pipeline, patch=BY_HAND) as talker:
        await answering(talker)
        await talker.speak(1.0, overlap_action="listen")
        await talker.speak(1.0, overlap_action="ack")
        await talker.pause(8.0)
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"
        told = [event.metadata["buffer_audio"] for event in talker.heard.of(OverlapDecision)]
        assert told == [True, False]


async def test_the_detector_cuts_and_the_client_may_say_otherwise(autojump_clock: MockClock) -> None:
    """By default speech that is detected cuts; what the client forces to listen to does not."""
    pipeline = WatchedNativePipeline(EIGHT)
    async with open_session(pipeline=pipeline, patch=DETECTED) as talker:
        await answering(talker)
        await talker.speak(0.5, force_listen=True)
        await talker.pause(0.8)
        assert set(decisions(talker)) == {("listen", "auto_response_continuous")}
        assert all(done.response.status == "completed" for done in talker.heard.of(ResponseDone))


async def test_the_detector_cuts(autojump_clock: MockClock) -> None:
    async with open_session(pipeline=WatchedNativePipeline(EIGHT), patch=DETECTED) as talker:
        await answering(talker)
        await talker.speak(0.5)
        assert decisions(talker) == [("barge_in", "server_vad_speech_started")]


async def test_one_that_is_not_cut_hears_on(autojump_clock: MockClock) -> None:
    """`interrupt_response: false`: nothing is decided, for it hears all the time."""
    patch = {"turn_detection": {"type": "server_vad", "interrupt_response": False}}
    async with open_session(pipeline=WatchedNativePipeline(EIGHT), patch=patch) as talker:
        await answering(talker)
        await talker.speak(0.5)
        await talker.pause(10.0)
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"
        assert decisions(talker) == []


async def test_one_that_cannot_be_cut_refuses(autojump_clock: MockClock) -> None:
    """Told once, with the append's id, and the answer goes on."""
    async with open_session(pipeline=LockstepPipeline(), patch=BY_HAND) as talker:
        await talker.speak(1.0)
        talker.append(80, loud=True, event_id="e1", force_barge_in=True)
        talker.append(80, loud=True, event_id="e2", force_barge_in=True)
        error = (await talker.heard.nth(ErrorEvent, 1)).error
        assert (error.code, error.param, error.event_id) == ("barge_in_unsupported", "force_barge_in", "e1")
        await talker.speak(0.5)
        assert decisions(talker) == [("listen", "barge_in_unsupported")]
        assert len(talker.heard.of(ErrorEvent)) == 1
        assert not talker.heard.of(ResponseDone)


@pytest.mark.parametrize(
    ("loud", "is_speech", "empty"), [(True, None, None), (False, None, True), (True, False, True)]
)
async def test_a_commit_says_whether_there_was_speech(
    autojump_clock: MockClock, loud: bool, is_speech: bool | None, empty: bool | None
) -> None:
    """Nothing else follows from it: the model has heard for itself, and is the one to listen on."""
    pipeline = WatchedNativePipeline(EIGHT)
    async with open_session(pipeline=pipeline, patch=BY_HAND) as talker:
        talker.append(1400, loud=loud)
        talker.send(Commit(is_speech=is_speech))
        await talker.heard.nth(ResponseListen, 2)
        made = record(talker)
        assert (made.is_speech, made.empty) == (not empty, empty)
        assert [event.response.metadata.reason for event in talker.heard.of(ResponseListen)] == [
            "model_listen"
        ] * 2
        assert [unit.final for unit in pipeline.plugin.units] == [False, True]


async def test_a_commit_of_nothing(autojump_clock: MockClock) -> None:
    """Refused, unless the client says itself that it was nothing: then it is an item without words, and no unit."""
    pipeline = WatchedNativePipeline(EIGHT)
    async with open_session(pipeline=pipeline, patch=BY_HAND) as talker:
        talker.send(Commit(event_id="e1"), Commit(is_speech=False))
        await talker.heard.nth(InputAudioBufferCommitted, 1)
        assert (record(talker).is_speech, record(talker).empty) == (False, True)
        errors = [(event.error.code, event.error.event_id) for event in talker.heard.of(ErrorEvent)]
        assert errors == [("input_audio_buffer_commit_empty", "e1")]
        assert not pipeline.plugin.units
