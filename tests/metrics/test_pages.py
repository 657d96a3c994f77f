"""What is written about metrics elsewhere: the documentation and the dashboard name only what there is."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import yaml

from headrace.node.metrics.catalogue import BY_NAME, METRICS
from tests.metrics.promtool import families
from tools import metrics_page

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
DASHBOARD = DEPLOY / "grafana" / "dashboards" / "headrace.json"
METRIC = re.compile(r"\b(?:headrace|process)_[a-z0-9_]+\b")
LABELS = re.compile(r"by \(([a-z, ]+)\)")
SELECTOR = re.compile(r"(\w+)\{([^}]*)\}")


def dashboard() -> dict[str, Any]:
    return dict(json.loads(DASHBOARD.read_text()))


def queries() -> list[str]:
    found = dashboard()
    asked = [target["expr"] for panel in found["panels"] for target in panel.get("targets", [])]
    return asked + [entry["query"]["query"] for entry in found["templating"]["list"] if entry["type"] == "query"]


def base(name: str) -> str:
    """The metric that a series belongs to."""
    return name if name in BY_NAME else re.sub(r"_(?:bucket|sum|count)$", "", name)


def test_the_page_has_the_table_as_it_is() -> None:
    page = metrics_page.PAGE.read_text()
    assert metrics_page.page(page) == page, "make figures writes it anew"


def test_the_page_names_only_metrics_that_there_are() -> None:
    assert {base(name) for name in METRIC.findall(metrics_page.PAGE.read_text())} <= set(BY_NAME)


def test_names_are_unique_and_totals_are_counters() -> None:
    assert len(BY_NAME) == len(METRICS)
    for metric in METRICS:
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert metric.help.endswith("."), metric.name


async def test_every_metric_of_the_dashboard_is_in_a_real_scrape(scraped: str) -> None:
    told = {sample.name for family in families(scraped).values() for sample in family.samples}
    asked = {name for query in queries() for name in METRIC.findall(query)}
    assert len(asked) > 40
    assert asked <= told


async def test_every_label_of_the_dashboard_is_one_that_its_metric_has(scraped: str) -> None:
    given: dict[str, set[str]] = {}
    for family in families(scraped).values():
        for sample in family.samples:
            given.setdefault(sample.name, {"instance", "job"}).update(sample.labels)
    for query in queries():
        for name, inside in SELECTOR.findall(query):
            used = set(re.findall(r"(\w+)\s*=~?", inside))
            assert used <= given[name], query
        (names, by) = (
            METRIC.findall(query),
            {label.strip() for group in LABELS.findall(query) for label in group.split(",")},
        )
        assert by <= set().union(*(given[name] for name in names)), query


def test_almost_every_metric_is_on_the_dashboard() -> None:
    asked = {base(name) for query in queries() for name in METRIC.findall(query)}
    left = {metric.name for metric in METRICS} - asked
    assert not {
        name for name in left if not name.startswith(("headrace_partition_", "headrace_topic_", "headrace_http_"))
    } - {
        "headrace_topics",
        "headrace_metadata_index",
        "headrace_metadata_usable",
        "headrace_series_left_out",
        "process_start_time_seconds",
    }


def test_panels_have_titles_and_ids_of_their_own_and_do_not_overlap() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["title"] for panel in panels)
    places = [panel["gridPos"] for panel in panels]
    for one, other in itertools.combinations(places, 2):
        apart_x = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        apart_y = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert apart_x or apart_y
    assert max(place["x"] + place["w"] for place in places) == 24


def test_brackets_of_every_query_match() -> None:
    for query in queries():
        for left, right in ("()", "{}", "[]"):
            assert query.count(left) == query.count(right), query


def test_prometheus_and_grafana_find_each_other_and_the_node() -> None:
    compose = yaml.safe_load((DEPLOY / "docker-compose.yml").read_text())
    scrape = yaml.safe_load((DEPLOY / "grafana" / "prometheus.yml").read_text())["scrape_configs"][0]
    host, _, port = scrape["static_configs"][0]["targets"][0].rpartition(":")
    assert host in compose["services"]
    assert port == "8081"
    assert scrape["metrics_path"] == "/metrics/prometheus"
    provisioning = DEPLOY / "grafana" / "provisioning"
    source = yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text())["datasources"][0]
    assert source["url"] == "http://prometheus:9090"
    provider = yaml.safe_load((provisioning / "dashboards" / "headrace.yml").read_text())["providers"][0]
    volumes = compose["services"]["grafana"]["volumes"]
    assert f"./grafana/dashboards:{provider['options']['path']}:ro" in volumes
