"""Figures of an engine's stages and of their replicas for Prometheus, read from the stages at each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from duplex_trio.stages.port import StageStatistics

_STAGE, _REPLICA = ("stage",), ("stage", "replica")


class StageCollector(Collector):
    """The stages of one engine.

    Args:
        live_requests: requests whose stages have not let go of them.
        stages: the statistics of every stage.
        prefix: what the names of the figures begin with.
    """

    def __init__(
        self,
        live_requests: Callable[[], int],
        stages: Callable[[], Sequence[StageStatistics]],
        *,
        prefix: str = "duplex",
    ) -> None:
        self._live_requests = live_requests
        self._stages = stages
        self._prefix = prefix

    def collect(self) -> Iterable[Metric]:
        """All figures."""
        requests = GaugeMetricFamily(
            f"{self._prefix}_live_requests", "Requests whose stages have not let go of them"
        )
        requests.add_metric([], self._live_requests())
        stages = self._stages()
        return [requests, *_of_stages(stages, self._prefix), *_of_replicas(stages, self._prefix)]


def _of_stages(stages: Sequence[StageStatistics], prefix: str) -> Iterable[Metric]:
    live = GaugeMetricFamily(f"{prefix}_stage_live_requests", "Requests on a stage", labels=_STAGE)
    queued = GaugeMetricFamily(
        f"{prefix}_stage_queued_commands", "Commands that wait for a stage", labels=_STAGE
    )
    alive = GaugeMetricFamily(f"{prefix}_stage_alive", "1 while the stage takes requests", labels=_STAGE)
    outputs = CounterMetricFamily(f"{prefix}_stage_outputs", "Outputs of a stage", labels=_STAGE)
    aborted = CounterMetricFamily(f"{prefix}_stage_aborted", "Requests aborted on a stage", labels=_STAGE)
    failed = CounterMetricFamily(f"{prefix}_stage_failed", "Requests failed on a stage", labels=_STAGE)
    for stage in stages:
        live.add_metric([stage.name], stage.live_requests)
        queued.add_metric([stage.name], stage.queued_commands)
        alive.add_metric([stage.name], float(stage.alive))
        outputs.add_metric([stage.name], stage.outputs_total)
        aborted.add_metric([stage.name], stage.aborted_total)
        failed.add_metric([stage.name], stage.failed_total)
    return [live, queued, alive, outputs, aborted, failed]


def _of_replicas(stages: Sequence[StageStatistics], prefix: str) -> Iterable[Metric]:
    alive = GaugeMetricFamily(
        f"{prefix}_replica_alive", "1 while the replica takes requests", labels=_REPLICA
    )
    live = GaugeMetricFamily(f"{prefix}_replica_live_requests", "Requests on a replica", labels=_REPLICA)
    restarts = CounterMetricFamily(
        f"{prefix}_replica_restarts", "How often a replica was up again after it broke", labels=_REPLICA
    )
    outputs = CounterMetricFamily(f"{prefix}_replica_outputs", "Outputs of a replica", labels=_REPLICA)
    failed = CounterMetricFamily(f"{prefix}_replica_failed", "Requests failed on a replica", labels=_REPLICA)
    for stage in stages:
        for index, replica in enumerate(stage.replicas):
            labels = [stage.name, str(index)]
            alive.add_metric(labels, float(replica.state == "ready"))
            live.add_metric(labels, replica.live_requests)
            restarts.add_metric(labels, replica.restarts_total)
            outputs.add_metric(labels, replica.outputs_total)
            failed.add_metric(labels, replica.failed_total)
    return [alive, live, restarts, outputs, failed]
