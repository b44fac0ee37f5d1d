"""A stage of several replicas, each made anew when it breaks.

Theory of operation. The pool hands each new request to the replica that has the least to do, and from then on has
nothing to do with it: the stream that `open` returns is the replica's own, so an output costs what it costs without
a pool, and all units of a request go where it began. A replica that breaks fails its own requests, as any stage
does, and its `run` returns; the task that carries it waits a while (see `backoff`), has another one made and
carries that. The requests of the other replicas do not notice.

pool
`- replica[i]  x N       one life of the replica after another
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import structlog
import trio
from attrs import frozen

from duplex_trio.stages.errors import StageDeadError, StageLoadError
from duplex_trio.stages.pool.backoff import ALARMING_BREAKS, Backoff, RestartPolicy
from duplex_trio.stages.pool.choice import least_loaded
from duplex_trio.stages.pool.replica import Replica
from duplex_trio.stages.port import OutputSink, Stage, StageRequest, StageStatistics, StageStream
from duplex_trio.stages.said import in_one_line

log = structlog.get_logger("duplex_trio.stages")

MakeReplica = Callable[[int], Stage]
"""Makes the stage that fills a place of the pool, counted from 0; another one at each call, and without waiting."""


class StagePool(Stage):
    """A stage whose requests are spread over replicas.

    The replicas of the first start are made at once. Each of them must load for the pool to start; from then on it
    is alive while one of them is.

    Args:
        name: what the stage is called.
        make: makes a replica.
        num_replicas: how many.
        policy: when one that broke is made anew.
        chance: gives numbers in [0, 1) for the backoff.
    """

    def __init__(
        self,
        name: str,
        make: MakeReplica,
        *,
        num_replicas: int = 1,
        policy: RestartPolicy | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        if num_replicas < 1:
            raise ValueError(f"stage {name!r} needs at least one replica, got {num_replicas}")
        self.name = name
        self._make = make
        self._chance = chance
        self._several = num_replicas > 1
        policy = policy or RestartPolicy()
        self._replicas = [
            Replica(index, self._replica_name(index), Backoff(policy), self._made(index))
            for index in range(num_replicas)
        ]

    @property
    def alive(self) -> bool:  # type: ignore[override]  # it is what the replicas say
        """Whether a replica takes requests."""
        return any(replica.alive for replica in self._replicas)

    @property
    def replicas(self) -> Sequence[Replica]:
        """The replicas, by index."""
        return self._replicas

    def open(self, request: StageRequest, sink: OutputSink | None = None) -> StageStream:
        """Begin a request on the replica that has the least to do; see `Stage.open`."""
        if self.holds(request.request_id):
            raise ValueError(f"request {request.request_id!r} is already live on stage {self.name!r}")
        stage = self._chosen()
        if stage is None:
            raise StageDeadError(self._why_down())
        return stage.open(request, sink)

    def holds(self, request_id: str) -> bool:
        """Whether a request is live on some replica; see `Stage.holds`."""
        return any(
            replica.stage is not None and replica.stage.holds(request_id) for replica in self._replicas
        )

    def abort(self, request_ids: Sequence[str]) -> None:
        """Abort several requests, wherever they are; see `Stage.abort`."""
        for replica in self._replicas:
            if replica.stage is not None:
                replica.stage.abort(request_ids)

    def statistics(self) -> StageStatistics:
        """Counters of all replicas together, and of each."""
        each = tuple(replica.statistics() for replica in self._replicas)
        return StageStatistics(
            name=self.name,
            live_requests=sum(one.live_requests for one in each),
            queued_commands=sum(one.queued_commands for one in each),
            outputs_total=sum(one.outputs_total for one in each),
            aborted_total=sum(one.aborted_total for one in each),
            failed_total=sum(one.failed_total for one in each),
            alive=self.alive,
            replicas=each,
        )

    def _chosen(self) -> Stage | None:
        living = [replica for replica in self._replicas if replica.alive]
        if len(living) == 1:
            return living[0].stage
        index = least_loaded(replica.load for replica in living)
        return None if index is None else self._replicas[index].stage

    def _why_down(self) -> str:
        who = f"stage {self.name!r}"
        if all(replica.state == "loading" for replica in self._replicas):
            return f"{who} is not running"
        down = f"{who} is down" if len(self._replicas) == 1 else f"all replicas of {who} are down"
        waits = [replica.retry_s for replica in self._replicas if replica.retry_s is not None]
        if any(not replica.given_up and replica.retry_s is None for replica in self._replicas):
            return f"{down}; it is being loaded again"
        if not waits:
            return f"{down} and have been given up" if self._several else f"{down} and has been given up"
        return f"{down}; the next try to load it is in {max(0.0, min(waits) - trio.current_time()):.1f} s"

    def _replica_name(self, index: int) -> str:
        return f"{self.name}[{index}]" if self._several else self.name

    def _made(self, index: int) -> Stage:
        stage = self._make(index)
        if self._several:
            stage.name = self._replica_name(index)
        return stage

    # ------------------------------------------------------------------ tasks

    async def run(self, task_status: trio.TaskStatus[Stage] = trio.TASK_STATUS_IGNORED) -> None:
        """Carry the replicas until cancelled, or until each has been given up; see `Stage.run`."""
        unloaded: list[StageLoadError] = []
        async with trio.open_nursery() as nursery:

            async def load(replica: Replica) -> None:
                try:
                    await nursery.start(self._keep, replica, name=f"replica[{replica.name}]")
                except StageLoadError as error:
                    unloaded.append(error)
                    nursery.cancel_scope.cancel()

            async with trio.open_nursery() as loading:
                for replica in self._replicas:
                    loading.start_soon(load, replica, name=f"load[{replica.name}]")
            if not unloaded:
                task_status.started(self)
        # Outside of the nursery, which would wrap it in a group.
        if unloaded:
            raise unloaded[0]

    async def _keep(
        self, replica: Replica, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Carry one life of a replica after another, until it is given up."""
        why = await self._carry(replica, task_status)
        if not replica.lives:
            raise StageLoadError(why)
        while True:
            wait_s = replica.broke(why, trio.current_time(), self._chance())
            self._tell_broke(replica, wait_s)
            if wait_s is None:
                return
            await trio.sleep(wait_s)
            replica.retry_s = None
            try:
                replica.stage = self._made(replica.index)
            except Exception as error:
                log.exception("stage.not_made", stage=replica.name)
                why = in_one_line(error)
            else:
                why = await self._carry(replica, trio.TASK_STATUS_IGNORED)

    async def _carry(self, replica: Replica, task_status: trio.TaskStatus[None]) -> str:
        """Carry what fills the place, until it has broken; returns why it did."""
        stage = replica.stage
        assert stage is not None
        lives = replica.lives
        replica.begun(trio.current_time())
        try:
            await stage.run(_Loaded(replica, task_status))
        except StageLoadError as error:
            if not lives:
                raise
            return str(error)
        except Exception as error:
            # What carries one replica must not take those of the others with it.
            log.exception("stage.run_failed", stage=replica.name)
            return in_one_line(error)
        if replica.lives == lives:
            return f"stage {replica.name!r} ended while it was loaded"
        return stage.last_error or "it has ended"

    def _tell_broke(self, replica: Replica, wait_s: float | None) -> None:
        told = log.bind(stage=replica.name, error=replica.last_error, breaks=replica.backoff.breaks)
        if wait_s is None:
            told.error("stage.given_up")
        elif replica.backoff.breaks >= ALARMING_BREAKS:
            told.error("stage.keeps_breaking", retry_in_s=round(wait_s, 1))
        else:
            told.warning("stage.broke", retry_in_s=round(wait_s, 1))


@frozen
class _Loaded:
    """Told by the stage of a replica that its runtime is ready."""

    replica: Replica
    first: trio.TaskStatus[None]

    def started(self, value: Stage | None = None) -> None:
        """It is."""
        self.replica.loaded(trio.current_time())
        if self.replica.lives == 1:
            self.first.started()
        else:
            log.info("stage.back", stage=self.replica.name, restarts=self.replica.lives - 1)
