"""Whatever happens, it may happen between any two steps: a stop, a close, a lost client, an interruption.

A conversation with everything in it is held again and again; each time the same thing happens one step later.
What must hold every time: every response that was created is done once, no stage request is left, every slot
is free, no task raised, and where the session goes on, it still answers.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.engine import SessionLimits
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex import (
    AckPlayback,
    BargeIn,
    CancelResponse,
    ClearInput,
    ClearOutputAudio,
    Commit,
    ErrorEvent,
    ResponseCreated,
    ResponseDone,
    ResponseOutputAudioDelta,
    UpdateSession,
)
from duplex_trio.testing import Talker, check_stream, finish, open_talker, scripted_omni
from duplex_trio.testing.steps import acting_at

CHUNK_MS = 100
STRIDES = pytest.mark.parametrize("stride", [199, pytest.param(23, marks=pytest.mark.slow)])
"""Every so manyth step is tried, beginning at another one in each test; 1 tries them all and takes minutes."""


def script() -> Script:
    return Script(
        heard=["first question"],
        otherwise=lambda _: "Alpha bravo charlie delta. Echo foxtrot golf hotel. India juliet kilo lima.",
    )


async def sound(talker: Talker, loud_ms: int, quiet_ms: int) -> None:
    for milliseconds, loud in ((loud_ms, True), (quiet_ms, False)):
        for _ in range(milliseconds // CHUNK_MS):
            talker.append(CHUNK_MS, loud=loud)
            await trio.sleep(CHUNK_MS / 1000)


async def hold(talker: Talker) -> None:
    """Speak, interrupt by speech, acknowledge, update, write, cancel; never wait for what may not come."""
    await sound(talker, 500, 800)
    await trio.sleep(0.4)
    talker.send(AckPlayback(played_ms=300))
    await sound(talker, 400, 300)
    talker.send(Commit(response_create=True))
    await trio.sleep(0.3)
    talker.send(UpdateSession(patch={"instructions": "Be brief."}))
    talker.write("second question")
    await trio.sleep(0.2)
    talker.send(CancelResponse())
    talker.write("third question")
    await trio.sleep(6.0)


async def steps_of_the_conversation() -> int:
    """How many steps the conversation takes when nothing happens."""
    async with scripted_omni(script()) as omni:
        talker = await open_talker(omni)
        with acting_at(0, lambda: None) as counter:
            await hold(talker)
        await finish(omni, talker)
    assert len(talker.heard.of(ResponseDone)) >= 3
    assert counter.steps > 300
    return counter.steps


async def with_something_at(
    step: int, action: Callable[[DuplexOmni, Talker], None], *, goes_on: bool
) -> Talker:
    """Hold the conversation with an action at one step, and check what is left."""
    async with scripted_omni(script()) as omni:
        talker = await open_talker(omni)
        with acting_at(step, lambda: action(omni, talker)):
            await hold(talker)
        if goes_on:
            await asked_until_answered(talker)
        await finish(omni, talker)
    return talker


async def asked_until_answered(talker: Talker) -> None:
    """Ask; what was still under way may cut the first answer, but not one after another."""
    for _ in range(3):
        count = len(talker.heard.of(ResponseDone))
        talker.write("are you there")
        if (await talker.heard.nth(ResponseDone, count + 1)).response.status == "completed":
            return
        await trio.sleep(3.0)
    raise AssertionError("the session does not answer any more")


def chosen(steps: int, stride: int, offset: int) -> range:
    return range(1 + offset % stride, steps, stride)


# ------------------------------------------------------------------ the session goes on


ACTIONS: dict[str, Callable[[DuplexOmni, Talker], None]] = {
    "barge_in": lambda omni, talker: talker.send(BargeIn()),
    "cancel": lambda omni, talker: talker.send(CancelResponse()),
    "clear_output": lambda omni, talker: talker.send(ClearOutputAudio()),
    "clear_input": lambda omni, talker: talker.send(ClearInput()),
    "question": lambda omni, talker: talker.write("in between"),
    "speech": lambda omni, talker: talker.append(700, loud=True),
}


@STRIDES
@pytest.mark.parametrize("name", ACTIONS)
async def test_a_command_at_any_step(autojump_clock: MockClock, name: str, stride: int) -> None:
    """The command may be refused, what it cuts is cut in order, and the session answers the next question."""
    for step in chosen(await steps_of_the_conversation(), stride, list(ACTIONS).index(name) * 4):
        await with_something_at(step, ACTIONS[name], goes_on=True)


# ------------------------------------------------------------------ the session ends


def lose(omni: DuplexOmni, talker: Talker) -> None:
    """The client's reader finds the connection gone; whoever writes finds the same."""
    talker.heard.broken = True
    talker.handle.disconnected()


ENDS: dict[str, Callable[[DuplexOmni, Talker], None]] = {
    "close": lambda omni, talker: talker.handle.close("over"),
    "disconnect": lose,
    "broken": lambda omni, talker: setattr(talker.heard, "broken", True),
}


@STRIDES
@pytest.mark.parametrize("name", ENDS)
async def test_an_end_at_any_step(autojump_clock: MockClock, name: str, stride: int) -> None:
    """Closed by the server, reported lost, or found lost while writing."""
    for step in chosen(await steps_of_the_conversation(), stride, list(ENDS).index(name) * 7):
        talker = await with_something_at(step, ENDS[name], goes_on=False)
        if name == "close":
            assert len(talker.heard.of(ResponseDone)) == len(talker.heard.of(ResponseCreated))
            assert talker.heard.closed == (1000, "over")


# ------------------------------------------------------------------ the engine stops


async def stopped_at(step: int) -> None:
    """Cancel the whole engine at one step while two sessions talk, and check what their clients saw."""
    talkers: list[Talker] = []
    with trio.CancelScope() as scope:
        async with scripted_omni(script()) as omni:
            with acting_at(step, scope.cancel):
                async with trio.open_nursery() as nursery:
                    for _ in range(2):
                        talkers.append(await open_talker(omni))
                        nursery.start_soon(hold, talkers[-1])
    assert omni.statistics().live_requests == 0
    assert omni.statistics().sessions == 0
    for talker in talkers:
        check_stream(talker.heard.events, ended=True)
        assert talker.heard.closed == (1001, "server_shutdown")
        assert len(talker.heard.of(ResponseDone)) == len(talker.heard.of(ResponseCreated))


@STRIDES
async def test_a_stop_at_any_step(autojump_clock: MockClock, stride: int) -> None:
    """Every session says what became of its response, says goodbye and closes with 1001."""
    for step in chosen(2 * await steps_of_the_conversation(), 2 * stride, 11):
        await stopped_at(step)


# ------------------------------------------------------------------ slow stages


@pytest.mark.parametrize("slow", ["asr", "llm", "tts"])
async def test_interruptions_while_a_stage_is_slow(autojump_clock: MockClock, slow: str) -> None:
    """A stage that needs a second for each step: whatever was cut, its request is let go of and answers come."""
    for wait_s in (0.1, 0.7, 1.3, 1.9, 2.5):
        async with scripted_omni(
            script(), step_s={slow: 1.0}, limits=SessionLimits(cleanup_timeout_s=0.5)
        ) as omni:
            talker = await open_talker(omni)
            await sound(talker, 500, 800)
            await trio.sleep(wait_s)
            talker.send(BargeIn())
            talker.write("still there")
            await talker.heard.wait_for(ResponseDone, lambda done: done.response.status == "completed")
            assert talker.heard.of(ResponseOutputAudioDelta)
            assert not talker.heard.of(ErrorEvent)
            await finish(omni, talker)
