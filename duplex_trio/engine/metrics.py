"""Figures of an engine for Prometheus. Each engine has a registry of its own.

Nothing is counted twice: sessions and stages keep their own numbers, and a scrape reads them. What a session
counted is kept when it ends, so that totals never fall.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attrs import field, frozen
from prometheus_client import CollectorRegistry, Counter, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from duplex_trio.engine.chats import ChatTally
from duplex_trio.engine.stage_collector import StageCollector
from duplex_trio.engine.tally import SessionTally
from duplex_trio.session.counters import SessionCounters
from duplex_trio.session.state.egress_queue import EgressWaiting
from duplex_trio.session.state.histogram import Histogram
from duplex_trio.stages.port import StageStatistics

_MS = 1000
_NO_LABEL = ("", "")


@frozen
class _Shown:
    """One number or histogram that sessions keep: its field, its metric, its help, and a label."""

    name: str
    metric: str
    help: str
    label: tuple[str, str] = field(default=_NO_LABEL, kw_only=True)


_RESPONSES = ("duplex_responses", "Responses by how they ended")
_SPECULATIONS = ("duplex_speculations", "Answers prepared before the user's turn was over, by their fate")
_DECIDE = ("duplex_barge_in_decide_seconds", "From the cause of a cancellation to the end of the epoch")
_TOTALS = (
    _Shown("responses_completed", *_RESPONSES, label=("status", "completed")),
    _Shown("responses_cancelled", *_RESPONSES, label=("status", "cancelled")),
    _Shown("responses_failed", *_RESPONSES, label=("status", "failed")),
    _Shown("barge_ins", "duplex_barge_ins", "Cancellations by the user"),
    _Shown("speculations_adopted", *_SPECULATIONS, label=("fate", "adopted")),
    _Shown("speculations_discarded", *_SPECULATIONS, label=("fate", "discarded")),
    _Shown("partial_transcripts", "duplex_partial_transcripts", "Transcripts of speech that went on"),
    _Shown("commands_refused", "duplex_commands_refused", "Client messages refused"),
    _Shown(
        "unit_deadline_misses",
        "duplex_unit_deadline_misses",
        "Units whose answer came after their sound and the budget",
    ),
    _Shown("discarded_audio_ms", "duplex_discarded_audio_seconds", "Sound of ended epochs, never sent"),
    _Shown("stale_outputs", "duplex_stale_outputs", "Outputs that nobody wanted any more"),
    _Shown("cleanup_retries", "duplex_cleanup_retries", "Releases of stage requests that took too long"),
    _Shown("leaked_requests", "duplex_leaked_requests", "Stage requests that outlived their session"),
    _Shown("lease_resumes", "duplex_lease_resumes", "Sessions that their client came back to"),
    _Shown(
        "lease_expiries", "duplex_lease_expiries", "Sessions that ended for want of a client or of activity"
    ),
)
_HISTOGRAMS = (
    _Shown(
        "speech_stop_to_first_audio_ms",
        "duplex_speech_end_to_first_audio_seconds",
        "From the end of the user's speech to the first sound of the answer",
    ),
    _Shown("barge_in_decide_ms", *_DECIDE, label=("cause", "command")),
    _Shown("barge_in_decide_speech_ms", *_DECIDE, label=("cause", "speech")),
    _Shown(
        "barge_in_silence_ms",
        "duplex_barge_in_silence_seconds",
        "From the cause of a cancellation to the last old sound handed to the socket; 0 when none was",
    ),
    _Shown(
        "barge_in_abort_ms",
        "duplex_barge_in_abort_seconds",
        "From the cause of a cancellation to the release of its stage requests",
    ),
    _Shown("unit_latency_ms", "duplex_unit_latency_seconds", "From a whole unit to the model's answer to it"),
    _Shown(
        "silence_continuation_jitter_ms",
        "duplex_silence_continuation_jitter_seconds",
        "How late a silent unit was handed over",
    ),
    _Shown("egress_queue_age_ms", "duplex_egress_wait_seconds", "How long media waited before it was sent"),
    _Shown("decode_ms", "duplex_decode_seconds", "Taking in one append, of a sample of them"),
    _Shown("vad_ms", "duplex_vad_seconds", "One job of voice activity, there and back"),
)


class EngineMetrics(SessionTally):
    """Counters and histograms of one engine; `chats` counts what is asked for beside its sessions.

    Args:
        sessions: the counters of the sessions that live now.
        waiting: what waits for their clients.
        live_requests: stage requests that are not released.
        stages: the statistics of every stage.
        live_chats: chats that hold a slot now.
    """

    def __init__(
        self,
        *,
        sessions: Callable[[], Sequence[SessionCounters]],
        waiting: Callable[[], Sequence[EgressWaiting]],
        live_requests: Callable[[], int],
        stages: Callable[[], Sequence[StageStatistics]],
        live_chats: Callable[[], int],
    ) -> None:
        self.registry = CollectorRegistry()
        self._sessions = sessions
        self._ended = SessionCounters()
        self._opened = Counter("duplex_sessions_opened", "Sessions opened", registry=self.registry)
        self._refused = Counter(
            "duplex_sessions_refused", "Sessions that got no slot", registry=self.registry
        )
        self.registry.register(_SessionCollector(self.totals, waiting))
        self.registry.register(StageCollector(live_requests, stages))
        self.chats = ChatTally(live_chats, self._chat_ended)
        self.registry.register(self.chats)

    def session_opened(self) -> None:
        """A session was admitted."""
        self._opened.inc()

    def session_refused(self) -> None:
        """Nobody had a slot for a session."""
        self._refused.inc()

    def session_ended(self, counters: SessionCounters) -> None:
        """A session has gone; keep what it counted."""
        self._ended.add(counters)

    def _chat_ended(self, counters: SessionCounters) -> None:
        # Whoever asked: a request that is not released is a fault of the engine.
        self._ended.cleanup_retries += counters.cleanup_retries
        self._ended.leaked_requests += counters.leaked_requests

    def totals(self) -> SessionCounters:
        """What all sessions counted, those that have gone included."""
        totals = SessionCounters()
        for counters in (self._ended, *self._sessions()):
            totals.add(counters)
        return totals

    def render(self) -> bytes:
        """All figures in Prometheus' text format."""
        return generate_latest(self.registry)


