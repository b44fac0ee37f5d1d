"""One request that runs through several stages.

A `PipelineRequest` enters the pipeline at one stage and is over when its final stage finishes, a hook ends
it, something fails, or its owner aborts it. Each stage output comes in on the Trio thread, from the stage's
drain, and is handled synchronously: a `StageRouter` (made by the owner) says what it means to the consumer and
which units it makes possible in later stages. Nothing here waits for a consumer: results go into the request's
channel, whose length the stages' windows bound.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import structlog
import trio

from duplex_trio.engine.stage_figures import StageFigures
from duplex_trio.pipelines.config import StageSpec
from duplex_trio.pipelines.requests import StageForward
from duplex_trio.pipelines.results import (
    DeliveredOutput,
    ListenResult,
    ModelFailure,
    ModelResult,
    StageSnapshot,
    TurnEnd,
)
from duplex_trio.pipelines.sampling import StageSampling
from duplex_trio.protocol.refusal import RequestRefused
from duplex_trio.stages.port import (
    UNLIMITED,
    OutputSink,
    Stage,
    StageFailed,
    StageOutput,
    StageRequest,
    StageStream,
)
from duplex_trio.tracing import StageSpells
from duplex_trio.tracing.spells import Outcome

log = structlog.get_logger("duplex_trio.engine")

_ENDINGS = (ListenResult, TurnEnd, ModelFailure)


class StageRouter(ABC):
    """How the outputs of one request travel. Hooks are synchronous and quick; an exception fails the request."""

    @abstractmethod
    def forward(self, stage_id: int, output: StageOutput) -> Sequence[StageForward]:
        """Units for later stages that an output of a non-final stage makes possible."""

    @abstractmethod
    def project(self, stage_id: int, output: StageOutput) -> Sequence[ModelResult]:
        """What an output means to the consumer."""


class _StageSink(OutputSink):
    def __init__(self, request: PipelineRequest, stage_id: int) -> None:
        self._request = request
        self._stage_id = stage_id

    def deliver(self, output: StageOutput | StageFailed) -> None:
        self._request.take(self._stage_id, output)


class PipelineRequest:
    """One live request across the stages. Made by `OrchestratorBase.open_request`."""

    def __init__(
        self,
        request_id: str,
        *,
        owner: str,
        stages: Sequence[Stage],
        specs: Sequence[StageSpec],
        sampling: Sequence[StageSampling],
        router: StageRouter,
        final_stage_id: int,
        resumable: bool,
        spells: StageSpells | None = None,
    ) -> None:
        self.resumable = resumable
        self._spells = spells
        self.request_id = request_id
        self.owner = owner
        self.final_stage_id = final_stage_id
        self.failure: ModelFailure | None = None
        self._stages = stages
        self._specs = specs
        self._sampling = sampling
        self._router = router
        self._streams: dict[int, StageStream] = {}
        self._finished: list[StageStream] = []
        self._figures: dict[int, StageFigures] = {}
        self._snapshots: list[StageSnapshot] = []
        self._send, self._receive = trio.open_memory_channel[DeliveredOutput](math.inf)
        self._over = False
        self._started_s = trio.current_time()

    @property
    def over(self) -> bool:
        """Whether the request has ended; outputs may still wait in the channel."""
        return self._over

    @property
    def outputs(self) -> trio.MemoryReceiveChannel[DeliveredOutput]:
        """What the request delivers; ends with the request. Give back each with `consumed`."""
        return self._receive

    async def submit(self, forward: StageForward) -> None:
        """Hand a unit to a stage and wait until the stage took it.

        Raises:
            trio.BrokenResourceError: the stage is gone or the request is over.
        """
        await self._stream_for(forward).submit(forward.unit, final=forward.final)

    def consumed(self, delivered: DeliveredOutput) -> None:
        """Say that a delivered output is used up, which lets its stage go on."""
        stream = self._streams.get(delivered.stage_id)
        if stream is not None:
            stream.consumed()

    def abort(self) -> None:
        """End the request in all stages. Idempotent, never blocks."""
        self._end()

    async def wait_released(self) -> None:
        """Wait until every stage has forgotten the request."""
        for stream in [*self._finished, *self._streams.values()]:
            await stream.wait_released()

    def take(self, stage_id: int, output: StageOutput | StageFailed) -> None:
        """One stage made one output."""
        if self._over:
            return
        if isinstance(output, StageFailed):
            self._deliver(stage_id, [ModelFailure(code=output.code, message=output.message)])
            return
        now_s = trio.current_time()
        figures = self._figures[stage_id].output(output, now_s)
        if self._spells is not None:
            name = self._specs[stage_id].name
            self._spells.output(name, figures, now_s, finished=output.finished)
        self._snapshots.append(StageSnapshot(str(stage_id), figures))
        if output.finished and stage_id != self.final_stage_id:
            self._finished.append(self._streams.pop(stage_id))
        try:
            results = list(self._router.project(stage_id, output))
            if stage_id != self.final_stage_id:
                self._forward_all(self._router.forward(stage_id, output))
        except trio.BrokenResourceError as error:
            results = [ModelFailure(code="engine_dead", message=str(error))]
        except RequestRefused as refused:
            results = [ModelFailure(code=refused.code, message=refused.message)]
        except Exception as error:
            # A hook of one model must not reach the drain that serves all requests of the stage.
            log.exception("request.hook_failed", request_id=self.request_id, stage=stage_id)
            results = [
                ModelFailure(
                    code="runtime_data_plane_stream_failed", message=f"the model's hook failed: {error}"
                )
            ]
        finished = stage_id == self.final_stage_id and output.finished
        if finished and not any(isinstance(result, _ENDINGS) for result in results):
            results.append(TurnEnd())
        self._deliver(stage_id, results, over=finished)

    def _deliver(self, stage_id: int, results: list[ModelResult], *, over: bool = False) -> None:
        endings = ModelFailure if self.resumable else _ENDINGS
        ended = any(isinstance(result, endings) for result in results) or over
        self.failure = next((result for result in results if isinstance(result, ModelFailure)), None)
        if self.failure is not None:
            self._note_failure(stage_id, self.failure.code)
        if not results:
            if stage_id in self._streams:
                self._streams[stage_id].consumed()
            return
        snapshots, self._snapshots = tuple(self._snapshots), []
        self._send.send_nowait(
            DeliveredOutput(
                request_id=self.request_id,
                stage_id=stage_id,
                results=tuple(results),
                finished=ended,
                snapshots=snapshots,
            )
        )
        if ended:
            self._end("finished")

    def _note_failure(self, stage_id: int, code: str) -> None:
        if self._spells is not None:
            self._spells.failed(self._specs[stage_id].name, code, trio.current_time())

    def _end(self, outcome: Outcome = "aborted") -> None:
        if self._over:
            return
        self._over = True
        if self._spells is not None:
            self._spells.over("aborted" if self.failure is not None else outcome, trio.current_time())
        self._send.close()
        for stream in self._streams.values():
            stream.abort()

    def _forward_all(self, forwards: Sequence[StageForward]) -> None:
        for forward in forwards:
            self._stream_for(forward).submit_nowait(forward.unit, final=forward.final)

    def _stream_for(self, forward: StageForward) -> StageStream:
        """The request on the stage that a unit goes to, opened if it is the first.

        A stage that has finished its part opens another one: the model takes a step again.
        """
        stream = self._streams.get(forward.stage_id)
        if stream is None:
            if self._over:
                raise trio.BrokenResourceError(f"request {self.request_id!r} is over")
            final = forward.stage_id == self.final_stage_id
            request = StageRequest(
                request_id=self.request_id,
                owner=self.owner,
                params=self._sampling[forward.stage_id].apply(forward.params),
                window=self._specs[forward.stage_id].window if final else UNLIMITED,
                resumable=self.resumable,
            )
            self._figures[forward.stage_id] = StageFigures(self._specs[forward.stage_id].name)
            if not self.resumable:
                entered = {"first_input_ms": (trio.current_time() - self._started_s) * 1000}
                self._snapshots.append(StageSnapshot(str(forward.stage_id), entered))
            sink = _StageSink(self, forward.stage_id)
            stream = self._streams[forward.stage_id] = self._stages[forward.stage_id].open(request, sink)
        now_s = trio.current_time()
        self._figures[forward.stage_id].submitted(now_s)
        if self._spells is not None:
            self._spells.submitted(self._specs[forward.stage_id].name, now_s)
        return stream
