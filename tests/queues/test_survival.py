"""What a queue still knows after kills, power losses, and changes of its topic."""

from __future__ import annotations

import asyncio

import pytest

from headrace.broker.wishes import MorePartitions
from headrace.errors import CoordinatorUnavailable
from headrace.records.codec import encode
from headrace.records.record import Record
from tests.queues.kit import AT_LEAST_ONCE, AT_MOST_ONCE, QueueNode, places, started


async def test_acknowledged_records_do_not_come_again_after_a_kill_and_the_others_do():
    node = await started(AT_LEAST_ONCE)
    queue = await node.open()
    taker = node.join(queue)
    await node.publish("1", "2", "3", "4")
    await node.settle()
    told = []
    assert taker.membership.acknowledge([(0, 0), (0, 2), (0, 9)], told.append) == 2
    await node.settle()
    assert told == [None]
    await node.restart()
    again = node.join(await node.open())
    await node.settle()
    assert again.values == ["2", "4"]
    assert again.attempts == [2, 1]  # the member had not come to the last one


async def test_at_most_once_never_repeats_after_power_loss_whatever_moment_it_comes():
    node = await started(AT_MOST_ONCE)
    taker = node.join(await node.open(AT_MOST_ONCE))
    seen = []
    for turn in range(60):
        await node.publish(str(turn))
        for _ in range(turn % 4):
            node.world.background.drain()
        if turn % 3 == 0:
            seen += taker.clear()
            await node.lose_power()
            taker = node.join(await node.open(AT_MOST_ONCE))
    await node.settle()
    seen += taker.clear()
    assert len(seen) == len(set(seen))
    assert len(seen) >= 40


async def test_a_deleted_topic_takes_its_queue_along_and_members_wait_for_the_next():
    node = await started(AT_LEAST_ONCE)
    queue = await node.open()
    taker = node.join(queue)
    await node.publish("1", "2")
    await node.settle()
    told = []
    taker.membership.acknowledge([(0, 0)], told.append)
    await node.do(node.broker.delete_topics(["t"]))
    await node.settle()
    assert len(told) == 1
    assert taker.membership.acknowledge([(0, 1)]) == 0
    taker.clear()
    await node.publish("anew")
    await node.settle()
    assert taker.values == ["anew"]
    await node.restart()
    again = node.join(await node.open())
    await node.settle()
    assert again.values == ["anew"]


async def test_records_that_retention_took_are_told_of_and_the_rest_is_delivered():
    node = await started(AT_LEAST_ONCE)
    await node.publish(*"12345")
    partition = await node.partition()
    await node.do(partition.delete_records(3))
    taker = node.join(await node.open())
    await node.settle()
    assert taker.values == ["4", "5"]
    node.broker.maintain()
    assert ("queue.lost", 3) in [(kind, details.get("records")) for kind, details in node.world.events]


async def test_new_records_at_the_offsets_of_lost_ones_are_delivered():
    node = await started(AT_LEAST_ONCE)
    taker = node.join(await node.open())
    await node.publish("kept")
    partition = await node.partition()
    staged = await _unsynced(node, partition, "lost")
    await node.settle()
    assert taker.values == ["kept", "lost"] and staged == 1
    told = []
    taker.membership.acknowledge([(0, 0), (0, 1)], told.append)
    await node.until(lambda: bool(told))
    await node.lose_power()
    await node.publish("new")
    again = node.join(await node.open())
    await node.settle()
    partition = await node.partition()
    assert partition.high_watermark == 2  # its unsynced end is gone, and the offset is used again
    assert again.values == ["new"]


@pytest.mark.parametrize("opens_at_once", [True, False])
async def test_new_records_at_the_offsets_that_a_recovery_cut_off_are_delivered(opens_at_once: bool) -> None:
    node = await started(AT_LEAST_ONCE)
    taker = node.join(await node.open())
    await node.publish("kept")
    partition = await node.partition()
    log = partition.log
    size = log.segments[-1].size
    await _unsynced(node, partition, "lost")
    await node.settle()
    told = []
    taker.membership.acknowledge([(0, 0), (0, 1)], told.append)
    await node.until(lambda: bool(told))
    assert taker.clear() == ["kept", "lost"]

    node.world.disk.fail_syncs(1, f"{partition.folder}/")
    log.sync_soon()
    await node.until(lambda: log.failed is not None)
    node.world.disk.tear(log.segments[-1].path(), size)
    if not opens_at_once:
        node.world.disk.fail_syncs(1, "/metadata/")  # the new epoch is not kept: it stays closed
    node.broker.maintain()
    await node.settle()
    assert (partition.log is not None) == opens_at_once
    if not opens_at_once:  # somebody else comes before the queue looks again
        node.broker.quorum.recover(node.broker.background)
        await node.settle()
    await node.publish("new", "newer")
    assert partition.high_watermark == 3
    node.broker.maintain()
    await node.settle()
    assert taker.values == ["new", "newer"]


async def test_a_turn_of_acknowledgements_is_one_record_of_state():
    node = await started(AT_LEAST_ONCE)
    queue = await node.open()
    taker = node.join(queue)
    await node.publish(*map(str, range(200)))
    await node.settle()
    topic = node.broker.topic("__queue_state")
    before = sum(p.log.written_offset for p in topic.partitions if p.log is not None)
    for place in places(taker.deliveries):
        taker.membership.acknowledge([place])
    await node.settle()
    assert sum(p.log.written_offset for p in topic.partitions if p.log is not None) == before + 1


