"""`idle_timeout_ms`: a user who says nothing after an answer is spoken to again."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
import trio
from trio.testing import MockClock

from duplex_trio.models.scripted.native import NativePipeline, NativePlugin
from duplex_trio.models.scripted.script import Script
from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.protocol.duplex import (
    ClearOutputAudio,
    Commit,
    ErrorEvent,
    InputAudioBufferCommitted,
    InputAudioBufferTimeoutTriggered,
    RealtimeError,
    ResponseCreated,
    ResponseDone,
    UpdateSession,
)
from duplex_trio.protocol.duplex.session import DialectName
from duplex_trio.testing import Talker, finish, open_returning, open_session, open_talker, scripted_omni
from duplex_trio.testing.steps import acting_at

PATIENCE_S = 6.0
PATIENT = {"turn_detection": {"idle_timeout_ms": 6000}}


def script() -> Script:
    """One question; whatever else is asked is answered in two words, 600 ms of sound."""
    return Script(heard=["hello there"], otherwise=lambda _: "well then")


def prompts(talker: Talker) -> list[InputAudioBufferTimeoutTriggered]:
    return [event for event in talker.events if isinstance(event, InputAudioBufferTimeoutTriggered)]


async def test_a_silent_user_is_prompted(autojump_clock: MockClock) -> None:
    """The time runs from the end of the sound; the silence is an item, and an answer follows by itself."""
    told = script()
    async with open_session(told, patch=PATIENT) as talker:
        await talker.turn()
        done = await talker.heard.nth(ResponseDone, 1)
        done_s = talker.heard.times_s[talker.heard.events.index(done)]
        await talker.pause(PATIENCE_S + 1.0)
        (triggered,) = talker.heard.of(InputAudioBufferTimeoutTriggered)
        position = talker.heard.events.index(triggered)
        assert talker.heard.times_s[position] - done_s == pytest.approx(PATIENCE_S + 0.35, abs=0.1)
        assert talker.heard.types[position : position + 6] == [
            "input_audio_buffer.timeout_triggered",
            "conversation.item.added",
            "conversation.item.created",
            "input_audio_buffer.committed",
            "conversation.item.done",
            "response.created",
        ]
        committed = talker.heard.of(InputAudioBufferCommitted)[1]
        assert triggered.item_id == committed.item_id
        assert triggered.audio_end_ms - triggered.audio_start_ms == pytest.approx(6000, abs=100)
        assert (await talker.heard.nth(ResponseDone, 2)).response.status == "completed"
    assert len(told.asked) == 2


async def test_each_prompt_waits_anew(autojump_clock: MockClock) -> None:
    """Without a microphone at all: prompted again after each answer, at the same distance."""
    async with open_session(script(), patch=PATIENT) as talker:
        talker.write("hi")
        await trio.sleep(30)
        times_s = [
            at_s
            for at_s, event in zip(talker.heard.times_s, talker.heard.events, strict=True)
            if isinstance(event, InputAudioBufferTimeoutTriggered)
        ]
        assert len(times_s) == 4
        assert times_s[1] - times_s[0] == pytest.approx(times_s[2] - times_s[1], abs=0.05)


async def test_nobody_is_prompted_before_the_first_answer(autojump_clock: MockClock) -> None:
    """A session that was just opened waits for its user."""
    async with open_session(script(), patch=PATIENT) as talker:
        await trio.sleep(20)
        assert not talker.heard.of(ResponseCreated)


@pytest.mark.parametrize(
    "patch", [{}, {"turn_detection": None}, {"turn_detection": {"type": "semantic_vad"}}]
)
async def test_nobody_is_prompted_unasked(autojump_clock: MockClock, patch: dict[str, object]) -> None:
    """Only server VAD with the field set prompts."""
    async with open_session(script(), patch=patch) as talker:
        talker.write("hi")
        await talker.heard.nth(ResponseDone, 1)
        await trio.sleep(60)
        assert len(talker.heard.of(ResponseCreated)) == 1


async def test_a_user_who_speaks_is_not_prompted(autojump_clock: MockClock) -> None:
    """Speech that goes on longer than the time is not talked over; after its answer the time runs anew."""
    told = script()
    async with open_session(told, patch=PATIENT) as talker:
        talker.write("hi")
        await talker.heard.nth(ResponseDone, 1)
        await talker.pause(PATIENCE_S - 1.0)
        await talker.turn(3.0)
        await talker.heard.nth(ResponseDone, 2)
        assert not talker.heard.of(InputAudioBufferTimeoutTriggered)
        await talker.pause(PATIENCE_S + 1.0)
        assert len(talker.heard.of(InputAudioBufferTimeoutTriggered)) == 1


ACTS: dict[str, Callable[[Talker], None]] = {
    "text": lambda talker: talker.write("hello"),
    "commit": lambda talker: talker.send(Commit(is_speech=False)),
    "clear": lambda talker: talker.send(ClearOutputAudio()),
    "update": lambda talker: talker.send(UpdateSession(patch={"turn_detection": {"threshold": 0.6}})),
}


@pytest.mark.parametrize("act", ["text", "commit", "update"])
async def test_a_client_that_acts_is_not_prompted(autojump_clock: MockClock, act: str) -> None:
    """Whatever the client does in time takes the prompt back."""
    async with open_session(script(), patch=PATIENT) as talker:
        talker.write("hi")
        await talker.heard.nth(ResponseDone, 1)
        await trio.sleep(PATIENCE_S - 1.0)
        ACTS[act](talker)
        await trio.sleep(2.0)
        assert not talker.heard.of(InputAudioBufferTimeoutTriggered)


async def test_an_answer_that_was_stopped_is_not_followed_up(autojump_clock: MockClock) -> None:
    """A client that silenced the answer wants quiet."""
    async with open_session(script(), patch=PATIENT) as talker:
        talker.write("hi")
        await talker.heard.nth(ResponseDone, 1)
        ACTS["clear"](talker)
        await trio.sleep(20)
        assert not talker.heard.of(InputAudioBufferTimeoutTriggered)


async def test_who_has_left_is_not_prompted(autojump_clock: MockClock) -> None:
    """A session waits for its client in silence; who comes back has all the time anew."""
    async with scripted_omni(script()) as omni:
        talker = await open_returning(omni, patch=PATIENT)
        talker.write("hi")
        await talker.wait_done()
        await trio.sleep(PATIENCE_S - 1.0)
        talker.lose()
        await trio.sleep(20)
        talker.resume()
        await trio.sleep(PATIENCE_S - 1.0)
        assert not prompts(talker)
        await trio.sleep(2.0)
        assert len(prompts(talker)) == 1
        await finish(omni, talker)


async def test_a_client_that_leaves_in_an_answer_is_prompted_when_it_is_back(
    autojump_clock: MockClock,
) -> None:
    """The answer is complete while nobody is there."""
    async with scripted_omni(script()) as omni:
        talker = await open_returning(omni, patch=PATIENT)
        talker.write("hi")
        await talker.heard.nth(ResponseCreated, 1)
        talker.lose()
        await trio.sleep(20)
        talker.resume()
        await talker.wait_done()
        await trio.sleep(PATIENCE_S + 1.0)
        assert len(prompts(talker)) == 1
        await finish(omni, talker)


@pytest.mark.parametrize("lost_s", [0.0, PATIENCE_S - 1.0])
async def test_who_cannot_be_heard_is_not_prompted(autojump_clock: MockClock, lost_s: float) -> None:
    """Without its detector the server does not know whether the user speaks."""
    async with open_session(script(), patch=PATIENT, dialect="beta") as talker:
        talker.write("hi")
        if lost_s:
            await talker.heard.nth(ResponseDone, 1)
        await trio.sleep(lost_s)
        talker.handle._dispatch._detector.unavailable()
        await talker.speak(PATIENCE_S + 2.0)
        assert not prompts(talker)


@pytest.mark.parametrize("step", range(8))
async def test_a_commit_comes_in_the_last_moment(autojump_clock: MockClock, step: int) -> None:
    """The user is prompted before it, or not at all."""
    async with open_session(script(), patch=PATIENT) as talker:
        talker.write("hi")
        await talker.heard.nth(ResponseDone, 1)
        core = talker.handle._core
        due_s = core.now_s + core.state.playout.ahead_ms(core.now_s) / 1000 + PATIENCE_S
        await trio.sleep_until(due_s - 0.5)
        talker.append(100, loud=True)
        await trio.sleep_until(due_s - 0.001)
        count = len(talker.heard.events)
        with acting_at(step + 1, lambda: talker.send(Commit())):
            await trio.sleep(1.0)
        happened = [
            kind.split(".")[1]
            for kind in talker.heard.types[count:]
            if kind.startswith("input_audio_buffer.")
        ]
        assert happened in (["committed"], ["timeout_triggered", "committed", "committed"])


@pytest.mark.parametrize("dialect", ["ga", "duplex"])
async def test_a_model_that_owns_its_turns_prompts_nobody(
    autojump_clock: MockClock, dialect: DialectName
) -> None:
    """It is refused when the session opens and when it changes; the session goes on as it was."""
    detection = {"type": "server_vad", "idle_timeout_ms": 6000}
    patch = (
        {"turn_detection": detection}
        if dialect == "duplex"
        else {"audio": {"input": {"turn_detection": detection}}}
    )
    async with scripted_omni(pipeline=NativePipeline()) as omni:
        with pytest.raises(RealtimeError) as caught:
            await open_talker(omni, dialect=dialect, patch=patch)
        refusal = ("unsupported_turn_detection", "session.audio.input.turn_detection.idle_timeout_ms")
        assert (caught.value.code, caught.value.param) == refusal
        talker = await open_talker(omni, dialect=dialect)
        before = talker.handle._core.state.config
        talker.send(UpdateSession(patch=patch))
        error = (await talker.heard.wait_for(ErrorEvent)).error
        assert (error.code, error.param) == refusal
        assert talker.handle._core.state.config == before
        await finish(omni, talker)


class _Eager(NativePlugin):
    """Owns its turns, and says that it prepares answers in a pause."""

    def capabilities(self, max_sessions: int) -> DuplexCapabilities:
        return attrs.evolve(super().capabilities(max_sessions), speculation_pause_ms=200)


async def test_a_model_that_owns_its_turns_prepares_none(autojump_clock: MockClock) -> None:
    """Nobody would take them up."""
    pipeline = NativePipeline()
    pipeline.plugin = _Eager()
    async with open_session(pipeline=pipeline, patch={"turn_detection": {"type": "server_vad"}}) as talker:
        await talker.turn(2.0)
        assert not talker.handle.counters.speculations_started
