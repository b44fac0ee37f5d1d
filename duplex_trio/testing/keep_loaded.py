"""One runtime for many stages, one after another: for tests that share a model which takes seconds to load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from duplex_trio.stages.port import StageRequest
from duplex_trio.stages.worker import StageWorker, WorkerContext


class KeepLoaded(StageWorker):
    """Passes everything on to a worker, but does not close it: the worker's `load` must do nothing the second time.

    When a stage ends, the requests it left behind are aborted. Whoever made the inner worker closes it.

    Args:
        inner: the worker; used by one stage at a time.
    """

    def __init__(self, inner: StageWorker) -> None:
        self.name = inner.name
        self._inner = inner
        self._opened: set[str] = set()

    def load(self) -> None:
        """Load the inner worker if no stage did before, and let it know this stage's thread."""
        self._inner.load()

    def check_params(self, params: Any) -> None:
        """Ask the inner worker."""
        self._inner.check_params(params)

    def open(self, request: StageRequest, context: WorkerContext) -> None:
        """Begin a request and remember it."""
        self._opened.add(request.request_id)
        self._inner.open(request, context)

    def submit(self, request_id: str, unit: Any, final: bool, context: WorkerContext) -> None:
        """Hand on a unit."""
        self._inner.submit(request_id, unit, final, context)

    def abort(self, request_ids: Sequence[str]) -> None:
        """Forget requests."""
        self._opened.difference_update(request_ids)
        self._inner.abort(request_ids)

    def step(self, context: WorkerContext) -> bool:
        """Do one quantum."""
        return self._inner.step(context)

    def close(self) -> None:
        """Abort what this stage left behind."""
        self.abort(sorted(self._opened))

    def statistics(self) -> Mapping[str, float]:
        """Figures of the inner runtime."""
        return self._inner.statistics()
