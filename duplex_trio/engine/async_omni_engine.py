"""The engine of requests: one input, one stream of outputs."""

from __future__ import annotations

from duplex_trio.engine.omni_engine_base import OmniEngineBase
from duplex_trio.engine.orchestrator import Orchestrator


class AsyncOmniEngine(OmniEngineBase):
    """Runs requests over the stages of a pipeline."""

    def _create_orchestrator(self) -> Orchestrator:
        return Orchestrator(self.pipeline.stages, self.stages)
