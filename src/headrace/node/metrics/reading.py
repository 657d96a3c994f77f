"""Reading the machines: their counters and what they hold at the moment. On the loop, so it only copies numbers.

The number of series is bounded: beyond MAX_PARTITIONS no partition has its own, beyond MAX_TOPICS no topic has. The
sums of the node are always there, and `headrace_series_left_out` says how many are not.
"""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from headrace import __version__
from headrace.broker.groups.generation import State
from headrace.broker.topic import Topic
from headrace.broker.transactions.sink import MAX_QUERIES
from headrace.doors.http.door import HttpDoor
from headrace.doors.kafka import registry
from headrace.doors.kafka.door import KafkaDoor
from headrace.log.log import Log
from headrace.log.services import Services
from headrace.log.transactions import MAX_ABORTED
from headrace.metrics import Histogram, Traffic
from headrace.node.metrics.queues import queues
from headrace.node.metrics.sheet import Sheet
from headrace.records import kernel
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import PRODUCE

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.doors.tcp.door import TcpDoor
    from headrace.node.node import Node

MAX_PARTITIONS = 2000  # with five series each: a scrape stays under two megabytes
MAX_TOPICS = 1000
MAX_LAGS = 2000  # groups, and pairs of a group and a topic


def read(node: Node) -> Sheet:
    sheet = Sheet()
    _node(node, sheet)
    _topics(node, sheet)
    _logs(node.store.services, sheet)
    _groups(node, sheet)
    logs = node.store.services.logs.copy().values()
    fullest = max((log.producers.transactions.places for log in logs), default=0)
    sheet.put("headrace_aborted_transactions", fullest)
    sheet.put("headrace_aborted_transactions_limit", MAX_ABORTED)
    sheet.put("headrace_ledgers", node.broker.transactions.ledger_count)
    sheet.put("headrace_ledgers_limit", MAX_QUERIES)
    queues(node, sheet)
    _kafka(node.kafka, sheet)
    _http(node.http, sheet)
    for name, door in node.tcp.items():
        _tcp(name, door, sheet)
    return sheet


def _node(node: Node, sheet: Sheet) -> None:
    sheet.put("headrace_build_info", 1, __version__, platform.python_version(), "native" if kernel.NATIVE else "python")
    sheet.put("headrace_uptime_seconds", node.uptime_s)
    sheet.put("headrace_clock_seconds", node.clock.now_ms() / 1000)
    sheet.put("headrace_ready", float(node.watch.was_ready))
    for event, count in sorted(node.events.counts.copy().items()):
        sheet.put("headrace_events_total", count, event)
    sheet.spread("headrace_loop_lag_seconds", node.lag)
    sheet.put("headrace_metadata_usable", float(node.quorum.is_usable))
    sheet.put("headrace_metadata_index", node.quorum.index)


def _topics(node: Node, sheet: Sheet) -> None:
    topics = node.broker.topics()
    partitions = sum(len(topic.partitions) for topic in topics) - len(node.broker.memory_topics)
    total, states = Traffic(), {"open": 0, "closed": 0, "failed": 0}
    total.add(node.broker.gone_traffic)
    traffics = {topic: _traffic(topic) for topic in topics}
    for topic, traffic in traffics.items():
        total.add(traffic)
        for partition in topic.partitions:
            log = partition.log
            states["closed" if log is None else "open" if log.failed is None else "failed"] += 1
    sheet.put("headrace_appended_bytes_total", total.appended_bytes)
    sheet.put("headrace_appended_batches_total", total.appended_batches)
    sheet.put("headrace_appended_records_total", total.appended_records)
    sheet.put("headrace_read_bytes_total", total.read_bytes)
    sheet.put("headrace_read_records_total", total.read_records)
    sheet.put("headrace_duplicate_records_total", node.broker.deduplication.duplicates)
    sheet.put("headrace_remembered_ids", node.broker.deduplication.remembered)
    sheet.put("headrace_topics", len(topics))
    sheet.put("headrace_topics_in_memory", len(node.broker.memory_topics))
    for state, count in states.items():
        sheet.put("headrace_partitions", count, state)
    sheet.put("headrace_partitions_refusing", len(node.broker.refusing))
    # Topics that come with their first use and go again have no series of their own: nobody could keep them all.
    traffics = {topic: traffic for topic, traffic in traffics.items() if topic not in node.broker.memory_topics}
    for topic in with_series(node.broker):
        _topic(topic, traffics[topic], sheet, partitions <= MAX_PARTITIONS)
    sheet.put("headrace_series_left_out", len(traffics) if len(traffics) > MAX_TOPICS else 0, "topics")
    are_left_out = partitions > MAX_PARTITIONS or len(traffics) > MAX_TOPICS
    sheet.put("headrace_series_left_out", partitions if are_left_out else 0, "partitions")


