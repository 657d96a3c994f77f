"""Two looks at a server, and the rates between them. What the server does not tell is null, never zero."""

from __future__ import annotations

import time

import msgspec

from headrace.cli.top.sample import GROUP_LAG, GROUP_LAG_SECONDS, Sample

PERCENTILE = 0.99


class Node(msgspec.Struct, frozen=True):
    version: str | None = None
    ready: bool | None = None
    uptime_seconds: float | None = None
    cpu_percent: float | None = None
    memory_bytes: int | None = None
    connections: int | None = None
    requests_per_second: float | None = None
    in_records_per_second: float | None = None
    in_bytes_per_second: float | None = None
    out_records_per_second: float | None = None
    out_bytes_per_second: float | None = None
    produce_p99_ms: float | None = None
    fetch_p99_ms: float | None = None
    sync_p99_ms: float | None = None
    disk_free_bytes: int | None = None
    disk_total_bytes: int | None = None
    refusing_partitions: int | None = None
    failed_partitions: int | None = None


class Topic(msgspec.Struct, frozen=True):
    topic: str
    partitions: int | None
    size_bytes: int | None
    in_records_per_second: float | None
    in_bytes_per_second: float | None
    out_records_per_second: float | None
    out_bytes_per_second: float | None


class Group(msgspec.Struct, frozen=True):
    group: str
    lag: int | None
    lag_seconds: float | None


class View(msgspec.Struct, frozen=True):
    time_ms: int
    server: str
    source: str
    """`metrics` of the node's http door, or `kafka` where there is none."""
    interval_seconds: float
    node: Node
    topics: list[Topic]
    groups: list[Group] = []
    """Those that are furthest behind first; none where the server does not tell of any."""


def view(server: str, source: str, before: Sample, now: Sample) -> View:
    between_s = max(now.at_s - before.at_s, 1e-9)
    topics = [_topic(name, before, now, between_s) for name in now.topics]
    topics.sort(key=lambda one: (-(one.in_bytes_per_second or one.in_records_per_second or 0), one.topic))
    groups = [_group(name, values) for name, values in now.groups.items()]
    groups.sort(key=lambda one: (-(one.lag_seconds or 0), -(one.lag or 0), one.group))
    node, seconds = _node(before, now, between_s), round(between_s, 3)
    return View(time.time_ns() // 1_000_000, server, source, seconds, node, topics, groups)


def _node(before: Sample, now: Sample, between_s: float) -> Node:
    def rate(name: str) -> float | None:
        return _rate(before.values.get(name), now.values.get(name), between_s)

    def whole(name: str) -> int | None:
        found = now.values.get(name)
        return None if found is None else int(found)

    cpu, ready = rate("process_cpu_seconds_total"), now.values.get("headrace_ready")
    return Node(
        version=now.labels.get("version"),
        ready=None if ready is None else bool(ready),
        uptime_seconds=now.values.get("headrace_uptime_seconds"),
        cpu_percent=None if cpu is None else round(cpu * 100, 1),
        memory_bytes=whole("process_resident_memory_bytes"),
        connections=whole("headrace_kafka_connections"),
        requests_per_second=rate("headrace_kafka_requests_total"),
        in_records_per_second=rate("headrace_appended_records_total"),
        in_bytes_per_second=rate("headrace_appended_bytes_total"),
        out_records_per_second=rate("headrace_read_records_total"),
        out_bytes_per_second=rate("headrace_read_bytes_total"),
        produce_p99_ms=_p99_ms(before, now, "headrace_kafka_request_seconds:Produce"),
        fetch_p99_ms=_p99_ms(before, now, "headrace_kafka_request_seconds:Fetch"),
        sync_p99_ms=_p99_ms(before, now, "headrace_log_sync_seconds"),
        disk_free_bytes=whole("headrace_disk_free_bytes"),
        disk_total_bytes=whole("headrace_disk_total_bytes"),
        refusing_partitions=whole("headrace_partitions_refusing"),
        failed_partitions=whole("headrace_partitions:failed"),
    )


def _topic(name: str, before: Sample, now: Sample, between_s: float) -> Topic:
    then, there = before.topics.get(name, {}), now.topics[name]

    def rate(counter: str) -> float | None:
        return _rate(then.get(counter), there.get(counter), between_s)

    def whole(size: str) -> int | None:
        found = there.get(size)
        return None if found is None else int(found)

    return Topic(
        name,
        whole("headrace_topic_partitions"),
        whole("headrace_topic_size_bytes"),
        rate("headrace_topic_appended_records_total"),
        rate("headrace_topic_appended_bytes_total"),
        rate("headrace_topic_read_records_total"),
        rate("headrace_topic_read_bytes_total"),
    )


def _group(name: str, values: dict[str, float]) -> Group:
    lag = values.get(GROUP_LAG)
    return Group(name, None if lag is None else int(lag), values.get(GROUP_LAG_SECONDS))


def _rate(before: float | None, now: float | None, between_s: float) -> float | None:
    """None where nothing is told. A counter that is new began at nothing; one that fell has begun anew."""
    if now is None:
        return None
    grown = now - (before or 0.0)
    return round((grown if grown >= 0 else now) / between_s, 1)


def _p99_ms(before: Sample, now: Sample, name: str) -> float | None:
    """The bound that 99 of 100 kept in this interval; None where there was nothing to measure."""
    bounds = now.buckets.get(name)
    if not bounds:
        return None
    then = before.buckets.get(name, {})
    counts = {at: count - then.get(at, 0.0) for at, count in sorted(bounds.items())}
    total = max(counts.values())
    if total <= 0:
        return None
    finite = [at for at in counts if at != float("inf")]
    within = next((at for at in finite if counts[at] >= total * PERCENTILE), finite[-1])
    return round(within * 1000, 3)
