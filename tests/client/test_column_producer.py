"""Arrow tables written: every row once, in order within its partition, where other clients would send it."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace
import headrace.aio
from headrace import errors
from headrace.client.column_batches import pieces
from headrace.client.partitioner import by_key
from headrace.records.compression import NAMES as COMPRESSIONS
from headrace.wire.kafka.header import PRODUCE
from tests.client.proxy import HOLD, PASS, behind_proxy

pytestmark = pytest.mark.timeout(300)  # the first run fetches Kafka


def table(count: int, *, keys: bool = True) -> pa.RecordBatch:
    chance = random.Random(count)
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    columns: dict[str, Any] = {
        "value": pa.array([None if chance.random() < 0.1 else b"%d" % row for row in range(count)], pa.binary()),
        "headers": pa.array([[{"key": "h", "value": b"%d" % row}] * (row % 3) for row in range(count)], headers),
    }
    if keys:
        columns["key"] = pa.array([None if chance.random() < 0.2 else b"k%d" % (row % 50) for row in range(count)])
    return pa.record_batch(columns)


async def read(client: headrace.aio.Client, topic: str) -> list[headrace.Record]:
    async with client.consumer(topic, follow=False) as consumer:
        return [record async for record in consumer]


@pytest.mark.parametrize("compression", COMPRESSIONS)
async def test_rows_come_out_as_records_where_java_would_send_them(address: str, topic: str, compression: str) -> None:
    given = table(3_000)
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, partitions=4)
        async with client.column_producer(compression=compression, batch_bytes=5_000) as producer:
            assert await producer.put(topic, given) == 3_000
        found = await read(client, topic)
    assert len(found) == 3_000
    for record in found:
        if record.key is not None:
            assert record.partition == by_key(record.key, 4)
    expected = sorted((str(row["key"]), str(row["value"]), len(row["headers"])) for row in given.to_pylist())
    assert sorted((str(one.key), str(one.value), len(one.headers)) for one in found) == expected


async def test_rows_of_a_partition_keep_their_order_and_a_partition_column_is_heeded(
    headrace_address: str, topic: str
) -> None:
    given = pa.record_batch(
        {
            "value": pa.array([b"%06d" % row for row in range(2_000)]),
            "partition": pa.array([row % 3 for row in range(2_000)], pa.int32()),
        }
    )
    async with headrace.aio.connect(headrace_address) as client:
        await client.admin.create_topic(topic, partitions=3)
        async with client.column_producer(batch_bytes=2_000) as producer:
            for _ in range(3):
                await producer.put(topic, given)
        found = await read(client, topic)
    for partition in range(3):
        values = [record.value for record in sorted(found, key=lambda one: one.offset) if record.partition == partition]
        assert values == [b"%06d" % row for row in range(2_000) if row % 3 == partition] * 3


async def test_a_lost_answer_costs_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    async with behind_proxy(tmp_path) as (proxy, _), headrace.aio.connect(proxy.address) as client:
        await client.admin.create_topic("t", partitions=2)
        async with client.column_producer(batch_bytes=3_000, request_timeout=1.0) as producer:
            for round_ in range(5):
                await producer.put("t", table(500))
                if round_ % 2:
                    proxy.drop_all()
        assert proxy.seen[PRODUCE]
        assert len(await read(client, "t")) == 2_500


async def test_what_is_not_acknowledged_is_bounded(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, partitions=1)
        async with client.column_producer(batch_bytes=2_000, buffer_bytes=10_000) as producer:
            for _ in range(10):
                await producer.put(topic, table(2_000))
                assert producer._buffered <= 12_000
        assert len(await read(client, topic)) == 20_000


async def test_a_row_that_is_too_large_fails_and_is_told_by_flush(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, partitions=1, config={"max.message.bytes": "10000"})
        async with client.column_producer() as producer:
            await producer.put(topic, pa.record_batch({"value": pa.array([bytes(20_000)])}))
            with pytest.raises(errors.DeliveryFailed, match="1 record"):
                await producer.flush()
            await producer.put(topic, pa.record_batch({"value": pa.array([b"x"] * 3_000)}))  # split until it fits
        assert len(await read(client, topic)) == 3_000


def test_the_sync_face_writes_the_same(address: str, topic: str) -> None:
    with headrace.connect(address) as client:
        client.admin.create_topic(topic, partitions=2)
        with client.column_producer() as producer:
            producer.put(topic, pa.Table.from_batches([table(100), table(100)]))
        with client.columns(topic, follow=False) as reader:
            assert sum(found.num_rows for found in reader) == 200


async def test_closing_the_client_sends_what_was_put_before_or_tells_that_it_failed(
    headrace_address: str, topic: str
) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        await client.admin.create_topic(topic, partitions=1, config={"max.message.bytes": "10000"})
        await client.column_producer(batch_bytes=2_000).put(topic, table(1_000))
    with pytest.raises(errors.DeliveryFailed, match="1 record"):
        async with headrace.aio.connect(headrace_address) as client:
            await client.column_producer().put(topic, pa.record_batch({"value": pa.array([bytes(20_000)])}))
    async with headrace.aio.connect(headrace_address) as client:
        assert len(await read(client, topic)) == 1_000


async def test_closing_the_client_says_nothing_of_rows_that_were_given_up_on_purpose(tmp_path: Path) -> None:
    async with behind_proxy(tmp_path) as (proxy, _), headrace.aio.connect(proxy.address) as client:
        await client.admin.create_topic("t", partitions=1)
        proxy.rule = lambda key, number: HOLD if key == PRODUCE else PASS
        producer = client.column_producer()
        await producer.put("t", table(10))
        await producer.close()


async def test_closing_the_client_leaves_a_members_rows_to_its_transaction(tmp_path: Path) -> None:
    async with behind_proxy(tmp_path) as (proxy, _), headrace.aio.connect(proxy.address) as client:
        await client.admin.create_topic("t", partitions=1)
        member = await client.admin.open_member("q", await client.admin.draw_write(), "0.0", 60_000)
        proxy.rule = lambda key, number: HOLD if key == PRODUCE else PASS
        await client.column_producer(member).put("t", table(10))
        await asyncio.wait_for(client.close(), 5)


def test_rows_without_a_key_go_to_the_spare_partition_and_strange_partitions_are_refused() -> None:
    assert [(piece.partition, piece.rows) for piece in pieces(table(9, keys=False), 4, 3, 1 << 20, 0)] == [(3, 9)]
    with pytest.raises(errors.UnknownPartition, match="a row goes to partition 7, and the topic has partitions 0 to 3"):
        list(pieces(pa.record_batch({"value": [b""], "partition": pa.array([7], pa.int32())}), 4, 0, 1 << 20, 0))


async def test_members_write_in_open_transactions_that_one_request_commits(headrace_address: str, topic: str) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        admin, query = client.admin, f"q:{topic}"
        await admin.create_topic(topic, partitions=2)
        assert await admin.has_sinks()
        write = await admin.draw_write()
        members = [await admin.open_member(query, write, f"{task}.0", 60_000) for task in range(3)]
        for member in members:
            async with client.column_producer(member, batch_bytes=2_000) as producer:
                await producer.put(topic, table(1_000))

        async def committed() -> int:
            async with client.consumer(topic, follow=False, isolation="read_committed") as consumer:
                return len([record async for record in consumer])

        assert await committed() == 0
        await admin.renew_members(query, write)
        for _ in range(2):  # the second time it is there already
            assert await admin.commit_batch(query, 0, members[:2]) == 0
        assert await admin.abort_batch(query, 0, members)
        while await committed() != 2_000:  # markers follow; what was not named was aborted with it
            pass
        with pytest.raises(errors.ProducerFenced):
            await admin.open_member(query, write - 1, "0.0", 60_000)
        with pytest.raises(errors.InvalidTransactionState):
            await admin.commit_batch(query, 1, members)


async def test_a_member_that_was_fenced_writes_nothing_more(headrace_address: str, topic: str) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        admin, query = client.admin, f"q:{topic}"
        await admin.create_topic(topic, partitions=1)
        write = await admin.draw_write()
        member = await admin.open_member(query, write, "0.0", 60_000)
        async with client.column_producer(member) as producer:
            await producer.put(topic, table(10))
            await producer.flush()
            await admin.open_member(query, write, "0.0", 60_000)
            await producer.put(topic, table(10))
            for _ in range(2):
                with pytest.raises(errors.DeliveryFailed):
                    await producer.flush()
            with pytest.raises(errors.DeliveryFailed):
                await producer.put(topic, table(10))
            with pytest.raises(errors.DeliveryFailed):
                await producer.flush()
            producer._first_failure, producer._failures = None, 0


async def test_what_is_on_its_way_when_a_member_is_fenced_comes_to_its_end(headrace_address: str, topic: str) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        admin, query = client.admin, f"q:{topic}"
        await admin.create_topic(topic, partitions=8)
        write = await admin.draw_write()
        member = await admin.open_member(query, write, "0.0", 60_000)
        async with client.column_producer(member, batch_bytes=500) as producer:
            await producer.put(topic, table(8))
            await producer.flush()
            await admin.open_member(query, write, "0.0", 60_000)
            with pytest.raises(errors.DeliveryFailed):  # while it is put, or in the end
                for _ in range(20):
                    await producer.put(topic, table(2_000))
                await producer.flush()
            with pytest.raises(errors.DeliveryFailed):
                async with asyncio.timeout(10):
                    await producer.flush()
            assert producer._buffered == 0  # nothing waits for an answer that nobody takes
            producer._first_failure, producer._failures = None, 0
