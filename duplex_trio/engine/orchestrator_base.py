"""The requests that run through the stages of one pipeline: which are live, and that each is let go of."""

from __future__ import annotations

from collections.abc import Sequence

from duplex_trio.engine.pipeline_request import PipelineRequest, StageRouter
from duplex_trio.pipelines.config import StageSpec
from duplex_trio.pipelines.sampling import StageSampling, stage_sampling
from duplex_trio.stages.port import Stage
from duplex_trio.tracing import StageSpells


class OrchestratorBase:
    """The stages of one pipeline, and the requests that run through them.

    What carries a stage may be several replicas: a request stays with those that it began on, and one that loses
    a stage in mid-request fails with `engine_dead` and is released from the others.

    Args:
        specs: the declared stages.
        stages: the running ones, in the same order.
        sampling: how each samples; as the stages declare without.
    """

    def __init__(
        self,
        specs: Sequence[StageSpec],
        stages: Sequence[Stage],
        sampling: Sequence[StageSampling] | None = None,
    ) -> None:
        self.specs = tuple(specs)
        self.stages = tuple(stages)
        self.sampling = tuple(stage_sampling(spec) for spec in specs) if sampling is None else tuple(sampling)
        self._requests: dict[str, PipelineRequest] = {}

    @property
    def live_requests(self) -> int:
        """Requests whose stages have not all let go of them."""
        return len(self._requests)

    def open_request(
        self,
        request_id: str,
        *,
        owner: str,
        router: StageRouter,
        final_stage_id: int | None = None,
        resumable: bool = False,
        spells: StageSpells | None = None,
    ) -> PipelineRequest:
        """Begin a request; it enters the pipeline with the first `PipelineRequest.submit`.

        With `spells`, what each stage does for it is told there.

        Raises:
            ValueError: the id is live already.
        """
        if request_id in self._requests:
            raise ValueError(f"request {request_id!r} is already live")
        request = PipelineRequest(
            request_id,
            owner=owner,
            stages=self.stages,
            specs=self.specs,
            sampling=self.sampling,
            router=router,
            final_stage_id=len(self.specs) - 1 if final_stage_id is None else final_stage_id,
            resumable=resumable,
            spells=spells,
        )
        self._requests[request_id] = request
        return request

    def abort_requests(self, request_ids: Sequence[str]) -> None:
        """Abort requests in all stages; unknown ids are skipped. Never blocks."""
        for request_id in request_ids:
            request = self._requests.get(request_id)
            if request is not None:
                request.abort()

    async def release(self, request: PipelineRequest) -> None:
        """Abort what is left of a request, wait for its stages, and forget it."""
        request.abort()
        await request.wait_released()
        if self._requests.get(request.request_id) is request:
            del self._requests[request.request_id]
