"""Levels of acknowledgement: when who published is told."""

from __future__ import annotations

from functools import partial

import pytest

from headrace.broker.alteration import Alteration, Change, Op
from headrace.broker.broker import BrokerSettings
from headrace.broker.publishing import Published
from headrace.errors import InvalidAcks, InvalidConfig, NotEnoughReplicas
from headrace.records.record import Record
from tests.broker.kit import Node, Told, published, texts, values
from tests.log.kit import START_MS


@pytest.mark.parametrize("acks", [0, 1, "0", "1"])
async def test_who_asks_for_written_is_told_without_a_sync(acks: int | str) -> None:
    node = Node()
    await node.partition()
    told: Told = []
    node.broker.publishing.publish("t", Record(value=b"a"), told.append, acks=acks)
    node.broker.publishing.end_turn()
    assert told == [Published(0, 0, START_MS)]


@pytest.mark.parametrize("acks", [None, "all", -1, "ALL"])
async def test_who_asks_for_all_is_told_after_the_sync(acks: int | str | None) -> None:
    node = Node()
    partition = await node.partition()
    told: Told = []
    node.broker.publishing.publish("t", Record(value=b"a"), told.append, acks=acks)
    node.broker.publishing.end_turn()
    assert not told and partition.high_watermark == 1
    node.world.background.drain()
    assert told == [Published(0, 0, START_MS)]


async def test_the_topics_own_level_is_what_counts_for_who_names_none() -> None:
    node = Node()
    await node.topic("quick", configs={"headrace.acks": "1"})
    await node.topic("sure", configs={"headrace.acks": "2"})
    await node.partition("quick")
    told: Told = []
    node.broker.publishing.publish("quick", Record(value=b"a"), told.append)
    node.broker.publishing.end_turn()
    assert told == [Published(0, 0, START_MS)]
    (refused,) = await published(node, "sure", Record(value=b"a"))
    assert isinstance(refused, NotEnoughReplicas)
    assert values(await node.partition("sure")) == []


async def test_another_level_of_the_topic_counts_from_the_next_record_on() -> None:
    node = Node()
    await node.partition()
    change = Change("headrace.acks", Op.SET, " ALL ")
    for text, level in ((" ALL ", -1), ("1", 1), ("0", 0), ("3", 3)):
        wish = Alteration("t", (change._replace(value=text),))
        assert await node.do(node.broker.alter_configs([wish])) == [None]
        topic = node.broker.topic("t")
        assert topic is not None and topic.level == level
    for text in ("some", "-2", "1001", ""):
        (refused,) = await node.do(node.broker.alter_configs([Alteration("t", (change._replace(value=text),))]))
        assert isinstance(refused, InvalidConfig)


async def test_the_level_and_the_window_of_topics_that_do_not_say_are_the_nodes() -> None:
    defaults = {"headrace.acks": "1", "headrace.dedup.window.ms": "60000"}
    node = Node(settings=BrokerSettings(topic_defaults=defaults))
    await published(node, "t", *texts("a"))
    topic = node.broker.topic("t")
    assert topic is not None and (topic.level, topic.window_ms) == (1, 60_000)
    change = Alteration(None, (Change("headrace.acks", Op.SET, "0"),))
    assert await node.do(node.broker.alter_configs([change])) == [None]
    assert topic.level == 0
    own = await node.topic("own", configs={"headrace.acks": "all", "headrace.dedup.window.ms": "0"})
    assert (own.level, own.window_ms) == (-1, 0)
    assert node.broker.memory_topics.get_or_create("soft").window_ms == 0


@pytest.mark.parametrize("acks", ["some", "-2", -2, 1001, "1001", "٣", "", True])
async def test_a_level_that_there_is_not_is_refused(acks: int | str) -> None:
    node = Node()
    await node.partition()
    (refused,) = await published(node, "t", Record(value=b"a"), acks=acks)
    assert isinstance(refused, InvalidAcks)


async def test_levels_can_be_mixed_in_one_run() -> None:
    node = Node()
    await node.partition()
    told: list[str] = []
    for name, acks in (("a", "all"), ("b", 1), ("c", "all"), ("d", 0)):
        node.broker.publishing.publish("t", Record(value=b"x"), lambda _, name=name: told.append(name), acks=acks)  # type: ignore[misc]
    node.broker.publishing.end_turn()
    assert told == ["b", "d"]
    node.world.background.drain()
    assert told == ["b", "d", "a", "c"]


async def test_each_keeps_its_own_level_however_they_are_mixed_and_wherever_they_go() -> None:
    node = Node()
    await node.topic(partitions=2)
    for index in range(2):
        await node.partition("t", index)
    told: list[int] = []
    wishes = [(0, None), (None, 1), (0, None), (0, 1), (None, "all"), (0, 1), (None, None), (0, "all")]
    for place, (partition, acks) in enumerate(wishes):
        record = Record(b"k", b"x")  # of partition 0
        taker = partial(lambda place, _: told.append(place), place)
        node.broker.publishing.publish("t", record, taker, partition=partition, acks=acks)
    node.broker.publishing.end_turn()
    assert sorted(told) == [place for place, (_, acks) in enumerate(wishes) if acks == 1]
    node.world.background.drain()
    assert sorted(told) == list(range(len(wishes)))
