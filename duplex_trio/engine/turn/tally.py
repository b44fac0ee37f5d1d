"""Counts of requests, for a scrape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from duplex_trio.engine.turn.outputs import EndOutput, Usage
from duplex_trio.protocol.refusal import RequestError

STATUSES = ("completed", "aborted", "failed", "refused")
SECONDS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0)
"""Bounds of the histograms."""


class _Seconds:
    def __init__(self) -> None:
        self._counts = [0] * (len(SECONDS) + 1)
        self._total = 0.0

    def add(self, value_s: float) -> None:
        self._total += value_s
        self._counts[sum(value_s > bound for bound in SECONDS)] += 1

    def family(self, name: str, text: str) -> HistogramMetricFamily:
        so_far, buckets = 0, []
        for bound, count in zip((*map(str, SECONDS), "+Inf"), self._counts, strict=True):
            so_far += count
            buckets.append((bound, float(so_far)))
        family = HistogramMetricFamily(name, text)
        family.add_metric([], buckets, self._total)
        return family


class RequestTally(Collector):
    """What became of requests.

    Args:
        live: requests that hold a place now.
        waiting: requests that wait for one.
    """

    def __init__(self, live: Callable[[], int], waiting: Callable[[], int]) -> None:
        self._live = live
        self._waiting = waiting
        self._statuses: Counter[str] = Counter()
        self._tokens: Counter[str] = Counter()
        self._first_output, self._whole = _Seconds(), _Seconds()

    def refused(self) -> None:
        """A request was not taken."""
        self._statuses["refused"] += 1

    def ended(
        self, ending: EndOutput | RequestError | None, *, first_output_s: float | None, took_s: float
    ) -> None:
        """A request is over.

        Args:
            ending: how it ended.
            first_output_s: seconds from its admission to its first output; None if there was none.
            took_s: seconds from its admission to its release.
        """
        if not isinstance(ending, EndOutput):
            self._statuses["failed"] += 1
            return
        usage: Usage = ending.usage
        self._tokens["input"] += usage.input_tokens
        self._tokens["cached"] += usage.cached_tokens
        self._tokens["output"] += usage.output_tokens
        self._statuses["aborted" if ending.finish_reason == "abort" else "completed"] += 1
        self._whole.add(took_s)
        if first_output_s is not None:
            self._first_output.add(first_output_s)

    def collect(self) -> Iterable[Metric]:
        """The figures."""
        for name, text, value in (
            ("duplex_requests_running", "Requests that hold a place", self._live()),
            ("duplex_requests_waiting", "Requests that wait for a place", self._waiting()),
        ):
            gauge = GaugeMetricFamily(name, text)
            gauge.add_metric([], value)
            yield gauge
        statuses = CounterMetricFamily("duplex_requests", "Requests by how they ended", labels=["status"])
        for status in STATUSES:
            statuses.add_metric([status], self._statuses[status])
        yield statuses
        tokens = CounterMetricFamily(
            "duplex_request_tokens", "Tokens of requests that were not cut off by a failure", labels=["kind"]
        )
        for kind in ("input", "cached", "output"):
            tokens.add_metric([kind], self._tokens[kind])
        yield tokens
        yield self._first_output.family(
            "duplex_request_first_output_seconds", "From a request's admission to its first output"
        )
        yield self._whole.family("duplex_request_seconds", "From a request's admission to its release")
