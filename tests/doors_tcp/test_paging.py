"""Pages of ranges, without a socket: what they hold while they are made, and which records are the newest."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.broker.page_read import Page
from headrace.broker.ranges import Rows
from headrace.broker.reading import size_of
from headrace.broker.topic import Topic
from headrace.doors.tcp import paging
from headrace.doors.tcp.paging import NEWEST_BYTES, PAGE_BYTES, page
from headrace.doors.tcp.unsent import LITTLE_BYTES, Unsent
from headrace.records.codec import Record, encode
from headrace.wire.ranges import Bounds, Range
from tests.broker.kit import Node, produce
from tests.log.kit import START_MS


def values(rows: Rows) -> list[bytes]:
    return [record.value or b"" for _, record in rows]


async def filled(node: Node, partitions: list[list[tuple[int, int]]]) -> Topic:
    """Of each record: its time and its size."""
    topic = await node.topic(partitions=len(partitions))
    for index, records in enumerate(partitions):
        partition = await node.partition("t", index)
        for time, size in records:
            produce(node, partition, encode([Record(value=b"x" * size, timestamp_ms=START_MS + time)]))
    return topic


def door(node: Node, budget_bytes: int = 1 << 30) -> Any:
    return SimpleNamespace(broker=node.broker, unsent=Unsent(budget_bytes))


@pytest.mark.parametrize(
    ("asked", "size"), [(Range("t"), PAGE_BYTES), (Range("t", last=100), NEWEST_BYTES)], ids=["range", "last"]
)
async def test_a_page_counts_as_unsent_while_it_is_made_and_no_longer(asked: Range, size: int) -> None:
    node = Node()
    topic = await filled(node, [[(0, 10)] * 3])
    at, held = door(node), []

    def encode(rows: Rows) -> list[bytes]:
        held.append(at.unsent.held_bytes())
        return values(rows)

    assert len((await node.do(page(at, topic, asked, encode))).pieces) == 3
    assert set(held) == {size} and at.unsent.held_bytes() == 0

    def fails(rows: Rows) -> list[bytes]:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        await node.do(page(at, topic, asked, fails))
    assert at.unsent.held_bytes() == 0


@pytest.mark.parametrize("asked", [Range("t", last=10_000), Range("t", bounds=Bounds(0))], ids=["last", "range"])
async def test_many_who_ask_at_once_share_the_budget(asked: Range, monkeypatch: pytest.MonkeyPatch) -> None:
    plenty, budget, size = 1 << 20, 4 << 20, 100_000
    monkeypatch.setattr(paging, "NEWEST_BYTES", plenty)
    node = Node()
    topic = await filled(node, [[(number, size) for number in range(15)]])
    at, highest = door(node, budget), 0

    def encode(rows: Rows) -> list[bytes]:
        nonlocal highest
        highest = max(highest, at.unsent.held_bytes())
        return values(rows)

    found = await node.do(asyncio.gather(*(page(at, topic, asked, encode) for _ in range(40))))
    assert max(len(one.pieces) for one in found) >= 10
    assert min(len(one.pieces) for one in found) == 1
    assert budget < highest <= budget + plenty + 40 * LITTLE_BYTES
    assert at.unsent.held_bytes() == 0


class Counted(bytes):
    """Known until nobody holds it any more."""

    alive = most = 0

    def __init__(self, _: bytes) -> None:
        Counted.alive += 1
        Counted.most = max(Counted.most, Counted.alive)

    def __del__(self) -> None:
        Counted.alive -= 1


async def test_the_newest_of_many_partitions_are_held_twice_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    size, max_bytes = 10_000, 100_000
    node = Node()
    topic = await filled(node, [[(number, size) for number in range(20)] for _ in range(10)])
    reading, honest = node.broker.reading, node.broker.reading.page

    async def counting(*given: Any, **more: Any) -> Page:
        got = await honest(*given, **more)
        return got._replace(records=[one._replace(value=Counted(one.value or b"")) for one in got.records])

    monkeypatch.setattr(reading, "page", counting)
    rows: Rows = await node.do(reading.last(topic, 10_000, None, max_bytes))
    assert [index for index, _ in rows] == list(range(1, 10))
    assert Counted.most <= 2 * max_bytes // size + 20, "what is kept, a partition's, and a page"


async def test_the_newest_are_those_that_all_of_them_merged_would_give() -> None:
    chance = random.Random(7)
    for _ in range(30):
        node = Node()
        partitions = [
            [(chance.randrange(40), chance.choice([1, 50, 400, 2000])) for _ in range(chance.randrange(12))]
            for _ in range(4)
        ]
        topic = await filled(node, [sorted(records) for records in partitions])
        everything: Rows = await node.do(node.broker.reading.last(topic, 10_000))
        assert len(everything) == sum(map(len, partitions))
        for max_bytes in (1, 500, 1500, 4000):
            for count in (1, 5, 100):
                kept = everything[-count:]
                while len(kept) > 1 and sum(size_of(record) for _, record in kept) > max_bytes:
                    del kept[0]
                assert await node.do(node.broker.reading.last(topic, count, None, max_bytes)) == kept


async def test_a_gap_among_large_records_does_not_hide_one_of_the_newest() -> None:
    node = Node()
    topic = await filled(node, [[(0, 600)] * 3])
    partition = await node.partition()
    partition.append_marker(7, 0, 0, True, START_MS)
    assert node.broker.flush() is None
    found: Rows = await node.do(node.broker.reading.last(topic, 3, None, 2100))
    assert [record.offset for _, record in found] == [0, 1, 2]
