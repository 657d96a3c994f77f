"""Which Kafka APIs there are: one `Api` value in each file of `api/`, and the table made of them.

- The answer to ApiVersions is derived from this table; nothing is advertised that has no handler.
- A range is a promise for every version in it: Kafka 4.3's own, from its oldest to its newest.
- A handler gets bytes that are its own only until it returns: it reads the request at once, and what has to
  wait it does in the coroutine that it returns.
- Unknown APIs and versions close the connection, as Kafka does; only ApiVersions answers a version that it
  does not know, because that is how a newer client finds out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Final, NamedTuple

from headrace.doors.kafka.context import Context
from headrace.ports import Buffer
from headrace.wire.kafka.errors import MalformedRequest
from headrace.wire.kafka.header import API_VERSIONS, RequestHeader

# (buffer, where the body begins, where it ends, context) -> the whole answer, now or later
Handler = Callable[[Buffer, int, int, Context], bytes | Awaitable[bytes]]


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
    ("find_coordinator", 10, "FindCoordinator", range(7)),
    ("create_topics", 19, "CreateTopics", range(2, 8)),
    ("delete_topics", 20, "DeleteTopics", range(1, 7)),
    ("delete_records", 21, "DeleteRecords", range(3)),
    ("offset_for_leader_epoch", 23, "OffsetForLeaderEpoch", range(2, 5)),
    ("describe_configs", 32, "DescribeConfigs", range(1, 5)),
    ("alter_configs", 33, "AlterConfigs", range(3)),
    ("alter_replica_log_dirs", 34, "AlterReplicaLogDirs", range(1, 3)),
    ("describe_log_dirs", 35, "DescribeLogDirs", range(1, 6)),
    ("create_partitions", 37, "CreatePartitions", range(4)),
    ("elect_leaders", 43, "ElectLeaders", range(3)),
    ("incremental_alter_configs", 44, "IncrementalAlterConfigs", range(2)),
    ("alter_partition_reassignments", 45, "AlterPartitionReassignments", range(2)),
    ("list_partition_reassignments", 46, "ListPartitionReassignments", range(1)),
    ("describe_quorum", 55, "DescribeQuorum", range(3)),
    ("update_features", 57, "UpdateFeatures", range(3)),
    ("describe_cluster", 60, "DescribeCluster", range(3)),
    ("describe_producers", 61, "DescribeProducers", range(1)),
    ("unregister_broker", 64, "UnregisterBroker", range(1)),
    ("list_config_resources", 74, "ListConfigResources", range(2)),
    ("describe_topic_partitions", 75, "DescribeTopicPartitions", range(1)),
)


@cache
def apis() -> Mapping[int, Api]:
    """All of them, by key. Made on first use: each file of `api/` imports this one for `Api`."""
    from headrace.doors.kafka.api import api_versions, fetch, init_producer_id, list_offsets, metadata, produce

    first = (module.API for module in (produce, fetch, list_offsets, metadata, api_versions, init_producer_id))
    later = (Api(key, name, versions, _later(file)) for file, key, name, versions in _LATER)
    return {api.key: api for api in (*first, *later)}


def _later(file: str) -> Handler:
    def handle(buffer: Buffer, at: int, end: int, context: Context) -> bytes | Awaitable[bytes]:
        handler = _read(file).handler
        assert handler is not None
        return handler(buffer, at, end, context)

    return handle


@cache
def _read(file: str) -> Api:
    api: Api = import_module(f"headrace.doors.kafka.api.{file}").API
    return api


def lookup(key: int, version: int) -> Api | None:
    """The API that handles this version of this key."""
    api = apis().get(key)
    if api is not None and (version in api.versions or key == API_VERSIONS):
        return api
    return None


def handle(buffer: Buffer, end: int, header: RequestHeader, context: Context) -> bytes | Awaitable[bytes]:
    """The answer to a request whose header is read. Raises MalformedRequest: close the connection."""
    api = lookup(header.api_key, header.version)
    if api is None or api.handler is None:
        raise MalformedRequest(f"api {header.api_key} version {header.version} is not served here")
    return api.handler(buffer, header.end, end, context)
