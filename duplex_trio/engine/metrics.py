"""Figures of an engine for Prometheus. Each engine has a registry of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from duplex_trio.session.counters import SessionCounters
from duplex_trio.stages.port import StageStatistics

_LATENCY_BUCKETS_S = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)


class EngineMetrics:
    """Counters and histograms of one engine."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._sessions = Gauge("duplex_sessions", "Sessions that hold a slot", registry=self.registry)
        self._sessions_total = Counter("duplex_sessions_opened", "Sessions opened", registry=self.registry)
        self._responses = Counter(
            "duplex_responses", "Responses by how they ended", ["status"], registry=self.registry
        )
        self._barge_ins = Counter(
            "duplex_barge_ins", "Cancellations by the user's speech", registry=self.registry
        )
        self._speculations = Counter(
            "duplex_speculations",
            "Answers prepared before the user's turn was over",
            ["fate"],
            registry=self.registry,
        )
        self._refused = Counter("duplex_commands_refused", "Client messages refused", registry=self.registry)
        self._discarded_s = Counter(
            "duplex_discarded_audio_seconds", "Sound made and never sent", registry=self.registry
        )
        self._cleanup_retries = Counter(
            "duplex_cleanup_retries",
            "Attempts to release a stage request that took too long",
            registry=self.registry,
        )
        self._first_audio = Histogram(
            "duplex_speech_end_to_first_audio_seconds",
            "From the end of the user's speech to the first sound of the answer",
            buckets=_LATENCY_BUCKETS_S,
            registry=self.registry,
        )

    def watch(
        self, live_requests: Callable[[], int], stages: Callable[[], Sequence[StageStatistics]]
    ) -> None:
        """Show figures that are read when somebody asks: requests across the stages, and each stage's own."""
        self.registry.register(_StageCollector(live_requests, stages))

    def session_opened(self) -> None:
        """A session was admitted."""
        self._sessions.inc()
        self._sessions_total.inc()

    def session_ended(self, counters: SessionCounters) -> None:
        """A session has gone; add what it counted."""
        self._sessions.dec()
        self._responses.labels("completed").inc(counters.responses_completed)
        self._responses.labels("cancelled").inc(counters.responses_cancelled)
        self._responses.labels("failed").inc(counters.responses_failed)
        self._barge_ins.inc(counters.barge_ins)
        self._speculations.labels("adopted").inc(counters.speculations_adopted)
        self._speculations.labels("discarded").inc(counters.speculations_discarded)
        self._refused.inc(counters.commands_refused)
        self._discarded_s.inc(counters.discarded_audio_ms / 1000)
        self._cleanup_retries.inc(counters.cleanup_retries)
        for latency_ms in counters.speech_end_to_first_audio_ms:
            self._first_audio.observe(latency_ms / 1000)

    def render(self) -> bytes:
        """All figures in Prometheus' text format."""
        return generate_latest(self.registry)


class _StageCollector(Collector):
    def __init__(
        self, live_requests: Callable[[], int], stages: Callable[[], Sequence[StageStatistics]]
    ) -> None:
        self._live_requests = live_requests
        self._stages = stages

    def collect(self) -> Iterable[Metric]:
        requests = GaugeMetricFamily(
            "duplex_live_requests", "Model turns whose stages have not let go of them"
        )
        requests.add_metric([], self._live_requests())
        live = GaugeMetricFamily("duplex_stage_live_requests", "Requests on a stage", labels=["stage"])
        alive = GaugeMetricFamily("duplex_stage_alive", "1 while the stage is up", labels=["stage"])
        outputs = CounterMetricFamily("duplex_stage_outputs", "Outputs of a stage", labels=["stage"])
        aborted = CounterMetricFamily("duplex_stage_aborted", "Requests aborted on a stage", labels=["stage"])
        failed = CounterMetricFamily("duplex_stage_failed", "Requests failed on a stage", labels=["stage"])
        for stage in self._stages():
            live.add_metric([stage.name], stage.live_requests)
            alive.add_metric([stage.name], float(stage.alive))
            outputs.add_metric([stage.name], stage.outputs_total)
            aborted.add_metric([stage.name], stage.aborted_total)
            failed.add_metric([stage.name], stage.failed_total)
        return [requests, live, alive, outputs, aborted, failed]
