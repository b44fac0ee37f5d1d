"""The dashboard and the alerts: what they ask for is served, and what is served is shown."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import Metric

from tests.operations.queries import Served, asked, samples

LEFT_OUT: frozenset[str] = frozenset()
"""Documented families that the dashboard does not show, on purpose."""
WIDTH = 24
"""Columns of Grafana's grid."""


@pytest.fixture(scope="module")
def dashboard(operations: Path) -> Mapping[str, Any]:
    loaded: Mapping[str, Any] = json.loads((operations / "grafana" / "duplex_trio.json").read_text())
    return loaded


@pytest.fixture(scope="module")
def served(families: list[Metric]) -> Mapping[str, Served]:
    return samples(families)


def panels(dashboard: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [one for panel in dashboard["panels"] for one in (panel, *panel.get("panels", ()))]


def queries(dashboard: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Title and query, with Grafana's variables replaced by what they stand for."""
    for panel in panels(dashboard):
        for target in panel.get("targets", ()):
            query = target["expr"].replace("$__rate_interval", "1m").replace("$job", ".*")
            yield panel["title"], query.replace("$instance", ".*")


def test_every_query_asks_for_what_is_served(
    dashboard: Mapping[str, Any], served: Mapping[str, Served]
) -> None:
    """By a real parser of PromQL, which checks the types too: names, labels, counters under a rate, buckets by `le`."""
    for title, query in queries(dashboard):
        assert "$" not in query, title
        assert asked(query, served), title


def test_everything_that_is_documented_is_shown(
    dashboard: Mapping[str, Any], served: Mapping[str, Served], operations: Path
) -> None:
    document = (operations.parent / "docs" / "metrics.md").read_text()
    documented = set(re.findall(r"^\| `(duplex_\w+)` \|", document, re.MULTILINE))
    assert len(documented) > 60
    shown = {name for _, query in queries(dashboard) for name in asked(query, served)}
    families = {re.sub("_(total|bucket|sum|count)$", "", name) for name in shown} | shown
    assert documented - families == LEFT_OUT


def test_grafana_can_lay_it_out(dashboard: Mapping[str, Any]) -> None:
    """Each panel has a number and a place of its own."""
    everything = panels(dashboard)
    ids = [panel["id"] for panel in everything]
    assert len(set(ids)) == len(ids)
    taken = set()
    for panel in everything:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= WIDTH
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
        assert panel["type"] in ("row", "timeseries", "stat", "heatmap")
        refs = [target["refId"] for target in panel.get("targets", ())]
        assert len(set(refs)) == len(refs)
        assert panel["type"] == "row" or refs


def test_the_data_source_is_a_choice(dashboard: Mapping[str, Any]) -> None:
    """It works in any Grafana: nothing names one of its own."""
    variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    sources = [panel["datasource"] for panel in panels(dashboard) if panel["type"] != "row"]
    sources += [target["datasource"] for panel in panels(dashboard) for target in panel.get("targets", ())]
    sources += [variables[name]["datasource"] for name in ("job", "instance")]
    assert {source["uid"] for source in sources} == {"${datasource}"}


# ------------------------------------------------------------------ alerts


@pytest.fixture(scope="module")
def alerts(operations: Path) -> list[Mapping[str, Any]]:
    loaded = yaml.safe_load((operations / "prometheus" / "alerts.yaml").read_text())
    return [rule for group in loaded["groups"] for rule in group["rules"]]


def test_every_alert_asks_for_what_is_served(
    alerts: list[Mapping[str, Any]], served: Mapping[str, Served]
) -> None:
    for rule in alerts:
        assert asked(rule["expr"], served), rule["alert"]
        assert any(sign in rule["expr"] for sign in (">", "<", "==")), "a condition"


def test_every_alert_says_what_to_do(alerts: list[Mapping[str, Any]]) -> None:
    """Its name, how bad it is, and a text whose labels its query keeps."""
    names = [rule["alert"] for rule in alerts]
    assert len(set(names)) == len(names)
    for rule in alerts:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "1m"))
        text = rule["annotations"]["summary"] + rule["annotations"]["description"]
        grouped = re.findall(r"by \(([^)]*)\)", rule["expr"])
        kept = {label.strip() for labels in grouped for label in labels.split(",")}
        used = set(re.findall(r"\$labels\.(\w+)", text))
        assert not grouped or used <= kept, rule["alert"]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
@pytest.mark.parametrize(("kind", "name"), [("rules", "alerts.yaml"), ("config", "prometheus.yml")])
def test_promtool_agrees(operations: Path, kind: str, name: str) -> None:
    path = operations / "prometheus" / name
    subprocess.run(["promtool", "check", kind, str(path)], check=True, capture_output=True)


def test_prometheus_finds_its_rules_and_the_server(operations: Path) -> None:
    folder = operations / "prometheus"
    config = yaml.safe_load((folder / "prometheus.yml").read_text())
    assert all((folder / name).is_file() for name in config["rule_files"])
    (scrape,) = config["scrape_configs"]
    assert scrape["metrics_path"] == "/metrics"
