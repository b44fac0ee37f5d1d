"""Requests that run through several stages.

How outputs travel, what ends a request, and that it is let go of.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.engine.orchestrator_base import OrchestratorBase
from duplex_trio.engine.pipeline_request import PipelineRequest, StageRouter
from duplex_trio.pipelines.config import StageSpec
from duplex_trio.pipelines.requests import StageForward
from duplex_trio.pipelines.results import ListenResult, ModelFailure, ModelResult, TextResult, TurnEnd
from duplex_trio.stages.inline import InlineStage
from duplex_trio.stages.port import StageOutput, StageRequest
from duplex_trio.stages.run import run_stages
from duplex_trio.stages.worker import SerialWorker, UnitRefused

SPECS = (
    StageSpec(stage_id=0, name="split"),
    StageSpec(stage_id=1, name="shout", input_sources=(0,), window=2),
)


class Splitter(SerialWorker):
    """Gives back the words of a text, one output each."""

    name = "split"

    def load(self) -> None:
        """Nothing to load."""

    def process(self, request: StageRequest, state: Any, unit: str) -> Iterable[str]:
        return unit.split()


class Shouter(SerialWorker):
    """Gives back a word in capitals; refuses `bad`."""

    name = "shout"

    def load(self) -> None:
        """Nothing to load."""

    def process(self, request: StageRequest, state: Any, unit: str) -> Iterable[str]:
        if unit == "bad":
            raise UnitRefused("engine_error", "not that word")
        return [unit.upper()]


class Router(StageRouter):
    """Sends each word on, and shows what the last stage makes of it."""

    def __init__(
        self, on_project: Callable[[int, StageOutput], Sequence[ModelResult] | None] | None = None
    ) -> None:
        self._on_project = on_project

    def forward(self, stage_id: int, output: StageOutput) -> Sequence[StageForward]:
        return [StageForward(stage_id=1, unit=output.data, final=output.finished)]

    def project(self, stage_id: int, output: StageOutput) -> Sequence[ModelResult]:
        special = self._on_project(stage_id, output) if self._on_project is not None else None
        if special is not None:
            return special
        return [TextResult(text=output.data)] if stage_id == 1 else []


@asynccontextmanager
async def running(*, step_s: float = 0.01) -> AsyncIterator[OrchestratorBase]:
    """Both stages, and nothing left in them at the end."""
    stages = (InlineStage(Splitter(), step_s=step_s), InlineStage(Shouter(), step_s=step_s))
    orchestrator = OrchestratorBase(SPECS, stages)
    async with trio.open_nursery() as nursery:
        await nursery.start(run_stages, stages)
        yield orchestrator
        assert orchestrator.live_requests == 0
        assert [stage.statistics().live_requests for stage in stages] == [0, 0]
        nursery.cancel_scope.cancel()


def begin(
    orchestrator: OrchestratorBase, router: StageRouter | None = None, **arguments: Any
) -> PipelineRequest:
    return orchestrator.open_request("r", owner="s", router=router or Router(), **arguments)


async def results_of(request: PipelineRequest) -> list[ModelResult]:
    """Everything the request delivers until it ends."""
    results: list[ModelResult] = []
    async for delivered in request.outputs:
        results += delivered.results
        request.consumed(delivered)
    return results


async def test_outputs_travel_from_stage_to_stage(autojump_clock: MockClock) -> None:
    """Each word passes both stages in order; the end of the last stage is the end of the turn."""
    async with running() as orchestrator:
        request = begin(orchestrator)
        await request.submit(StageForward(stage_id=0, unit="one two three", final=True))
        assert await results_of(request) == [
            TextResult(text="ONE"),
            TextResult(text="TWO"),
            TextResult(text="THREE"),
            TurnEnd(),
        ]
        assert request.over
        await orchestrator.release(request)


async def test_a_request_may_end_at_an_earlier_stage(autojump_clock: MockClock) -> None:
    """With an earlier final stage nothing is forwarded behind it."""
    shown = Router(lambda stage_id, output: [TextResult(text=output.data)])
    async with running() as orchestrator:
        request = begin(orchestrator, shown, final_stage_id=0)
        await request.submit(StageForward(stage_id=0, unit="one two", final=True))
        assert await results_of(request) == [TextResult(text="one"), TextResult(text="two"), TurnEnd()]
        assert orchestrator.stages[1].statistics().outputs_total == 0
        await orchestrator.release(request)


async def test_a_hook_can_end_the_request(autojump_clock: MockClock) -> None:
    """An ending result of any stage is the last that is delivered, and aborts the other stages."""
    listens = Router(lambda stage_id, output: [ListenResult(reason="r")] if output.data == "two" else None)
    async with running() as orchestrator:
        request = begin(orchestrator, listens)
        await request.submit(StageForward(stage_id=0, unit="one two three four", final=True))
        results = await results_of(request)
        assert results[-1] == ListenResult(reason="r")
        assert TextResult(text="THREE") not in results
        await orchestrator.release(request)


async def test_a_failing_unit_fails_the_request(autojump_clock: MockClock) -> None:
    """The stage's code and message arrive as the last result."""
    async with running() as orchestrator:
        request = begin(orchestrator)
        await request.submit(StageForward(stage_id=0, unit="one bad three", final=True))
        results = await results_of(request)
        assert results[-1] == ModelFailure(code="engine_error", message="not that word")
        await orchestrator.release(request)