def with_series(broker: Broker) -> list[Topic]:
    """The topics that have series of their own."""
    named = [topic for topic in broker.topics() if topic not in broker.memory_topics]
    return named if len(named) <= MAX_TOPICS else []


def read_sizes(node: Node, sheet: Sheet) -> None:
    """Apart from the rest: those of logs that are not open may have to be waited for."""
    for topic in with_series(node.broker):
        sizes = [node.watch.sizes.of(partition) for partition in topic.partitions]
        sheet.put("headrace_topic_size_bytes", _sum(sizes), topic.name)


def _sum(sizes: list[int | None]) -> int | None:
    """None where one is not known: a part would be taken for the whole."""
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _traffic(topic: Topic) -> Traffic:
    """Of the logs that were closed, and of those that are open."""
    traffic = Traffic()
    traffic.add(topic.traffic)
    for partition in topic.partitions:
        if partition.log is not None:
            traffic.took_in(partition.log)
    return traffic


def _topic(topic: Topic, traffic: Traffic, sheet: Sheet, with_partitions: bool) -> None:
    name = topic.name
    sheet.put("headrace_topic_appended_bytes_total", traffic.appended_bytes, name)
    sheet.put("headrace_topic_appended_records_total", traffic.appended_records, name)
    sheet.put("headrace_topic_read_bytes_total", traffic.read_bytes, name)
    sheet.put("headrace_topic_read_records_total", traffic.read_records, name)
    sheet.put("headrace_topic_partitions", len(topic.partitions), name)
    segments = 0
    for partition in topic.partitions:
        log = partition.log
        if log is None:
            continue
        count = len(log.segments) if isinstance(log, Log) else 0
        segments += count
        if with_partitions:
            index = str(partition.index)
            sheet.put("headrace_partition_start_offset", log.start_offset, name, index)
            sheet.put("headrace_partition_end_offset", log.written_offset, name, index)
            sheet.put("headrace_partition_synced_offset", log.synced_offset, name, index)
            sheet.put("headrace_partition_size_bytes", log.size_bytes, name, index)
            sheet.put("headrace_partition_segments", count, name, index)
    sheet.put("headrace_topic_segments", segments, name)


def _logs(services: Services, sheet: Sheet) -> None:
    metrics = services.metrics
    sheet.spread("headrace_log_write_seconds", metrics.writes)
    sheet.spread("headrace_log_sync_seconds", metrics.rounds)
    sheet.spread("headrace_log_sync_logs", metrics.round_logs)
    sheet.spread("headrace_log_recovery_seconds", metrics.recoveries)
    sheet.put("headrace_log_sync_waiting", services.sync.waiting)
    sheet.put("headrace_log_sync_running", services.sync.under_way)
    sheet.put("headrace_log_reads_total", metrics.memory_reads, "memory")
    sheet.put("headrace_log_reads_total", metrics.file_reads, "cache")
    sheet.put("headrace_log_reads_total", metrics.unseen_reads, "span")
    sheet.put("headrace_log_reads_total", metrics.disk_reads, "disk")
    sheet.put("headrace_log_deleted_segments_total", metrics.deleted_segments)
    sheet.put("headrace_log_deleted_bytes_total", metrics.deleted_bytes)
    sheet.spread("headrace_compaction_seconds", metrics.compactions)
    sheet.put("headrace_compaction_bytes_total", metrics.compacted_before_bytes, "before")
    sheet.put("headrace_compaction_bytes_total", metrics.compacted_after_bytes, "after")
    sheet.put("headrace_compaction_records_total", metrics.compacted_records)
    sheet.put("headrace_compaction_running", int(services.compactor.running is not None))
    sheet.put("headrace_compaction_waiting", services.compactor.waiting)
    sheet.put("headrace_compaction_dirty_ratio", services.dirtiest())
    sheet.put("headrace_log_damaged_ranges", sum(1 for log in services.logs.copy().values() for _ in log.holes))
    sheet.put("headrace_log_open_files", len(services.budget))
    sheet.put("headrace_log_open_files_limit", services.budget.limit)
    sheet.put("headrace_tail_bytes", services.tails.size_bytes)
    sheet.put("headrace_tail_limit_bytes", services.tails.limit_bytes)
    sheet.put("headrace_ring_bytes", services.rings.size_bytes)
    sheet.put("headrace_ring_limit_bytes", services.rings.limit_bytes)


