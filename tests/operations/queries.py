"""What PromQL queries ask for, held against what a server really prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import promql_parser as promql
from attrs import frozen
from prometheus_client import Metric

COUNTED = ("rate", "increase", "irate")
"""Functions of counters."""
SCRAPED = frozenset({"job", "instance"})
"""Labels that Prometheus itself adds."""


@frozen
class Served:
    """A family of a scrape: its kind, and the labels of its samples, `le` included."""

    kind: str
    labels: frozenset[str]


def samples(families: list[Metric]) -> dict[str, Served]:
    """Every name that a query may ask for."""
    found = {}
    for family in families:
        labels = frozenset(key for sample in family.samples for key in sample.labels)
        names = {
            "counter": [family.name + "_total"],
            "gauge": [family.name],
            "histogram": [family.name + ending for ending in ("_bucket", "_sum", "_count")],
        }[family.type]
        for name in names:
            kept = labels if name.endswith("_bucket") else labels - {"le"}
            found[name] = Served(family.type, frozenset(kept))
    return found


def expressions(tree: Any) -> Iterator[Any]:
    """An expression and all that are in it."""
    yield tree
    for name in ("args", "expr", "lhs", "rhs", "vector_selector", "param"):
        below = getattr(tree, name, None)
        for one in below if isinstance(below, list | tuple) else [below]:
            if isinstance(one, promql.Expr):
                yield from expressions(one)


def asked(query: str, served: Mapping[str, Served]) -> set[str]:
    """The names that a query asks for.

    Raises:
        AssertionError: one is not served, has no such label, or is asked in a way that makes no sense of it.
        ValueError: it is no PromQL.
    """
    tree = promql.parse(query)
    names = set()
    for one in expressions(tree):
        if isinstance(one, promql.VectorSelector):
            assert one.name in served, f"{one.name} is not served: {query}"
            for matcher in one.matchers.matchers:
                assert matcher.name in served[one.name].labels | SCRAPED, f"{matcher.name} of {one.name}"
            names.add(one.name)
    for one in expressions(tree):
        match one:
            case promql.Call() if one.func.name in COUNTED:
                (selector,) = [leaf for leaf in expressions(one) if isinstance(leaf, promql.VectorSelector)]
                assert served[selector.name].kind in ("counter", "histogram"), (
                    f"{one.func.name} of {selector.name}"
                )
            case promql.Call() if one.func.name == "histogram_quantile":
                _check_quantile(one)
            case promql.AggregateExpr():
                _check_labels(one, served)
    for name in names:
        counted = served[name].kind != "gauge" and name != "duplex_leaked_requests_total"
        assert not counted or any(f"{function}({name}" in query for function in COUNTED), (
            f"bare counter {name}"
        )
    return names


def _check_quantile(call: Any) -> None:
    quantile, buckets = call.args
    assert 0 < quantile.val < 1
    assert isinstance(buckets, promql.AggregateExpr), "buckets of all servers are added up first"
    assert "le" in _grouped_by(buckets)
    (selector,) = [leaf for leaf in expressions(buckets) if isinstance(leaf, promql.VectorSelector)]
    assert selector.name.endswith("_bucket")


def _check_labels(aggregate: Any, served: Mapping[str, Served]) -> None:
    by = _grouped_by(aggregate)
    for leaf in expressions(aggregate):
        if isinstance(leaf, promql.VectorSelector):
            assert by <= served[leaf.name].labels | SCRAPED, (
                f"{leaf.name} has no {by - served[leaf.name].labels}"
            )


def _grouped_by(aggregate: Any) -> set[str]:
    return set() if aggregate.modifier is None else set(aggregate.modifier.labels)
