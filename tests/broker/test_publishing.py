"""Publishing: records in, one by one or as runs, and when who published is told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from headrace.broker.broker import BrokerSettings
from headrace.broker.publishing import Published
from headrace.errors import (
    DiskFull,
    HeadraceError,
    InvalidRecord,
    InvalidTimestamp,
    InvalidTopicName,
    MessageTooLarge,
    NotEnoughReplicas,
    UnknownTopic,
)
from headrace.records.record import Record
from tests.broker.kit import Node, Told, published, settle, texts, values
from tests.log.kit import START_MS


async def test_the_first_record_makes_its_topic_with_one_partition() -> None:
    node = Node(settings=BrokerSettings(default_partitions=3))
    told = await published(node, "new", *texts("a", "b"))
    assert told == [Published(0, 0, START_MS), Published(0, 1, START_MS)]
    topic = node.broker.topic("new")
    assert topic is not None and len(topic.partitions) == 1
    assert values(topic.partitions[0]) == [b"a", b"b"]


async def test_a_topic_is_not_made_for_who_does_not_want_it_or_where_it_is_switched_off() -> None:
    node = Node()
    (refused,) = await published(node, "none", Record(value=b"x"), create=False)
    assert isinstance(refused, UnknownTopic)
    off = Node(settings=BrokerSettings(auto_create_topics=False))
    (refused,) = await published(off, "none", Record(value=b"x"))
    assert isinstance(refused, UnknownTopic)
    assert not node.broker.topics() and not off.broker.topics()


async def test_the_order_is_kept_while_a_topic_is_made_and_its_log_opened() -> None:
    node = Node()
    told: Told = []
    for number in range(5):
        node.broker.publishing.publish("t", Record(value=b"%d" % number), told.append)
        node.broker.publishing.publish_run("t", texts(f"{number}a", f"{number}b"), lambda _: None)
        await asyncio.sleep(0)
        if node.world.background.waiting:
            node.world.background.step()
    await settle(node)
    wanted = [text for number in range(5) for text in (b"%d" % number, b"%da" % number, b"%db" % number)]
    assert values(await node.partition("t")) == wanted
    assert [one.offset for one in told if isinstance(one, Published)] == [0, 3, 6, 9, 12]


async def test_what_a_turn_brings_for_a_partition_is_one_batch() -> None:
    node = Node()
    partition = await node.partition()
    told: Told = []
    for record in texts("a", "b", "c"):
        node.broker.publishing.publish("t", record, told.append, acks=1)
    assert not told and partition.high_watermark == 0
    node.broker.publishing.end_turn()
    assert [one.offset for one in told if isinstance(one, Published)] == [0, 1, 2]
    assert partition.log is not None and partition.log.appended_batches == 1


async def test_a_turn_ends_by_itself() -> None:
    node = Node()
    partition = await node.partition()
    told: Told = []
    node.broker.publishing.publish("t", Record(value=b"a"), told.append, acks=1)
    await asyncio.sleep(0)
    assert told == [Published(0, 0, START_MS)]
    assert values(partition) == [b"a"]


async def test_done_never_comes_before_the_call_returns() -> None:
    node = Node()
    await node.partition()
    told: Told = []
    publish = node.broker.publishing.publish
    publish("t", Record(value=b"a"), told.append, partition=7)
    publish("none", Record(value=b"a"), told.append, create=False)
    publish("!system/x", Record(value=b"a"), told.append)
    publish("t", Record(value=b"a"), told.append, acks=5)
    node.broker.publishing.publish_run("t", [], told.append)  # type: ignore[arg-type]
    assert not told
    await settle(node)
    assert [type(one) for one in told] == [UnknownTopic, UnknownTopic, InvalidTopicName, NotEnoughReplicas, tuple]


async def test_a_run_larger_than_a_batch_may_be_goes_into_several() -> None:
    node = Node()
    await node.topic(configs={"max.message.bytes": "1000"})
    partition = await node.partition()
    runs: list[Sequence[Published] | HeadraceError] = []
    node.broker.publishing.publish_run("t", [Record(value=b"x" * 300)] * 20, runs.append)
    await settle(node)
    (run,) = runs
    assert not isinstance(run, HeadraceError)
    assert [one.offset for one in run] == list(range(20))
    assert partition.log is not None and partition.log.appended_batches == 10


async def test_a_record_of_exactly_the_largest_size_is_taken_and_one_byte_more_refused_to_it_alone() -> None:
    node = Node()
    await node.topic(configs={"max.message.bytes": "1000"})
    sizes = (10, 1000, 1001, 990, 20)
    told = await published(node, "t", *(Record(value=b"x" * size) for size in sizes))
    assert [type(one) for one in told] == [Published, Published, MessageTooLarge, Published, Published]
    assert [len(value or b"") for value in values(await node.partition())] == [10, 1000, 990, 20]
    keyed = Record(b"k" * 500, b"v" * 400, (("name", b"h" * 96),))
    told = await published(node, "t", keyed, keyed._replace(key=b"k" * 501))
    assert [type(one) for one in told] == [Published, MessageTooLarge]


async def test_a_run_with_a_record_that_is_too_large_is_refused_whole() -> None:
    node = Node()
    await node.topic(configs={"max.message.bytes": "1000"})
    runs: list[Any] = []
    node.broker.publishing.publish_run("t", texts("a"), runs.append)
    node.broker.publishing.publish_run("t", [Record(value=b"x" * size) for size in (1, 2000, 1)], runs.append)
    node.broker.publishing.publish_run("t", texts("b"), runs.append)
    await settle(node)
    assert isinstance(runs[1], MessageTooLarge)
    assert [runs[0][0].offset, runs[2][0].offset] == [0, 1]
    assert values(await node.partition()) == [b"a", b"b"]


async def test_records_go_to_the_partition_of_their_key_as_kafkas_clients_choose_it_or_in_turn() -> None:
    node = Node()
    await node.topic(partitions=3)
    keyed = await published(node, "t", *([Record(b"some-key", b"x")] * 3))
    assert {one.partition for one in keyed if isinstance(one, Published)} == {2}
    turns = await published(node, "t", *texts("a", "b", "c"))
    assert {one.partition for one in turns if isinstance(one, Published)} == {0, 1, 2}
    (chosen,) = await published(node, "t", Record(b"some-key", b"x"), partition=1)
    assert isinstance(chosen, Published) and chosen.partition == 1


async def test_a_run_over_several_partitions_is_answered_in_its_own_order() -> None:
    node = Node()
    await node.topic(partitions=3)
    runs: list[Any] = []
    records = [Record(b"k%d" % number, b"v") for number in range(30)]
    node.broker.publishing.publish_run("t", records, runs.append)
    await settle(node)
    (run,) = runs
    alone = [(await published(node, "t", record))[0] for record in records]
    assert [one.partition for one in run] == [one.partition for one in alone if isinstance(one, Published)]
    assert len({(one.partition, one.offset) for one in run}) == 30


async def test_a_record_keeps_its_own_time_within_the_topics_bounds() -> None:
    node = Node()
    await node.topic(configs={"message.timestamp.before.max.ms": "1000"})
    times = (START_MS - 1000, START_MS - 1001, -1, START_MS + 3_600_001, START_MS + 3_600_000)
    told = await published(node, "t", *(Record(value=b"x", timestamp_ms=time) for time in times))
    assert [one.timestamp_ms if isinstance(one, Published) else type(one) for one in told] == [
        START_MS - 1000,
        InvalidTimestamp,
        START_MS,
        InvalidTimestamp,
        START_MS + 3_600_000,
    ]


async def test_with_append_time_the_brokers_time_counts() -> None:
    node = Node()
    await node.topic(configs={"message.timestamp.type": "LogAppendTime"})
    (told,) = await published(node, "t", Record(value=b"x", timestamp_ms=5))
    assert told == Published(0, 0, START_MS)
    page = await node.do(node.broker.reading.page(await node.partition(), 0, max_records=9))
    assert [record.timestamp_ms for record in page.records] == [START_MS]


async def test_a_compacted_topic_takes_no_record_without_a_key() -> None:
    node = Node()
    await node.topic(configs={"cleanup.policy": "compact"})
    told = await published(node, "t", Record(b"k", b"v"), Record(None, b"v"), Record(b"k", b"w"))
    assert [type(one) for one in told] == [Published, InvalidRecord, Published]


async def test_a_header_whose_name_is_no_text_is_refused_to_its_record_alone() -> None:
    node = Node()
    told = await published(node, "t", *texts("a"), Record(value=b"x", headers=(("\ud800", b"1"),)), *texts("b"))
    assert [type(one) for one in told] == [Published, InvalidRecord, Published]
    assert values(await node.partition()) == [b"a", b"b"]


async def test_a_taker_that_fails_costs_no_other_its_answer() -> None:
    node = Node()
    await node.topic("u")
    await node.partition("t")
    await node.partition("u")
    told: Told = []
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: faults.append(what["exception"]))

    def broken(_: object) -> None:
        raise RuntimeError("a door's own fault")

    for topic in ("t", "u"):
        for acks in (1, "all"):
            for taker in (told.append, broken, told.append):
                node.broker.publishing.publish(topic, Record(value=b"x"), taker, acks=acks)
    await settle(node)
    assert sorted(one.offset for one in told if isinstance(one, Published)) == [0, 0, 2, 2, 3, 3, 5, 5]
    assert len(faults) == 4


@pytest.mark.parametrize("name", ["", "..", "a\nb", "x" * 250])
async def test_a_name_that_no_topic_can_have_is_refused(name: str) -> None:
    node = Node()
    told = await published(node, name, *texts("a", "b"))
    assert [type(one) for one in told] == [InvalidTopicName] * 2


@pytest.mark.parametrize("name", ["!system/x", "!system", "__consumer_offsets"])
async def test_topics_that_are_ours_are_not_published_to(name: str) -> None:
    node = Node()
    if name.startswith("__"):
        await node.do(node.broker.auto_create([name]))
    (refused,) = await published(node, name, Record(b"k", b"v"))
    assert isinstance(refused, InvalidTopicName)
    (told,) = await published(node, name, Record(b"k", b"v"), system=True)
    assert isinstance(told, Published)


async def test_a_topic_that_is_deleted_meanwhile_refuses_what_waited_for_it() -> None:
    node = Node()
    await node.topic("t")
    told: Told = []
    node.broker.publishing.publish("t", Record(value=b"a"), told.append)
    await node.do(node.broker.delete_topics(["t"]))
    await settle(node)
    assert [type(one) for one in told] == [UnknownTopic]


@pytest.mark.parametrize("acks", [1, "all"])
async def test_who_publishes_while_a_topic_is_deleted_hears_that_and_no_name_of_a_folder(acks: int | str) -> None:
    node = Node()
    await node.partition("t")
    told: Told = []
    count = 0
    deleting = asyncio.ensure_future(node.broker.delete_topics(["t"]))
    while not deleting.done():
        node.broker.publishing.publish("t", Record(value=b"a"), told.append, acks=acks, create=False)
        node.broker.publishing.end_turn()
        count += 1
        await asyncio.sleep(0)
        if node.world.background.waiting:
            node.world.background.step()
    await settle(node)
    refused = [one for one in told if not isinstance(one, Published)]
    assert len(told) == count and refused
    assert {(type(one), str(one)) for one in refused} <= {
        (UnknownTopic, "topic 't' was deleted"),
        (UnknownTopic, "no topic 't'"),
    }


async def test_a_full_disk_refuses_each_record_and_publishing_resumes() -> None:
    node = Node()
    await published(node, "t", *texts("before"))
    node.world.disk.fill(10)
    for acks in (0, 1, "all"):
        told = await published(node, "t", *texts("a", "b" * 100), acks=acks)
        assert [type(one) for one in told] == [DiskFull, DiskFull]
    node.world.disk.empty()
    told = await published(node, "t", *texts("a", "b"))
    assert [one.offset for one in told if isinstance(one, Published)] == [1, 2]
    assert values(await node.partition()) == [b"before", b"a", b"b"]


async def test_a_message_id_becomes_the_header_unless_there_is_one() -> None:
    node = Node()
    await published(node, "t", Record(value=b"a"), Record(value=b"b", headers=(("id", b"own"),)), message_id="given")
    page = await node.do(node.broker.reading.page(await node.partition(), 0, max_records=9))
    assert [record.headers for record in page.records] == [(("id", b"given"),), (("id", b"own"),)]


async def test_a_memory_topic_is_published_to_like_any_other() -> None:
    node = Node()
    topic = await node.topic(configs={"headrace.storage": "memory"})
    told = await published(node, "t", *texts("a", "b"))
    first, second = told
    assert isinstance(first, Published) and isinstance(second, Published)
    assert second.offset == first.offset + 1 > 1
    assert values(topic.partitions[0], first.offset) == [b"a", b"b"]
