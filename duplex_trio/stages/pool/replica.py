"""What a pool knows of one of its replicas. Pure: the clock and the tasks are the pool's."""

from __future__ import annotations

from attrs import define, field

from duplex_trio.stages.pool.backoff import Backoff
from duplex_trio.stages.pool.choice import ReplicaLoad
from duplex_trio.stages.port import ReplicaState, ReplicaStatistics, Stage, StageStatistics


@define(eq=False)
class Replica:
    """One place of a pool, and whatever fills it now.

    Args:
        index: its place, counted from 0.
        name: what it is called.
        backoff: its breaks.
        stage: what carries its runtime; None while it waits to be made anew.
    """

    index: int
    name: str
    backoff: Backoff
    stage: Stage | None
    loaded_s: float | None = field(default=None, init=False)
    load_s: float | None = field(default=None, init=False)
    retry_s: float | None = field(default=None, init=False)
    lives: int = field(default=0, init=False)
    last_error: str | None = field(default=None, init=False)
    given_up: bool = field(default=False, init=False)
    _begun_s: float = field(default=0.0, init=False)
    _outputs: int = field(default=0, init=False)
    _aborted: int = field(default=0, init=False)
    _failed: int = field(default=0, init=False)

    @property
    def alive(self) -> bool:
        """Whether it takes requests."""
        return self.stage is not None and self.stage.alive

    @property
    def state(self) -> ReplicaState:
        """Where it stands."""
        if self.alive:
            return "ready"
        if self.given_up:
            return "failed"
        return "loading" if not self.lives and self.last_error is None else "restarting"

    @property
    def load(self) -> ReplicaLoad:
        """How busy it is."""
        assert self.stage is not None
        now = self.stage.statistics()
        return ReplicaLoad(now.live_requests, now.queued_commands, self.index)

    def begun(self, now_s: float) -> None:
        """It is being loaded."""
        self._begun_s = now_s

    def loaded(self, now_s: float) -> None:
        """It takes requests."""
        self.load_s = now_s - self._begun_s
        self.loaded_s, self.retry_s = now_s, None
        self.lives += 1

    def broke(self, why: str, now_s: float, chance: float) -> float | None:
        """Its runtime has gone, or did not load; returns how long it waits for another, None if for ever."""
        ran_s = 0.0 if self.loaded_s is None else now_s - self.loaded_s
        wait_s = self.backoff.broke(ran_s, chance)
        self.last_error = why
        self.loaded_s = None
        self.retry_s = None if wait_s is None else now_s + wait_s
        self.given_up = wait_s is None
        if self.stage is not None:
            counted = self.stage.statistics()
            self._outputs += counted.outputs_total
            self._aborted += counted.aborted_total
            self._failed += counted.failed_total
        self.stage = None
        return wait_s

    def statistics(self) -> ReplicaStatistics:
        """Its counters."""
        now = StageStatistics(self.name, 0, 0, 0, 0, 0, alive=False)
        if self.stage is not None:
            now = self.stage.statistics()
        return ReplicaStatistics(
            name=self.name,
            state=self.state,
            load_s=self.load_s,
            restarts_total=max(0, self.lives - 1),
            last_error=self.last_error,
            retry_s=self.retry_s,
            live_requests=now.live_requests,
            queued_commands=now.queued_commands,
            outputs_total=self._outputs + now.outputs_total,
            aborted_total=self._aborted + now.aborted_total,
            failed_total=self._failed + now.failed_total,
        )
