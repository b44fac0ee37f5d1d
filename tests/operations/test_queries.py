"""The check of queries itself: it finds each fault that it is there for."""

from __future__ import annotations

import pytest

from tests.operations.queries import Served, asked

SERVED = {
    "duplex_sessions": Served("gauge", frozenset()),
    "duplex_responses_total": Served("counter", frozenset({"status"})),
    "duplex_wait_seconds_bucket": Served("histogram", frozenset({"le"})),
}


@pytest.mark.parametrize(
    "query",
    [
        "sum(duplex_session)",
        "sum(duplex_sessions",
        "rate(duplex_sessions[1m])",
        "duplex_responses_total",
        "rate(duplex_responses_total)",
        'rate(duplex_responses_total{state="failed"}[1m])',
        "sum by (stage) (rate(duplex_responses_total[1m]))",
        "histogram_quantile(0.5, sum(rate(duplex_wait_seconds_bucket[1m])))",
        "histogram_quantile(0.5, sum by (job) (rate(duplex_wait_seconds_bucket[1m])))",
        "histogram_quantile(50, sum by (le) (rate(duplex_wait_seconds_bucket[1m])))",
        "histogram_quantile(0.5, sum by (le) (duplex_sessions))",
        "quantile_of(0.5, duplex_sessions)",
    ],
)
def test_a_faulty_query_is_found(query: str) -> None:
    with pytest.raises((AssertionError, ValueError)):
        asked(query, SERVED)


def test_a_good_one_tells_what_it_asks_for() -> None:
    query = (
        'sum by (job) (rate(duplex_responses_total{job="a", status="failed"}[1m])) / on (job) duplex_sessions'
    )
    assert asked(query, SERVED) == {"duplex_responses_total", "duplex_sessions"}
