"""Drives a stage's worker in the calling thread, to test a runtime without its thread.

Owns the order of calls that `stages/run.py` keeps; asserting what comes out is the test's business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field

from duplex_trio.stages.port import StageFailed, StageOutput, StageRequest
from duplex_trio.stages.worker import StageWorker, WorkerContext


@define(eq=False)
class RecordingContext(WorkerContext):
    """Keeps every output in the order of emission. Windows are open except for the requests in `closed`."""

    outputs: list[StageOutput | StageFailed] = field(factory=list)
    closed: set[str] = field(factory=set)

    def emit(self, output: StageOutput | StageFailed) -> None:
        """Record one output."""
        self.outputs.append(output)

    def window_open(self, request_id: str) -> bool:
        """Whether the request is not in `closed`."""
        return request_id not in self.closed

    def values(self, request_id: str) -> list[Any]:
        """The data of the request's outputs, without the empty one that only ends it."""
        return [
            output.data
            for output in self.outputs
            if isinstance(output, StageOutput) and output.request_id == request_id and output.data is not None
        ]

    def failure(self, request_id: str) -> StageFailed | None:
        """The failure of the request, if it has one."""
        failures = (output for output in self.outputs if isinstance(output, StageFailed))
        return next((failure for failure in failures if failure.request_id == request_id), None)


def run_units(
    worker: StageWorker, *units: Any, request_id: str = "test", params: Any = None
) -> RecordingContext:
    """Open one request on a loaded worker, submit the units, the last as final, and step to the end."""
    return run_requests(worker, {request_id: units}, params=params)


def run_requests(
    worker: StageWorker, requests: Mapping[str, Sequence[Any]], *, params: Any = None
) -> RecordingContext:
    """Open several requests, submit all of their units before the first step, and step until all is done."""
    context = RecordingContext()
    for request_id in requests:
        worker.open(StageRequest(request_id=request_id, params=params), context)
    for request_id, units in requests.items():
        for index, unit in enumerate(units):
            worker.submit(request_id, unit, index == len(units) - 1, context)
    while worker.step(context):
        pass
    return context
