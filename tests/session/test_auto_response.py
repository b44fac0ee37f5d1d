"""Who decides when the model speaks: `extra_body.auto_response`, and turn detection beside it."""

from __future__ import annotations

from typing import Literal

import pytest
from trio.testing import MockClock

from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.lockstep import LockstepPipeline
from duplex_trio.models.scripted.native import NativePipeline
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.turns import TurnsPipeline
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.protocol.duplex import (
    ErrorEvent,
    InputAudioBufferSpeechStarted,
    RealtimeError,
    ResponseCreated,
    ResponseDone,
    SessionCreated,
    SessionUpdated,
    UpdateSession,
)
from duplex_trio.testing import Talker, finish, scripted_omni
from duplex_trio.testing.invariants import core_of
from duplex_trio.testing.recorder import RecordingAttachment

DialectName = Literal["ga", "beta", "duplex"]
REFUSAL = ("invalid_duplex_runtime_config", "session.extra_body.auto_response")
OWN_TURNS = (NativePipeline, LockstepPipeline)
TURNS = (ScriptedPipeline, TurnsPipeline)

each_model = pytest.mark.parametrize(
    ("model", "owns"),
    [(model, model in OWN_TURNS) for model in (*OWN_TURNS, *TURNS)],
    ids=[model.config.name for model in (*OWN_TURNS, *TURNS)],
)
each_dialect = pytest.mark.parametrize("dialect", ["ga", "beta", "duplex"])


def made(model: type[Pipeline]) -> Pipeline:
    return NativePipeline(answer="yes I do") if model is NativePipeline else model(None)


async def opened(omni: DuplexOmni, dialect: DialectName, auto_response: bool | None) -> Talker:
    recorder = RecordingAttachment()
    patch = {} if auto_response is None else {"extra_body": {"auto_response": auto_response}}
    handle = await omni.open_session(dialect=dialect, patch=patch, attachment=recorder)
    return Talker(handle, recorder)


@each_dialect
@each_model
async def test_only_the_models_own_way_is_taken(
    autojump_clock: MockClock, model: type[Pipeline], owns: bool, dialect: DialectName
) -> None:
    """At open and at an update; a refused update changes nothing, and null is the model's way again."""
    async with scripted_omni(pipeline=made(model)) as omni:
        with pytest.raises(RealtimeError) as caught:
            await opened(omni, dialect, not owns)
        assert (caught.value.code, caught.value.param) == REFUSAL
        for stated in (None, owns):
            talker = await opened(omni, dialect, stated)
            talker.send(
                UpdateSession(
                    patch={"extra_body": {"auto_response": not owns}, "instructions": "Sing."}, event_id="e1"
                )
            )
            error = (await talker.heard.wait_for(ErrorEvent)).error
            assert (error.code, error.param, error.event_id) == (*REFUSAL, "e1")
            assert core_of(talker.handle).state.config.instructions is None
            for again in (owns, None):
                told = len(talker.heard.of(SessionUpdated))
                talker.send(UpdateSession(patch={"extra_body": {"auto_response": again}}))
                await talker.heard.nth(SessionUpdated, told + 1)
            assert core_of(talker.handle).state.config.auto_response is owns
            await finish(omni, talker)
        assert omni.statistics().sessions == 0


@pytest.mark.parametrize("stated", [None, True])
async def test_a_model_that_owns_its_turns_speaks_without_turn_detection(
    autojump_clock: MockClock, stated: bool | None
) -> None:
    """In the duplex dialect there is none unless it is asked for, and it answers all the same."""
    async with scripted_omni(pipeline=made(NativePipeline)) as omni:
        talker = await opened(omni, "duplex", stated)
        session = (await talker.heard.wait_for(SessionCreated)).session
        assert session["audio"]["input"]["turn_detection"] is None
        await talker.speak(2.0)
        await talker.pause(6.0)
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"
        assert not core_of(talker.handle).detects
        await finish(omni, talker)


@pytest.mark.parametrize("stated", [None, False])
async def test_a_model_that_answers_turns_waits_for_their_end(
    autojump_clock: MockClock, stated: bool | None
) -> None:
    """Turn detection is on in each dialect; with it off nothing is answered that was not committed."""
    async with scripted_omni() as omni:
        talker = await opened(omni, "duplex", stated)
        session = (await talker.heard.wait_for(SessionCreated)).session
        assert session["audio"]["input"]["turn_detection"]["type"] == "server_vad"
        await talker.turn()
        await talker.heard.nth(ResponseDone, 1)
        assert talker.heard.of(InputAudioBufferSpeechStarted)
        talker.send(UpdateSession(patch={"turn_detection": None}))
        await talker.speak(1.0)
        await talker.pause(5.0)
        assert len(talker.heard.of(ResponseCreated)) == 1
        await finish(omni, talker)


@pytest.mark.parametrize("dialect", ["ga", "beta"])
async def test_openai_sessions_have_turn_detection_whatever_the_model(
    autojump_clock: MockClock, dialect: DialectName
) -> None:
    """A client of OpenAI's expects it; a model that owns its turns is only told about."""
    async with scripted_omni(pipeline=made(NativePipeline)) as omni:
        talker = await opened(omni, dialect, None)
        session = (await talker.heard.wait_for(SessionCreated)).session
        detection = (
            session["turn_detection"] if dialect == "beta" else session["audio"]["input"]["turn_detection"]
        )
        assert detection["type"] == "server_vad"
        await talker.speak(2.0)
        await talker.pause(6.0)
        await talker.heard.nth(ResponseDone, 1)
        await finish(omni, talker)
