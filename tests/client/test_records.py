"""Records there and back, on Headrace and on Apache Kafka alike."""

from __future__ import annotations

import asyncio
import datetime
import time

import pytest

import headrace.aio
from headrace import Time, TopicPartition, errors
from headrace.aio import Client, Record
from headrace.client.partitioner import by_key
from headrace.records import codec
from tests.clients.records import CODECS, COUNT, Sent, records

pytestmark = pytest.mark.timeout(300)  # the first run fetches Kafka


async def filled(client: Client, topic: str, count: int, partitions: int = 1, **options: object) -> list[Record]:
    """A topic with numbered values, and its records as they are read."""
    await client.admin.create_topic(topic, partitions=partitions)
    async with client.producer(**options) as producer:
        for number in range(count):
            await producer.put(topic, b"%d" % number, partition=number % partitions)
    return await everything(client, topic)


async def everything(client: Client, *topics: str, **options: object) -> list[Record]:
    async with client.consumer(*topics, follow=False, **options) as consumer:
        return [record async for record in consumer]


def as_sent(record: Record) -> Sent:
    return Sent(record.key, record.value, list(record.headers), record.timestamp_ms)  # type: ignore[arg-type]


@pytest.mark.parametrize("compression", CODECS)
async def test_what_is_sent_comes_back(address: str, topic: str, compression: str) -> None:
    sent = records(1, time.time_ns() // 1_000_000)
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, partitions=1)
        async with client.producer(compression=compression) as producer:
            for one in sent:
                await producer.put(topic, one.value, one.key, one.headers, timestamp_ms=one.timestamp_ms)
        got = await everything(client, topic)
        kept = b"".join([batch async for batch in client.batches(topic, 0)])
    assert [as_sent(record) for record in got] == sent
    assert [record.offset for record in got] == list(range(COUNT))
    assert {CODECS[head.compression] for head, _ in codec.split(kept)} == {compression}


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_every_level_of_acknowledgement_delivers(address: str, topic: str, acks: int | str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, partitions=1)
        async with client.producer(acks=acks) as producer:
            deliveries = [await producer.send(topic, b"%d" % number) for number in range(20)]
        async with client.consumer(topic) as consumer:
            got: list[Record] = []
            while len(got) < 20:
                got += await consumer.take(20, timeout=10)
    assert [record.value for record in got] == [b"%d" % number for number in range(20)]
    assert [delivery.offset for delivery in deliveries] == ([-1] * 20 if acks == 0 else list(range(20)))


async def test_a_stream_of_records_is_kept_once_and_in_order_in_each_partition(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, partitions=4)
        async with client.producer(batch_bytes=4_000) as producer:
            futures = [await producer.put(topic, b"%d" % number, b"key-%d" % (number % 50)) for number in range(20_000)]
            await producer.flush()
        got = await everything(client, topic)
    assert sorted(int(record.value or b"") for record in got) == list(range(20_000))
    for partition in range(4):
        values = [int(record.value or b"") for record in got if record.partition == partition]
        assert values and values == sorted(values)
    where = {(record.partition, record.offset): record.value for record in got}
    for number, future in enumerate(futures):
        delivery = future.result()
        assert where[delivery.partition, delivery.offset] == b"%d" % number
        assert delivery.partition == by_key(b"key-%d" % (number % 50), 4)


async def test_records_without_a_key_reach_every_partition_in_large_batches(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, partitions=3)
        async with client.producer(batch_bytes=20_000) as producer:
            for _ in range(20_000):
                await producer.put(topic, bytes(100))
        ends = await client.admin.offsets(topic, "end")
        batches = [len([batch async for batch in client.batches(topic, partition)]) for partition in range(3)]
    assert sum(end.offset for end in ends.values()) == 20_000
    assert all(end.offset > 2_000 for end in ends.values())
    assert sum(batches) < 20_000 / 50


