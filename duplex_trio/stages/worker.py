"""The blocking half of a stage.

A `StageWorker` is built on the Trio thread and from then on touched only by the stage's own thread (see
`run`). It does its work in `step`, one bounded quantum at a time, so that aborts are seen between quanta.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import structlog
from attrs import define, field

from duplex_trio.stages.port import StageFailed, StageOutput, StageRequest

log = structlog.get_logger("duplex_trio.stages")


class WorkerContext(ABC):
    """What the thread offers to its worker."""

    @abstractmethod
    def emit(self, output: StageOutput | StageFailed) -> None:
        """Send one output. One with `finished`, and a failure, ends the request on the Trio side."""

    @abstractmethod
    def window_open(self, request_id: str) -> bool:
        """Whether the consumer of the request has room for more outputs; false for an unknown request."""


class UnitRefused(Exception):
    """A unit that a worker will not process; `code` is the wire error code of the request's failure."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class StageWorker(ABC):
    """A model runtime that lives in one thread.

    An exception out of `load` keeps the stage from starting. One out of `open`, `submit` or `step` means that
    the runtime is broken: every live request fails with `engine_dead`. A fault of a single request is emitted
    as `StageFailed`.

    Attributes:
        name: what the stage is called.
        default_params: what a request gets that asks for nothing; None for what the runtime does by itself.
        once_per_process: whether a process can have only one such runtime at a time.
    """

    name: str
    default_params: Any = None
    once_per_process: bool = False

    @abstractmethod
    def load(self) -> None:
        """Load weights and warm up: afterwards a first request is as fast as a later one."""

    def check_params(self, params: Any) -> None:  # noqa: B027  a runtime may take any, or none
        """Try whether the loaded runtime takes a request's parameters, without generating.

        Called with `default_params` when it is loaded: what it would refuse of every request keeps it from starting.

        Raises:
            UnitRefused: it does not; the message names the parameter.
        """

    @abstractmethod
    def open(self, request: StageRequest, context: WorkerContext) -> None:
        """A request begins."""

    @abstractmethod
    def submit(self, request_id: str, unit: Any, final: bool, context: WorkerContext) -> None:
        """A unit arrived. Only note it; the work is done in `step`."""

    @abstractmethod
    def abort(self, request_ids: Sequence[str]) -> None:
        """Forget these requests; unknown ids are skipped. Nothing may be emitted for them afterwards."""

    @abstractmethod
    def step(self, context: WorkerContext) -> bool:
        """Do one quantum (a model step, one unit); return whether there is more to do right now."""

    def close(self) -> None:  # noqa: B027  a worker may have nothing to release
        """Release the runtime. Called once, last."""

    def statistics(self) -> Mapping[str, float]:
        """Figures of the runtime for metrics. Called on the stage's thread."""
        return {}


@define(eq=False)
class _Lane:
    request: StageRequest
    units: deque[tuple[Any, bool]] = field(factory=deque)
    state: Any = None


class SerialWorker(StageWorker):
    """A worker that turns one unit at a time into outputs, taking turns between requests.

    Requests whose window is closed are passed over. Subclasses implement `load` and `process`. What `process`
    and `new_state` raise ends the request that they were called for: a `UnitRefused` with its code, any other
    exception with `engine_error`.
    """

    def __init__(self) -> None:
        self._lanes: dict[str, _Lane] = {}
        self._turns: deque[str] = deque()
        # Without priorities the first that may go is the one: with hundreds of requests, looking at all of them
        # takes longer than a unit of work.
        self._ranks = type(self).priority is not SerialWorker.priority

    @abstractmethod
    def process(self, request: StageRequest, state: Any, unit: Any) -> Iterable[Any]:
        """Turn one unit into any number of output values.

        Args:
            request: the request that the unit belongs to.
            state: what `new_state` returned for it.
            unit: the unit.

        Raises:
            UnitRefused: the unit asks for something that this runtime does not offer.
        """

    def new_state(self, request: StageRequest) -> Any:
        """Per-request state, made when the request opens."""
        return None

    def priority(self, unit: Any) -> int:
        """Units of a lower number go first; equal numbers take turns between requests."""
        return 0

    def supersedes(self, older: Any, newer: Any) -> bool:
        """Whether `newer` of the same request makes the waiting `older` pointless, so that it is dropped."""
        return False

    def open(self, request: StageRequest, context: WorkerContext) -> None:
        """Make the request's state; a request without one fails."""
        try:
            state = self.new_state(request)
        except UnitRefused as refusal:
            self._fail(request.request_id, refusal.code, str(refusal), context)
        except Exception as error:
            log.exception("stage.open_failed", stage=self.name, request_id=request.request_id)
            self._fail(request.request_id, "engine_error", f"{type(error).__name__}: {error}", context)
        else:
            self._lanes[request.request_id] = _Lane(request, state=state)

    def submit(self, request_id: str, unit: Any, final: bool, context: WorkerContext) -> None:
        """Queue a unit behind the earlier ones of its request."""
        lane = self._lanes.get(request_id)
        if lane is None:
            return
        kept = [(old, last) for old, last in lane.units if last or not self.supersedes(old, unit)]
        lane.units = deque(kept)
        lane.units.append((unit, final))
        if request_id not in self._turns:
            self._turns.append(request_id)

    def abort(self, request_ids: Sequence[str]) -> None:
        """Drop the requests with their waiting units."""
        for request_id in request_ids:
            self._lanes.pop(request_id, None)

    def step(self, context: WorkerContext) -> bool:
        """Process the most urgent unit of a request whose window is open."""
        chosen = self._choose(context)
        if chosen is None:
            return False
        lane = self._lanes[chosen]
        unit, final = lane.units.popleft()
        self._turns.remove(chosen)
        if lane.units:
            self._turns.append(chosen)
        try:
            self._emit_values(lane, unit, final, context)
        except UnitRefused as refusal:
            self._fail(chosen, refusal.code, str(refusal), context)
        except Exception as error:
            log.exception("stage.unit_failed", stage=self.name, request_id=chosen, owner=lane.request.owner)
            self._fail(chosen, "engine_error", f"{type(error).__name__}: {error}", context)
        return self._choose(context) is not None

    def _emit_values(self, lane: _Lane, unit: Any, final: bool, context: WorkerContext) -> None:
        """Emit each value as soon as it is made; of a final unit the last value carries `finished`."""
        request_id = lane.request.request_id
        values = iter(self.process(lane.request, lane.state, unit) if unit is not None else ())
        if not final:
            for value in values:
                context.emit(StageOutput(request_id=request_id, data=value))
            return
        held = next(values, None)
        for value in values:
            context.emit(StageOutput(request_id=request_id, data=held))
            held = value
        context.emit(StageOutput(request_id=request_id, data=held, finished=True))
        self._lanes.pop(request_id, None)

    def _fail(self, request_id: str, code: str, message: str, context: WorkerContext) -> None:
        self._lanes.pop(request_id, None)
        context.emit(StageFailed(request_id=request_id, code=code, message=message))

    def _choose(self, context: WorkerContext) -> str | None:
        best: str | None = None
        best_priority = 0
        for request_id in list(self._turns):
            lane = self._lanes.get(request_id)
            if lane is None or not lane.units:
                self._turns.remove(request_id)
                continue
            if not context.window_open(request_id):
                continue
            priority = self.priority(lane.units[0][0])
            if best is None or priority < best_priority:
                best, best_priority = request_id, priority
            if not self._ranks:
                break
        return best
