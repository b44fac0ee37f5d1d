"""How an engine and its stages stand, as values for those who show it. Pure.

`engine_health` makes them from the statistics of the stages; nothing else is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from attrs import frozen

from duplex_trio.stages.port import ReplicaState, StageStatistics

EngineState = Literal["loading", "ready", "degraded", "unavailable"]
"""Of an engine: some stage has not been up yet; all replicas take requests; some do not, but each stage has one
that does; some stage has none."""


@frozen(kw_only=True)
class ReplicaHealth:
    """One replica of a stage.

    Attributes:
        name: as in the log, such as `llm[1]`.
        state: `loading` (it has not been up yet), `ready`, `restarting` (it broke and will be back) or `failed`
            (it was given up).
        live_requests: requests that it has now.
        load_s: seconds that it took to load the last time; None if it never did.
        restarts_total: how often it was up again after it had broken.
        last_error: why it broke or did not load the last time; for the operator, since it may name files.
        retry_in_s: seconds until it is made anew; None unless it waits for that.
    """

    name: str
    state: ReplicaState
    load_s: float | None = None
    live_requests: int = 0
    restarts_total: int = 0
    last_error: str | None = None
    retry_in_s: float | None = None


@frozen(kw_only=True)
class StageHealth:
    """One stage.

    Attributes:
        name: what it is called.
        replicas: each of its replicas.
    """

    name: str
    replicas: tuple[ReplicaHealth, ...]

    @property
    def replicas_total(self) -> int:
        """How many replicas it is meant to have."""
        return len(self.replicas)

    @property
    def replicas_live(self) -> int:
        """How many of them take requests."""
        return sum(replica.state == "ready" for replica in self.replicas)

    @property
    def state(self) -> EngineState:
        """How it stands by itself."""
        if self.replicas_live == self.replicas_total:
            return "ready"
        if any(replica.state == "loading" for replica in self.replicas):
            return "loading"
        return "degraded" if self.replicas_live else "unavailable"


@frozen(kw_only=True)
class EngineHealth:
    """All stages of an engine, voice activity included where there is one."""

    stages: tuple[StageHealth, ...]

    @property
    def state(self) -> EngineState:
        """How the engine stands: as its worst stage does."""
        states = {stage.state for stage in self.stages}
        for state in _WORST_FIRST:
            if state in states:
                return state
        return "ready"


_WORST_FIRST: tuple[EngineState, ...] = ("loading", "unavailable", "degraded", "ready")


def engine_health(stages: Sequence[StageStatistics], now_s: float) -> EngineHealth:
    """How an engine stands whose stages say this of themselves.

    Args:
        stages: their statistics.
        now_s: Trio's time.
    """
    return EngineHealth(stages=tuple(_stage_health(stage, now_s) for stage in stages))


def _stage_health(stage: StageStatistics, now_s: float) -> StageHealth:
    replicas = tuple(
        ReplicaHealth(
            name=replica.name,
            state=replica.state,
            load_s=replica.load_s,
            live_requests=replica.live_requests,
            restarts_total=replica.restarts_total,
            last_error=replica.last_error,
            retry_in_s=None if replica.retry_s is None else max(0.0, replica.retry_s - now_s),
        )
        for replica in stage.replicas
    )
    if not replicas:
        # A stage that is carried by itself, without a pool round it.
        alone = ReplicaHealth(
            name=stage.name,
            state="ready" if stage.alive else "loading",
            live_requests=stage.live_requests,
        )
        replicas = (alone,)
    return StageHealth(name=stage.name, replicas=replicas)
