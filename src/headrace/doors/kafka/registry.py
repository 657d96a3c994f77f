"""Which Kafka APIs there are: one `Api` value in each file of `api/`, and the table made of them.

- The answer to ApiVersions is derived from this table; nothing is advertised that has no handler.
- A range is a promise for every version in it: Kafka 4.3's own, from its oldest to its newest.
- A handler gets bytes that are its own only until it returns: it reads the request at once, and what has to
  wait it does in the coroutine that it returns.
- Unknown APIs and versions close the connection, as Kafka does; only ApiVersions answers a version that it
  does not know, because that is how a newer client finds out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple

from headrace.doors.kafka.answers import Later
from headrace.doors.kafka.context import Context
from headrace.ports import Buffer
from headrace.wire.kafka.errors import MalformedRequest
from headrace.wire.kafka.header import API_VERSIONS, RequestHeader

Handled = bytes | Awaitable[bytes] | Later[Any]  # the whole answer, now or later

SINK: Final = 20_000  # the private request of a streaming sink; Kafka's own are below a hundred

# (buffer, where the body begins, where it ends, context) -> the answer
Handler = Callable[[Buffer, int, int, Context], Handled]


class Api(NamedTuple):
    key: int
    name: str
    versions: range  # those that are handled
    handler: Handler | None = None  # None: the connection does it (Produce, Fetch)
    advertised_min: int | None = None  # where it is not the oldest version handled

    def handles(self, version: int) -> bool:
        return version in self.versions

    @property
    def advertised(self) -> tuple[int, int]:
        """The oldest and the newest version that ApiVersions names."""
        oldest = self.versions[0] if self.advertised_min is None else self.advertised_min
        return oldest, self.versions[-1]


# What people ask now and then: file, key, name, versions. Each file is read when it is first needed, so that a start is
# quick; its own `API` says the same, and a test compares.
_LATER: Final = (
    ("offset_commit", 8, "OffsetCommit", range(2, 11)),
    ("offset_fetch", 9, "OffsetFetch", range(1, 11)),
    ("find_coordinator", 10, "FindCoordinator", range(7)),
    ("join_group", 11, "JoinGroup", range(10)),
    ("heartbeat", 12, "Heartbeat", range(5)),
    ("leave_group", 13, "LeaveGroup", range(6)),
    ("sync_group", 14, "SyncGroup", range(6)),
    ("describe_groups", 15, "DescribeGroups", range(7)),
    ("list_groups", 16, "ListGroups", range(6)),
    ("create_topics", 19, "CreateTopics", range(2, 8)),
    ("delete_topics", 20, "DeleteTopics", range(1, 7)),
    ("delete_records", 21, "DeleteRecords", range(3)),
    ("offset_for_leader_epoch", 23, "OffsetForLeaderEpoch", range(2, 5)),
    ("add_partitions_to_txn", 24, "AddPartitionsToTxn", range(6)),
    ("add_offsets_to_txn", 25, "AddOffsetsToTxn", range(5)),
    ("end_txn", 26, "EndTxn", range(6)),
    ("write_txn_markers", 27, "WriteTxnMarkers", range(1, 3)),
    ("txn_offset_commit", 28, "TxnOffsetCommit", range(6)),
    ("describe_configs", 32, "DescribeConfigs", range(1, 5)),
    ("alter_configs", 33, "AlterConfigs", range(3)),
    ("alter_replica_log_dirs", 34, "AlterReplicaLogDirs", range(1, 3)),
    ("describe_log_dirs", 35, "DescribeLogDirs", range(1, 6)),
    ("create_partitions", 37, "CreatePartitions", range(4)),
    ("delete_groups", 42, "DeleteGroups", range(3)),
    ("elect_leaders", 43, "ElectLeaders", range(3)),
    ("incremental_alter_configs", 44, "IncrementalAlterConfigs", range(2)),
    ("alter_partition_reassignments", 45, "AlterPartitionReassignments", range(2)),
    ("list_partition_reassignments", 46, "ListPartitionReassignments", range(1)),
    ("offset_delete", 47, "OffsetDelete", range(1)),
    ("describe_quorum", 55, "DescribeQuorum", range(3)),
    ("update_features", 57, "UpdateFeatures", range(3)),
    ("describe_cluster", 60, "DescribeCluster", range(3)),
    ("describe_producers", 61, "DescribeProducers", range(1)),
    ("unregister_broker", 64, "UnregisterBroker", range(1)),
    ("describe_transactions", 65, "DescribeTransactions", range(1)),
    ("list_transactions", 66, "ListTransactions", range(3)),
    ("list_config_resources", 74, "ListConfigResources", range(2)),
    ("describe_topic_partitions", 75, "DescribeTopicPartitions", range(1)),
)


@cache
def apis() -> dict[int, Api]:
    """All of them, by key. Made on first use: each file of `api/` imports this one for `Api`."""
    from headrace.doors.kafka.api import api_versions, fetch, init_producer_id, list_offsets, metadata, produce

    first = (module.API for module in (produce, fetch, list_offsets, metadata, api_versions, init_producer_id))
    later = (Api(key, name, versions, _later(file)) for file, key, name, versions in _LATER)
    return {api.key: api for api in (*first, *later)}


def _later(file: str) -> Handler:
    def handle(buffer: Buffer, at: int, end: int, context: Context) -> Handled:
        handler = _read(file).handler
        assert handler is not None
        return handler(buffer, at, end, context)

    return handle


@cache
def _read(file: str) -> Api:
    api: Api = import_module(f"headrace.doors.kafka.api.{file}").API
    return api


@cache
def private() -> dict[int, Api]:
    """What our own client asks of our own broker, and nobody else could: it is not advertised."""

    def handle(buffer: Buffer, at: int, end: int, context: Context) -> bytes | Awaitable[bytes] | Later[Any]:
        from headrace.doors.kafka import sink

        assert sink.API.handler is not None
        return sink.API.handler(buffer, at, end, context)

    return {SINK: Api(SINK, "Sink", range(2), handle)}


def name_of(key: int) -> str:
    return (apis().get(key) or private()[key]).name


def lookup(key: int, version: int) -> Api | None:
    """The API that handles this version of this key."""
    api = apis().get(key) or private().get(key)
    if api is not None and (version in api.versions or key == API_VERSIONS):
        return api
    return None


def handle(buffer: Buffer, end: int, header: RequestHeader, context: Context) -> Handled:
    """The answer to a request whose header is read. Raises MalformedRequest: close the connection."""
    api = lookup(header.api_key, header.version)
    if api is None or api.handler is None:
        raise MalformedRequest(f"api {header.api_key} version {header.version} is not served here")
    return api.handler(buffer, header.end, end, context)
