"""A transactional producer and a reader as thin as can be: every request in a version that the test chooses, by kio's
schemas, and nothing is repeated.
"""

from __future__ import annotations

import datetime
from typing import Any

from headrace.records import codec
from headrace.records.codec import BatchOptions
from headrace.records.codec import Producer as Writer
from headrace.records.record import Record
from headrace.wire.kafka import fetch, fetch_client, header, init_producer_id, list_offsets, produce_client
from headrace.wire.kafka.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.kafka.produce import PartitionResult
from tests.doors.asking import Asker

TIMEOUT_MS = 60_000
PRODUCE_BY_CHECK, PRODUCE_BY_ADD = 9, 12  # versions: the partition has to be in the transaction; is added to it


class Producer:
    def __init__(self, asker: Asker, transactional_id: str = "x") -> None:
        self.asker, self.id = asker, transactional_id
        self.producer_id, self.epoch = -1, -1
        self.sequences: dict[tuple[str, int], int] = {}

    async def init(self, version: int = 5, timeout_ms: int = TIMEOUT_MS, *, again: bool = False) -> int:
        request = init_producer_id.InitProducerIdRequest(self.id, timeout_ms)
        if again:
            request = request._replace(producer_id=self.producer_id, producer_epoch=self.epoch)
        answer = await self.asker.ask(init_producer_id, header.INIT_PRODUCER_ID, version, request)
        if answer.error == 0:
            self.go_on(answer.producer_id, answer.producer_epoch)
        return answer.error

    def go_on(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.producer_id, self.epoch, self.sequences = producer_id, epoch, {}

    async def add(self, *places: tuple[str, int], version: int = 3, verify_only: bool = False) -> list[int]:
        topics = [{"name": name, "partitions": [index]} for name, index in places]
        if version >= 4:
            one = {
                "transactional_id": self.id,
                "producer_id": self.producer_id,
                "producer_epoch": self.epoch,
                "verify_only": verify_only,
                "topics": topics,
            }
            answer = await self.asker.ask_by_schema(24, version, {"transactions": [one]})
            results = answer.results_by_transaction[0].topic_results
        else:
            fields = {
                "v3_and_below_transactional_id": self.id,
                "v3_and_below_producer_id": self.producer_id,
                "v3_and_below_producer_epoch": self.epoch,
                "v3_and_below_topics": topics,
            }
            answer = await self.asker.ask_by_schema(24, version, fields)
            results = answer.results_by_topic_v3_and_below
        return [int(part.partition_error_code) for topic in results for part in topic.results_by_partition]

    async def produce(
        self, topic: str, partition: int = 0, value: bytes = b"v", version: int = PRODUCE_BY_ADD, **more: Any
    ) -> PartitionResult:
        sequence = self.sequences.get((topic, partition), 0)
        writer = Writer(self.producer_id, more.get("epoch", self.epoch), more.get("sequence", sequence))
        batch = codec.encode(
            [Record(b"k", value, (), int(datetime.datetime.now().timestamp() * 1000))],
            BatchOptions(producer=writer, is_transactional=more.get("is_transactional", True)),
        )
        pieces = produce_client.encode_request(
            version, 13, None, more.get("transactional_id", self.id), -1, 5000, [(topic, None, [(partition, batch)])]
        )
        raw = await self.asker.answer(b"".join(pieces))
        _, at = header.read_response_header(raw, 0, len(raw), 0, version)
        result = produce_client.decode_response(raw, at, len(raw), version).topics[0].partitions[0]
        if result.error == 0:
            self.sequences[topic, partition] = sequence + 1
        return result

    async def end(self, commit: bool = True, version: int = 5) -> int:
        fields = {
            "transactional_id": self.id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "committed": commit,
        }
        answer = await self.asker.ask_by_schema(26, version, fields)
        if version >= 5 and not answer.error_code:
            self.go_on(answer.producer_id, answer.producer_epoch)
        return int(answer.error_code)


async def read(asker: Asker, topic: str, partition: int = 0, *, committed: bool = True, offset: int = 0) -> list[bytes]:
    """The values that a client reads, as it sees them: without what was aborted."""
    values: list[bytes] = []
    fetched = await fetch_once(asker, topic, partition, committed=committed, offset=offset)
    pending = sorted(fetched.aborted or (), key=lambda one: one[1])
    skipped: set[int] = set()
    data = b"".join(bytes(piece) for piece in fetched.pieces or ())
    for head, body in codec.split(data):
        while pending and pending[0][1] <= head.last_offset:
            skipped.add(pending.pop(0)[0])
        if head.is_control:
            skipped.discard(head.producer_id)
        elif not (head.is_transactional and head.producer_id in skipped):
            values += [record.value or b"" for record in codec.decode(_whole(data, head, body))]
    return values


def _whole(data: bytes, head: Any, body: memoryview) -> bytes:
    start = data.index(bytes(body)) - 61 if body else 0
    return data[start : start + head.size]


async def fetch_once(
    asker: Asker, topic: str, partition: int, *, committed: bool, offset: int, version: int = 12
) -> Any:
    wish = FetchPartition(partition, -1, offset, -1, -1, 1 << 20)
    request = FetchRequest(isolation_level=int(committed), topics=[FetchTopic(topic, None, [wish])])
    raw = await asker.answer(fetch_client.encode_request(version, 14, None, request))
    _, at = header.read_response_header(raw, 0, len(raw), header.FETCH, version)
    answer = fetch_client.decode_response(raw, at, len(raw), version)
    assert version >= fetch.OLDEST
    return answer.topics[0].partitions[0]


async def end_offset(asker: Asker, topic: str, partition: int = 0, *, committed: bool, version: int = 7) -> int:
    asked = list_offsets.AskedOffset(partition, -1, list_offsets.LATEST)
    request = list_offsets.ListOffsetsRequest([(topic, [asked])], isolation_level=int(committed))
    answer = await asker.ask(list_offsets, header.LIST_OFFSETS, version, request)
    found: int = answer.topics[0][1][0].offset
    return found
