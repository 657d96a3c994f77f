"""Range reads: pages of records, by offset, by time, the last ones, and waiting for more."""

from __future__ import annotations

import asyncio

import pytest

from headrace.broker.leftovers import KEPT_BYTES
from headrace.broker.page_read import Page
from headrace.broker.partition import Partition
from headrace.errors import HeadraceError, OffsetOutOfRange, UnknownTopic
from headrace.log.log import Log
from headrace.log.truncation import truncate
from headrace.records.codec import BatchOptions, Producer, Record, encode
from tests.broker.kit import Node, produce
from tests.log.kit import START_MS, batch


async def read(node: Node, partition: Partition, offset: int = 0, max_records: int = 100, **options: object) -> Page:
    page = await node.do(node.broker.reading.page(partition, offset, max_records=max_records, **options))  # type: ignore[arg-type]
    assert isinstance(page, Page)
    return page


def offsets(page: Page) -> list[int]:
    return [record.offset for record in page.records]


def numbered(count: int, first_ms: int = START_MS, compression: str = "none") -> bytearray:
    return batch(b"x", count, first_ms, compression=compression)


def transactional(producer_id: int, sequence: int, *values: bytes) -> bytearray:
    records = [Record(value=value, timestamp_ms=START_MS) for value in values]
    return encode(records, BatchOptions(producer=Producer(producer_id, 0, sequence), is_transactional=True))


def end(node: Node, partition: Partition, producer_id: int, commit: bool) -> None:
    partition.append_marker(producer_id, 0, 0, commit, START_MS)
    assert node.broker.flush() is None


async def test_pages_follow_each_other_within_and_across_batches() -> None:
    node = Node()
    partition = await node.partition()
    for _ in range(4):
        produce(node, partition, numbered(5))
    at, seen = 0, []
    while at < 20:
        page = await read(node, partition, at, 3)
        assert len(page.records) == 3 or page.next_offset == 20
        assert page.end_offset == 20
        seen += offsets(page)
        at = page.next_offset
    assert seen == list(range(20))
    assert await read(node, partition, 20) == Page([], 20, 20)


async def test_a_page_ends_before_the_offset_that_it_is_told() -> None:
    node = Node()
    partition = await node.partition()
    for _ in range(2):
        produce(node, partition, numbered(5))
    assert offsets(await read(node, partition, 3, to_offset=8)) == [3, 4, 5, 6, 7]
    page = await read(node, partition, 3, to_offset=4)
    assert (offsets(page), page.next_offset) == ([3], 4)
    assert offsets(await read(node, partition, 3, to_offset=3)) == []
    assert await read(node, partition, 3, 0) == Page([], 3, 10)


async def test_outside_of_the_log_there_is_nothing_to_read() -> None:
    node = Node()
    partition = await node.partition()
    produce(node, partition, numbered(5))
    for offset in (-1, 6):
        with pytest.raises(OffsetOutOfRange):
            await read(node, partition, offset)
    await node.do(partition.delete_records(3))
    with pytest.raises(OffsetOutOfRange) as refused:
        await read(node, partition, 2)
    assert refused.value.start == 3
    assert offsets(await read(node, partition, 3)) == [3, 4]


@pytest.mark.parametrize("compression", ["none", "zstd", "gzip"])
async def test_what_is_large_or_compressed_is_decoded_off_the_loop(compression: str) -> None:
    node = Node()
    partition = await node.partition()
    produce(node, partition, numbered(5000, compression=compression))
    came: list[Page | HeadraceError] = []
    node.broker.reading.read(partition, 10, came.append, max_records=4000)
    assert not came
    node.world.background.drain()
    (page,) = came
    assert isinstance(page, Page)
    assert offsets(page) == list(range(10, 4010))


@pytest.mark.parametrize("compression", ["none", "zstd"])
async def test_a_large_batch_is_decoded_once_for_many_small_pages(compression: str) -> None:
    node = Node()
    partition = await node.partition()
    for _ in range(2):
        produce(node, partition, numbered(5000, compression=compression))
    seen, at, decoded = [], 0, 0
    while at < 10_000:
        came: list[Page | HeadraceError] = []
        node.broker.reading.read(partition, at, came.append, max_records=70, to_offset=min(at + 90, 10_000))
        decoded += not came
        node.world.background.drain()
        (page,) = came
        assert isinstance(page, Page)
        seen += offsets(page)
        at = page.next_offset
    assert seen == list(range(10_000))
    assert decoded < 6


