"""As `test_cancellation`, for sessions that outlive their connection: a loss, a return, an end at any step.

A client asks, is lost in the answer, comes back, and comes back once more while it is still there. Each time
something happens one step later. Over all connections together the client must have heard each event once, in
order, and, where nothing but its connections broke, what an undisturbed client hears.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.native import NativePipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex import ResponseCreated, ResponseDone, SessionClosed
from duplex_trio.testing import (
    RecordingAttachment,
    ReturningTalker,
    check_stream,
    essence,
    finish,
    open_returning,
    scripted_omni,
)
from duplex_trio.testing.steps import acting_at

STRIDES = pytest.mark.parametrize("stride", [29, pytest.param(3, marks=pytest.mark.slow)])
"""Every so manyth step is tried, beginning at another one in each test; 1 tries them all."""


def script() -> Script:
    return Script(otherwise=lambda _: "Alpha bravo charlie delta. Echo foxtrot golf hotel.")


def come_back(talker: ReturningTalker) -> None:
    """Resume, unless the session is over."""
    if not talker.handle.closing:
        talker.resume()


async def hold(talker: ReturningTalker) -> None:
    """Ask; be lost in the answer; come back; take over."""
    talker.write("go")
    await trio.sleep(0.6)
    talker.lose()
    await trio.sleep(0.8)
    come_back(talker)
    await trio.sleep(0.3)
    come_back(talker)
    await trio.sleep(0.3)


async def to_the_end(talker: ReturningTalker) -> None:
    """Hear everything that is left of the answer, and that it was played."""
    await trio.sleep(9.0)
    if not talker.handle.attached:
        come_back(talker)
    if len(talker.connections) > 1:
        await talker.heard.wait_live()
    await trio.sleep(1.0)


async def undisturbed() -> list[object]:
    """The essence of the answer, heard over one connection."""
    async with scripted_omni(script()) as omni:
        talker = await open_returning(omni)
        talker.write("go")
        await trio.sleep(12.0)
        found: list[object] = [*essence(talker.events)]
        await finish(omni, talker)
    return found


async def steps_of_it() -> int:
    """How many steps it takes when nothing more happens; and that it then is as if nothing had."""
    async with scripted_omni(script()) as omni:
        talker = await open_returning(omni)
        with acting_at(0, lambda: None) as counter:
            await hold(talker)
        await to_the_end(talker)
        assert len(talker.connections) == 3
        assert talker.gapless
        assert [*essence(talker.events)] == await undisturbed()
        await finish(omni, talker)
    assert counter.steps > 100
    return counter.steps


# ------------------------------------------------------------------ the session goes on


def stall(talker: ReturningTalker) -> None:
    """The client reads no more."""
    talker.heard.stalled = True


def break_off(talker: ReturningTalker) -> None:
    """The connection breaks, and only who writes finds out."""
    talker.heard.broken = True


def lost_and_back(talker: ReturningTalker) -> None:
    """Both in one moment."""
    talker.lose()
    come_back(talker)


def late_reader(talker: ReturningTalker) -> None:
    """The reader of the first connection reports its end, whenever."""
    talker.handle.disconnected(0)


DROPS: dict[str, Callable[[ReturningTalker], None]] = {
    "lost": lambda talker: talker.lose(),
    "broken": break_off,
    "stalled": stall,
    "taken over": come_back,
    "lost and back": lost_and_back,
    "reported late": late_reader,
}


@STRIDES
@pytest.mark.parametrize("name", DROPS)
async def test_a_drop_at_any_step(autojump_clock: MockClock, name: str, stride: int) -> None:
    """Nothing is lost, nothing comes twice, and what is heard is what would have been heard."""
    expected = await undisturbed()
    for step in range(1 + list(DROPS).index(name) * 4, await steps_of_it(), stride):
        async with scripted_omni(script()) as omni:
            talker = await open_returning(omni)
            with acting_at(step, lambda talker=talker: DROPS[name](talker)):  # type: ignore[misc]
                await hold(talker)
            await to_the_end(talker)
            assert talker.gapless
            assert [*essence(talker.events)] == expected
            await finish(omni, talker)


@STRIDES
async def test_two_drops_at_any_step(autojump_clock: MockClock, stride: int) -> None:
    """Lost once more in the middle of the replay that makes the first loss good."""
    expected = await undisturbed()
    for step in range(1, await steps_of_it(), 2 * stride):
        for later in (1, 2, 3, 5, 8):
            async with scripted_omni(script()) as omni:
                talker = await open_returning(omni)
                with (
                    acting_at(step, lambda talker=talker: lost_and_back(talker)),  # type: ignore[misc]
                    acting_at(step + later, lambda talker=talker: talker.lose()),  # type: ignore[misc]
                ):
                    await hold(talker)
                await to_the_end(talker)
                assert talker.gapless
                assert [*essence(talker.events)] == expected
                await finish(omni, talker)


@STRIDES
@pytest.mark.parametrize("name", ["lost and back", "taken over", "stalled"])
async def test_a_drop_while_a_model_owns_its_turns(autojump_clock: MockClock, name: str, stride: int) -> None:
    """It hears and speaks all the time; of that, too, nothing is lost and nothing comes twice."""
    for step in range(1 + len(name), 400, stride):
        async with scripted_omni(pipeline=NativePipeline(answer="one two three")) as omni:
            talker = await open_returning(omni)
            with acting_at(step, lambda talker=talker: DROPS[name](talker)):  # type: ignore[misc]
                for number in range(16):
                    talker.append(250, loud=number < 6)
                    await trio.sleep(0.25)
            await to_the_end(talker)
            assert talker.gapless
            assert any(isinstance(event, ResponseDone) for event in talker.events)
            await finish(omni, talker)


# ------------------------------------------------------------------ the session ends


@STRIDES
async def test_a_close_at_any_step(autojump_clock: MockClock, stride: int) -> None:
    """Whoever is there at the end hears all of it, one terminal event last; whoever is not has its beginning."""
    for step in range(1, await steps_of_it(), stride):
        async with scripted_omni(script()) as omni:
            talker = await open_returning(omni)
            with acting_at(step, lambda talker=talker: talker.handle.close("over")):  # type: ignore[misc]
                await hold(talker)
            talker.handle.close("over")
            assert (await talker.handle.wait_closed()).reason == "over"
            assert talker.gapless
            heard_the_end = not talker.heard.broken
            check_stream(talker.events, ended=heard_the_end)
            if heard_the_end:
                assert talker.heard.closed == (1000, "over")
                assert isinstance(talker.events[-1], SessionClosed)
            await finish(omni, talker)


async def stopped_at(step: int) -> tuple[ReturningTalker, DuplexOmni]:
    with trio.CancelScope() as scope:
        async with scripted_omni(script()) as omni:
            talker = await open_returning(omni)
            with acting_at(step, scope.cancel):
                await hold(talker)
    return talker, omni


@STRIDES
async def test_a_stop_at_any_step(autojump_clock: MockClock, stride: int) -> None:
    """The engine is cancelled: nothing is left, and whoever is attached is told in order."""
    for step in range(1, await steps_of_it(), stride):
        talker, omni = await stopped_at(step)
        assert (omni.statistics().live_requests, omni.statistics().sessions) == (0, 0)
        assert talker.gapless
        if not talker.heard.broken:
            check_stream(talker.events, ended=True)
            assert talker.heard.closed == (1001, "server_shutdown")
            done = sum(isinstance(event, ResponseDone) for event in talker.events)
            assert done == sum(isinstance(event, ResponseCreated) for event in talker.events)


async def test_an_opening_is_given_up_at_any_step(autojump_clock: MockClock) -> None:
    """Its slot is free again, or the session is there for whoever asked."""
    opened = 0
    for step in range(1, 12):
        async with scripted_omni(script(), max_sessions=1) as omni:
            handle = None
            with trio.CancelScope() as scope, acting_at(step, scope.cancel):
                handle = await omni.open_session(dialect="duplex", attachment=RecordingAttachment())
            opened += handle is not None
            if handle is not None:
                handle.close("over")
            await trio.sleep(1)
            assert omni.statistics().sessions == 0
            await finish(omni, await open_returning(omni))
    assert 0 < opened < 11