async def test_reading_begins_and_ends_where_it_was_told_to(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, partitions=2)
        begin_ms = time.time_ns() // 1_000_000 - 100_000
        async with client.producer() as producer:
            for number in range(100):
                await producer.put(topic, b"%d" % number, partition=number % 2, timestamp_ms=begin_ms + number * 100)

        async def values(**options: object) -> list[int]:
            return sorted(int(record.value or b"") for record in await everything(client, topic, **options))

        when = begin_ms + 9_000
        moment = datetime.datetime.fromtimestamp(when / 1000, datetime.UTC)
        assert await values() == list(range(100))
        assert await values(start=10) == list(range(20, 100))
        assert await values(start=-3) == list(range(94, 100))
        assert await values(start=-1000) == list(range(100))
        assert await values(start="end") == []
        assert await values(start=Time(when)) == await values(start=moment) == list(range(90, 100))
        assert await values(start=Time(when + 3_600_000)) == []
        assert await values(end=Time(when)) == list(range(90))
        assert await values(end=5) == list(range(10))
        assert await values(end=-45) == list(range(10))
        assert await values(start=3, end=3) == []
        assert await values(partitions=[1]) == list(range(1, 100, 2))
        assert await values(partitions={topic: [0]}, start={(topic, 0): 45}) == list(range(90, 100, 2))
        assert await values(start={TopicPartition(topic, 0): 49, (topic, 1): 49}, end="end") == [98, 99]


async def test_a_consumer_waits_for_what_is_yet_to_come(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic)
        async with client.consumer(topic, start="end") as consumer, client.producer() as producer:
            assert await consumer.take(timeout=0.1) == []
            waiting = asyncio.create_task(anext(consumer))
            await asyncio.sleep(0.2)
            await producer.send(topic, "late")
            assert (await asyncio.wait_for(waiting, 10)).value == b"late"
            await producer.send(topic, "later")
            assert [record.value for record in await consumer.take(timeout=10)] == [b"later"]


