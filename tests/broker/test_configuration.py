"""What is set where, and what is in force: at once, after a power loss, and for people who ask."""

from __future__ import annotations

import asyncio

import pytest

from headrace.broker.alteration import Alteration, Change, Op
from headrace.broker.broker import BrokerSettings
from headrace.broker.configuration import Source
from headrace.broker.settings import StaticSetting
from headrace.broker.wishes import MorePartitions
from headrace.cluster.records import ALL_NODES
from headrace.errors import (
    HeadraceError,
    InvalidConfig,
    InvalidRecord,
    InvalidTimestamp,
    KeptForever,
    LimitReached,
    MessageTooLarge,
    OffsetOutOfRange,
    UnknownNode,
    UnknownTopic,
)
from headrace.log.log import Log
from headrace.log.reader import ReadResult
from headrace.records.codec import Record, decode, encode
from tests.broker.kit import Node, produce, values
from tests.log.kit import START_MS, batch

HOUR_MS = 3600 * 1000


def of_topic(*changes: Change, topic: str = "t", replace: bool = False) -> Alteration:
    return Alteration(topic, changes, replace=replace)


def of_nodes(*changes: Change, node_id: int = ALL_NODES, replace: bool = False) -> Alteration:
    return Alteration(None, changes, node_id, replace)


def put(name: str, value: str) -> Change:
    return Change(name, Op.SET, value)


async def alter(node: Node, *wishes: Alteration, validate_only: bool = False) -> list[HeadraceError | None]:
    answers = await node.do(node.broker.alter_configs(wishes, validate_only))
    assert isinstance(answers, list)
    return answers


async def done(node: Node, *wishes: Alteration) -> None:
    assert await alter(node, *wishes) == [None] * len(wishes)


async def refused(node: Node, wish: Alteration) -> HeadraceError:
    (answer,) = await alter(node, wish)
    assert answer is not None
    return answer


async def test_a_topics_own_setting_is_in_force_at_once_and_survives_power_loss() -> None:
    node = Node()
    partition = await node.partition()
    await done(node, of_topic(put("max.message.bytes", "100"), put("segment.bytes", "20000")))
    assert partition.log is not None and partition.log.config.segment_bytes == 20000
    with pytest.raises(MessageTooLarge):
        produce(node, partition, batch(bytes(200)))
    node.power_loss()
    again = await node.partition()
    assert again.topic.config.max_message_bytes == 100
    assert again.log is not None and again.log.config.segment_bytes == 20000


async def test_layers_lie_over_each_other_and_show_through_when_one_is_taken_away() -> None:
    node = Node(settings=BrokerSettings(topic_defaults={"retention.ms": "1"}))
    topic = await node.topic()
    assert topic.config.retention_ms == 1
    steps = [
        (of_nodes(put("log.retention.ms", "2")), 2),
        (of_nodes(put("log.retention.ms", "3"), node_id=0), 3),
        (of_topic(put("retention.ms", "4")), 4),
        (of_topic(Change("retention.ms", Op.DELETE)), 3),
        (of_nodes(Change("log.retention.ms", Op.DELETE), node_id=0), 2),
        (of_nodes(replace=True), 1),
    ]
    for wish, retention_ms in steps:
        await done(node, wish)
        assert topic.config.retention_ms == retention_ms


async def test_every_layer_is_told_with_the_one_that_wins_first() -> None:
    node = Node(settings=BrokerSettings(topic_defaults={"retention.ms": "1"}))
    topic = await node.topic(configs={"retention.ms": "4"})
    await done(node, of_nodes(put("log.retention.ms", "2")), of_nodes(put("log.retention.ms", "3"), node_id=0))
    described = {one.name: one for one in node.broker.configuration.describe_topic(topic.image.config)}
    assert [(one.name, one.value, one.source) for one in described["retention.ms"].synonyms] == [
        ("retention.ms", "4", Source.TOPIC),
        ("log.retention.ms", "3", Source.NODE),
        ("log.retention.ms", "2", Source.ALL_NODES),
        ("log.retention.ms", "1", Source.STATIC),
        ("log.retention.ms", "604800000", Source.DEFAULT),
    ]
    assert described["segment.bytes"].source is Source.DEFAULT
    assert [one.name for one in node.broker.configuration.describe_all_nodes()] == ["log.retention.ms"]


