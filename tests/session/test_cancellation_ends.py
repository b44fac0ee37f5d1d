"""As `test_cancellation`, for the edges of a session's life: while it opens, ends, is released, or changes hands.

Something happens just before the n-th step of any task, for every n that the sample takes: another end, the stop
of the engine, a drain, a cancellation of whoever waits, a lost connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.deploy import SessionLimits
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.native import NativePipeline
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.protocol.duplex import (
    BargeIn,
    CloseSession,
    RealtimeError,
    ResponseCreated,
    ResponseDone,
    ResponseOutputAudioDelta,
    SessionClosed,
    SessionExpired,
)
from duplex_trio.testing import (
    RecordingAttachment,
    ReturningTalker,
    Talker,
    check_stream,
    finish,
    open_returning,
    open_talker,
    scripted_omni,
)
from duplex_trio.testing.invariants import check_engine_at_rest
from duplex_trio.testing.steps import acting_at

STRIDES = pytest.mark.parametrize("stride", [11, pytest.param(1, marks=pytest.mark.slow)])
"""Every so manyth step is tried; 1 tries them all."""
LONG = "alpha bravo charlie delta echo foxtrot golf hotel. India juliet kilo lima."
MODELS: dict[str, Callable[[], Pipeline]] = {
    "turns": lambda: ScriptedPipeline(script=Script(otherwise=lambda _: LONG)),
    "units": lambda: NativePipeline(answer="one two three four"),
}
BOTH = pytest.mark.parametrize("model", MODELS)
LIMITS = SessionLimits(cleanup_timeout_s=0.5)


async def swept(scene: Callable[[int], Awaitable[int]], stride: int) -> None:
    """Play a scene undisturbed to count its steps, then with the disturbance at one step after another."""
    steps = await scene(0)
    assert steps > 1
    for step in range(1 + steps % stride, steps + 1, stride):
        await scene(step)


async def speaking(omni: DuplexOmni, talker: Talker) -> None:
    """Let the model be in the middle of an answer, whichever model it is."""
    if omni.pipeline.config.name == "scripted":
        talker.write("go on")
    else:
        talker.append(1000, loud=True)
        talker.append(1100, loud=False)
    await talker.heard.nth(ResponseOutputAudioDelta, 1)


def check_ended(talker: Talker, reason: str) -> None:
    """One terminal event, at the very end, and every response done."""
    heard = talker.heard
    check_stream(talker.events, ended=True)
    assert sum(isinstance(event, SessionClosed | SessionExpired) for event in talker.events) == 1
    assert len(heard.of(ResponseDone)) == len(heard.of(ResponseCreated))
    assert heard.closed is not None
    assert heard.closed[1] == reason


# ------------------------------------------------------------------ ending while it ends


AGAIN: dict[str, Callable[[Talker], object]] = {
    "another close": lambda talker: talker.handle.close("again", code=1001),
    "the client's close": lambda talker: talker.send(CloseSession(reason="bye")),
    "a lost client": lambda talker: talker.handle.disconnected(),
    "a barge-in": lambda talker: talker.send(BargeIn()),
    "sound": lambda talker: talker.append(1000, loud=True),
}


@STRIDES
@BOTH
@pytest.mark.parametrize("what", AGAIN)
async def test_while_a_session_closes(autojump_clock: MockClock, what: str, model: str, stride: int) -> None:
    """The first reason stands, there is one terminal event, and nothing is left."""

    async def scene(step: int) -> int:
        async with scripted_omni(pipeline=MODELS[model](), limits=LIMITS) as omni:
            talker = await open_talker(omni)
            await speaking(omni, talker)
            with acting_at(step, lambda: AGAIN[what](talker)) as counter:
                talker.handle.close("over")
                assert (await talker.handle.wait_closed()).reason == "over"
            if what == "a lost client":
                check_stream(talker.events, ended=talker.heard.closed is not None)
            else:
                check_ended(talker, "over")
            await trio.sleep(1.0)
            check_engine_at_rest(omni)
        return counter.steps

    await swept(scene, stride)


# ------------------------------------------------------------------ releases that fail or hang


async def failing(tried: list[float]) -> None:
    await trio.lowlevel.checkpoint()
    if len(tried) <= 2:
        raise RuntimeError("the stage does not let go")


async def hanging(tried: list[float]) -> None:
    if len(tried) <= 2:
        await trio.sleep_forever()


def break_releases(omni: DuplexOmni, way: Callable[[list[float]], Awaitable[None]]) -> None:
    """Let the first two releases fail or hang."""
    orchestrator = omni.duplex_engine.orchestrator
    release, tried = orchestrator.release, list[float]()

    async def replaced(request: Any) -> None:
        tried.append(trio.current_time())
        await way(tried)
        await release(request)

    orchestrator.release = replaced  # type: ignore[method-assign]


@STRIDES
@BOTH
@pytest.mark.parametrize("way", [failing, hanging])
@pytest.mark.usefixtures("faults_expected")
async def test_a_stop_while_a_release_fails(
    autojump_clock: MockClock, way: Callable[[list[float]], Awaitable[None]], model: str, stride: int
) -> None:
    """The whole engine is cancelled while the request of a cancelled answer is not let go of: it is, in the end."""

    async def scene(step: int) -> int:
        talkers: list[Talker] = []
        steps = 0
        with trio.CancelScope() as scope:
            async with scripted_omni(pipeline=MODELS[model](), limits=LIMITS) as omni:
                break_releases(omni, way)
                talker = await open_talker(omni)
                talkers.append(talker)
                await speaking(omni, talker)
                with acting_at(step, scope.cancel) as counter:
                    talker.send(BargeIn())
                    try:
                        await trio.sleep(5.0)
                    finally:
                        steps = counter.steps
                talker.handle.close("over")
                await talker.handle.wait_closed()
        assert omni.statistics().live_requests == 0
        assert omni.statistics().sessions == 0
        check_ended(talkers[0], "over" if step == 0 or not scope.cancelled_caught else "server_shutdown")
        return steps

    await swept(scene, stride)


# ------------------------------------------------------------------ while it opens


@STRIDES
async def test_a_caller_that_gives_up_while_it_opens(autojump_clock: MockClock, stride: int) -> None:
    """Whoever waits for a session to open is cancelled: there is no session, or one that its caller has."""

    async def scene(step: int) -> int:
        async with scripted_omni(max_sessions=1) as omni:
            handle = None
            with trio.CancelScope() as scope, acting_at(step, scope.cancel) as counter:
                handle = await omni.open_session(dialect="duplex", attachment=RecordingAttachment())
            steps = counter.steps
            if handle is not None:
                handle.close("over")
                await handle.wait_closed()
            await trio.sleep(1.0)
            check_engine_at_rest(omni)
            await finish(omni, await open_talker(omni))
        return steps

    await swept(scene, 1 if stride == 1 else 3)


@STRIDES
async def test_a_drain_while_sessions_open(autojump_clock: MockClock, stride: int) -> None:
    """Each is opened and then closed by the drain, or refused; the drain ends when all are gone."""

    async def scene(step: int) -> int:
        async with scripted_omni() as omni, trio.open_nursery() as nursery:
            opened: list[Talker] = []

            async def open_one() -> None:
                with suppress(RealtimeError):
                    opened.append(await open_talker(omni))

            with acting_at(step, lambda: nursery.start_soon(omni.drain, 2.0)) as counter:
                async with trio.open_nursery() as clients:
                    for _ in range(3):
                        clients.start_soon(open_one)
            if step == 0 or counter.steps < step:  # tasks run in any order: some runs have fewer steps
                nursery.start_soon(omni.drain, 2.0)
            await trio.sleep(4.0)
            check_engine_at_rest(omni)
            for talker in opened:
                check_ended(talker, "server_shutdown")
            with pytest.raises(RealtimeError):
                await open_talker(omni)
        return counter.steps

    await swept(scene, 1 if stride == 1 else 7)


# ------------------------------------------------------------------ while it changes hands


CHANGES: dict[str, Callable[[ReturningTalker], object]] = {
    "it is lost again": lambda talker: talker.lose(),
    "a barge-in": lambda talker: talker.send(BargeIn()),
    "another takes over": lambda talker: talker.resume(),
    "it closes": lambda talker: talker.handle.close("over"),
}


@STRIDES
@BOTH
@pytest.mark.parametrize("what", CHANGES)
async def test_while_a_client_comes_back(
    autojump_clock: MockClock, what: str, model: str, stride: int
) -> None:
    """Lost and resumed in the middle of an answer: over all connections every event comes once."""

    async def scene(step: int) -> int:
        async with scripted_omni(pipeline=MODELS[model](), limits=LIMITS) as omni:
            talker = await open_returning(omni)
            await speaking(omni, talker)
            with acting_at(step, lambda: CHANGES[what](talker)) as counter:
                talker.lose()
                await trio.sleep(0.5)
                with suppress(RealtimeError):
                    talker.resume()
                await trio.sleep(0.5)
            if not talker.handle.closing:
                talker.resume()
                await trio.sleep(20.0)
                assert not talker.handle.closing
                assert talker.gapless
            await finish(omni, talker)
            assert len([e for e in talker.events if isinstance(e, ResponseDone)]) <= len(
                [e for e in talker.events if isinstance(e, ResponseCreated)]
            )
        return counter.steps

    await swept(scene, stride)
