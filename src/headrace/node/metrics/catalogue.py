"""Every metric that there is: its name, its kind, its labels, what it means. docs/metrics.md is made from this table.

Names are Prometheus's way: base units at the end, `_total` for what only rises. `process_…` are the names that every
exporter uses for its own process; all others are `headrace_…`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["counter", "gauge", "histogram"]


class Metric(NamedTuple):
    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    places: range = range(4, 25)  # of a histogram, the bounds that are shown: 16 microseconds to 17 seconds


LONG = range(9, 30)  # half a millisecond to nine minutes
FEW = range(1, 6)  # 1 to 31 things

GROUPS: dict[str, tuple[Metric, ...]] = {
    "The node": (
        Metric("headrace_build_info", "gauge", "Always 1; the labels say what runs.", ("version", "python", "kernels")),
        Metric("headrace_uptime_seconds", "gauge", "How long the node has been serving."),
        Metric("headrace_clock_seconds", "gauge", "The node's wall clock: compare it with time()."),
        Metric("headrace_ready", "gauge", "1 when clients can be sent here; /readyz says why not."),
        Metric("headrace_events_total", "counter", "Log events, whether or not their level is shown.", ("event",)),
        Metric(
            "headrace_loop_lag_seconds", "histogram", "How late the loop came to what was due; looked at each second."
        ),
        Metric("headrace_metadata_usable", "gauge", "1 when topics can be made and changed."),
        Metric("headrace_metadata_index", "gauge", "The last metadata entry that was applied."),
        Metric("headrace_disk_free_bytes", "gauge", "Of the disk that holds the data: what the node may still write."),
        Metric("headrace_disk_total_bytes", "gauge", "The size of the disk that holds the data."),
    ),
    "What goes in and out": (
        Metric("headrace_appended_bytes_total", "counter", "Bytes of batches written to the logs of all topics."),
        Metric("headrace_appended_batches_total", "counter", "Batches written to the logs of all topics."),
        Metric("headrace_appended_records_total", "counter", "Records written to the logs of all topics."),
        Metric("headrace_read_bytes_total", "counter", "Bytes of batches sent to consumers."),
        Metric("headrace_read_records_total", "counter", "Records sent to consumers, counted by their offsets."),
        Metric("headrace_duplicate_records_total", "counter", "Records not stored, because their ids were known."),
        Metric("headrace_remembered_ids", "gauge", "Ids of records that topics remember, a million at most."),
        Metric("headrace_topics", "gauge", "Topics."),
        Metric("headrace_topics_in_memory", "gauge", "Of these, memory topics that came with their first use."),
        Metric(
            "headrace_partitions",
            "gauge",
            "Partitions by what they do: open, closed (not used yet), failed.",
            ("state",),
        ),
        Metric(
            "headrace_partitions_refusing", "gauge", "Partitions whose last write was refused: a full or failed disk."
        ),
        Metric("headrace_topic_appended_bytes_total", "counter", "Bytes of batches written to a topic.", ("topic",)),
        Metric("headrace_topic_appended_records_total", "counter", "Records written to a topic.", ("topic",)),
        Metric(
            "headrace_topic_read_bytes_total", "counter", "Bytes of a topic's batches sent to consumers.", ("topic",)
        ),
        Metric("headrace_topic_read_records_total", "counter", "Records of a topic sent to consumers.", ("topic",)),
        Metric("headrace_topic_size_bytes", "gauge", "Size of a topic's logs, open or not.", ("topic",)),
        Metric("headrace_topic_segments", "gauge", "Segments of a topic's logs that are open.", ("topic",)),
        Metric("headrace_topic_partitions", "gauge", "Partitions of a topic.", ("topic",)),
        Metric(
            "headrace_partition_start_offset", "gauge", "The first offset that can be read.", ("topic", "partition")
        ),
        Metric("headrace_partition_end_offset", "gauge", "The offset that comes next.", ("topic", "partition")),
        Metric("headrace_partition_synced_offset", "gauge", "All before it is on the disk.", ("topic", "partition")),
        Metric("headrace_partition_size_bytes", "gauge", "Size of a partition's log.", ("topic", "partition")),
        Metric("headrace_partition_segments", "gauge", "Segments of a partition's log.", ("topic", "partition")),
        Metric(
            "headrace_series_left_out",
            "gauge",
            "Topics, partitions or groups without series of their own: too many.",
            ("of",),
        ),
    ),
    "The logs": (
        Metric(
            "headrace_log_write_seconds",
            "histogram",
            "Time of one write: what a turn of the loop brought to a log. A sample.",
        ),
        Metric("headrace_log_sync_seconds", "histogram", "Time of one group sync, which acks=all waits for."),
        Metric("headrace_log_sync_logs", "histogram", "How many logs one group sync took together.", (), FEW),
        Metric("headrace_log_sync_waiting", "gauge", "Logs that wait for the next group sync."),
        Metric("headrace_log_sync_running", "gauge", "Group syncs under way."),
        Metric("headrace_log_recovery_seconds", "histogram", "Time to open a log, which is to recover it.", (), LONG),
        Metric(
            "headrace_log_reads_total",
            "counter",
            "Reads by where they came from: memory, cache, span (the cache, sent by the kernel itself), disk.",
            ("source",),
        ),
        Metric("headrace_log_deleted_segments_total", "counter", "Segments let go, by retention or by wish."),
        Metric("headrace_log_deleted_bytes_total", "counter", "Bytes of segments let go, by retention or by wish."),
        Metric("headrace_compaction_seconds", "histogram", "Time of one pass of compaction over a log.", (), LONG),
        Metric(
            "headrace_compaction_bytes_total",
            "counter",
            "Bytes of the segments that compaction went over, before and after it.",
            ("when",),
        ),
        Metric("headrace_compaction_records_total", "counter", "Records that compaction let go."),
        Metric("headrace_compaction_running", "gauge", "1 while a log is being compacted."),
        Metric("headrace_compaction_waiting", "gauge", "Logs that wait for their turn."),
        Metric("headrace_compaction_dirty_ratio", "gauge", "The largest uncompacted share of a log that may go."),
        Metric("headrace_log_damaged_ranges", "gauge", "Ranges of offsets that no longer read back, in open logs."),
        Metric("headrace_log_open_files", "gauge", "Segment files that are open."),
        Metric("headrace_log_open_files_limit", "gauge", "How many may be."),
        Metric("headrace_tail_bytes", "gauge", "Memory of recent batches, for those who read at the end."),
        Metric("headrace_tail_limit_bytes", "gauge", "What it may take."),
        Metric("headrace_ring_bytes", "gauge", "Memory of memory topics."),
        Metric("headrace_ring_limit_bytes", "gauge", "What it may take."),
    ),
    "The Kafka door": (
        Metric("headrace_kafka_connections", "gauge", "Connections now."),
        Metric("headrace_kafka_connections_limit", "gauge", "How many there may be."),
        Metric("headrace_kafka_connections_opened_total", "counter", "Connections that came."),
        Metric("headrace_kafka_connections_refused_total", "counter", "Of these, closed at once: there were too many."),
        Metric(
            "headrace_kafka_connections_closed_total",
            "counter",
            "Connections that ended, by who ended them.",
            ("cause",),
        ),
        Metric("headrace_kafka_requests_total", "counter", "Requests done.", ("api",)),
        Metric(
            "headrace_kafka_request_seconds",
            "histogram",
            "From a request's last byte to its answer, without a fetch's wait for news. Produce unsynced: a sample.",
            ("api",),
        ),
        Metric(
            "headrace_kafka_errors_total",
            "counter",
            "Errors answered: one for each partition, topic or other thing that a request names.",
            ("api", "error"),
        ),
        Metric("headrace_kafka_polls", "gauge", "Fetches that wait for news."),
        Metric("headrace_kafka_sync_waiting", "gauge", "Produce requests that wait for a sync."),
        Metric("headrace_kafka_sessions", "gauge", "Fetch sessions."),
        Metric("headrace_kafka_request_memory_bytes", "gauge", "Memory of requests on their way in."),
        Metric("headrace_kafka_request_memory_limit_bytes", "gauge", "What it may take before connections take turns."),
        Metric("headrace_kafka_unsent_bytes", "gauge", "Answers that slow clients have not taken."),
        Metric("headrace_kafka_unsent_limit_bytes", "gauge", "What it may be before fetches get little."),
    ),
    "Consumer groups": (
        Metric("headrace_groups", "gauge", "Groups, by state.", ("state",)),
        Metric("headrace_group_members", "gauge", "Members of a group.", ("group",)),
        Metric(
            "headrace_group_generations_total",
            "counter",
            "How often a group gave out its partitions anew, or lost its last member.",
        ),
        Metric("headrace_group_commits_total", "counter", "Positions that members and others committed."),
        Metric("headrace_group_expired_total", "counter", "Positions that were kept no longer."),
        Metric(
            "headrace_group_lag_records",
            "gauge",
            "Records of a topic that a group has not read, all its partitions together.",
            ("group", "topic"),
        ),
        Metric(
            "headrace_group_lag_seconds",
            "gauge",
            "Age of the oldest record of a topic that a group has not read; 0: it has read all.",
            ("group", "topic"),
        ),
    ),
    "Transactions": (
        Metric(
            "headrace_aborted_transactions",
            "gauge",
            "Transactions, aborted or under way, that the open partition remembers which has most of them.",
        ),
        Metric("headrace_aborted_transactions_limit", "gauge", "At it nobody begins one in that partition."),
        Metric("headrace_ledgers", "gauge", "Queries of streaming sinks that have a ledger here."),
        Metric("headrace_ledgers_limit", "gauge", "Beyond it a new query is refused; headrace txn forget makes room."),
    ),
    "Queues": (
        Metric("headrace_queues", "gauge", "Queues, by how often they deliver a record.", ("mode",)),
        Metric("headrace_queue_members", "gauge", "Members of a queue.", ("door", "topic", "group")),
        Metric(
            "headrace_queue_lag_records",
            "gauge",
            "Offsets of a queue's topic that are not settled; a queue that nobody has opened since the start has none.",
            ("door", "topic", "group"),
        ),
        Metric("headrace_queue_in_flight_records", "gauge", "Records that members hold.", ("door", "topic", "group")),
        Metric(
            "headrace_queue_records_total",
            "counter",
            "What became of records: delivered, redelivered (of these), acknowledged, released, timed_out, rejected, "
            "dead (safe in a dead-letter topic), dropped (there is none), lost (retention was quicker).",
            ("what",),
        ),
        Metric("headrace_queue_memory_bytes", "gauge", "Records of queues in memory."),
        Metric("headrace_queue_memory_limit_bytes", "gauge", "What they may take before queues read less."),
        Metric("headrace_leases", "gauge", "Groups of the HTTP door that have an active consumer."),
    ),
    "The HTTP door": (
        Metric("headrace_http_connections", "gauge", "Connections now."),
        Metric("headrace_http_connections_opened_total", "counter", "Connections that came."),
        Metric("headrace_http_connections_refused_total", "counter", "Of these, closed at once: there were too many."),
        Metric("headrace_http_connections_timed_out_total", "counter", "Connections whose client did not go on."),
        Metric("headrace_http_requests_total", "counter", "Requests done.", ("method", "route", "status")),
        Metric("headrace_http_request_seconds", "histogram", "From a request's headers to its answer.", ("route",)),
    ),
    "The other doors: binary, lines, json, msgpack": (
        Metric("headrace_door_connections", "gauge", "Connections now.", ("door",)),
        Metric("headrace_door_connections_limit", "gauge", "How many there may be.", ("door",)),
        Metric("headrace_door_connections_opened_total", "counter", "Connections that came.", ("door",)),
        Metric(
            "headrace_door_connections_refused_total",
            "counter",
            "Of these, closed at once: there were too many.",
            ("door",),
        ),
        Metric(
            "headrace_door_connections_closed_total",
            "counter",
            "Connections that ended, by who ended them.",
            ("door", "cause"),
        ),
        Metric("headrace_door_requests_total", "counter", "Messages of clients that ask for something.", ("door",)),
        Metric("headrace_door_errors_total", "counter", "Of these, refused.", ("door",)),
        Metric("headrace_door_published_records_total", "counter", "Records that clients published.", ("door",)),
        Metric(
            "headrace_door_delivered_records_total",
            "counter",
            "Records sent to subscribers, once for each of them.",
            ("door",),
        ),
        Metric(
            "headrace_door_lost_records_total",
            "counter",
            "Records that slow subscribers did not get, each counted for each of them.",
            ("door",),
        ),
        Metric("headrace_door_received_bytes_total", "counter", "Bytes that clients sent.", ("door",)),
        Metric("headrace_door_sent_bytes_total", "counter", "Bytes sent to clients.", ("door",)),
        Metric("headrace_door_unfinished_bytes", "gauge", "Memory of messages whose rest has not come.", ("door",)),
        Metric("headrace_door_unsent_bytes", "gauge", "What slow clients have not taken.", ("door",)),
    ),
    "The process": (
        Metric("process_cpu_seconds_total", "counter", "Processor time that the process used."),
        Metric("process_resident_memory_bytes", "gauge", "Memory of the process."),
        Metric("process_open_fds", "gauge", "Open file descriptors."),
        Metric("process_max_fds", "gauge", "How many there may be."),
        Metric("process_threads", "gauge", "Threads."),
        Metric("process_start_time_seconds", "gauge", "When the process began, since 1970."),
    ),
}
METRICS = tuple(metric for group in GROUPS.values() for metric in group)
BY_NAME = {metric.name: metric for metric in METRICS}