async def test_the_reader_moves_pauses_and_knows_where_it_stands(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await filled(client, topic, 200, partitions=2)
        async with client.consumer() as consumer:
            await consumer.assign({(topic, 0): 40, (topic, 1): 50})
            assert consumer.position(topic, 0) == 40
            consumer.pause(topic, 1)
            got: list[Record] = []
            while len(got) < 60:
                got += await consumer.take(7, timeout=10)
            assert [record.offset for record in got] == list(range(40, 100))
            assert consumer.position(topic, 0) == 100
            await consumer.seek(topic, 0, 98)
            consumer.resume(topic, 1)
            got = []
            while len(got) < 52:
                got += await consumer.take(1, timeout=10)
            assert sorted((one.partition, one.offset) for one in got) == [(0, 98), (0, 99)] + [
                (1, o) for o in range(50, 100)
            ]
            assert (consumer.position(topic, 0), consumer.position(topic, 1)) == (100, 100)


async def test_the_position_is_that_of_the_next_record_in_the_middle_of_a_batch(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await filled(client, topic, 50)
        async with client.consumer(topic) as consumer:
            assert [(await anext(consumer)).offset for _ in range(7)] == list(range(7))
            assert consumer.position(topic, 0) == 7
            consumer.pause(topic, 0)
            assert await consumer.take(timeout=0.1) == []
            consumer.resume(topic, 0)
            assert (await anext(consumer)).offset == 7


async def test_an_offset_that_the_log_lost_is_an_error_or_moved_as_asked(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await filled(client, topic, 30)
        assert await client.admin.delete_records(topic, {0: 10}) == {0: 10}
        assert [record.offset for record in await everything(client, topic)] == list(range(10, 30))
        with pytest.raises(errors.OffsetOutOfRange, match="out_of_range"):
            await everything(client, topic, start=5)
        got = await everything(client, topic, start=5, out_of_range="start")
        assert [record.offset for record in got] == list(range(10, 30))
        assert await everything(client, topic, start=5, out_of_range="end") == []
        async with client.consumer(topic, start=1000, out_of_range="end") as consumer, client.producer() as producer:
            assert await consumer.take(timeout=0.5) == []
            await producer.send(topic, "new")
            assert [record.offset for record in await consumer.take(timeout=10)] == [30]


async def test_large_records_come_back_and_too_large_ones_fail_alone(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, partitions=1)
        async with client.producer() as producer:
            await producer.send(topic, bytes(1_000_000))
            with pytest.raises(errors.MessageTooLarge):
                await producer.send(topic, bytes(2_000_000))
            assert (await producer.send(topic, b"after")).offset == 1
        assert [len(record.value or b"") for record in await everything(client, topic)] == [1_000_000, 5]


async def test_records_larger_than_what_is_read_ahead_are_read_all_the_same(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, partitions=2, config={"max.message.bytes": "10000000"})
        async with client.producer() as producer:
            for number in range(6):
                await producer.send(topic, bytes([number]) * 6_000_000, partition=number % 2)
        got = await everything(client, topic, prefetch_bytes=100_000)
    assert sorted((record.value or b"")[0] for record in got) == list(range(6))
    assert {len(record.value or b"") for record in got} == {6_000_000}


async def test_a_batch_larger_than_the_topic_takes_is_split(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, partitions=1, config={"max.message.bytes": "20000"})
        async with client.producer() as producer:
            futures = [await producer.put(topic, b"%04d" % number + bytes(1000)) for number in range(500)]
            await producer.flush()
        assert [future.result().offset for future in futures] == list(range(500))
        got = await everything(client, topic)
    assert [int((record.value or b"")[:4]) for record in got] == list(range(500))


async def test_a_topic_that_stamps_its_records_says_so(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, config={"message.timestamp.type": "LogAppendTime"})
        before_ms = time.time_ns() // 1_000_000
        async with client.producer() as producer:
            delivery = await producer.send(topic, b"x", timestamp_ms=1_000)
        (record,) = await everything(client, topic)
    assert record.timestamp_type == "append"
    assert delivery.timestamp_ms == record.timestamp_ms >= before_ms - 1000


async def test_a_topic_is_made_on_first_use_and_one_that_is_only_read_is_not(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        with pytest.raises(errors.UnknownTopic, match=topic):
            await everything(client, topic)
        async with client.producer() as producer:
            assert (await producer.send(topic, b"first")).offset == 0
        assert len(await everything(client, topic)) == 1
        with pytest.raises(errors.UnknownTopic, match="has partitions 0 to 0, not 7"):
            await everything(client, topic, partitions=[7])


async def test_batches_travel_as_they_are(address: str, topic: str) -> None:
    other = f"{topic}-copy"
    async with headrace.aio.connect(address) as client:
        sent = await filled(client, topic, 1000, compression="zstd", idempotent=False, acks=1, batch_bytes=3000)
        await client.admin.create_topic(other, partitions=1)
        kept = [batch async for batch in client.batches(topic, 0)]
        assert len(kept) > 5
        offsets = [await client.produce_batches(other, 0, batch) for batch in kept]
        assert offsets[0] == 0 and offsets == sorted(offsets)
        assert [one._replace(topic=topic) for one in await everything(client, other)] == sent
        assert [batch async for batch in client.batches(other, 0)] == kept
        some = [batch async for batch in client.batches(topic, 0, start=500, end=600)]
        heads = [head for batch in some for head, _ in codec.split(batch)]
        assert heads[0].base_offset <= 500 < heads[0].next_offset
        assert heads[-1].base_offset < 600 <= heads[-1].next_offset


async def test_several_topics_are_read_by_one_consumer(address: str, topic: str) -> None:
    names = [f"{topic}-{number}" for number in range(5)]
    async with headrace.aio.connect(address) as client:
        for name in names:
            await filled(client, name, 40, partitions=2)
        got = await everything(client, *names)
    assert len(got) == 200
    assert {record.topic for record in got} == set(names)