async def test_what_a_node_was_started_with_is_shown_and_cannot_be_changed() -> None:
    static = (StaticSetting("log.dirs", "/data", "Where."), StaticSetting("secret", "x", sensitive=True))
    node = Node(settings=BrokerSettings(static=static, default_partitions=3, auto_create_topics=False))
    shown = {one.name: one for one in node.broker.configuration.describe_node()}
    assert shown["log.dirs"].read_only and shown["log.dirs"].source is Source.STATIC
    assert shown["secret"].sensitive
    assert (shown["num.partitions"].value, shown["num.partitions"].source) == ("3", Source.STATIC)
    assert shown["auto.create.topics.enable"].value == "false"
    assert isinstance(await refused(node, of_nodes(put("log.dirs", "/other"), node_id=0)), InvalidConfig)


async def test_a_nodes_own_business_can_be_changed_while_it_runs() -> None:
    node = Node()
    await done(node, of_nodes(put("num.partitions", "3"), put("auto.create.topics.enable", "FALSE")))
    assert len((await node.topic()).partitions) == 3
    assert not node.broker.configuration.auto_create_topics
    node.power_loss()
    assert node.broker.configuration.default_partitions == 3


async def test_defaults_that_change_reach_live_logs_and_topics_to_come() -> None:
    node = Node()
    partition = await node.partition()
    await done(node, of_nodes(put("log.segment.bytes", "30000")))
    assert partition.log is not None and partition.log.config.segment_bytes == 30000
    assert (await node.topic("u")).config.segment_bytes == 30000
    assert "node.configured" in node.world.kinds()


async def test_a_setting_that_changes_while_a_log_is_opened_is_not_missed() -> None:
    node = Node()
    topic = await node.topic()
    opening = asyncio.ensure_future(topic.partitions[0].opened())
    await asyncio.sleep(0)
    await done(node, of_topic(put("segment.bytes", "30000")))
    partition = await node.do(opening)
    assert partition.log.config.segment_bytes == 30000


async def test_shorter_retention_lets_go_of_what_is_too_old_now() -> None:
    node = Node()
    await node.topic(configs={"segment.ms": "1000"})
    partition = await node.partition()
    for _ in range(3):
        produce(node, partition, batch(timestamp_ms=node.world.clock.now_ms()))
        node.world.clock.ms += HOUR_MS
    await done(node, of_topic(put("retention.ms", str(HOUR_MS + 1))))
    assert partition.start_offset == 2


async def test_timestamps_are_judged_by_the_settings_of_now() -> None:
    node = Node()
    partition = await node.partition()
    early, late = batch(timestamp_ms=START_MS - 1), batch(timestamp_ms=START_MS + 1)
    assert produce(node, partition, bytearray(late)) == 0
    bounds = put("message.timestamp.after.max.ms", "0"), put("message.timestamp.before.max.ms", "0")
    await done(node, of_topic(*bounds))
    for data in (early, late):
        with pytest.raises(InvalidTimestamp):
            produce(node, partition, bytearray(data))
    await done(node, of_topic(put("message.timestamp.type", "LogAppendTime")))
    assert produce(node, partition, bytearray(late)) == 1
    read = partition.read(1, 1 << 20, at_least_one=True)
    assert isinstance(read, ReadResult) and decode(read.pieces[0])[0].timestamp_ms == START_MS


