"""What a producer promises whoever puts records into it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import headrace.aio
from headrace import errors
from headrace.aio import Client
from headrace.records import codec
from headrace.wire.kafka.header import PRODUCE
from tests.client.proxy import HOLD, PASS, behind_proxy


async def batches(client: Client, topic: str) -> list[int]:
    """How many records each batch has."""
    return [codec.split(batch)[0][0].record_count async for batch in client.batches(topic, 0)]


async def test_a_lone_record_leaves_at_once_and_a_crowd_in_few_batches(headrace_address: str, topic: str) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        await client.admin.create_topic(topic, partitions=1)
        loop = asyncio.get_running_loop()
        async with client.producer(linger=10) as producer:
            begin = loop.time()
            await producer.send(topic, b"alone")
            await asyncio.gather(*(producer.send(topic, b"%d" % number) for number in range(500)))
            assert loop.time() - begin < 5
        assert await batches(client, topic) == [1, 500]


async def test_while_a_batch_is_on_its_way_the_next_gathers_company(headrace_address: str, topic: str) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        await client.admin.create_topic(topic, partitions=1)
        async with client.producer(linger=0.2) as producer:
            waiting = []
            for number in range(20):
                waiting.append(asyncio.create_task(producer.send(topic, b"%d" % number)))
                await asyncio.sleep(0)
            await asyncio.gather(*waiting)
        assert len(await batches(client, topic)) < 10


async def test_put_waits_for_room_and_goes_on_when_there_is_some(tmp_path: Path) -> None:
    async with behind_proxy(tmp_path) as (proxy, _), headrace.aio.connect(proxy.address) as client:
        await client.admin.create_topic("t", partitions=1)
        proxy.rule = lambda key, number: HOLD if key == PRODUCE else PASS
        async with client.producer(buffer_bytes=50_000, batch_bytes=10_000, request_timeout=1) as producer:
            put = 0

            async def fill() -> None:
                nonlocal put
                for _ in range(200):
                    await producer.put("t", bytes(1_000))
                    put += 1

            filling = asyncio.create_task(fill())
            await asyncio.sleep(0.3)
            assert 30 < put < 50 and producer.buffered_bytes <= 50_000
            proxy.rule = lambda key, number: PASS
            await filling
            await producer.flush()
            assert producer.buffered_bytes == 0
        assert sum(await batches(client, "t")) == 200


async def test_put_fails_when_there_is_no_room_in_time(tmp_path: Path) -> None:
    async with behind_proxy(tmp_path) as (proxy, _), headrace.aio.connect(proxy.address) as client:
        await client.admin.create_topic("t", partitions=1)
        proxy.rule = lambda key, number: HOLD if key == PRODUCE else PASS
        producer = client.producer(buffer_bytes=5_000, delivery_timeout=0.5, request_timeout=5)
        for _ in range(4):
            await producer.put("t", bytes(1_000))
        with pytest.raises(errors.BufferFull, match="no room"):
            await producer.put("t", bytes(1_000))
        with pytest.raises(errors.MessageTooLarge, match="buffer_bytes"):
            await producer.put("t", bytes(6_000))
        with pytest.raises(errors.DeliveryFailed, match="4 records were not delivered"):
            await producer.close(timeout=0.1)


async def test_who_waits_for_room_hears_that_the_producer_was_closed(tmp_path: Path) -> None:
    async with behind_proxy(tmp_path) as (proxy, _), headrace.aio.connect(proxy.address) as client:
        await client.admin.create_topic("t", partitions=1)
        proxy.rule = lambda key, number: HOLD if key == PRODUCE else PASS
        producer = client.producer(buffer_bytes=2_000)
        await producer.put("t", bytes(1_500))
        waiting = [asyncio.create_task(producer.put("t", bytes(1_500))) for _ in range(3)]
        await asyncio.sleep(0.1)
        with pytest.raises(errors.DeliveryFailed):
            await producer.close(timeout=0.1)
        for outcome in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(outcome, errors.ClientClosed)


async def test_a_cancelled_send_harms_nobody_else(headrace_address: str, topic: str) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        await client.admin.create_topic(topic, partitions=1)
        async with client.producer(linger=0.05) as producer:
            await producer.send(topic, b"0")
            sends = [asyncio.create_task(producer.send(topic, b"%d" % number)) for number in range(1, 100)]
            await asyncio.sleep(0)
            for send in sends[::2]:
                send.cancel()
            kept = [await send for send in sends[1::2]]
            assert [delivery.offset for delivery in kept] == list(range(2, 100, 2))
        assert sum(await batches(client, topic)) == 100  # a record cannot be called back


async def test_a_flush_waits_for_what_was_put_before_it_and_not_for_what_comes_later(
    headrace_address: str, topic: str
) -> None:
    async with headrace.aio.connect(headrace_address) as client, client.producer() as producer:
        stop = False

        async def keep_putting() -> None:
            while not stop:
                await producer.put(topic, bytes(100))
                await asyncio.sleep(0)

        putting = asyncio.create_task(keep_putting())
        mine = [await producer.put(topic, b"mine") for _ in range(100)]
        await asyncio.wait_for(producer.flush(), 10)
        assert all(future.done() for future in mine)
        stop = True
        await putting


async def test_what_is_not_a_record_is_refused_where_it_is_put(headrace_address: str, topic: str) -> None:
    async with headrace.aio.connect(headrace_address) as client, client.producer() as producer:
        with pytest.raises(TypeError, match="keys and values are bytes, text or None, not int"):
            await producer.put(topic, 5)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="not float"):
            await producer.put(topic, b"", key=1.5)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="a header's name is text"):
            await producer.put(topic, b"", headers=[(b"h", b"v")])  # type: ignore[list-item]
        with pytest.raises(UnicodeEncodeError):
            await producer.put(topic, b"", headers=[("\ud800", b"v")])
        with pytest.raises(errors.InvalidTimestamp):
            await producer.put(topic, b"", timestamp_ms=1 << 63)
        with pytest.raises(errors.UnknownTopic, match="not 9"):
            await producer.put(topic, b"", partition=9)
        with pytest.raises(errors.InvalidTopicName):
            await producer.put("no spaces / here", b"")
        with pytest.raises(TypeError, match="a topic is named by text"):
            await producer.put(b"t", b"")  # type: ignore[arg-type]
        delivery = await producer.send(topic, "text", bytearray(b"k"), {"h": "v"}, timestamp_ms=7)  # type: ignore[arg-type]
        async with client.consumer(topic, follow=False) as consumer:
            (record,) = await consumer.take()
        assert record[2:8] == (delivery.offset, 7, "create", b"k", b"text", (("h", b"v"),))


@pytest.mark.parametrize(
    "wrong", [{"value": {"x": 1}}, {"key": 1.5}, {"headers": [(b"h", b"v")]}, {"timestamp_ms": -5}], ids=str
)
async def test_what_is_not_a_record_makes_no_topic(headrace_address: str, topic: str, wrong: dict[str, Any]) -> None:
    async with headrace.aio.connect(headrace_address) as client, client.producer() as producer:
        with pytest.raises((TypeError, errors.InvalidTimestamp)):
            await producer.send(topic, **wrong)
        assert topic not in {one.name for one in await client.admin.topics()}


@pytest.mark.parametrize("when", [-5, 1 << 63, 1_700_000_000_000.5, "now"])
async def test_a_time_that_is_none_leaves_the_producer_as_it_was(
    headrace_address: str, topic: str, when: object
) -> None:
    async with headrace.aio.connect(headrace_address) as client, client.producer() as producer:
        first = await producer.send(topic, b"before")  # so that nothing has to be fetched any more
        with pytest.raises(errors.InvalidTimestamp, match="whole milliseconds"):
            async with asyncio.timeout(5):
                await producer.send(topic, b"", timestamp_ms=when)  # type: ignore[arg-type]
        await asyncio.sleep(0.05)
        async with asyncio.timeout(5):
            assert (await producer.send(topic, b"after", partition=first.partition)).offset == first.offset + 1


@pytest.mark.parametrize(
    "options",
    [{"acks": 2}, {"acks": 1, "idempotent": True}, {"compression": "rar"}, {"batch_bytes": 5}, {"linger": -1}],
)
async def test_options_that_make_no_sense_are_refused(headrace_address: str, options: dict[str, object]) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        with pytest.raises(ValueError, match=r"acks|compression|batch_bytes|linger"):
            client.producer(**options)


async def test_partitions_that_were_added_are_found_and_a_partitioner_may_choose(
    headrace_address: str, topic: str
) -> None:
    async with headrace.aio.connect(headrace_address) as client, headrace.aio.connect(headrace_address) as other:
        await client.admin.create_topic(topic, partitions=1)
        async with client.producer(partitioner=lambda key, count: count - 1) as producer:
            assert (await producer.send(topic, b"x")).partition == 0
            await other.admin.add_partitions(topic, 4)
            assert (await producer.send(topic, b"x", partition=3)).partition == 3
            assert (await producer.send(topic, b"x")).partition == 3


async def test_a_topic_that_was_deleted_and_made_again_takes_what_is_sent(headrace_address: str, topic: str) -> None:
    async with headrace.aio.connect(headrace_address) as client, headrace.aio.connect(headrace_address) as other:
        await client.admin.create_topic(topic, partitions=1)
        async with client.producer() as producer:
            assert [(await producer.send(topic, b"x")).offset for _ in range(3)] == [0, 1, 2]
            await other.admin.delete_topic(topic)
            await other.admin.create_topic(topic, partitions=1)
            assert (await producer.send(topic, b"x")).offset == 0
            assert (await producer.send(topic, b"x")).offset == 1


async def test_who_looks_for_transactions_on_a_plain_producer_is_told_where_they_are(headrace_address: str) -> None:
    async with headrace.aio.connect(headrace_address) as client, client.producer() as producer:
        assert not hasattr(producer, "nonsense")
        with pytest.raises(AttributeError, match="transactional_id"):
            producer.transaction()  # type: ignore[attr-defined]
    with (
        headrace.Producer(headrace_address) as blocking,
        pytest.raises(AttributeError, match="transactional_id"),
    ):
        blocking.begin()  # type: ignore[attr-defined]
