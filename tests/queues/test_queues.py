"""Queues of a broker: who gets which record, when, and how much at a time."""

from __future__ import annotations

import asyncio

import pytest

from headrace.broker.queues import coordinator
from headrace.broker.queues import queue as queues_queue
from headrace.broker.queues.records import QueueKey
from headrace.broker.queues.settings import QueueSettings
from headrace.errors import GroupNotFound, HeadraceError, InvalidGroupId, LimitReached, QueueModeConflict
from tests.queues.kit import AT_LEAST_ONCE, AT_MOST_ONCE, QueueNode, places, started


@pytest.mark.parametrize("settings", [AT_LEAST_ONCE, AT_MOST_ONCE])
async def test_records_go_to_members_in_turn_in_the_order_in_which_they_joined(settings):
    node = await started(settings)
    queue = await node.open(settings)
    b, c = node.join(queue, "b"), node.join(queue, "c")
    for value in "1234":
        await node.publish(value)
    await node.settle()
    assert (b.values, c.values) == (["1", "3"], ["2", "4"])


@pytest.mark.parametrize("settings", [AT_LEAST_ONCE, AT_MOST_ONCE])
async def test_a_new_queue_begins_at_the_end_or_where_it_is_asked_to(settings):
    node = QueueNode()
    await node.topic("t", partitions=1)
    await node.publish("old")
    from_start = QueueSettings(at_most_once=settings.at_most_once, start="start")
    late, early = await node.open(settings, group="late"), await node.open(from_start, group="early")
    a, b = node.join(late), node.join(early)
    await node.publish("new")
    await node.settle()
    assert (a.values, b.values) == (["new"], ["old", "new"])


async def test_what_is_published_while_nobody_is_there_waits_for_who_comes():
    node = await started(AT_MOST_ONCE)
    await node.publish("1", "2")
    taker = node.join(await node.open(AT_MOST_ONCE))
    await node.settle()
    assert taker.values == ["1", "2"]


async def test_a_queue_whose_topic_does_not_exist_begins_with_its_first_record():
    node = QueueNode()
    queue = await node.open(AT_MOST_ONCE)
    taker = node.join(queue)
    await node.publish("1")
    await node.publish("2")
    await node.settle()
    assert taker.values == ["1", "2"]


async def test_silence_gives_a_record_to_another_and_the_late_acknowledgement_counts_for_nothing():
    node = await started(AT_LEAST_ONCE, {"headrace.queue.lock.ms": "5000", "headrace.queue.backoff.ms": "0"})
    queue = await node.open()
    slow, other = node.join(queue, "slow"), node.join(queue, "other")
    await node.publish("1")
    await node.settle()
    assert slow.values == ["1"]
    await node.later(4.9)
    assert other.values == []
    await node.later(0.2)
    assert other.values == ["1"] and other.attempts == [2]
    assert slow.membership.acknowledge([(0, 0)]) == 0
    assert other.membership.acknowledge([(0, 0)]) == 1


async def test_a_renewed_lock_begins_anew():
    node = await started(AT_LEAST_ONCE, {"headrace.queue.lock.ms": "5000"})
    queue = await node.open()
    taker = node.join(queue)
    await node.publish("1", "2")
    await node.settle()
    await node.later(4)
    assert taker.membership.renew([(0, 1)]) == 1
    await node.later(2)
    assert taker.membership.acknowledge([(0, 0)]) == 0
    assert taker.membership.acknowledge([(0, 1)]) == 1


async def test_a_member_that_leaves_gives_back_what_it_held_at_once():
    node = await started(AT_LEAST_ONCE)
    queue = await node.open()
    one, two = node.join(queue), node.join(queue)
    await node.publish("1", "2", "3", "4")
    await node.settle()
    one.membership.leave()
    await node.settle()
    assert sorted(two.values) == ["1", "2", "3", "4"]


async def test_released_records_wait_longer_with_each_attempt():
    node = await started(AT_LEAST_ONCE, {"headrace.queue.backoff.ms": "1000", "headrace.queue.max.attempts": "0"})
    taker = node.join(await node.open())
    await node.publish("1")
    await node.settle()
    for attempt, wait in enumerate((1, 2, 4, 8), 1):
        assert taker.attempts == list(range(1, attempt + 1))
        assert taker.membership.release([(0, 0)]) == 1
        await node.later(wait - 0.1)
        assert len(taker.deliveries) == attempt
        await node.later(0.2)
    assert len(taker.deliveries) == 5


async def test_a_full_member_gets_no_more_until_it_has_room_and_others_go_on():
    node = await started(AT_MOST_ONCE)
    queue = await node.open(AT_MOST_ONCE)
    full, other = node.join(queue, "full"), node.join(queue, "other")
    full.is_full = True
    for number in range(6):
        await node.publish(str(number))
        await node.settle()
    assert full.values == ["0"] and other.values == ["1", "2", "3", "4", "5"]
    full.is_full = False
    full.membership.resume()
    await node.publish("6", "7")
    await node.settle()
    assert len(full.values) == 2


async def test_a_member_holds_no_more_records_and_bytes_than_it_may():
    node = await started(AT_LEAST_ONCE)
    queue = await node.open()
    few, little = node.join(queue, "few", max_records=2), node.join(queue, "little", max_bytes=250)
    await node.publish(*(str(number).ljust(100) for number in range(20)))
    await node.settle()
    assert len(few.deliveries) == 2 and len(little.deliveries) == 2
    few.membership.acknowledge(places(few.deliveries[:1]))
    await node.settle()
    assert len(few.deliveries) == 3