async def test_syncs_and_segments_follow_the_settings_of_now() -> None:
    node = Node()
    partition = await node.partition()
    log = partition.log
    assert isinstance(log, Log)
    produce(node, partition, batch())
    node.world.background.drain()
    assert log.synced_offset == 0
    await done(node, of_topic(put("flush.messages", "1"), put("segment.ms", "1000")))
    node.world.clock.ms += 2000
    produce(node, partition, batch())
    node.world.background.drain()
    assert log.synced_offset == 2 and len(log.segments) == 2


async def test_a_smaller_ring_of_a_memory_topic_forgets_at_once() -> None:
    node = Node()
    await node.topic(configs={"headrace.storage": "memory"})
    partition = await node.partition()
    for _ in range(300):
        produce(node, partition, batch(bytes(10_000)))
    held = partition.log.size_bytes if partition.log else 0
    await done(node, of_topic(put("retention.bytes", "300000")))
    assert partition.log is not None and partition.log.size_bytes < held / 2
    assert partition.start_offset > 0


@pytest.mark.parametrize(
    "changes",
    [
        (put("retention.ms", "soon"),),
        (put("segment.bytes", "30000"), put("no.such", "1")),
        (put("headrace.storage", "memory"),),
        (put("min.compaction.lag.ms", "9"), put("max.compaction.lag.ms", "8")),
        (Change("retention.ms", Op.APPEND, "1"),),
        (Change("cleanup.policy", Op.SUBTRACT, "delete"),),
        (Change("no.such", Op.APPEND, "1"),),
    ],
)
async def test_a_wish_with_one_wrong_setting_changes_none(changes: tuple[Change, ...]) -> None:
    node = Node()
    topic = await node.topic()
    before = topic.config
    assert isinstance(await refused(node, of_topic(*changes)), InvalidConfig)
    assert topic.config == before and topic.image.config == {}


@pytest.mark.parametrize(
    ("wish", "error"),
    [
        (of_topic(put("retention.ms", "1"), topic="none"), UnknownTopic),
        (of_nodes(put("log.retention.ms", "1"), node_id=7), UnknownNode),
        (of_nodes(put("retention.ms", "1")), InvalidConfig),
        (of_nodes(put("log.retention.ms", "-2")), InvalidConfig),
        (of_nodes(put("num.partitions", "0")), InvalidConfig),
        (of_nodes(put("auto.create.topics.enable", "maybe")), InvalidConfig),
        (of_nodes(put("log.cleaner.min.compaction.lag.ms", str(1 << 62)),
                  put("log.cleaner.max.compaction.lag.ms", "5")), InvalidConfig),
    ],
)  # fmt: skip
async def test_a_wish_that_cannot_be_says_why(wish: Alteration, error: type[HeadraceError]) -> None:
    assert isinstance(await refused(Node(), wish), error)


async def test_lists_grow_and_shrink_from_what_is_in_force() -> None:
    node = Node()
    topic = await node.topic()
    await done(node, of_topic(Change("cleanup.policy", Op.APPEND, "compact,delete")))
    assert topic.config.cleanup_policy == "delete,compact"
    await done(node, of_topic(Change("cleanup.policy", Op.SUBTRACT, "delete")))
    assert topic.config.cleanup_policy == "compact"


async def test_replacing_takes_back_what_is_not_named_but_for_what_cannot_change() -> None:
    node = Node()
    topic = await node.topic(configs={"headrace.storage": "memory", "retention.ms": "5", "segment.bytes": "20000"})
    await done(node, of_topic(put("segment.bytes", "30000"), replace=True))
    assert topic.image.config == {"headrace.storage": "memory", "segment.bytes": "30000"}


async def test_a_wish_that_changes_nothing_writes_nothing() -> None:
    node = Node()
    await node.topic(configs={"retention.ms": "5"})
    before = node.quorum.index
    await done(node, of_topic(put("retention.ms", "5"), Change("segment.ms", Op.DELETE)), of_nodes(replace=True))
    assert node.quorum.index == before


