"""One look at a server: counters and sizes at one moment.

From the node's own metrics where its http door answers. From any other Kafka-compatible server what the protocol tells:
a partition's end offset is a counter of its records, and the log directories have sizes.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from headrace.cli import scrape
from headrace.cli.topics import every
from headrace.doors.kafka import names
from headrace.errors import ConnectionFailed, HeadraceError

if TYPE_CHECKING:
    from headrace.aio import Client

METRICS_PATH, HEALTH_PATH = "/metrics/prometheus", "/healthz"
MAX_TOPICS = 200  # asked for offsets at each look, where there are no metrics
GROUP_LAG, GROUP_LAG_SECONDS = "headrace_group_lag_records", "headrace_group_lag_seconds"
_BUCKET = "_bucket"
_OK = 200


class Sample(msgspec.Struct):
    at_s: float
    values: dict[str, float] = {}
    """By name (with its state, for partitions), other labels summed up."""
    topics: dict[str, dict[str, float]] = {}
    """By topic, then by name."""
    groups: dict[str, dict[str, float]] = {}
    """By group, then by name: over its topics the sum, of what is in seconds the greatest."""
    buckets: dict[str, dict[float, float]] = {}
    """By name (with its api, for requests), then by upper bound: how many so far took at most that."""
    labels: dict[str, str] = {}
    """Of headrace_build_info."""


class Health(msgspec.Struct):
    cluster_id: str = ""


def health(http: str, timeout_s: float) -> Health:
    """ConnectionFailed where no node's http door is."""
    status, body = scrape.get(http, HEALTH_PATH, timeout_s)
    try:
        return msgspec.json.decode(body, type=Health)
    except msgspec.MsgspecError as error:
        raise ConnectionFailed(f"{http} is no http door of a node (status {status})") from error


def from_metrics(http: str, timeout_s: float) -> Sample:
    at_s = time.monotonic()
    status, body = scrape.get(http, METRICS_PATH, timeout_s)
    if status != _OK:
        raise HeadraceError(f"{http}{METRICS_PATH} answers with status {status}")
    return parsed(body.decode(), at_s)


def parsed(text: str, at_s: float) -> Sample:
    from prometheus_client.parser import text_string_to_metric_families

    sample = Sample(at_s)
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            if one.name.endswith(_BUCKET):
                name = one.name.removesuffix(_BUCKET) + (f":{one.labels['api']}" if "api" in one.labels else "")
                at = float(one.labels["le"])
                buckets = sample.buckets.setdefault(name, {})
                buckets[at] = buckets.get(at, 0.0) + one.value
            elif "group" in one.labels:
                _add(sample.groups.setdefault(one.labels["group"], {}), one.name, one.value)
            elif "topic" in one.labels and "partition" not in one.labels:
                sample.topics.setdefault(one.labels["topic"], {})[one.name] = one.value
            elif "partition" not in one.labels:
                name = one.name + (f":{one.labels['state']}" if "state" in one.labels else "")
                sample.values[name] = sample.values.get(name, 0.0) + one.value
            if one.name == "headrace_build_info":
                sample.labels = dict(one.labels)
    return sample


def _add(group: dict[str, float], name: str, value: float) -> None:
    known = group.get(name, 0.0)
    group[name] = max(known, value) if name == GROUP_LAG_SECONDS else known + value


async def from_kafka(client: Client) -> Sample:
    """Under the names that a node's metrics have."""
    found = (await every(client))[:MAX_TOPICS]
    sample = Sample(time.monotonic(), {"headrace_topics": float(len(found))})
    for topic in found:
        ends = await client.admin.offsets(topic.name, "end")
        sample.topics[topic.name] = {
            "headrace_topic_partitions": float(len(topic.partitions)),
            "headrace_topic_appended_records_total": float(sum(at.offset for at in ends.values())),
        }
    await _add_sizes(client, sample)
    return sample


async def _add_sizes(client: Client, sample: Sample) -> None:
    try:
        folders = await client.admin.log_dirs()
    except HeadraceError:  # not every server tells, or lets us ask
        return
    for folder in folders:
        for where in folder.partitions:
            if (values := sample.topics.get(names.from_kafka(where.topic))) is not None:
                values["headrace_topic_size_bytes"] = values.get("headrace_topic_size_bytes", 0.0) + where.size
        if folder.total_bytes >= 0:
            for name, size in (("free", folder.usable_bytes), ("total", folder.total_bytes)):
                key = f"headrace_disk_{name}_bytes"
                sample.values[key] = sample.values.get(key, 0.0) + size