async def test_what_was_kept_of_a_batch_is_not_read_after_its_log_lost_it() -> None:
    node = Node()
    partition = await node.partition()
    produce(node, partition, numbered(1000))
    await read(node, partition, 0, 10)
    await node.do(partition.delete_records(500))
    with pytest.raises(OffsetOutOfRange):
        await read(node, partition, 10, 10)
    assert offsets(await read(node, partition, 500, 2)) == [500, 501]


async def test_what_was_kept_of_a_batch_is_not_read_after_the_log_was_cut_and_went_on() -> None:
    node = Node()
    partition = await node.partition()
    produce(node, partition, numbered(1000))
    await read(node, partition, 0, 10)
    assert isinstance(partition.log, Log)
    told: list[HeadraceError | None] = []
    truncate(partition.log, 0, told.append)
    node.world.background.drain()
    assert told == [None]
    produce(node, partition, batch(b"other", 1000))
    page = await read(node, partition, 10, 3)
    assert [record.value for record in page.records] == [b"other"] * 3


async def test_what_is_kept_of_batches_is_bounded() -> None:
    node = Node()
    await node.topic(partitions=40)
    for index in range(40):
        partition = await node.partition("t", index)
        produce(node, partition, batch(b"x" * 9000, 100))
        await read(node, partition, 0, 10)
    assert 0 < node.broker.reading.leftovers._size <= KEPT_BYTES
    assert len(node.broker.reading.leftovers._kept) < 12


async def test_what_is_small_and_in_memory_comes_at_once() -> None:
    node = Node()
    partition = await node.partition()
    assert (await read(node, partition)).records == []  # from now on what comes stays in memory
    produce(node, partition, numbered(5))
    came: list[Page | HeadraceError] = []
    node.broker.reading.read(partition, 0, came.append, max_records=9)
    assert len(came) == 1


async def test_aborted_records_and_markers_are_left_out() -> None:
    node = Node()
    partition = await node.partition()
    produce(node, partition, numbered(1))
    produce(node, partition, transactional(7, 0, b"no"))
    produce(node, partition, transactional(8, 0, b"yes"))
    end(node, partition, 7, commit=False)
    end(node, partition, 8, commit=True)
    produce(node, partition, transactional(7, 1, b"later"))
    end(node, partition, 7, commit=True)
    page = await read(node, partition)
    assert [record.value for record in page.records] == [b"x", b"yes", b"later"]
    assert page.next_offset == page.end_offset == 7
    assert [record.offset for record in (await read(node, partition, committed=False)).records] == [0, 1, 2, 5]


async def test_a_stretch_of_nothing_but_aborted_records_is_stepped_over() -> None:
    node = Node()
    partition = await node.partition()
    for number in range(50):
        produce(node, partition, transactional(7, number, b"no"))
    end(node, partition, 7, commit=False)
    produce(node, partition, numbered(1))
    page = await read(node, partition, max_bytes=100)
    assert (offsets(page), page.next_offset) == ([51], 52)


async def test_thousands_of_aborted_batches_are_stepped_over_without_holding_up_the_loop() -> None:
    node = Node()
    partition = await node.partition()
    assert (await read(node, partition)).records == []  # from now on what comes stays in memory
    for number in range(3000):
        produce(node, partition, transactional(7, number, b"no"))
    end(node, partition, 7, commit=False)
    came: list[Page | HeadraceError] = []
    node.broker.reading.read(partition, 0, came.append, max_records=9, max_bytes=100)
    assert not came  # it let others go on
    node.world.background.drain()
    assert came == [Page([], 3001, 3001)]


async def test_nothing_past_a_transaction_that_is_under_way_is_read() -> None:
    node = Node()
    partition = await node.partition()
    produce(node, partition, numbered(1))
    produce(node, partition, transactional(7, 0, b"maybe"))
    produce(node, partition, numbered(1))
    assert await read(node, partition) == await read(node, partition, to_offset=1)
    assert (await read(node, partition)).next_offset == 1
    assert await read(node, partition, 2) == Page([], 2, 1)
    end(node, partition, 7, commit=True)
    assert offsets(await read(node, partition)) == [0, 1, 2]