async def test_a_trial_changes_nothing_and_finds_the_same_faults() -> None:
    node = Node()
    topic = await node.topic()
    wishes = (of_topic(put("retention.ms", "5")), of_topic(put("retention.ms", "x"), topic="t"))
    assert [type(answer) for answer in await alter(node, *wishes, validate_only=True)] == [type(None), InvalidConfig]
    assert topic.config.retention_ms == 604_800_000


def test_wrong_defaults_stop_the_start() -> None:
    async def start() -> None:
        Node(settings=BrokerSettings(topic_defaults={"retention.ms": "soon"}))

    with pytest.raises(InvalidConfig, match=r"retention\.ms"):
        asyncio.run(start())


async def test_a_topics_storage_is_settled_when_it_is_made() -> None:
    node = Node(settings=BrokerSettings(topic_defaults={"headrace.storage": "memory"}))
    assert (await node.topic()).image.config == {"headrace.storage": "memory"}
    node.settings = BrokerSettings()
    node.power_loss()
    again = node.broker.topic("t")
    assert again is not None and again.config.is_memory


# Compacted topics


async def test_a_record_without_a_key_does_not_enter_a_compacted_topic() -> None:
    node = Node()
    await node.topic(configs={"cleanup.policy": "compact"})
    partition = await node.partition()
    now_ms = node.world.clock.now_ms()
    with pytest.raises(InvalidRecord, match="key"):
        produce(
            node, partition, encode([Record(b"k", b"v", timestamp_ms=now_ms), Record(None, b"v", timestamp_ms=now_ms)])
        )
    assert produce(node, partition, encode([Record(b"k", None, timestamp_ms=now_ms)])) == 0


async def test_a_ring_is_never_compacted_whatever_the_default_is() -> None:
    node = Node()
    await done(node, of_nodes(put("log.cleanup.policy", "compact")))
    topic = await node.topic(configs={"headrace.storage": "memory"})
    assert not topic.is_compacted and topic.config.is_deleted
    assert (await node.topic("u")).is_compacted
    assert isinstance(await refused(node, of_topic(put("cleanup.policy", "compact"))), InvalidConfig)


# More partitions, fewer records


async def test_partitions_are_added_one_wish_at_a_time_and_can_be_used_at_once() -> None:
    node = Node(settings=BrokerSettings(max_partitions=6))
    topic, _ = await node.topic(), await node.topic("u")
    before = node.broker.metadata_version
    wishes = [MorePartitions("t", 3), MorePartitions("none", 3), MorePartitions("u", 4)]
    first, second, third = await node.do(node.broker.add_partitions(wishes))
    assert first is None and isinstance(second, UnknownTopic) and isinstance(third, LimitReached)
    assert len(topic.partitions) == 3 and node.broker.metadata_version > before
    node.power_loss()
    partition = await node.partition("t", 2)
    produce(node, partition, batch())
    assert values(partition) == [b"value"]


async def test_deleted_records_stay_deleted_after_power_loss() -> None:
    node = Node()
    partition = await node.partition()
    for _ in range(5):
        produce(node, partition, batch())
    assert await node.do(node.broker.delete_records(partition, 3)) == 3
    assert await node.do(node.broker.delete_records(partition, 1)) == 3
    node.power_loss()
    again = await node.partition()
    assert again.start_offset == 3
    assert await node.do(node.broker.delete_records(again, -1)) == again.high_watermark


@pytest.mark.parametrize("before", [-2, 2, 1 << 62])
async def test_records_that_are_not_there_cannot_be_deleted(before: int) -> None:
    node = Node()
    partition = await node.partition()
    produce(node, partition, batch())
    with pytest.raises(OffsetOutOfRange):
        await node.do(node.broker.delete_records(partition, before))


async def test_nobody_deletes_records_of_a_topic_that_is_only_compacted() -> None:
    node = Node()
    await node.topic(configs={"cleanup.policy": "compact"})
    with pytest.raises(KeptForever):
        await node.do(node.broker.delete_records(await node.partition(), -1))
