"""A sheet as text: Prometheus's own format, or OpenMetrics. Off the loop: the first time it imports the library, and
thousands of series take milliseconds."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.node.metrics.catalogue import METRICS, Metric
from headrace.node.metrics.sheet import Labels, Sheet, Spread


def render(sheet: Sheet, *, openmetrics: bool = False) -> bytes:
    from prometheus_client import exposition
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
    from prometheus_client.metrics_core import Metric as Family
    from prometheus_client.openmetrics import exposition as openmetrics_exposition
    from prometheus_client.registry import CollectorRegistry

    def family(metric: Metric, values: list[tuple[Labels, float | Spread]]) -> Family:
        made: CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
        if metric.kind == "histogram":
            made = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
            for labels, spread in values:
                assert isinstance(spread, Spread)
                made.add_metric(labels, buckets(spread), spread.sum)
            return made
        kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
        made = kind(metric.name, metric.help, labels=metric.labels)
        for labels, value in values:
            assert not isinstance(value, Spread)
            made.add_metric(labels, value)
        return made

    class Once:
        def collect(self) -> Iterable[Family]:
            return [family(metric, sheet.values[metric.name]) for metric in METRICS if metric.name in sheet.values]

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Once())
    write = openmetrics_exposition.generate_latest if openmetrics else exposition.generate_latest
    return write(registry)


def buckets(spread: Spread) -> list[tuple[str, float]]:
    bounds = [*map(_shown, spread.bounds), "+Inf"]
    return list(zip(bounds, map(float, spread.counts), strict=True))


def _shown(bound: float) -> str:
    return f"{bound:.6f}".rstrip("0") + ("0" if bound == int(bound) else "")
