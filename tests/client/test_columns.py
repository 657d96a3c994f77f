"""Reading as Arrow tables: the same records that a consumer hands out, on ours and on Apache Kafka."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

import headrace.aio
from headrace import errors
from headrace.aio import Client
from headrace.client import columns as column_reader
from headrace.client.columns import NAMES, Stretch, Tables, schema
from headrace.records import codec
from headrace.records.compression import NAMES as COMPRESSIONS
from headrace.records.header import read_header
from headrace.records.record import Record
from tests.client.test_isolation import transact

WHEN_MS = int(time.time() * 1000) - 3_600_000  # of today: older ones may go by retention at any moment
pytestmark = pytest.mark.timeout(300)  # the first run fetches Kafka


async def fill(client: Client, topic: str, count: int, compression: str = "none", partitions: int = 3) -> None:
    chance = random.Random(count)
    async with client.producer(compression=compression, batch_bytes=3_000) as producer:
        for number in range(count):
            key = None if chance.random() < 0.3 else b"" if chance.random() < 0.1 else b"k%d" % number
            value = None if chance.random() < 0.1 else chance.randbytes(chance.randrange(200))
            headers = [("same", b"1"), ("same", None)][: chance.randrange(3)]
            await producer.put(topic, value, key, headers, number % partitions, WHEN_MS + number)


async def records(client: Client, topic: str, **options: Any) -> set[tuple[Any, ...]]:
    async with client.consumer(topic, follow=False, **options) as consumer:
        return {
            (one.topic, one.partition, one.offset, one.timestamp_ms, 0, one.key, one.value, one.headers)
            async for one in consumer
        }


async def tables(client: Client, topic: str, **options: Any) -> list[pa.RecordBatch]:
    async with client.columns(topic, follow=False, **options) as reader:
        return [table async for table in reader]


def rows(tables: Iterable[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    found = []
    for table in tables:
        plain = table.set_column(3, "timestamp", table.column("timestamp").cast(pa.int64()))
        for row in plain.to_pylist():
            headers = tuple((pair["key"], pair["value"]) for pair in row.pop("headers"))
            found.append((*row.values(), headers))
    return found


@pytest.mark.parametrize("compression", COMPRESSIONS)
async def test_tables_hold_what_a_consumer_hands_out(address: str, topic: str, compression: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, partitions=3)
        await fill(client, topic, 2_000, compression)
        found = await tables(client, topic)
        assert all(table.schema == schema() for table in found)
        assert len(rows(found)) == 2_000
        assert set(rows(found)) == await records(client, topic)


async def test_only_committed_records_are_in_the_tables_of_who_asks_for_them(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, partitions=1)
        await asyncio.to_thread(transact, address, topic)
        found = await tables(client, topic, isolation="read_committed")
        assert set(rows(found)) == await records(client, topic, isolation="read_committed")
        assert len(rows(found)) == 100
        assert len(rows(await tables(client, topic))) == 300


async def test_a_range_within_batches_is_cut_to_the_row(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, partitions=1)
        await fill(client, topic, 500, partitions=1)
        for first, end in ((0, 500), (1, 499), (17, 18), (250, 250), (499, 500)):
            found = rows(await tables(client, topic, start=first, end=end))
            assert [row[2] for row in found] == list(range(first, end))


async def test_columns_are_those_asked_for_in_that_order(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, partitions=1)
        await fill(client, topic, 10, partitions=1)
        (table,) = await tables(client, topic, columns=["value", "offset"])
        assert table.schema.names == ["value", "offset"]
        with pytest.raises(ValueError, match="there is no column valu; there are topic, partition"):
            client.columns(topic, columns=["valu"])
        with pytest.raises(ValueError, match="named once each"):
            client.columns(topic, columns=["value", "value"])


async def test_tables_are_about_as_long_as_asked(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, partitions=2)
        await fill(client, topic, 4_000, partitions=2)
        found = await tables(client, topic, rows=500)
        assert sum(table.num_rows for table in found) == 4_000
        assert max(table.num_rows for table in found) < 700  # a batch is not cut


async def test_many_partitions_and_empty_ones_are_read_at_once(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, partitions=60)
        assert await tables(client, topic) == []
        await fill(client, topic, 1_000, partitions=50)
        assert {row[1] for row in rows(await tables(client, topic))} == set(range(50))


async def test_who_follows_gets_what_is_written_later(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, partitions=1)
        async with client.columns(topic) as reader:
            assert await reader.take(timeout=0.05) is None
            await fill(client, topic, 5, partitions=1)
            seen = 0
            while seen < 5:
                table = await reader.take(timeout=10)
                assert table is not None
                seen += table.num_rows


def test_the_sync_face_reads_the_same(address: str, topic: str) -> None:
    with headrace.connect(address) as client:
        client.admin.create_topic(topic, partitions=2)
        with client.producer() as producer:
            for number in range(1_000):
                producer.put(topic, str(number), partition=number % 2)
        with client.columns(topic, follow=False, columns=["value"]) as reader:
            found = [row["value"] for table in reader for row in table.to_pylist()]
        assert sorted(map(int, found)) == list(range(1_000))
        with pytest.raises(errors.UnknownTopic):
            client.columns("nowhere-" + topic)


def batch(count: int, base_offset: int = 0, size: int = 10, **options: Any) -> tuple[Any, memoryview]:
    made = [Record(None, bytes(size), (), 5, 0) for _ in range(count)]
    encoded = codec.encode(made, codec.BatchOptions(base_offset=base_offset, **options))
    return read_header(encoded), memoryview(encoded)


def test_what_unfolds_to_much_comes_in_several_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_reader, "TABLE_BYTES", 10_000)
    batches = [batch(10, 10 * at, 400, compression="zstd") for at in range(10)]
    found = list(column_reader.tables(Stretch("t", 0, 0, None, batches)))
    assert [table.num_rows for _, table in found] == [20] * 5
    assert [offset for offset, _ in found] == [20, 40, 60, 80, 100]


def test_append_times_and_create_times_are_told_apart() -> None:
    batches = [batch(3), batch(2, 3, append_time_ms=9), batch(1, 5)]
    found = [table for _, table in column_reader.tables(Stretch("t", 0, 0, None, batches))]
    assert [table.column("timestamp_type")[0].as_py() for table in found] == [0, 1, 0]
    assert found[1].column("timestamp").cast(pa.int64()).to_pylist() == [9, 9]


def test_damage_is_told_with_its_place_after_what_came_before_it() -> None:
    good, (header, damaged) = batch(3, append_time_ms=1), batch(3, 3)
    damaged = memoryview(bytearray(damaged))
    damaged[61] = 0xFF
    tables = Tables(Stretch("t", 7, 0, None, [good, (header, damaged)]), NAMES)
    assert tables.next() is not None
    with pytest.raises(errors.CorruptBatch, match="topic 't' partition 7 from 3 on: record 0"):
        tables.next()
    assert tables.next_offset == 3