class _SessionCollector(Collector):
    def __init__(
        self, totals: Callable[[], SessionCounters], waiting: Callable[[], Sequence[EgressWaiting]]
    ) -> None:
        self._totals = totals
        self._waiting = waiting

    def collect(self) -> Iterable[Metric]:
        totals, waiting = self._totals(), self._waiting()
        counters: dict[str, CounterMetricFamily] = {}
        for shown in _TOTALS:
            counter = counters.setdefault(
                shown.metric, CounterMetricFamily(shown.metric, shown.help, labels=_label_names(shown))
            )
            value = getattr(totals, shown.name)
            counter.add_metric(_label_values(shown), value / _MS if shown.name.endswith("_ms") else value)
        histograms: dict[str, HistogramMetricFamily] = {}
        for shown in _HISTOGRAMS:
            histogram = histograms.setdefault(
                shown.metric, HistogramMetricFamily(shown.metric, shown.help, labels=_label_names(shown))
            )
            readings: Histogram = getattr(totals, shown.name)
            histogram.add_metric(_label_values(shown), _buckets(readings), readings.total / _MS)
        return [*_gauges(waiting), *counters.values(), *histograms.values()]


def _gauges(waiting: Sequence[EgressWaiting]) -> Iterable[Metric]:
    gauges: Sequence[tuple[str, str, float]] = (
        ("duplex_sessions", "Sessions that hold a slot", len(waiting)),
        (
            "duplex_egress_queue_bytes",
            "Media that waits for clients",
            sum(one.media_bytes for one in waiting),
        ),
        ("duplex_egress_queue_events", "Events that wait for clients", sum(one.events for one in waiting)),
        (
            "duplex_egress_queue_age_seconds",
            "How long the oldest media that waits has waited",
            max((one.oldest_s for one in waiting), default=0.0),
        ),
    )
    for name, text, value in gauges:
        gauge = GaugeMetricFamily(name, text)
        gauge.add_metric([], value)
        yield gauge


def _label_names(shown: _Shown) -> list[str]:
    return [] if shown.label is _NO_LABEL else [shown.label[0]]


def _label_values(shown: _Shown) -> list[str]:
    return [] if shown.label is _NO_LABEL else [shown.label[1]]


def _buckets(readings: Histogram) -> list[tuple[str, float]]:
    """Cumulative counts by upper bound in seconds, as Prometheus wants them."""
    bounds = [str(bound / _MS) for bound in readings.bounds]
    counts = readings.counts or [0] * (len(bounds) + 1)
    buckets, so_far = [], 0
    for bound, count in zip((*bounds, "+Inf"), counts, strict=True):
        so_far += count
        buckets.append((bound, float(so_far)))
    return buckets
