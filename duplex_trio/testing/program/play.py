"""Plays a program with an engine of its own.

The invariants of `invariants` are checked between any two steps of any task, the rules of `stream_rules` at
the end, and that the session answers again once all that was broken is repaired.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import trio

from duplex_trio.engine import SessionLimits
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.protocol.duplex import DuplexEvent, ResponseDone
from duplex_trio.stages.worker import StageWorker
from duplex_trio.testing.conformance.stuck import HeldInlineStage
from duplex_trio.testing.conformance.wrapped import Doom, WrappedPipeline
from duplex_trio.testing.invariants import (
    SessionWatch,
    check_engine,
    check_engine_at_rest,
    check_settled,
)
from duplex_trio.testing.program.scene import Scene, Step
from duplex_trio.testing.program.trouble import Close, Heal, Leave, Return, Unstick
from duplex_trio.testing.returning import open_returning
from duplex_trio.testing.run import STEP_S, scripted_omni
from duplex_trio.testing.steps import checking_each_step
from duplex_trio.testing.stream_rules import check_stream
from duplex_trio.testing.talker import Talker

SETTLE_S = 60.0
"""How long a session that is left alone may take to come to rest."""

Program = Sequence[Step]
AnswerAgain = Callable[[Talker], Any]
"""Talks to a session until it has answered; an async function."""


async def play(
    program: Program,
    pipeline: Pipeline,
    *,
    answers: AnswerAgain,
    patch: Mapping[str, Any] | None = None,
    limits: SessionLimits | None = None,
) -> list[DuplexEvent]:
    """Play a program with a fresh engine, and check everything that can be.

    Args:
        program: what happens.
        pipeline: the model.
        answers: talks to the session, if it is still there, until it answers.
        patch: the client's session object.
        limits: limits of the session.

    Returns:
        What the client was sent.

    Raises:
        AssertionError: an invariant or a rule of the stream broke, or something was left behind.
        trio.TooSlowError: the session does not answer, or does not end.
    """
    stages: list[HeldInlineStage] = []
    doom = Doom()

    def carry(worker: StageWorker) -> HeldInlineStage:
        stages.append(HeldInlineStage(worker, step_s=STEP_S))
        return stages[-1]

    model = WrappedPipeline(pipeline, wrap_worker=doom.wrap)
    async with scripted_omni(pipeline=model, limits=limits, stage_factory=carry) as omni:
        talker = await open_returning(omni, patch=patch)
        scene = Scene(omni, talker, stages, doom)
        watch = SessionWatch(talker.handle)

        def check() -> None:
            watch.check(trio.current_time())
            check_engine(omni)

        with checking_each_step(check):
            for step in program:
                await step.play(scene)
            await _repair(scene)
            if scene.open:
                await trio.sleep(SETTLE_S)
            if scene.open:
                if not scene.prompts:
                    check_settled(talker.handle)
                await answers(talker)
            await _end(scene)
    return talker.events


async def _repair(scene: Scene) -> None:
    await Unstick().play(scene)
    await Heal().play(scene)
    for stage in scene.stages:
        stage.step_s = STEP_S
    if scene.open and scene.gone():
        await Return().play(scene)
    if scene.open and scene.gone():
        await Leave().play(scene)


async def _end(scene: Scene) -> None:
    talker, handle = scene.talker, scene.talker.handle
    if scene.open and not scene.gone():
        await Close().play(scene)
    with trio.fail_after(SETTLE_S):
        end = await handle.wait_closed()
    assert end.reason in scene.endings, f"ended as {end}; what has happened allows {sorted(scene.endings)}"
    all_heard = not (talker.heard.broken or talker.heard.stalled) and talker.heard.closed is not None
    assert talker.gapless or not handle.resumable, "each event comes once, over whichever connection"
    check_stream(talker.events, ended=all_heard)
    if all_heard:
        assert talker.heard.closed == (end.code, end.reason)
    done = sum(isinstance(event, ResponseDone) for event in talker.events)
    counters = handle.counters
    counted = counters.responses_completed + counters.responses_cancelled + counters.responses_failed
    assert counted >= done, f"{counted} responses were counted, {done} were done"
    await trio.sleep(1.0)
    check_engine_at_rest(scene.omni)