def _groups(node: Node, sheet: Sheet) -> None:
    groups = node.broker.groups
    states = {state.value: 0 for state in State}
    for place, hosted in enumerate(groups.hosted.values()):
        states[hosted.group.state.value] += 1
        if place < MAX_LAGS:
            sheet.put("headrace_group_members", len(hosted.group.roster), hosted.group.id)
    for state, count in states.items():
        sheet.put("headrace_groups", count, state)
    sheet.put("headrace_group_generations_total", groups.saves)
    sheet.put("headrace_group_commits_total", groups.committed)
    sheet.put("headrace_group_expired_total", groups.expired)
    lags = groups.lag.by_topic(node.clock.now_ms())
    for (group, topic), (records, seconds) in list(lags.items())[:MAX_LAGS]:
        sheet.put("headrace_group_lag_records", records, group, topic)
        sheet.put("headrace_group_lag_seconds", seconds, group, topic)
    sheet.put("headrace_series_left_out", max(0, max(len(lags), len(groups.hosted)) - MAX_LAGS), "groups")


def _kafka(door: KafkaDoor, sheet: Sheet) -> None:
    metrics, apis = door.metrics, registry.apis() | registry.private()
    connections = door.connections()
    sheet.put("headrace_kafka_connections", len(connections))
    sheet.put("headrace_kafka_connections_limit", door.limits.max_connections)
    sheet.put("headrace_kafka_connections_opened_total", metrics.opened)
    sheet.put("headrace_kafka_connections_refused_total", metrics.refused)
    for cause, count in sorted(metrics.closed.items()):
        sheet.put("headrace_kafka_connections_closed_total", count, cause)
    if metrics.produced:
        metrics.times.setdefault(PRODUCE, Histogram())
    for key, times in sorted(metrics.times.items()):
        name = apis[key].name
        sheet.put("headrace_kafka_requests_total", metrics.produced if key == PRODUCE else sum(times.counts), name)
        sheet.spread("headrace_kafka_request_seconds", times, name)
    for (key, code), count in sorted(metrics.errors.items()):
        sheet.put("headrace_kafka_errors_total", count, apis[key].name, Code(code).name)
    sheet.put("headrace_kafka_polls", len(door.polls))
    sheet.put("headrace_kafka_sync_waiting", sum(len(connection.waiting) for connection in connections))
    sheet.put("headrace_kafka_sessions", len(door.sessions))
    sheet.put("headrace_kafka_request_memory_bytes", door.memory.used_bytes)
    sheet.put("headrace_kafka_request_memory_limit_bytes", door.memory.budget_bytes)
    sheet.put("headrace_kafka_unsent_bytes", door.unsent.held_bytes())
    sheet.put("headrace_kafka_unsent_limit_bytes", door.unsent.budget_bytes)


def _http(door: HttpDoor, sheet: Sheet) -> None:
    metrics = door.metrics
    sheet.put("headrace_http_connections", len(door))
    sheet.put("headrace_http_connections_opened_total", metrics.opened)
    sheet.put("headrace_http_connections_refused_total", metrics.refused)
    sheet.put("headrace_http_connections_timed_out_total", metrics.timed_out)
    for (method, route, status), count in sorted(metrics.requests.items()):
        sheet.put("headrace_http_requests_total", count, method, route, str(status))
    for route, times in sorted(metrics.times.items()):
        sheet.spread("headrace_http_request_seconds", times, route)


def _tcp(name: str, door: TcpDoor, sheet: Sheet) -> None:
    metrics = door.metrics
    sheet.put("headrace_door_connections", len(door), name)
    sheet.put("headrace_door_connections_limit", door.limits.max_connections, name)
    sheet.put("headrace_door_connections_opened_total", metrics.opened, name)
    sheet.put("headrace_door_connections_refused_total", metrics.refused, name)
    for cause, count in sorted(metrics.closed.items()):
        sheet.put("headrace_door_connections_closed_total", count, name, cause)
    sheet.put("headrace_door_requests_total", metrics.requests, name)
    sheet.put("headrace_door_errors_total", metrics.errors, name)
    sheet.put("headrace_door_published_records_total", metrics.published, name)
    sheet.put("headrace_door_delivered_records_total", metrics.delivered, name)
    sheet.put("headrace_door_lost_records_total", metrics.lost, name)
    sheet.put("headrace_door_received_bytes_total", metrics.received_bytes, name)
    sheet.put("headrace_door_sent_bytes_total", metrics.sent_bytes, name)
    sheet.put("headrace_door_unfinished_bytes", door.unfinished_bytes, name)
    sheet.put("headrace_door_unsent_bytes", door.unsent.held_bytes(), name)
