"""Groups by lease, and positions that consumers commit."""

from __future__ import annotations

import pytest

from headrace.broker import leases
from headrace.broker.broker import BrokerSettings
from headrace.broker.groups.settings import GroupSettings
from headrace.broker.leases import LEASE_S
from headrace.errors import HeadraceError, InvalidGroupId, LeaseHeld, LimitReached, UnknownTopic
from headrace.records.codec import encode
from headrace.records.record import Record
from tests.queues.kit import QueueNode

MINUTE_MS = 60_000


async def test_a_group_has_one_consumer_until_it_was_silent_for_the_lease():
    node = QueueNode()
    held = node.broker.leases
    await held.hold("t", "g", "one")
    with pytest.raises(LeaseHeld):
        await held.hold("t", "g", "two")
    await held.hold("t", "other", "two")
    node.world.clock.ms += round(LEASE_S * 900)
    await held.hold("t", "g", "one")  # heard of: it begins anew
    node.world.clock.ms += round(LEASE_S * 900)
    with pytest.raises(LeaseHeld):
        await held.hold("t", "g", "two")
    assert held.leases() == {"t|g": pytest.approx(node.world.clock.ms / 1000 + LEASE_S * 0.1)}
    node.world.clock.ms += round(LEASE_S * 100)
    await held.hold("t", "g", "two")


async def test_leases_that_ran_out_make_room(monkeypatch):
    monkeypatch.setattr(leases, "MAX_LEASES", 2)
    node = QueueNode()
    for group in "ab":
        await node.broker.leases.hold("t", group, "c")
    with pytest.raises(LimitReached):
        await node.broker.leases.hold("t", "c", "c")
    node.world.clock.ms += round(LEASE_S * 1000)
    await node.broker.leases.hold("t", "c", "c")
    assert list(node.broker.leases.leases()) == ["t|c"]


async def test_positions_survive_power_loss_go_back_and_are_each_their_own():
    node = QueueNode()
    await node.topic("t", partitions=2)
    await node.publish("1", "2", "3", partition=0)
    held = node.broker.leases
    assert await node.do(held.committed("t", "group:g")) == -1
    await node.do(held.commit("t", "group:g", 2))
    await node.do(held.commit("t", "group:g", 0, 1))
    await node.do(held.commit("t", "consumer:g", 1))
    await node.do(held.commit("t", "group:g", 1))
    await node.lose_power()
    held = node.broker.leases
    assert await node.do(held.committed("t", "group:g")) == 1
    assert await node.do(held.committed("t", "consumer:g")) == 1
    assert await node.do(held.committed("t", "consumer:_anon")) == -1


async def test_a_position_behind_what_the_leader_lost_is_taken_back_to_what_it_has():
    node = QueueNode()
    await node.topic("t", partitions=1)
    await node.publish("1")
    partition = await node.partition()
    partition.append_own(encode([Record(value=b"lost", timestamp_ms=1)]), 1)
    node.broker.flush()
    await node.do(node.broker.leases.commit("t", "group:g", 1))
    await node.lose_power()
    await node.publish("new")
    assert (await node.partition()).high_watermark == 2
    assert await node.do(node.broker.leases.committed("t", "group:g")) == 0


async def test_positions_go_with_their_topic():
    node = QueueNode()
    await node.topic("t", partitions=1)
    await node.do(node.broker.leases.commit("t", "group:g", 5))
    await node.broker.leases.hold("t", "g", "c")
    await node.do(node.broker.delete_topics(["t"]))
    assert node.broker.leases.leases() == {}
    await node.topic("t", partitions=1)
    assert await node.do(node.broker.leases.committed("t", "group:g")) == -1
    await node.restart()
    assert await node.do(node.broker.leases.committed("t", "group:g")) == -1


async def test_positions_that_nobody_came_for_go_for_good_and_make_room(monkeypatch):
    monkeypatch.setattr(leases, "MAX_POSITIONS", 3)
    settings = BrokerSettings(groups=GroupSettings(retention_minutes=2, retention_check_ms=1000))
    node = QueueNode(settings=settings)
    await node.topic("t", partitions=1)
    await node.publish(*"0123456")
    held = node.broker.leases
    for name in ("consumer:gone", "consumer:asks", "consumer:commits"):
        await node.do(held.commit("t", name, 5))
    for _ in range(3):
        node.world.clock.ms += MINUTE_MS
        assert await node.do(held.committed("t", "consumer:asks")) == 5
        await node.do(held.commit("t", "consumer:commits", 6))
        node.broker.maintain()
        await node.settle()
    assert "lease.positions-expired" in node.world.kinds()
    await node.do(held.commit("t", "consumer:new", 1))
    await node.restart()
    held = node.broker.leases
    found = [await node.do(held.committed("t", f"consumer:{name}")) for name in ("gone", "asks", "commits", "new")]
    assert found == [-1, 5, 6, 1]


async def test_after_a_start_those_who_only_ask_have_time_to_come_back():
    settings = BrokerSettings(groups=GroupSettings(retention_minutes=24 * 60))
    node = QueueNode(settings=settings)
    await node.topic("t", partitions=1)
    await node.publish(*"012345")
    await node.do(node.broker.leases.commit("t", "consumer:c", 5))
    node.world.clock.ms += 48 * 60 * MINUTE_MS
    await node.restart()
    node.world.clock.ms += 30 * MINUTE_MS
    node.broker.maintain()
    assert await node.do(node.broker.leases.committed("t", "consumer:c")) == 5
    node.world.clock.ms += 60 * MINUTE_MS
    node.broker.maintain()
    assert await node.do(node.broker.leases.committed("t", "consumer:c")) == 5


async def test_a_topic_that_goes_looks_at_its_own_positions_and_leases_alone():
    node = QueueNode()
    for topic in ("t", "other"):
        await node.topic(topic, partitions=1)
        await node.do(node.broker.leases.commit(topic, "group:g", 5))
        await node.broker.leases.hold(topic, "g", "c")
    assert [key.topic for key in node.broker.queues.state.positions.of("t")] == ["t"]
    await node.do(node.broker.delete_topics(["t"]))
    assert len(node.broker.queues.state.positions) == 1
    assert list(node.broker.leases.leases()) == ["other|g"]
    assert await node.do(node.broker.leases.committed("other", "group:g")) == 5


async def test_what_cannot_be_committed_is_refused():
    node = QueueNode()
    await node.topic("t", partitions=1)
    for topic, name, partition, kind in (
        ("nowhere", "group:g", 0, UnknownTopic),
        ("t", "group:g", 1, UnknownTopic),
        ("t", "", 0, InvalidGroupId),
        ("t", "x" * 300, 0, InvalidGroupId),
    ):
        with pytest.raises(kind):
            await node.do(node.broker.leases.commit(topic, name, 0, partition))


async def test_more_positions_than_there_may_be_are_refused(monkeypatch):
    monkeypatch.setattr(leases, "MAX_POSITIONS", 1)
    node = QueueNode()
    await node.topic("t", partitions=1)
    await node.do(node.broker.leases.commit("t", "group:g", 0))
    with pytest.raises(HeadraceError):
        await node.do(node.broker.leases.commit("t", "group:h", 0))
    await node.do(node.broker.leases.commit("t", "group:g", 1))
