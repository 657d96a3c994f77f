"""How many ids are remembered, of one topic and of all, and what goes first when they are too many."""

from __future__ import annotations

import pytest

from headrace.broker.dedup import deduplication
from headrace.broker.dedup.window import Window
from headrace.records.record import Record
from tests.broker.kit import Node, published
from tests.broker.test_dedup import named, places

WINDOW_MS = 60_000


@pytest.fixture
async def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.setattr(deduplication, "MAX_ALL_IDS", 1000)
    monkeypatch.setattr(deduplication, "CHECK_IDS", 100)
    return Node()


async def topics(node: Node, *names: str) -> None:
    for name in names:
        await node.topic(name, configs={"headrace.dedup.window.ms": str(WINDOW_MS)})


async def publish(node: Node, topic: str, count: int, first: int = 0) -> None:
    for start in range(first, first + count, 50):
        await published(node, topic, *(named(str(n)) for n in range(start, min(start + 50, first + count))))


async def is_known(node: Node, topic: str, number: int) -> bool:
    ((_, duplicate),) = places(await published(node, topic, named(str(number))))
    return duplicate


async def test_all_topics_together_remember_so_many_and_the_largest_forgets_first(node: Node) -> None:
    await topics(node, "small", "flooded")
    await publish(node, "small", 200)
    await publish(node, "flooded", 5000)
    assert node.broker.deduplication.remembered <= 1000 + 100
    assert await is_known(node, "small", 0)
    assert await is_known(node, "flooded", 4999) and not await is_known(node, "flooded", 0)
    told = [fields for name, fields in node.world.events if name == "topic.ids-full"]
    assert [fields["topic"] for fields in told] == ["flooded"]


async def test_many_topics_with_few_ids_are_bounded_too(node: Node) -> None:
    names = [f"t{number}" for number in range(60)]
    await topics(node, *names)
    for name in names:
        await publish(node, name, 50)
        assert node.broker.deduplication.remembered <= 1000 + 100
    assert await is_known(node, "t59", 49)


async def test_ids_that_are_read_back_count_too(node: Node) -> None:
    names = ["a", "b", "c"]
    await topics(node, *names)
    for name in names:
        await publish(node, name, 900)
    node.power_loss()
    for name in names:
        await published(node, name, Record(value=b"opens"))
        assert node.broker.deduplication.remembered <= 1000 + 900  # of what came in one chunk
    await publish(node, "c", 100, first=5000)
    assert node.broker.deduplication.remembered <= 1000 + 100


async def test_a_topic_to_which_nobody_publishes_any_more_forgets_in_time(node: Node) -> None:
    await topics(node, "t")
    await publish(node, "t", 500)
    for _ in range(2):
        assert node.broker.deduplication.remembered == 500
        node.world.clock.ms += WINDOW_MS
        node.broker.maintain()
    assert node.broker.deduplication.remembered == 0
    assert not any(name == "topic.ids-full" for name, _ in node.world.events)
    await publish(node, "t", 1)
    assert node.broker.deduplication.remembered == 1


async def test_a_topic_that_is_deleted_or_loses_its_window_is_not_counted(node: Node) -> None:
    await topics(node, "t")
    await publish(node, "t", 500)
    await node.do(node.broker.delete_topics(["t"]))
    assert node.broker.deduplication.remembered == 0


@pytest.mark.parametrize("count", [1, 2, 3, 10, 101])
@pytest.mark.parametrize("older", [0, 1, 5])
def test_a_cut_leaves_the_younger_half_at_most(count: int, older: int) -> None:
    window = Window(1000)
    for number in range(count):
        window.note(b"%d" % number, 0, number, 0, 1500 if number < older else 2500)
    freed = window.cut()
    assert len(window) == count - freed <= count // 2
    known = [window.first(b"%d" % number, 2499) is not None for number in range(count)]
    assert known == [number >= freed for number in range(count)]
