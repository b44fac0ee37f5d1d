"""The seam between sessions and compute: requests, outputs, and the `Stage` and `StageStream` ABCs.

A *stage* is one model runtime. A *request* is a life on it: opened once, fed any number of units, and ended
by the stage (its last output has `finished`), by a failure, or by an abort. Outputs arrive on the Trio thread
in the order in which the stage made them, through an `OutputSink`.

Flow control: a request has a *window* of outputs that may be delivered but not yet consumed. A worker does
not start new work for a request whose window is closed, so a slow consumer pauses its own request and nobody
else's. The consumer says what it consumed with `StageStream.consumed`. A request whose sink consumes at once
(a router that hands on to the next stage) uses the default unlimited window.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from attrs import Factory, frozen

if TYPE_CHECKING:
    import trio

UNLIMITED = 1 << 30
"""Window of a request whose outputs are consumed as they arrive."""


@frozen(kw_only=True)
class StageRequest:
    """What a stage is told when a request opens.

    `request_id` is chosen by the caller and unique among the live requests of the stage. `owner` names the
    session (or other party) in logs and metrics. `params` is the runtime's own parameter object, such as
    sampling parameters. `resumable` keeps the request open across units after its output finished a segment.
    """

    request_id: str
    owner: str = ""
    params: Any = None
    resumable: bool = False
    window: int = UNLIMITED


@frozen(kw_only=True)
class StageOutput:
    """One output of a stage.

    `data` is one of the classes in `units`; `metrics` are figures about producing it that only the stage knows:
    numbers or tuples of numbers.
    """

    request_id: str
    data: Any
    finished: bool = False
    metrics: Mapping[str, Any] = Factory(dict)


@frozen(kw_only=True)
class StageFailed:
    """The request ended because of an error; nothing follows it.

    `code` is a wire error code (`engine_error`, `engine_dead`, `context_length_exceeded`, ...), `message` is
    for people.
    """

    request_id: str
    code: str
    message: str


ReplicaState = Literal["loading", "ready", "restarting", "failed"]
"""Of one replica: it has not been up yet, takes requests, broke and will be back, or was given up."""


@frozen(kw_only=True)
class ReplicaStatistics:
    """Counters of one replica of a stage, of all its lives together.

    Attributes:
        name: as in logs, such as `llm[1]`; that of the stage where it is the only one.
        state: whether it takes requests, and why not.
        load_s: seconds that it took to load the last time; None if it never did.
        restarts_total: how often it was up again after it had broken.
        last_error: why it broke or did not load the last time; None if it never did.
        retry_s: when it is made anew, on Trio's clock; None unless it waits for that.
        live_requests: requests that it has now.
        queued_commands: commands that wait for it now.
        outputs_total: outputs that it made.
        aborted_total: requests aborted on it.
        failed_total: requests that failed on it.
    """

    name: str
    state: ReplicaState
    load_s: float | None = None
    restarts_total: int = 0
    last_error: str | None = None
    retry_s: float | None = None
    live_requests: int = 0
    queued_commands: int = 0
    outputs_total: int = 0
    aborted_total: int = 0
    failed_total: int = 0


@frozen
class StageStatistics:
    """Counters of one stage, for health and metrics; of its replicas together where it has some."""

    name: str
    live_requests: int
    queued_commands: int
    outputs_total: int
    aborted_total: int
    failed_total: int
    alive: bool
    replicas: tuple[ReplicaStatistics, ...] = ()


class OutputSink(ABC):
    """Receives the outputs of one request, synchronously, on the Trio thread. Must not block."""

    @abstractmethod
    def deliver(self, output: StageOutput | StageFailed) -> None:
        """Take one output. An exception fails this request alone."""


class StageStream(ABC):
    """One live request on a stage."""

    request: StageRequest

    @abstractmethod
    async def submit(self, unit: Any, *, final: bool = False) -> None:
        """Wait for room, hand one unit to the stage and wait until its thread took it.

        Args:
            unit: a value of `units` that the stage understands.
            final: no unit follows; the stage may finish the request.

        When this is cancelled, the unit is withdrawn unless the thread has just taken it.

        Raises:
            trio.BrokenResourceError: the stage has died (`StageDeadError`), or the request is over.
        """

    @abstractmethod
    def submit_nowait(self, unit: Any, *, final: bool = False) -> None:
        """Hand on one unit without waiting; for hand-offs whose number the earlier stage bounds.

        Raises:
            trio.BrokenResourceError: the stage has died (`StageDeadError`), or the request is over.
        """

    @abstractmethod
    def consumed(self, count: int = 1) -> None:
        """Say that `count` delivered outputs are used up, which opens the window again. Never blocks."""

    @abstractmethod
    def abort(self) -> None:
        """End the request now. Idempotent, never blocks; nothing is delivered to the sink afterwards."""

    @abstractmethod
    async def wait_released(self) -> None:
        """Wait until the stage's thread has forgotten the request (finished, failed or aborted)."""

    @property
    @abstractmethod
    def outputs(self) -> trio.MemoryReceiveChannel[StageOutput]:
        """Outputs as a channel, for a stream that was opened without a sink. It ends when the request ends.

        A failure ends the channel too; `failure` then tells what happened.
        """

    @property
    @abstractmethod
    def failure(self) -> StageFailed | None:
        """The failure that ended this request, if one did."""

    async def aclose(self) -> None:
        """Abort if still live and wait until the stage has let go."""
        self.abort()
        await self.wait_released()


class Stage(ABC):
    """One model runtime, seen from the Trio thread.

    Attributes:
        name: what it is called in logs, metrics and messages.
        alive: whether it takes requests.
        last_error: why its runtime broke; None as long as it has not.
    """

    name: str
    alive: bool
    last_error: str | None = None

    @abstractmethod
    async def run(self, task_status: trio.TaskStatus[Stage] = ...) -> None:
        """Carry the stage until it is cancelled or its runtime breaks; started when the runtime is loaded.

        A runtime that breaks fails all of its live requests with `engine_dead` before this returns. A stage runs
        once; whoever wants it back makes another.

        Raises:
            StageLoadError: the runtime could not be loaded.
        """

    @abstractmethod
    def open(self, request: StageRequest, sink: OutputSink | None = None) -> StageStream:
        """Begin a request. Never blocks.

        Args:
            request: the request; its id must not be live on this stage.
            sink: takes the outputs; without one they arrive on `StageStream.outputs`.

        Raises:
            trio.BrokenResourceError: the stage is not running (`StageDeadError`).
            ValueError: the request id is already live.
        """

    @abstractmethod
    def holds(self, request_id: str) -> bool:
        """Whether a request of this id is live here."""

    @abstractmethod
    def abort(self, request_ids: Sequence[str]) -> None:
        """Abort several requests at once; unknown ids are skipped. Never blocks."""

    @abstractmethod
    def statistics(self) -> StageStatistics:
        """Counters for health and metrics."""
