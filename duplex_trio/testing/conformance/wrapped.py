"""A model with something around it: a plugin that is listened to, and runtimes that fail for one session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define

from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.pipelines.processor import TurnProcessor
from duplex_trio.plugin.plugin import DuplexModelPlugin
from duplex_trio.stages.port import StageFailed, StageRequest
from duplex_trio.stages.worker import StageWorker, WorkerContext
from duplex_trio.testing.conformance.heard import HookLog, heard_plugin


class WrappedPipeline(Pipeline):
    """A pipeline as it is.

    Args:
        inner: the model.
        hook_log: where to keep what the plugin is asked; nowhere by default.
        wrap_worker: puts something around the worker of a stage.
    """

    def __init__(
        self,
        inner: Pipeline,
        *,
        hook_log: HookLog | None = None,
        wrap_worker: Callable[[int, StageWorker], StageWorker] | None = None,
    ) -> None:
        self.config = inner.config
        super().__init__(inner.deploy)
        self._inner = inner
        self._hook_log = hook_log
        self._wrap_worker = wrap_worker

    def model_name(self) -> str:
        """The model's own name."""
        return self._inner.model_name()

    def build_worker(self, stage_id: int) -> StageWorker:
        """The model's worker, wrapped."""
        worker = self._inner.build_worker(stage_id)
        return worker if self._wrap_worker is None else self._wrap_worker(stage_id, worker)

    def build_processor(self) -> TurnProcessor:
        """The model's processor."""
        return self._inner.build_processor()

    def build_plugin(self) -> DuplexModelPlugin:
        """The model's plugin, listened to."""
        plugin = self._inner.build_plugin()
        assert isinstance(plugin, DuplexModelPlugin)
        return plugin if self._hook_log is None else heard_plugin(plugin, self._hook_log)

    def build_vad_worker(self) -> StageWorker | None:
        """The model's detector."""
        return self._inner.build_vad_worker()


@define
class Doom:
    """The session whose requests fail, and the stage where they do; none at first."""

    owner: str | None = None
    stage_id: int | None = None

    def wrap(self, stage_id: int, worker: StageWorker) -> StageWorker:
        """Put it on a runtime."""
        return DoomedWorker(worker, stage_id, self)


class DoomedWorker(StageWorker):
    """A runtime that fails the units of one session, and works for all others.

    Args:
        inner: the runtime.
        stage_id: its stage.
        doom: whose units fail.
    """

    def __init__(self, inner: StageWorker, stage_id: int, doom: Doom) -> None:
        self.name = inner.name
        self._inner = inner
        self._stage_id = stage_id
        self._doom = doom
        self._owners: dict[str, str] = {}

    def load(self) -> None:
        """Load the runtime."""
        self._inner.load()

    def open(self, request: StageRequest, context: WorkerContext) -> None:
        """Begin a request and remember whose it is."""
        self._owners[request.request_id] = request.owner
        self._inner.open(request, context)

    def submit(self, request_id: str, unit: Any, final: bool, context: WorkerContext) -> None:
        """Hand on a unit, or fail its request."""
        doom = self._doom
        if doom.stage_id != self._stage_id or self._owners.get(request_id) != doom.owner:
            self._inner.submit(request_id, unit, final, context)
            return
        self.abort([request_id])
        context.emit(StageFailed(request_id=request_id, code="engine_error", message="failed on purpose"))

    def abort(self, request_ids: Sequence[str]) -> None:
        """Forget requests."""
        for request_id in request_ids:
            self._owners.pop(request_id, None)
        self._inner.abort(request_ids)

    def step(self, context: WorkerContext) -> bool:
        """Do one quantum."""
        return self._inner.step(context)

    def close(self) -> None:
        """Release the runtime."""
        self._inner.close()

    def statistics(self) -> Mapping[str, float]:
        """Figures of the runtime."""
        return self._inner.statistics()
