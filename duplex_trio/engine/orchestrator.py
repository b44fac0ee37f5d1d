"""Whole turns that run through the stages of a model, as its processor says."""

from __future__ import annotations

from collections.abc import Sequence

from duplex_trio.engine.orchestrator_base import OrchestratorBase
from duplex_trio.engine.pipeline_request import PipelineRequest, StageRouter
from duplex_trio.pipelines.config import StageSpec
from duplex_trio.pipelines.processor import TurnProcessor
from duplex_trio.pipelines.requests import RequestView, StageForward, TurnPlan
from duplex_trio.pipelines.results import ModelResult
from duplex_trio.pipelines.sampling import StageSampling
from duplex_trio.stages.port import Stage, StageOutput


class ProcessorRouter(StageRouter):
    """Lets a model's processor route one request.

    Args:
        processor: the model's.
        view: the request, as its hooks are shown it.
    """

    def __init__(self, processor: TurnProcessor, view: RequestView) -> None:
        self.processor = processor
        self.view = view

    def forward(self, stage_id: int, output: StageOutput) -> Sequence[StageForward]:
        """What goes on to later stages."""
        return self.processor.forward(stage_id, output, self.view)

    def project(self, stage_id: int, output: StageOutput) -> Sequence[ModelResult]:
        """What it means to the consumer."""
        return self.processor.project(stage_id, output, self.view)


class Orchestrator(OrchestratorBase):
    """Runs turns over the stages.

    Args:
        specs: the declared stages.
        stages: the running ones, in the same order.
        processor: joins them.
        sampling: how each samples; as the stages declare without.
    """

    def __init__(
        self,
        specs: Sequence[StageSpec],
        stages: Sequence[Stage],
        processor: TurnProcessor,
        sampling: Sequence[StageSampling] | None = None,
    ) -> None:
        super().__init__(specs, stages, sampling)
        self.processor = processor

    def open_turn(self, request_id: str, plan: TurnPlan, *, owner: str) -> PipelineRequest:
        """Begin the request that a turn was planned as; it enters the pipeline with `plan.entry`.

        Args:
            request_id: its id among the live ones.
            plan: what the processor planned.
            owner: on whose behalf, for logs and metrics.

        Raises:
            ValueError: the id is live already.
        """
        view = RequestView(request_id=request_id, final_stage_id=plan.final_stage_id, state=plan.state)
        router = ProcessorRouter(self.processor, view)
        return self.open_request(request_id, owner=owner, router=router, final_stage_id=plan.final_stage_id)
