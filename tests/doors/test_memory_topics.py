"""Soft memory topics as Kafka's clients see them: topics like any other."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

from headrace.broker.topic import Topic
from headrace.doors.kafka.names import to_kafka
from headrace.records.codec import decode, encode
from headrace.records.record import Record
from headrace.wire.kafka import fetch_client, header, metadata
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.doors.asking import Asker, asking, create

DELETE_TOPICS = 20
FIVE_SECONDS = timedelta(seconds=5)


def put(asker: Asker, name: str, *values: bytes) -> tuple[Topic, int]:
    broker = asker.node.broker
    topic, now_ms = broker.memory_topics.get_or_create(name), broker.clock.now_ms()
    batch = encode([Record(value=value, timestamp_ms=now_ms) for value in values])
    first = broker.publishing.publish_batch(topic, 0, batch, now_ms).base_offset
    broker.publishing.end_turn()
    return topic, first


async def names(asker: Asker, *asked: str) -> dict[str, int]:
    """Of the topics in an answer about these, or about all: how many partitions each has."""
    wanted = [metadata.AskedTopic(name, None) for name in asked] if asked else None
    _, found = await asker.ask(metadata, header.METADATA, 12, metadata.MetadataRequest(wanted, allow_auto_create=False))
    return {topic.name: len(topic.partitions) for topic in found if not topic.error}


async def fetched(asker: Asker, name: str, offset: int) -> list[bytes | None]:
    asked = FetchRequest(topics=[FetchTopic(name, None, [FetchPartition(0, -1, offset, -1, -1, 1 << 20)])])
    raw = await asker.answer(fetch_client.encode_request(12, 5, "x", asked))
    _, at = header.read_response_header(raw, 0, len(raw), header.FETCH, 12)
    (topic,) = fetch_client.decode_response(raw, at, len(raw), 12).topics
    (part,) = topic.partitions
    assert part.error == 0
    return [record.value for piece in part.pieces or () for record in decode(piece)]


async def test_they_are_listed_read_and_written_to(tmp_path: Path) -> None:
    async with asking(tmp_path) as asker:
        assert await names(asker) == {}
        _, first = put(asker, "news", b"a", b"b")
        assert await names(asker) == await names(asker, "news") == {"news": 1}
        assert await fetched(asker, "news", first) == [b"a", b"b"]
        result = await asker.produce("news", 0, [Record(value=b"c", timestamp_ms=int(time.time() * 1000))])
        assert (result.error, result.base_offset) == (0, first + 2)
        assert await fetched(asker, "news", first + 2) == [b"c"]


async def test_asking_for_one_by_its_name_keeps_it(tmp_path: Path) -> None:
    async with asking(tmp_path) as asker:
        topic, _ = put(asker, "news", b"a")
        use = asker.node.broker.memory_topics._uses[topic]
        use.at_ms = 0
        await names(asker)
        assert use.at_ms == 0
        await names(asker, "news")
        assert use.at_ms > 0


async def test_one_is_deleted_and_made_anew_by_kafkas_requests(tmp_path: Path) -> None:
    async with asking(tmp_path) as asker:
        put(asker, "a", b"x")
        _, first = put(asker, "b", b"x")
        deleted = await asker.ask_by_schema(DELETE_TOPICS, 3, {"topic_names": ["a"], "timeout": FIVE_SECONDS})
        assert [answer.error_code for answer in deleted.responses] == [0]
        await create(asker, "b", partitions=2)
        assert await names(asker) == {"b": 2}
        assert await fetched(asker, "b", 0) == []
        assert first > 0


async def test_what_the_node_tells_of_itself_is_not_for_others_to_write(tmp_path: Path) -> None:
    async with asking(tmp_path) as asker:
        _, first = put(asker, "!system/metrics/x", b"1")
        name = to_kafka("!system/metrics/x")
        assert (await asker.produce(name, 0, [Record(value=b"2")])).error == Code.INVALID_TOPIC_EXCEPTION
        assert await fetched(asker, name, first) == [b"1"]