async def test_a_failing_hook_fails_its_request_alone(autojump_clock: MockClock) -> None:
    """Another request on the same stages is not touched."""

    def broken(stage_id: int, output: StageOutput) -> None:
        raise ValueError("bug")

    async with running() as orchestrator:
        faulty = begin(orchestrator, Router(broken))
        sound = orchestrator.open_request("other", owner="s", router=Router())
        for request in (faulty, sound):
            await request.submit(StageForward(stage_id=0, unit="one two", final=True))
        (failure,) = await results_of(faulty)
        assert isinstance(failure, ModelFailure)
        assert failure.code == "runtime_data_plane_stream_failed"
        assert (await results_of(sound))[-1] == TurnEnd()
        await orchestrator.release(faulty)
        await orchestrator.release(sound)


async def test_a_slow_consumer_pauses_the_last_stage(autojump_clock: MockClock) -> None:
    """It works ahead by its window and one unit at most, and goes on when outputs are consumed."""
    async with running() as orchestrator:
        request = begin(orchestrator)
        await request.submit(StageForward(stage_id=0, unit=" ".join("abcdefghij"), final=True))
        await trio.sleep(5)
        assert orchestrator.stages[1].statistics().outputs_total == 2
        assert len(await results_of(request)) == 11
        await orchestrator.release(request)


async def test_an_abort_ends_a_request_once(autojump_clock: MockClock) -> None:
    """Nothing is delivered behind it, more input is refused, and asking again is no error."""
    async with running() as orchestrator:
        request = begin(orchestrator)
        await request.submit(StageForward(stage_id=0, unit="one two three"))
        request.abort()
        request.abort()
        orchestrator.abort_requests(["r", "unknown"])
        assert await results_of(request) == []
        with pytest.raises(trio.BrokenResourceError):
            await request.submit(StageForward(stage_id=0, unit="four"))
        await orchestrator.release(request)
        await orchestrator.release(request)


async def test_an_id_is_taken_until_it_is_released(autojump_clock: MockClock) -> None:
    """Also an ended request keeps its id until its stages have let go."""
    async with running() as orchestrator:
        request = begin(orchestrator)
        request.abort()
        with pytest.raises(ValueError, match="already live"):
            begin(orchestrator)
        assert orchestrator.live_requests == 1
        await orchestrator.release(request)
        await orchestrator.release(begin(orchestrator))


async def test_a_stage_that_has_finished_can_be_asked_again(autojump_clock: MockClock) -> None:
    """A unit for it begins its part anew; the request goes on, and both are let go of."""

    class Twice(Router):
        again = True

        def forward(self, stage_id: int, output: StageOutput) -> Sequence[StageForward]:
            if output.finished and self.again:
                self.again = False
                return [
                    StageForward(stage_id=1, unit=output.data),
                    StageForward(stage_id=0, unit="three four", final=True),
                ]
            return super().forward(stage_id, output)

    async with running() as orchestrator:
        request = begin(orchestrator, Twice())
        await request.submit(StageForward(stage_id=0, unit="one two", final=True))
        assert await results_of(request) == [
            TextResult(text="ONE"),
            TextResult(text="TWO"),
            TextResult(text="THREE"),
            TextResult(text="FOUR"),
            TurnEnd(),
        ]
        await orchestrator.release(request)


async def test_figures_of_each_stage_are_kept(autojump_clock: MockClock) -> None:
    """When each stage got its first input and gave its first output, and how many it gave."""
    async with running(step_s=0.5) as orchestrator:
        request = begin(orchestrator)
        await request.submit(StageForward(stage_id=0, unit="one two", final=True))
        figures: dict[str, list[Any]] = {"0": [], "1": []}
        async for delivered in request.outputs:
            request.consumed(delivered)
            for snapshot in delivered.snapshots:
                figures[snapshot.stage].append(snapshot.figures)
        for entered, *outputs in figures.values():
            assert set(entered) == {"first_input_ms"}
            assert sum(output["output_unit_count"] for output in outputs) == 2
            assert outputs[0]["serving_time_to_first_output_ms"] == pytest.approx(500, abs=1)
        assert figures["1"][0]["first_input_ms"] == pytest.approx(500, abs=1)
        assert {output["stage_name"] for output in figures["1"][1:]} == {"shout"}
        await orchestrator.release(request)