async def test_a_memory_topic_has_queues_too_and_nothing_is_kept_of_them():
    node = await started(AT_MOST_ONCE, {"headrace.storage": "memory"})
    taker = node.join(await node.open(AT_MOST_ONCE))
    await node.publish("1", "2")
    await node.settle()
    assert taker.values == ["1", "2"]
    assert node.broker.topic("__queue_state") is None


async def test_a_topic_that_grows_keeps_what_is_settled_and_the_new_partition_begins_at_its_start():
    node = await started(AT_LEAST_ONCE)
    queue = await node.open()
    taker = node.join(queue)
    await node.publish("1", "2", partition=0)
    await node.settle()
    taker.membership.acknowledge([(0, 0)])
    await node.settle()
    await node.do(node.broker.add_partitions([MorePartitions("t", 2)]))
    await node.publish("3", partition=1)
    await node.settle()
    assert taker.values == ["1", "2", "3"]
    await node.restart()
    again = node.join(await node.open())
    await node.settle()
    assert sorted(again.values) == ["2", "3"]


async def test_a_queue_that_delivers_at_most_once_is_forgotten_when_nobody_came_for_long():
    node = await started(AT_MOST_ONCE)
    kept = await node.open(AT_LEAST_ONCE, group="kept")
    taker = node.join(await node.open(AT_MOST_ONCE))
    node.world.clock.ms += 8 * 24 * 3600 * 1000
    node.broker.maintain()
    assert len(node.broker.queues.hosted) == 2
    taker.membership.leave()
    node.world.clock.ms += 8 * 24 * 3600 * 1000
    node.broker.maintain()
    assert list(node.broker.queues.hosted.values()) == [kept]
    assert "queue.expired" in node.world.kinds()


async def test_a_queue_that_is_used_the_other_way_is_of_that_kind_after_a_kill_too():
    node = await started(AT_MOST_ONCE)
    node.join(await node.open(AT_MOST_ONCE)).membership.leave()
    node.join(await node.open(AT_LEAST_ONCE)).membership.leave()
    await node.restart()
    node.world.clock.ms += 8 * 24 * 3600 * 1000
    node.broker.maintain()
    assert [queue.settings.at_most_once for queue in node.broker.queues.hosted.values()] == [False]


async def test_an_acknowledgement_over_several_partitions_is_told_when_all_of_them_are_kept():
    node = QueueNode()
    await node.topic("t", partitions=2)
    taker = node.join(await node.open())
    await node.publish("a", "b", partition=0)
    await node.publish("c", partition=1)
    await node.settle()
    taker.membership.acknowledge([(0, 0)])
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # its save is under way
    told = []
    assert taker.membership.acknowledge([(0, 1), (1, 0)], told.append) == 2
    await node.until(lambda: bool(told))
    await node.lose_power()
    again = node.join(await node.open())
    await node.settle()
    assert told == [None] and again.values == []


async def test_what_a_node_was_told_before_it_stops_is_kept():
    node = await started(AT_LEAST_ONCE)
    taker = node.join(await node.open())
    await node.publish("1", "2")
    await node.settle()
    taker.membership.acknowledge([(0, 0)])
    await node.do(node.broker.queues.stop())
    await node.lose_power()
    again = node.join(await node.open())
    await node.settle()
    assert again.values == ["2"]


async def _unsynced(node, partition, value):
    staged = partition.append_own(encode([Record(value=value.encode(), timestamp_ms=1)]), 1)
    node.broker.flush()
    return staged.base_offset


async def test_without_room_on_the_disk_nothing_goes_out_at_most_once_and_all_does_when_there_is():
    node = await started(AT_MOST_ONCE)
    await node.publish("1", "2")
    queue = await node.open(AT_MOST_ONCE)
    node.world.disk.fill(0)
    taker = node.join(queue)
    await node.settle()
    assert taker.values == []
    node.world.disk.empty()
    await node.later(1.1)
    assert taker.values == ["1", "2"]


async def test_without_room_on_the_disk_an_acknowledgement_is_told_to_be_in_doubt_and_is_kept_later():
    node = await started(AT_LEAST_ONCE)
    taker = node.join(await node.open())
    await node.publish("1", "2")
    await node.settle()
    node.world.disk.fill(0)
    told = []
    taker.membership.acknowledge([(0, 0)], told.append)
    await node.settle()
    assert isinstance(told[0], CoordinatorUnavailable)
    node.world.disk.empty()
    await node.later(1.1)
    await node.lose_power()
    again = node.join(await node.open())
    await node.settle()
    assert again.values == ["2"]


async def test_a_dead_letter_that_finds_no_room_waits_and_is_told_of_once():
    node = await started(AT_LEAST_ONCE, {"headrace.queue.max.attempts": "1"})
    queue = await node.open()
    taker = node.join(queue)
    await node.publish("1")
    await node.settle()
    node.world.disk.fill(0)
    taker.membership.release([(0, 0)])
    await node.settle()
    await node.later(1.1)
    assert node.world.kinds().count("queue.not-buried") == 1
    node.world.disk.empty()
    await node.later(1.1)
    await node.later(1.1)
    (dead,) = await node.do(node.broker.queues.dead(queue.key))
    assert dead.record.value == b"1"
