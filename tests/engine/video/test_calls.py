"""Stages as threads of videos ask them: what they give, how they fail, and that no thread waits for nothing."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest
import trio

from duplex_trio.engine.video.calls import VideoStages
from duplex_trio.engine.video.engine import VideoEngine
from duplex_trio.models.scripted.video import ScriptedPrompt, ScriptedVideoPipeline
from duplex_trio.models.scripted.video_picture import colour_of
from duplex_trio.plugin.video.plugin import StageCallError
from duplex_trio.stages.port import StageRequest
from duplex_trio.stages.worker import SerialWorker, StageWorker
from duplex_trio.testing.gates import Gate


class GatedEncoder(SerialWorker):
    """Answers when its gate is open, and says when it has begun."""

    name = "text_encoder"

    def __init__(self, begun: Gate, gate: Gate) -> None:
        super().__init__()
        self._begun, self._gate = begun, gate

    def load(self) -> None:
        """Nothing to load."""

    def process(self, request: StageRequest, state: Any, unit: Any) -> Sequence[Any]:
        self._begun.set()
        self._gate.wait(30.0)
        return [unit]


class GatedPipeline(ScriptedVideoPipeline):
    def __init__(self) -> None:
        super().__init__()
        self.begun, self.gate = Gate(), Gate()

    def build_worker(self, stage_id: int) -> StageWorker:
        return GatedEncoder(self.begun, self.gate)


@asynccontextmanager
async def running(engine: VideoEngine) -> AsyncIterator[VideoEngine]:
    async with trio.open_nursery() as nursery:
        await nursery.start(engine.run)
        yield engine
        nursery.cancel_scope.cancel()


@pytest.fixture
async def engine() -> AsyncIterator[VideoEngine]:
    async with running(VideoEngine(ScriptedVideoPipeline())) as engine:
        yield engine


def stages_of(engine: VideoEngine) -> VideoStages:
    return VideoStages(engine.video_orchestrator, "video-1")


async def in_thread(call: Callable[[], Any]) -> Any:
    return await trio.to_thread.run_sync(call)


async def test_a_unit_is_answered_by_all_of_its_outputs(engine: VideoEngine) -> None:
    outputs = await in_thread(partial(stages_of(engine).call, 0, ScriptedPrompt(text="red")))
    assert [np.asarray(output).tolist() for output in outputs] == [list(map(float, colour_of("red")))]
    assert engine.live_requests == 0


async def test_a_stage_that_fails_is_told_and_goes_on(engine: VideoEngine) -> None:
    stages = stages_of(engine)
    with pytest.raises(StageCallError, match="scripted failure") as raised:
        await in_thread(partial(stages.call, 0, ScriptedPrompt(text="red", fails=True)))
    assert raised.value.code == "engine_error"
    assert await in_thread(partial(stages.call, 0, ScriptedPrompt(text="red")))


async def test_a_stage_that_is_not_there_is_told(engine: VideoEngine) -> None:
    with pytest.raises(StageCallError, match="no stage 7"):
        await in_thread(partial(stages_of(engine).call, 7, ScriptedPrompt(text="red")))


async def test_a_stage_that_dies_is_told_and_comes_back(
    engine: VideoEngine, autojump_clock: trio.testing.MockClock
) -> None:
    stages = stages_of(engine)
    with pytest.raises(StageCallError) as raised:
        await in_thread(partial(stages.call, 0, ScriptedPrompt(text="red", dies=True)))
    assert raised.value.code == "engine_dead"
    while not engine.healthy:  # noqa: ASYNC110  there is no event of it
        await trio.sleep(0.1)
    assert await in_thread(partial(stages.call, 0, ScriptedPrompt(text="red")))


async def test_the_trio_thread_may_not_call(engine: VideoEngine) -> None:
    with pytest.raises(RuntimeError, match="thread of a video"):
        stages_of(engine).call(0, ScriptedPrompt(text="red"))


async def test_a_call_ends_with_its_video() -> None:
    """Whatever the stage does, which goes on with it."""
    pipeline = GatedPipeline()
    async with running(VideoEngine(pipeline)) as engine:
        stages = stages_of(engine)
        async with trio.open_nursery() as nursery:

            async def call() -> None:
                with pytest.raises(StageCallError, match="the video has ended"):
                    await in_thread(partial(stages.call, 0, "x"))

            nursery.start_soon(call)
            await pipeline.begun.wait_task()
            stages.end()
        with pytest.raises(StageCallError, match="the video has ended"):
            await in_thread(partial(stages.call, 0, "x"))
        assert engine.live_requests == 0
        pipeline.gate.set()


async def test_a_call_ends_with_the_task_that_waits_for_its_thread() -> None:
    """The thread gets the cancellation: it cannot be mistaken for a failure of the stage."""
    pipeline = GatedPipeline()
    seen: list[BaseException] = []

    def call(stages: VideoStages) -> None:
        try:
            stages.call(0, "x")
        except BaseException as error:
            seen.append(error)
            raise

    async with running(VideoEngine(pipeline)) as engine:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, call, stages_of(engine))
            await pipeline.begun.wait_task()
            nursery.cancel_scope.cancel()
        assert [type(error) for error in seen] == [trio.Cancelled]
        assert engine.live_requests == 0
        pipeline.gate.set()


async def test_a_call_of_an_abandoned_thread_ends_with_its_video() -> None:
    """Nobody waits for it any more, and it ends all the same."""
    pipeline = GatedPipeline()
    ended = threading.Event()

    def call(stages: VideoStages) -> None:
        try:
            stages.call(0, "x")
        except StageCallError:
            ended.set()

    async with running(VideoEngine(pipeline)) as engine:
        stages = stages_of(engine)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(trio.to_thread.run_sync, abandon_on_cancel=True), call, stages)
            await pipeline.begun.wait_task()
            nursery.cancel_scope.cancel()
        stages.end()
        assert await in_thread(partial(ended.wait, 30.0))
        pipeline.gate.set()


async def test_calls_of_an_engine_that_does_not_run_are_refused() -> None:
    """Before it runs, and after."""
    engine = VideoEngine(ScriptedVideoPipeline())
    stages = stages_of(engine)
    with pytest.raises(StageCallError) as before:
        await in_thread(partial(stages.call, 0, ScriptedPrompt(text="red")))
    async with running(engine):
        pass
    with pytest.raises(StageCallError) as after:
        await in_thread(partial(stages.call, 0, ScriptedPrompt(text="red")))
    assert before.value.code == after.value.code == "engine_dead"
