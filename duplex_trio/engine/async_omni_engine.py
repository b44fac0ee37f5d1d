"""The engine of requests: one input, one stream of outputs, many at once."""

from __future__ import annotations

import trio
from prometheus_client import CollectorRegistry, generate_latest

from duplex_trio.engine.omni_engine_base import OmniEngineBase
from duplex_trio.engine.orchestrator import Orchestrator
from duplex_trio.engine.stage_building import StageFactory
from duplex_trio.engine.stage_collector import StageCollector
from duplex_trio.engine.turn.manager import RequestManager
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.pipelines.processor import TurnProcessor

DEFAULT_MAX_REQUESTS = 64


class AsyncOmniEngine(OmniEngineBase):
    """Runs requests over the stages of a pipeline.

    Args:
        pipeline: the model.
        max_requests: requests at once.
        stage_commands_max: opened requests and units that may wait for one stage; two for each request by default.
        stage_factory: what carries each runtime; a thread by default.

    Raises:
        ValueError: the pipeline's topology is faulty, or it declares nothing that answers requests.
        ModelReferenceError: a model of the deployment cannot be found.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        max_requests: int = DEFAULT_MAX_REQUESTS,
        stage_commands_max: int | None = None,
        stage_factory: StageFactory | None = None,
    ) -> None:
        self.processor = self._create_processor(pipeline)
        command_limit = stage_commands_max or 2 * max_requests
        super().__init__(pipeline, command_limit=command_limit, stage_factory=stage_factory)
        self.requests = self._create_requests(max_requests)
        self.registry = CollectorRegistry()
        self.registry.register(self.requests.tally)
        self.registry.register(StageCollector(lambda: self.live_requests, self.stage_statistics))

    def _create_processor(self, pipeline: Pipeline) -> TurnProcessor:
        """Make what joins the stages."""
        return pipeline.build_processor()

    def _create_orchestrator(self) -> Orchestrator:
        self.turn_orchestrator = Orchestrator(
            self.pipeline.stages, self.stages, self.processor, self.sampling
        )
        return self.turn_orchestrator

    def _create_requests(self, max_requests: int) -> RequestManager:
        return RequestManager(self.turn_orchestrator, max_requests=max_requests)

    def use_nursery(self, nursery: trio.Nursery | None) -> None:
        """Let requests live in this nursery."""
        self.requests.use_nursery(nursery)

    async def drain(self, timeout_s: float) -> None:
        """Take no new requests, give the live ones `timeout_s`, then end them and wait for their end."""
        await self.requests.drain(timeout_s)

    def render_metrics(self) -> bytes:
        """All figures in Prometheus' text format."""
        return generate_latest(self.registry)
