"""What the client asks: for each request its key, the versions that we speak, and how it is written and read.

`Api` ties the four together so that a connection can choose the version by what its broker speaks. Produce, Fetch and
what every client asks first are written by hand in wire/; administration goes by Kafka's schemas, which are
imported when the first such request is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar
from uuid import UUID

from headrace.ports import Buffer
from headrace.wire.kafka import (
    api_versions,
    fetch,
    fetch_client,
    header,
    init_producer_id,
    list_offsets,
    messages,
    metadata,
    produce,
    produce_client,
    sink,
)
from headrace.wire.kafka.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headrace.wire.kafka.fetch import FetchRequest, FetchResponse
from headrace.wire.kafka.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headrace.wire.kafka.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from headrace.wire.kafka.metadata import ClusterState, MetadataRequest, TopicState
from headrace.wire.kafka.produce import ProduceResponse
from headrace.wire.kafka.sink import SinkRequest, SinkResponse

Q = TypeVar("Q")
A = TypeVar("A")


@dataclass(frozen=True)
class Api(Generic[Q, A]):
    name: str
    key: int
    oldest: int
    newest: int
    encode: Callable[[int, int, str | None, Q], Sequence[Buffer]]  # version, correlation id, client id, request
    decode: Callable[[Buffer, int, int, int], A]  # buffer, from, to, version
    is_private: bool = False  # between our own client and broker, which does not advertise it


class ProduceRequest(NamedTuple):
    acks: int
    timeout_ms: int
    topics: Sequence[tuple[str | None, UUID | None, Sequence[tuple[int, Buffer | None]]]]
    transactional_id: str | None = None


def _put_produce(version: int, correlation_id: int, client_id: str | None, request: ProduceRequest) -> list[Buffer]:
    acks, timeout_ms, topics, transactional_id = request
    return produce_client.encode_request(version, correlation_id, client_id, transactional_id, acks, timeout_ms, topics)


def _whole(
    encode: Callable[[int, int, str | None, Q], bytes],
) -> Callable[[int, int, str | None, Q], Sequence[Buffer]]:
    return lambda version, correlation_id, client_id, request: (encode(version, correlation_id, client_id, request),)


PRODUCE: Final[Api[ProduceRequest, ProduceResponse]] = Api(
    "Produce", header.PRODUCE, produce.OLDEST, produce.NEWEST, _put_produce, produce_client.decode_response
)
FETCH: Final[Api[FetchRequest, FetchResponse]] = Api(
    "Fetch", header.FETCH, fetch.OLDEST, fetch.NEWEST, _whole(fetch_client.encode_request), fetch_client.decode_response
)
LIST_OFFSETS: Final[Api[ListOffsetsRequest, ListOffsetsResponse]] = Api(
    "ListOffsets",
    header.LIST_OFFSETS,
    list_offsets.OLDEST,
    list_offsets.NEWEST,
    _whole(list_offsets.encode_request),
    list_offsets.decode_response,
)
METADATA: Final[Api[MetadataRequest, tuple[ClusterState, list[TopicState]]]] = Api(
    "Metadata", header.METADATA, 4, metadata.NEWEST, _whole(metadata.encode_request), metadata.decode_response
)
INIT_PRODUCER_ID: Final[Api[InitProducerIdRequest, InitProducerIdResponse]] = Api(
    "InitProducerId",
    header.INIT_PRODUCER_ID,
    init_producer_id.OLDEST,
    init_producer_id.NEWEST,
    _whole(init_producer_id.encode_request),
    init_producer_id.decode_response,
)
API_VERSIONS: Final[Api[ApiVersionsRequest, ApiVersionsResponse]] = Api(
    "ApiVersions",
    header.API_VERSIONS,
    api_versions.OLDEST,
    api_versions.NEWEST,
    _whole(api_versions.encode_request),
    api_versions.decode_response,
)

# The same question, for the levels of features.
LEVELS: Final[Api[ApiVersionsRequest, dict[str, int]]] = Api(
    "ApiVersions",
    header.API_VERSIONS,
    api_versions.LEVELS_FROM,
    api_versions.NEWEST,
    _whole(api_versions.encode_request),
    api_versions.decode_levels,
)

SINK: Final[Api[SinkRequest, SinkResponse]] = Api(
    "Sink", sink.SINK, sink.VERSION, sink.VERSION, _whole(sink.encode_request), sink.decode_response, is_private=True
)

# The same, for who looks after ledgers.
LEDGERS: Final[Api[SinkRequest, SinkResponse]] = Api(
    "Ledgers",
    sink.SINK,
    sink.LEDGERS_VERSION,
    sink.LEDGERS_VERSION,
    _whole(sink.encode_request),
    sink.decode_response,
    is_private=True,
)

# Administration. A request is a function of the version's schema, since each version has dataclasses of its own.
Fill = Callable[[Any], Any]


def _administration(name: str, key: int, oldest: int, newest: int) -> Api[Fill, Any]:
    def encode(version: int, correlation_id: int, client_id: str | None, fill: Fill) -> Sequence[Buffer]:
        return (messages.encode_request(fill(messages.schema("request", key, version)), correlation_id, client_id),)

    def decode(buffer: Buffer, at: int, end: int, version: int) -> Any:
        return messages.decode_response(key, version, buffer, at, end)

    return Api(name, key, oldest, newest, encode, decode)


# The oldest version of each is the first that can say all that we ask.
CREATE_TOPICS: Final = _administration("CreateTopics", header.CREATE_TOPICS, 4, 7)
DELETE_TOPICS: Final = _administration("DeleteTopics", header.DELETE_TOPICS, 1, 5)
DELETE_RECORDS: Final = _administration("DeleteRecords", 21, 0, 2)
DESCRIBE_CONFIGS: Final = _administration("DescribeConfigs", 32, 1, 4)
DESCRIBE_LOG_DIRS: Final = _administration("DescribeLogDirs", 35, 1, 4)
CREATE_PARTITIONS: Final = _administration("CreatePartitions", 37, 0, 3)
INCREMENTAL_ALTER_CONFIGS: Final = _administration("IncrementalAlterConfigs", 44, 0, 1)
DESCRIBE_QUORUM: Final = _administration("DescribeQuorum", 55, 0, 2)

# Groups and transactions. One group to a question where versions allow both: the answer is then of one shape.
OFFSET_COMMIT: Final = _administration("OffsetCommit", 8, 2, 9)
OFFSET_FETCH: Final = _administration("OffsetFetch", 9, 2, 7)
FIND_COORDINATOR: Final = _administration("FindCoordinator", header.FIND_COORDINATOR, 1, 3)
JOIN_GROUP: Final = _administration("JoinGroup", header.JOIN_GROUP, 5, 9)
HEARTBEAT: Final = _administration("Heartbeat", 12, 3, 4)
LEAVE_GROUP: Final = _administration("LeaveGroup", header.LEAVE_GROUP, 3, 5)
SYNC_GROUP: Final = _administration("SyncGroup", header.SYNC_GROUP, 3, 5)
DESCRIBE_GROUPS: Final = _administration("DescribeGroups", 15, 0, 6)
LIST_GROUPS: Final = _administration("ListGroups", 16, 0, 5)
ADD_PARTITIONS_TO_TXN: Final = _administration("AddPartitionsToTxn", header.ADD_PARTITIONS_TO_TXN, 0, 3)  # 4: brokers'
ADD_OFFSETS_TO_TXN: Final = _administration("AddOffsetsToTxn", header.ADD_OFFSETS_TO_TXN, 0, 4)
END_TXN: Final = _administration("EndTxn", header.END_TXN, 0, 5)
TXN_OFFSET_COMMIT: Final = _administration("TxnOffsetCommit", header.TXN_OFFSET_COMMIT, 3, 5)
WRITE_TXN_MARKERS: Final = _administration("WriteTxnMarkers", 27, 1, 1)
DELETE_GROUPS: Final = _administration("DeleteGroups", 42, 0, 2)
OFFSET_DELETE: Final = _administration("OffsetDelete", 47, 0, 0)
DESCRIBE_PRODUCERS: Final = _administration("DescribeProducers", header.DESCRIBE_PRODUCERS, 0, 0)
DESCRIBE_TRANSACTIONS: Final = _administration("DescribeTransactions", 65, 0, 0)
LIST_TRANSACTIONS: Final = _administration("ListTransactions", 66, 0, 2)
CONSUMER_GROUP_DESCRIBE: Final = _administration("ConsumerGroupDescribe", 69, 0, 1)
