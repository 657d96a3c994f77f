"""Soft memory topics: there with their first use, gone when nobody uses them, and topics like any other meanwhile."""

from __future__ import annotations

import pytest

from headrace.broker import memory_topics
from headrace.broker.topic import Topic
from headrace.errors import InvalidTopicName, LimitReached, UnknownTopic
from headrace.records.codec import Record, encode
from tests.broker.kit import Node, published, settle, values

HOUR_MS = 3_600_000


def put(node: Node, topic: Topic, *values: bytes) -> int:
    now_ms = node.world.clock.now_ms()
    batch = encode([Record(value=value, timestamp_ms=now_ms) for value in values])
    staged = node.broker.publishing.publish_batch(topic, 0, batch, now_ms)
    node.broker.publishing.end_turn()
    return staged.base_offset


def pass_time(node: Node, ms: int) -> None:
    for _ in range(ms // 300_000):
        node.world.clock.ms += 300_000
        node.broker.maintain()
        node.world.background.drain()


async def test_one_is_there_at_once_and_never_in_the_metadata_log() -> None:
    node = Node()
    version = node.broker.metadata_version
    topic = node.broker.memory_topics.get_or_create("news")
    assert node.broker.topic("news") is topic and topic in node.broker.topics()
    assert node.broker.topic_by_id(topic.id) is topic
    assert node.broker.memory_topics.get_or_create("news") is topic
    assert "news" not in node.quorum.image.names
    assert node.broker.metadata_version > version
    first = put(node, topic, b"a", b"b")
    assert values(topic.partitions[0], first) == [b"a", b"b"]


async def test_a_disk_topic_of_the_name_is_what_is_used() -> None:
    node = Node()
    made = await node.topic("t")
    assert node.broker.memory_topics.get_or_create("t") is made
    assert made not in node.broker.memory_topics


async def test_offsets_rise_from_one_life_to_the_next() -> None:
    node = Node()
    last = put(node, node.broker.memory_topics.get_or_create("t"), *[b"x"] * 1000) + 999
    node.world.clock.ms += 1
    node.power_loss()
    assert node.broker.topic("t") is None
    assert put(node, node.broker.memory_topics.get_or_create("t"), b"x") > last


async def test_it_can_be_deleted() -> None:
    node = Node()
    topic = node.broker.memory_topics.get_or_create("t")
    put(node, topic, b"x")
    by_name = await node.do(node.broker.delete_topics(["t"]))
    again = node.broker.memory_topics.get_or_create("t")
    by_id = await node.do(node.broker.delete_topics([again.id]))
    assert by_name == by_id == [None]
    assert node.broker.topics() == [] and len(node.broker.memory_topics) == 0
    assert isinstance(topic.partitions[0].error, UnknownTopic)


async def test_a_topic_that_is_made_takes_its_place() -> None:
    node = Node()
    soft = node.broker.memory_topics.get_or_create("t")
    put(node, soft, b"x")
    made = await node.topic("t", partitions=2)
    assert node.broker.topic("t") is made is not soft
    assert node.broker.topics() == [made] and len(node.broker.memory_topics) == 0
    assert isinstance(soft.partitions[0].error, UnknownTopic)
    (told,) = await published(node, "t", Record(value=b"y"), partition=0)
    assert values(made.partitions[0]) == [b"y"] and told
    node.power_loss()
    assert node.broker.topic("t") is not None


async def test_one_that_nobody_used_for_an_hour_goes() -> None:
    node = Node()
    idle, busy, read, asked = (node.broker.memory_topics.get_or_create(name) for name in ("i", "b", "r", "a"))
    for topic in (idle, busy, read, asked):
        first = put(node, topic, b"x")
    version = node.broker.metadata_version
    for _ in range(3):
        pass_time(node, HOUR_MS // 2)
        put(node, busy, b"x")
        assert values(read.partitions[0], first if read is asked else read.partitions[0].start_offset) == [b"x"]
        node.broker.memory_topics.used(asked)
    assert node.broker.topics() == [busy, read, asked]
    assert node.broker.metadata_version > version
    pass_time(node, 2 * HOUR_MS)
    assert node.broker.topics() == []


async def test_a_clock_that_is_set_back_keeps_none_for_longer_than_an_hour() -> None:
    node = Node()
    node.broker.memory_topics.get_or_create("t")
    pass_time(node, HOUR_MS // 2)
    node.world.clock.ms -= 10 * HOUR_MS
    node.broker.maintain()
    pass_time(node, 2 * HOUR_MS)
    assert node.broker.topics() == []


async def test_there_are_so_many_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_topics, "MAX_TOPICS", 3)
    node = Node()
    for number in range(3):
        node.broker.memory_topics.get_or_create(str(number))
    with pytest.raises(LimitReached):
        node.broker.memory_topics.get_or_create("another")
    assert node.broker.memory_topics.get_or_create("1") is node.broker.topic("1")
    await node.do(node.broker.delete_topics(["1"]))
    node.broker.memory_topics.get_or_create("another")


async def test_many_unused_ones_go_a_few_at_a_time_and_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_topics, "DROPPED_AT_ONCE", 2)
    node = Node()
    for number in range(5):
        node.broker.memory_topics.get_or_create(str(number))
    node.world.clock.ms += HOUR_MS
    left = []
    for _ in range(3):
        node.world.clock.ms += 10_000
        node.broker.maintain()
        left.append(len(node.broker.memory_topics))
    assert left == [3, 1, 0]


@pytest.mark.parametrize("name", ["", "x" * 250, "..", "a\nb", "__consumer_offsets", "__mine"])
async def test_names_that_no_topic_of_a_publisher_can_have_are_refused(name: str) -> None:
    with pytest.raises(InvalidTopicName):
        Node().broker.memory_topics.get_or_create(name)


async def test_publishing_finds_it() -> None:
    node = Node()
    topic = node.broker.memory_topics.get_or_create("t")
    (told,) = await published(node, "t", Record(value=b"x"))
    assert topic.partitions[0].log is not None and told
    await settle(node)
    assert values(topic.partitions[0], topic.partitions[0].start_offset) == [b"x"]