async def test_damage_is_stepped_over_and_told() -> None:
    node = Node()
    await node.topic("t", configs={"segment.bytes": "16384"})
    partition = await node.partition()
    for _ in range(40):
        produce(node, partition, batch(b"x" * 1000))
    await node.do(partition.opened())
    assert partition.log is not None
    path = partition.log.segments[0].path()  # type: ignore[union-attr]
    node.world.stop()
    handle = node.world.files.open(path)
    node.world.files.pwritev(handle, [b"garbage"], 2500)
    node.world.files.close(handle)
    node.world.start()
    node.start()
    partition = await node.partition()
    seen = offsets(await read(node, partition))
    assert len(seen) in (38, 39) and seen[-1] == 39
    assert "log.damage" in node.world.kinds()


async def test_a_batch_that_holds_no_records_is_left_out_and_told_once() -> None:
    node = Node()
    partition = await node.partition()
    produce(node, partition, numbered(1))
    bad = bytearray(encode([Record(value=b"x" * 50, timestamp_ms=START_MS)]))
    bad[61] = 0x02  # the record's length
    from headrace.records.header import CRC, CRC_AT, CRC_FROM
    from headrace.records.kernel import crc32c

    CRC.pack_into(bad, CRC_AT, crc32c(bytes(bad[CRC_FROM:])))
    produce(node, partition, bad)
    produce(node, partition, numbered(1))
    for _ in range(2):
        assert offsets(await read(node, partition)) == [0, 2]
    assert node.world.kinds().count("topic.unreadable") == 1


async def test_a_time_is_found_or_it_is_the_end() -> None:
    node = Node()
    partition = await node.partition()
    for number in range(5):
        produce(node, partition, numbered(1, START_MS + 10 * number))
    at = node.broker.reading.offset_at
    assert await node.do(at(partition, START_MS - 1)) == 0
    assert await node.do(at(partition, START_MS + 11)) == 2
    assert await node.do(at(partition, START_MS + 41)) == 5


async def test_the_last_records_are_merged_by_time_over_partitions() -> None:
    node = Node()
    topic = await node.topic(partitions=2)
    for number in range(10):
        produce(node, await node.partition("t", number % 2), numbered(1, START_MS + number))
    last = await node.do(node.broker.reading.last(topic, 3))
    assert [(index, record.timestamp_ms - START_MS) for index, record in last] == [(1, 7), (0, 8), (1, 9)]
    assert len(await node.do(node.broker.reading.last(topic, 100))) == 10
    assert await node.do(node.broker.reading.last(topic, 0)) == []


async def test_the_last_records_are_found_behind_a_long_stretch_of_others() -> None:
    node = Node()
    topic = await node.topic()
    partition = await node.partition()
    produce(node, partition, numbered(5))
    for number in range(200):
        produce(node, partition, transactional(7, number, b"no"))
    end(node, partition, 7, commit=False)
    produce(node, partition, numbered(1))
    last = await node.do(node.broker.reading.last(topic, 3))
    assert [record.offset for _, record in last] == [3, 4, 206]


async def test_more_waits_for_what_comes_and_no_longer_than_asked() -> None:
    node = Node()
    partition = await node.partition()
    produce(node, partition, numbered(1))
    reading = node.broker.reading
    assert await node.do(reading.more(partition, 0, 60))
    assert not await node.do(reading.more(partition, 1, 0.01))
    waiting = asyncio.ensure_future(reading.more(partition, 1, 60))
    await asyncio.sleep(0)
    produce(node, partition, transactional(7, 0, b"maybe"))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    end(node, partition, 7, commit=True)
    assert await node.do(waiting)
    waiting = asyncio.ensure_future(reading.more(partition, 3, 60))
    await asyncio.sleep(0)
    await node.do(node.broker.delete_topics(["t"]))
    with pytest.raises(UnknownTopic):
        await node.do(waiting)


async def test_memory_topics_are_read_the_same_way() -> None:
    node = Node()
    topic = await node.topic(configs={"headrace.storage": "memory"})
    partition = await node.partition()
    start = partition.high_watermark
    for _ in range(3):
        produce(node, partition, numbered(2))
    assert offsets(await read(node, partition, start)) == list(range(start, start + 6))
    assert [record.offset - start for _, record in await node.do(node.broker.reading.last(topic, 2))] == [4, 5]
