"""Figures of an engine for Prometheus. Each engine has a registry of its own.

Nothing is counted twice: sessions and stages keep their own numbers, and a scrape reads them. What a session
counted is kept when it ends, so that totals never fall.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attrs import frozen
from prometheus_client import CollectorRegistry, Counter, Histogram, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from duplex_trio.session.counters import SessionCounters
from duplex_trio.stages.port import StageStatistics

_LATENCY_BUCKETS_S = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)


@frozen
class _Total:
    """One number that sessions count: its metric, its label, and how to read it."""

    metric: str
    help: str
    read: Callable[[SessionCounters], float]
    label: tuple[str, str] | None = None


_RESPONSES = ("duplex_responses", "Responses by how they ended")
_SPECULATIONS = ("duplex_speculations", "Answers prepared before the user's turn was over, by their fate")
_TOTALS = (
    _Total(*_RESPONSES, lambda c: c.responses_completed, ("status", "completed")),
    _Total(*_RESPONSES, lambda c: c.responses_cancelled, ("status", "cancelled")),
    _Total(*_RESPONSES, lambda c: c.responses_failed, ("status", "failed")),
    _Total("duplex_barge_ins", "Cancellations by the user", lambda c: c.barge_ins),
    _Total(*_SPECULATIONS, lambda c: c.speculations_adopted, ("fate", "adopted")),
    _Total(*_SPECULATIONS, lambda c: c.speculations_discarded, ("fate", "discarded")),
    _Total(
        "duplex_partial_transcripts", "Transcripts of speech that went on", lambda c: c.partial_transcripts
    ),
    _Total("duplex_commands_refused", "Client messages refused", lambda c: c.commands_refused),
    _Total(
        "duplex_discarded_audio_seconds", "Sound made and never sent", lambda c: c.discarded_audio_ms / 1000
    ),
    _Total(
        "duplex_cleanup_retries", "Releases of stage requests that took too long", lambda c: c.cleanup_retries
    ),
)


class EngineMetrics:
    """Counters and histograms of one engine.

    Args:
        sessions: the counters of the sessions that live now.
        live_requests: stage requests that are not released.
        stages: the statistics of every stage.
    """

    def __init__(
        self,
        *,
        sessions: Callable[[], Sequence[SessionCounters]],
        live_requests: Callable[[], int],
        stages: Callable[[], Sequence[StageStatistics]],
    ) -> None:
        self.registry = CollectorRegistry()
        self._sessions = sessions
        self._ended = [0.0] * len(_TOTALS)
        self._opened = Counter("duplex_sessions_opened", "Sessions opened", registry=self.registry)
        self._first_audio = Histogram(
            "duplex_speech_end_to_first_audio_seconds",
            "From the end of the user's speech to the first sound of the answer",
            buckets=_LATENCY_BUCKETS_S,
            registry=self.registry,
        )
        self.registry.register(_SessionCollector(self._live, self._totals))
        self.registry.register(_StageCollector(live_requests, stages))

    def session_opened(self) -> None:
        """A session was admitted."""
        self._opened.inc()

    def session_ended(self, counters: SessionCounters) -> None:
        """A session has gone; keep what it counted."""
        self._ended = [kept + total.read(counters) for kept, total in zip(self._ended, _TOTALS, strict=True)]
        self._observe(counters)

    def render(self) -> bytes:
        """All figures in Prometheus' text format."""
        for counters in self._sessions():
            self._observe(counters)
        return generate_latest(self.registry)

    def _observe(self, counters: SessionCounters) -> None:
        for wait_ms in counters.take_first_audio_ms():
            self._first_audio.observe(wait_ms / 1000)

    def _live(self) -> int:
        return len(self._sessions())

    def _totals(self) -> list[float]:
        live = self._sessions()
        return [
            kept + sum(total.read(counters) for counters in live)
            for kept, total in zip(self._ended, _TOTALS, strict=True)
        ]


class _SessionCollector(Collector):
    def __init__(self, live: Callable[[], int], totals: Callable[[], Sequence[float]]) -> None:
        self._live = live
        self._totals = totals

    def collect(self) -> Iterable[Metric]:
        sessions = GaugeMetricFamily("duplex_sessions", "Sessions that hold a slot")
        sessions.add_metric([], self._live())
        families: dict[str, CounterMetricFamily] = {}
        for total, value in zip(_TOTALS, self._totals(), strict=True):
            labels = [total.label[0]] if total.label is not None else []
            family = families.setdefault(
                total.metric, CounterMetricFamily(total.metric, total.help, labels=labels)
            )
            family.add_metric([total.label[1]] if total.label is not None else [], value)
        return [sessions, *families.values()]


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