async def test_a_queue_has_no_more_in_flight_than_it_may():
    node = QueueNode()
    await node.topic("t", partitions=1)
    queue = await node.open(QueueSettings(in_flight_records=10))
    taker = node.join(queue)
    await node.publish(*map(str, range(50)))
    await node.settle()
    assert len(taker.deliveries) == 10
    taker.membership.acknowledge(places(taker.deliveries[5:]))
    await node.settle()
    assert len(taker.deliveries) == 15


async def test_groups_and_partitions_side_by_side():
    node = QueueNode()
    await node.topic("t", partitions=3)
    first, second = await node.open(), await node.open(AT_MOST_ONCE, group="h")
    a, b, c = node.join(first, "a"), node.join(first, "b"), node.join(second, "c")
    for number in range(30):
        await node.publish(str(number), partition=number % 3)
    await node.settle()
    everything = sorted(map(str, range(30)))
    assert sorted(a.values + b.values) == everything and len(a.values) == 15
    assert sorted(c.values) == everything


async def test_one_group_is_not_both_kinds_while_it_has_members():
    node = await started(AT_LEAST_ONCE)
    queue = await node.open()
    taker = node.join(queue)
    with pytest.raises(QueueModeConflict):
        await node.open(AT_MOST_ONCE)
    await node.publish("1", "2")
    await node.settle()
    taker.membership.acknowledge([(0, 0)])
    taker.membership.leave()
    await node.settle()
    other = node.join(await node.open(AT_MOST_ONCE))
    await node.settle()
    assert other.values == ["2"]


async def test_what_cannot_be_is_refused():
    node = QueueNode()
    for group in ("", "x" * 256, "a\nb"):
        with pytest.raises(InvalidGroupId):
            await node.open(group=group)
    with pytest.raises(HeadraceError):
        await node.open(topic="__queue_state")
    with pytest.raises(GroupNotFound):
        await node.do(node.broker.queues.describe(QueueKey("lines", "t", "nobody")))


async def test_there_are_no_more_members_and_queues_than_there_may_be(monkeypatch):
    monkeypatch.setattr(queues_queue, "MAX_MEMBERS", 2)
    monkeypatch.setattr(coordinator, "MAX_QUEUES", 1)
    node = await started(AT_LEAST_ONCE)
    queue = await node.open()
    one = node.join(queue)
    node.join(queue)
    with pytest.raises(LimitReached):
        node.join(queue)
    one.membership.leave()
    node.join(queue)
    with pytest.raises(LimitReached):
        await node.open(group="another")


async def test_queues_hold_no_more_in_memory_than_all_of_them_may():
    node = await started(AT_LEAST_ONCE)
    node.broker.queues.budget.limit = 20_000
    queues = [await node.open(group=f"g{number}") for number in range(5)]
    takers = [node.join(queue) for queue in queues]
    for _ in range(40):
        await node.publish("x" * 1000)
        await node.settle()
    assert node.broker.queues.budget.used < 20_000 + 5 * 2_000
    for _ in range(60):
        for taker in takers:
            taker.membership.acknowledge(places(taker.deliveries))
        await node.settle()
    assert [len(taker.deliveries) for taker in takers] == [40] * 5
    assert node.broker.queues.budget.used == 0


async def test_a_record_larger_than_every_bound_is_delivered_all_the_same():
    node = QueueNode()
    await node.topic("t", partitions=1)
    queue = await node.open(QueueSettings(in_flight_bytes=100))
    taker = node.join(queue, max_bytes=100)
    await node.publish("x" * 300_000)
    await node.publish("y" * 300_000)
    await node.settle()
    assert [len(value) for value in taker.values] == [300_000]
    taker.membership.acknowledge(places(taker.deliveries))
    await node.settle()
    assert [value[0] for value in taker.values] == ["x", "y"]


async def test_a_member_may_acknowledge_and_leave_while_it_is_given_something():
    node = await started(AT_LEAST_ONCE)
    queue = await node.open()
    eager, shy, other = node.join(queue, "eager"), node.join(queue, "shy"), node.join(queue, "other")
    eager.acknowledges = True
    take = shy.take

    def leave(deliveries):
        take(deliveries)
        shy.membership.leave()
        other.membership.leave()
        return True

    shy.take = leave
    await node.publish(*map(str, range(9)))
    await node.settle()
    assert sorted(eager.values) == list(map(str, range(9)))
    assert other.values == []


async def test_two_who_open_a_new_group_at_once_and_differently_are_not_both_let_in():
    node = QueueNode()
    await node.topic("t", partitions=1)
    opening = [node.broker.queues.open("lines", "t", "g", settings) for settings in (AT_LEAST_ONCE, AT_MOST_ONCE)]
    found = await node.do(asyncio.gather(*opening, return_exceptions=True))
    assert isinstance(found[0], QueueModeConflict) and not isinstance(found[1], Exception)


async def test_a_queue_that_was_opened_on_no_topic_and_never_joined_is_forgotten():
    node = QueueNode()
    await node.open(AT_MOST_ONCE)
    taker = node.join(await node.open(AT_MOST_ONCE, group="joined"))
    node.world.clock.ms += 61_000
    node.broker.maintain()
    assert [key.group for key in node.broker.queues.hosted] == ["joined"]
    taker.membership.leave()
    await node.settle()
    assert not node.broker.queues.hosted
