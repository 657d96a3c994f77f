"""The broker without a door: topics come and go, survive, and say why not."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from headrace.broker.broker import BrokerSettings, NewTopic
from headrace.broker.partition import Partition
from headrace.broker.topic import Topic
from headrace.errors import (
    CorruptBatch,
    DiskFull,
    FencedLeaderEpoch,
    HeadraceError,
    InvalidConfig,
    InvalidRecord,
    InvalidTimestamp,
    LimitReached,
    MessageTooLarge,
    NotEnoughReplicas,
    OutOfOrderSequence,
    StorageFailed,
    TopicExists,
    UnknownLeaderEpoch,
    UnknownTopic,
)
from headrace.log.config import ignore_error
from headrace.log.log import Log
from headrace.log.reader import ReadResult
from headrace.records.batch import read_header
from headrace.records.codec import BatchOptions, Producer, Record, decode, encode
from tests.broker.kit import Node, produce, settle, values
from tests.log.kit import START_MS, batch


async def test_topics_survive_power_loss_with_their_ids_and_settings() -> None:
    node = Node()
    made = await node.topic(partitions=3, configs={"retention.ms": "5000"})
    node.power_loss()
    again = node.broker.topic("t")
    assert again is not None
    assert (again.id, len(again.partitions), again.config.retention_ms) == (made.id, 3, 5000)


async def test_every_start_bumps_the_leader_epoch_and_old_epochs_are_told_apart() -> None:
    node = Node()
    partition = await node.partition()
    first = partition.leader_epoch
    partition.check_epoch(first)
    partition.check_epoch(-1)
    node.power_loss()
    again = await node.partition()
    assert again.leader_epoch == first + 1
    with pytest.raises(FencedLeaderEpoch):
        again.check_epoch(first)
    with pytest.raises(UnknownLeaderEpoch):
        again.check_epoch(first + 2)


async def test_several_wishes_are_answered_one_by_one() -> None:
    node = Node(settings=BrokerSettings(max_partitions=5))
    await node.topic("taken")
    wishes = [
        NewTopic("taken"),
        NewTopic("ok", partitions=3),
        NewTopic("bad", configs={"x": "1"}),
        NewTopic("big", partitions=2),
    ]
    taken, ok, bad, big = await node.do(node.broker.create_topics(wishes))
    assert isinstance(taken, TopicExists)
    assert isinstance(ok, Topic)
    assert isinstance(bad, InvalidConfig)
    assert isinstance(big, LimitReached)


async def test_validating_only_makes_nothing() -> None:
    node = Node()
    (imagined,) = await node.do(node.broker.create_topics([NewTopic("t", partitions=2)], validate_only=True))
    assert isinstance(imagined, Topic)
    assert len(imagined.partitions) == 2
    assert node.broker.topic("t") is None


async def test_a_deleted_topic_is_gone_for_producers_readers_and_after_a_restart() -> None:
    node = Node()
    partition = await node.partition()
    produce(node, partition, batch(b"old"))
    assert await node.do(node.broker.delete_topics(["t"])) == [None]
    assert isinstance(partition.error, UnknownTopic)
    fresh = await node.partition()
    assert fresh.high_watermark == 0
    produce(node, fresh, batch(b"new"))
    assert values(fresh) == [b"new"]
    (unknown,) = await node.do(node.broker.delete_topics(["never"]))
    assert isinstance(unknown, UnknownTopic)


async def test_producer_ids_are_never_given_twice_even_across_power_loss() -> None:
    node = Node()
    given = [await node.do(node.broker.new_producer_id()) for _ in range(3)]
    node.power_loss()
    given += [await node.do(node.broker.new_producer_id()) for _ in range(3)]
    assert len(set(given)) == 6


async def test_a_waiter_is_woken_by_an_append_and_not_before() -> None:
    node = Node()
    partition = await node.partition()
    woken: list[Partition] = []

    class Waiter:
        def wake(self, partition: Partition) -> None:
            woken.append(partition)

    waiter = Waiter()
    partition.watch(waiter)
    staged = partition.append(batch(), START_MS)
    assert woken == []
    assert staged.base_offset == 0
    node.broker.flush()
    assert woken == [partition]
    partition.unwatch(waiter)
    produce(node, partition, batch())
    assert woken == [partition]


async def test_a_batch_that_a_producer_may_not_send_is_refused_and_leaves_no_gap() -> None:
    node = Node()
    partition = await node.partition()
    (memory,) = (await node.topic("small", configs={"max.message.bytes": "200"})).partitions
    small = await node.do(memory.opened())
    control = encode([Record(b"k", b"v")], BatchOptions(is_control=True))
    transactional = encode([Record(b"k", b"v")], BatchOptions(is_transactional=True))
    late = batch(timestamp_ms=START_MS + 2 * 3600 * 1000)
    damaged = batch()
    damaged[-1] ^= 1
    for data, error in [
        (control, InvalidRecord),
        (transactional, InvalidRecord),
        (batch() + batch(), InvalidRecord),
        (late, InvalidTimestamp),
        (damaged, CorruptBatch),
        (bytearray(b"short"), CorruptBatch),
    ]:
        with pytest.raises(error):
            produce(node, partition, data)
    with pytest.raises(MessageTooLarge, match=r"max\.message\.bytes=200"):
        produce(node, small, batch(b"x" * 300))
    assert produce(node, partition, batch(b"first")) == 0
    assert values(partition) == [b"first"]


async def test_acks_all_needs_as_many_replicas_as_the_topic_says() -> None:
    node = Node()
    await node.topic("t", configs={"min.insync.replicas": "2"})
    with pytest.raises(NotEnoughReplicas):
        (await node.partition()).check_in_sync()


async def test_a_topic_that_stamps_its_records_itself_gives_them_the_time_of_the_append() -> None:
    node = Node()
    await node.topic("t", configs={"message.timestamp.type": "LogAppendTime"})
    partition = await node.partition()
    node.world.clock.ms += 5000
    staged = partition.append(batch(count=3), node.world.clock.now_ms())
    node.broker.flush()
    assert staged.append_time_ms == START_MS + 5000
    read = partition.read(0, 1 << 20, at_least_one=True)
    assert isinstance(read, ReadResult)
    assert [record.timestamp_ms for record in decode(read.pieces[0])] == [START_MS + 5000] * 3
    assert read_header(read.pieces[0]).is_log_append_time


async def test_a_full_disk_refuses_and_goes_on_when_there_is_space() -> None:
    node = Node()
    partition = await node.partition()
    produce(node, partition, batch(b"before"))
    node.world.disk.fill(10)
    with pytest.raises(DiskFull):
        produce(node, partition, batch(b"refused" * 50))
    node.world.disk.empty()
    assert produce(node, partition, batch(b"after")) == 1
    assert values(partition) == [b"before", b"after"]


async def test_a_failed_sync_closes_the_partition_until_it_is_recovered() -> None:
    node = Node()
    partition = await node.partition()
    produce(node, partition, batch(b"kept"))
    assert partition.log is not None
    told: list[HeadraceError | None] = []
    node.world.disk.fail_syncs(1)
    partition.log.when_synced(1, told.append)
    node.world.background.drain()
    assert isinstance(told[0], StorageFailed)
    with pytest.raises(StorageFailed):
        produce(node, partition, batch())
    node.broker.maintain()
    recovered = await node.partition()
    assert values(recovered) == [b"kept"]
    assert recovered.log is not None
    assert recovered.log.synced_offset == 1
    assert produce(node, recovered, batch(b"next")) == 1


async def after_a_sync_that_lost_the_last_record(node: Node) -> Partition:
    """Two records, both readable, of which the failed sync dropped the second, as Linux drops pages."""
    partition = await node.partition()
    produce(node, partition, batch(b"kept"))
    log = partition.log
    assert isinstance(log, Log)
    log.when_synced(1, ignore_error)
    node.world.background.drain()
    size = log.segments[-1].size
    produce(node, partition, batch(b"lost"))
    assert values(partition) == [b"kept", b"lost"]
    node.world.disk.fail_syncs(1, "/topics/")
    log.when_synced(2, ignore_error)
    node.world.background.drain()
    node.world.disk.tear(log.segments[-1].path(), size)
    node.broker.maintain()
    return partition


async def test_a_log_that_failed_is_recovered_in_a_new_leader_epoch_that_says_where_the_old_one_ended() -> None:
    node = Node()
    partition = await after_a_sync_that_lost_the_last_record(node)
    old, version = partition.leader_epoch, node.broker.metadata_version
    assert await node.partition() is partition
    assert (partition.leader_epoch, partition.high_watermark) == (old + 1, 1)
    assert node.broker.metadata_version > version
    with pytest.raises(FencedLeaderEpoch):
        partition.check_epoch(old)
    assert produce(node, partition, batch(b"another")) == 1
    assert produce(node, partition, batch(b"one more")) == 2
    assert partition.epoch_end(old) == (old, 1)
    assert partition.epoch_end(old + 1) == (old + 1, 3)
    node.power_loss()
    assert (await node.partition()).leader_epoch == old + 2


@pytest.mark.parametrize("fault", ["write", "sync"])
async def test_what_was_sent_behind_a_first_batch_that_the_disk_lost_is_not_taken_before_it(fault: str) -> None:
    """Else it would be acknowledged, and the first one, sent again, be refused for good."""
    node = Node()
    partition = await node.partition()
    produce(node, partition, batch(b"kept", producer=Producer(6, 0, 0)))
    await synced(node, partition)
    for _ in range(2):  # the second time, nobody had sent it again yet
        if fault == "write":
            node.world.disk.fail_writes(1, "/topics/")
            with pytest.raises(StorageFailed):
                produce(node, partition, batch(b"first", producer=Producer(7, 0, 0)))
        else:
            node.world.disk.forgets = 1.0
            produce(node, partition, batch(b"first", producer=Producer(7, 0, 0)))
            node.world.disk.fail_syncs(1, "/topics/")
            await synced(node, partition)
        node.broker.maintain()
        partition = await node.partition()
        with pytest.raises(OutOfOrderSequence, match="0 comes first"):
            produce(node, partition, batch(b"behind", producer=Producer(7, 0, 1)))
    produce(node, partition, batch(b"more", producer=Producer(6, 0, 1)))
    for sequence, value in enumerate((b"first", b"behind")):
        assert produce(node, partition, batch(value, producer=Producer(7, 0, sequence))) == 2 + sequence
    assert values(partition) == [b"kept", b"more", b"first", b"behind"]


async def test_a_first_batch_that_a_failed_sync_left_on_the_disk_is_known_and_nothing_waits_for_it() -> None:
    node = Node()
    partition = await node.partition()
    produce(node, partition, batch(b"first", producer=Producer(7, 0, 0)))
    node.world.disk.fail_syncs(1, "/topics/")
    await synced(node, partition)
    node.broker.maintain()
    partition = await node.partition()
    assert produce(node, partition, batch(b"behind", producer=Producer(7, 0, 1))) == 1
    assert produce(node, partition, batch(b"first", producer=Producer(7, 0, 0))) == 0


async def synced(node: Node, partition: Partition) -> None:
    """Or its sync has failed."""
    assert partition.log is not None
    partition.log.when_synced(partition.log.written_offset, ignore_error)
    await settle(node)


async def test_a_log_whose_sync_failed_on_a_full_disk_is_opened_anew_so_that_retention_makes_room() -> None:
    node = Node()
    await node.topic("t", configs={"segment.bytes": "1000000", "retention.ms": "3600000"})
    partition = await node.partition()
    for _ in range(30):
        produce(node, partition, batch(b"x" * 50_000))
    assert isinstance(partition.log, Log)
    node.world.disk.fill(0)
    node.world.disk.fail_syncs(1, "/topics/")
    partition.log.when_synced(30, ignore_error)
    await settle(node)
    assert partition.log.failed is not None
    node.world.clock.ms += 2 * 3_600_000
    node.broker.maintain()
    await settle(node)
    assert (await node.partition()).high_watermark == 30
    node.broker.maintain()
    await settle(node)
    assert node.world.disk.free_bytes > 900_000
    node.world.disk.fill(0)
    with pytest.raises(DiskFull):  # what is not vital never takes the room that is set aside
        await node.topic("u")


async def test_a_log_that_failed_does_not_serve_before_its_new_epoch_is_kept() -> None:
    node = Node()
    partition = await after_a_sync_that_lost_the_last_record(node)
    old = partition.leader_epoch
    node.world.disk.fail_syncs(1, "/metadata/")
    with pytest.raises(StorageFailed):
        await node.partition()
    assert (partition.log, partition.leader_epoch) == (None, old)
    node.broker.maintain()
    await settle(node)
    assert (await node.partition()).leader_epoch > old
    assert values(partition) == [b"kept"]


async def test_a_topic_that_is_deleted_while_its_log_recovers_stays_deleted() -> None:
    node = Node()
    partition = await after_a_sync_that_lost_the_last_record(node)
    deleted = asyncio.ensure_future(node.broker.delete_topics(["t"]))
    await asyncio.sleep(0)
    with pytest.raises(UnknownTopic):
        await node.do(partition.opened())
    assert await node.do(deleted) == [None]
    assert (partition.log, node.broker.topic("t")) == (None, None)


async def test_a_memory_topic_keeps_what_fits_and_touches_no_disk() -> None:
    node = Node()
    await node.topic("m", configs={"headrace.storage": "memory", "retention.bytes": "300000"})
    partition = await node.partition("m")
    first = partition.high_watermark
    changes = node.world.disk.changes
    for number in range(100):
        produce(node, partition, batch(b"%d" % number + b"x" * 10_000))
    assert node.world.disk.changes == changes
    assert partition.high_watermark == first + 100
    assert first < partition.start_offset < partition.high_watermark


async def test_a_fault_with_one_partition_leaves_the_others_in_line() -> None:
    node = Node()
    await node.topic("t", partitions=3)
    parts = [await node.partition("t", index) for index in range(3)]
    for part in parts:
        part.append(batch(b"v"), START_MS)
    broken = parts[1]
    log, broken.log = broken.log, cast("Any", Faulty())
    with pytest.raises(ZeroDivisionError):
        node.broker.flush()
    broken.log = log
    node.broker.flush()
    assert [parts[0].high_watermark, parts[2].high_watermark] == [1, 1]
    assert node.broker.dirty == []
    assert not any(part.dirty for part in parts)


class Faulty:
    def flush(self) -> None:
        raise ZeroDivisionError


async def test_a_refused_write_is_told_once_until_the_partition_is_written_to_again() -> None:
    node = Node()
    partition = await node.partition()
    produce(node, partition, batch())
    for _ in range(2):
        node.world.disk.fill(0)
        for _ in range(3):
            with pytest.raises(DiskFull):
                produce(node, partition, batch(b"x" * 5000))
        node.world.disk.empty()
        produce(node, partition, batch())
    assert node.world.kinds().count("produce.refused") == 2


async def test_a_topic_with_a_flush_ms_is_synced_without_being_asked() -> None:
    node = Node()
    await node.topic("t", configs={"flush.ms": "1000"})
    partition = await node.partition()
    produce(node, partition, batch())
    assert partition.log is not None
    node.broker.sync_due()
    node.world.background.drain()
    assert partition.log.synced_offset == 0
    node.world.clock.ms += 1500
    node.broker.sync_due()
    node.world.background.drain()
    assert partition.log.synced_offset == 1


async def test_what_a_deletion_left_behind_goes_at_the_next_start() -> None:
    node = Node()
    await node.topic("kept")
    for name in ("kept", "gone"):
        produce(node, await node.partition(name), batch())
    assert await node.do(node.broker.new_producer_id()) == 0
    topic = node.broker.topic("gone")
    assert topic is not None
    deleting = asyncio.ensure_future(node.broker.delete_topics(["gone"]))
    await asyncio.sleep(0)
    node.world.background.step()  # the entry is synced; its folder is not renamed yet
    assert node.broker.topic("gone") is None
    node.world.crash()
    node.start()
    node.world.background.drain()
    assert node.broker.topic("gone") is None
    left = node.world.disk.list(f"{node.world.root}/topics")
    assert [name.partition("-")[0] for name in left] == ["kept"]
    deleting.cancel()


async def test_why_a_partition_cannot_be_opened_is_told_once_until_it_can() -> None:
    node = Node()
    for name in ("bad", "good"):
        produce(node, await node.partition(name), batch())
    for _ in range(2):
        node.world.restart()
        node.start()
        bad = node.broker.topic("bad")
        assert bad is not None
        node.world.disk.fail_reads(1000, bad.partitions[0].folder)
        for _ in range(3):
            with pytest.raises(HeadraceError):
                await node.partition("bad")
        assert (await node.partition("good")).log is not None
        node.world.disk.mend()
        assert (await node.partition("bad")).log is not None
    told = [details for kind, details in node.world.events if kind == "log.not-opened"]
    assert len(told) == 2
    assert told[0]["folder"] == bad.partitions[0].folder
    assert "the read failed" in told[0]["why"]
