"""What a client must endure: lost answers, refusals, connections that end, brokers that die. Nothing that was put is
lost without a word, and nothing that was put once is written twice by an idempotent producer.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest

import headrace.aio
from headrace import errors
from headrace.aio import Client
from headrace.records import codec
from headrace.testing.served import ServedBroker
from headrace.wire.kafka.header import FETCH, PRODUCE
from headrace.wire.kafka.leaders import Endpoint
from tests.client.proxy import HOLD, LOSE, PASS, REFUSE, Proxy, behind_proxy

NOT_LEADER, TIMED_OUT, STORAGE, UNKNOWN_PRODUCER, STALE_EPOCH, INVALID_RECORD = 6, 7, 56, 59, 47, 87
OUT_OF_ORDER, DUPLICATE, CORRUPT = 45, 46, 2


async def values(client: Client, topic: str) -> list[int]:
    async with client.consumer(topic, follow=False) as consumer:
        return [int(record.value or b"") async for record in consumer]


async def epochs(client: Client, topic: str) -> set[int]:
    kept = b"".join([batch async for batch in client.batches(topic, 0)])
    return {head.producer_epoch for head, _ in codec.split(kept)}


@pytest.mark.parametrize("seed", range(4))
async def test_an_idempotent_producer_writes_once_and_in_order_whatever_happens(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    # Only what is true of a batch that did not get through: the broker itself refuses those behind it.
    harm = [LOSE, REFUSE, NOT_LEADER, TIMED_OUT, STORAGE, CORRUPT]
    async with behind_proxy(tmp_path) as (proxy, _), headrace.aio.connect(proxy.address) as client:
        await client.admin.create_topic("t", partitions=1)
        proxy.rule = lambda key, number: chance.choice(harm) if key == PRODUCE and chance.random() < 0.2 else PASS
        async with client.producer(batch_bytes=2_000, linger=0.001) as producer:
            futures = []
            for number in range(3_000):
                futures.append(await producer.put("t", b"%d" % number))
                if number % 100 == 0:
                    await asyncio.sleep(0.005)
            await producer.flush()
        assert proxy.seen[PRODUCE] > 30
        proxy.rule = lambda key, number: PASS
        assert await values(client, "t") == list(range(3_000))
        offsets = [future.result().offset for future in futures]
        assert all(offset in (number, -1) for number, offset in enumerate(offsets))


async def test_an_answer_that_was_lost_is_not_written_again(tmp_path: Path) -> None:
    async with behind_proxy(tmp_path) as (proxy, _), headrace.aio.connect(proxy.address) as client:
        await client.admin.create_topic("t", partitions=1)
        proxy.rule = lambda key, number: LOSE if key == PRODUCE and number == 1 else PASS
        async with client.producer() as producer:
            assert [(await producer.send("t", b"%d" % number)).offset for number in range(3)] == [0, 1, 2]
        assert proxy.seen[PRODUCE] == 4
        assert await values(client, "t") == [0, 1, 2]
        assert await epochs(client, "t") == {0}


async def test_a_refused_batch_fails_and_those_behind_it_are_delivered_in_order(tmp_path: Path) -> None:
    async with behind_proxy(tmp_path) as (proxy, _), headrace.aio.connect(proxy.address) as client:
        await client.admin.create_topic("t", partitions=1)
        proxy.rule = lambda key, number: INVALID_RECORD if key == PRODUCE and number == 5 else PASS
        async with client.producer(batch_bytes=1_000) as producer:
            await producer.send("t", b"0")
            futures = [await producer.put("t", b"%d" % number) for number in range(1, 1_000)]
            with pytest.raises(errors.DeliveryFailed) as failed:
                await producer.flush()
            assert isinstance(failed.value.first, errors.InvalidRecord)
            lost = [number for number, future in enumerate(futures, 1) if future.exception() is not None]
            assert 0 < len(lost) == failed.value.count
            assert lost == list(range(lost[0], lost[-1] + 1))
        assert await values(client, "t") == [number for number in range(1_000) if number not in lost]
        assert await epochs(client, "t") == {0, 1}


@pytest.mark.parametrize("code", [UNKNOWN_PRODUCER, STALE_EPOCH, OUT_OF_ORDER])
async def test_a_broker_that_forgot_the_producer_gets_everything_once(tmp_path: Path, code: int) -> None:
    async with behind_proxy(tmp_path) as (proxy, _), headrace.aio.connect(proxy.address) as client:
        await client.admin.create_topic("t", partitions=1)
        proxy.rule = lambda key, number: code if key == PRODUCE and number in (0, 4, 5, 6) else PASS
        async with client.producer(batch_bytes=1_000) as producer:
            for number in range(500):
                await producer.put("t", b"%d" % number)
        assert await values(client, "t") == list(range(500))


async def test_without_idempotence_nothing_is_lost_and_order_is_kept(tmp_path: Path) -> None:
    async with behind_proxy(tmp_path) as (proxy, _), headrace.aio.connect(proxy.address) as client:
        await client.admin.create_topic("t", partitions=1)
        proxy.rule = lambda key, number: LOSE if key == PRODUCE and number % 5 == 2 else PASS
        async with client.producer(acks=1, batch_bytes=1_000) as producer:
            for number in range(500):
                await producer.put("t", b"%d" % number)
        got = await values(client, "t")
        assert list(dict.fromkeys(got)) == list(range(500))
        assert len(got) > 500  # at least once: the lost answers' batches are there twice


async def test_a_consumer_reads_on_over_connections_that_end(tmp_path: Path) -> None:
    chance = random.Random(1)
    async with behind_proxy(tmp_path) as (proxy, _), headrace.aio.connect(proxy.address) as client:
        await client.admin.create_topic("t", partitions=2)
        async with client.producer(batch_bytes=2_000) as producer:
            for number in range(5_000):
                await producer.put("t", b"%d" % number, partition=number % 2)
        proxy.rule = lambda key, number: chance.choice([LOSE, REFUSE, PASS, PASS]) if key == FETCH else PASS
        async with client.consumer("t", follow=False, prefetch_bytes=70_000) as consumer:
            got = [int(record.value or b"") async for record in consumer]
        assert sorted(got) == list(range(5_000))
        assert [number for number in got if number % 2] == list(range(1, 5_000, 2))


async def test_a_broker_that_never_answers_is_given_up_in_time(tmp_path: Path) -> None:
    async with behind_proxy(tmp_path) as (proxy, _), headrace.aio.connect(proxy.address, timeout=2) as client:
        await client.admin.create_topic("t", partitions=1)
        proxy.rule = lambda key, number: HOLD if key == PRODUCE else PASS
        async with client.producer(delivery_timeout=1.5, request_timeout=1) as producer:
            begin = asyncio.get_running_loop().time()
            with pytest.raises(errors.RequestTimedOut, match="its time was over"):
                await producer.send("t", b"x")
            assert asyncio.get_running_loop().time() - begin < 6
            proxy.rule = lambda key, number: PASS
            await producer.send("t", b"1")  # it may come behind the first, whose fate nobody knows


@pytest.mark.timeout(120)
async def test_producer_and_consumer_survive_a_broker_that_is_killed(tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as broker:
        async with headrace.aio.connect(broker.address) as client:
            await client.admin.create_topic("t", partitions=1)
            async with client.producer() as producer, client.consumer("t") as consumer:
                got: list[int] = []

                async def read() -> None:
                    async for record in consumer:
                        got.append(int(record.value or b""))
                        if got[-1] == 1_499:
                            return

                reader = asyncio.create_task(read())
                for number in range(1_500):
                    await producer.put("t", b"%d" % number)
                    if number % 20 == 0:
                        await asyncio.sleep(0.002)
                    if number in (400, 900):
                        await asyncio.to_thread(broker.kill)
                        await asyncio.to_thread(broker.start)
                await producer.flush()
                await asyncio.wait_for(reader, 30)
            assert await values(client, "t") == list(range(1_500))
            assert got == list(range(1_500))


async def test_closing_sends_what_is_left_and_fails_what_cannot_be_sent(tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as broker:
        async with headrace.aio.connect(broker.address) as client:
            await client.admin.create_topic("t", partitions=1)
            async with client.producer(linger=60) as producer:
                kept = [await producer.put("t", b"%d" % number) for number in range(100)]
            assert [future.result().offset for future in kept] == list(range(100))
            producer = client.producer()
            await producer.send("t", b"100")
            broker.kill()
            lost = await producer.put("t", b"101")
            with pytest.raises(errors.DeliveryFailed, match="1 record was not delivered"):
                await producer.close(timeout=0.3)
            assert isinstance(lost.exception(), errors.ClientClosed)
            with pytest.raises(errors.ClientClosed):
                await producer.put("t", b"102")


async def test_an_error_in_the_block_is_the_one_that_is_told(tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as broker:
        async with headrace.aio.connect(broker.address) as client:
            await client.admin.create_topic("t", config={"max.message.bytes": "1000"})
            with pytest.raises(ZeroDivisionError) as raised:
                async with client.producer() as producer:
                    await producer.put("t", bytes(5_000))
                    raise ZeroDivisionError
            assert "1 record was not delivered" in raised.value.__notes__[0]


async def test_a_node_that_moved_to_another_address_is_found(tmp_path: Path) -> None:
    old, new = Proxy(), Proxy()
    await old.start()
    await new.start()
    first = ServedBroker(tmp_path, "--kafka-advertised", old.address)
    second = ServedBroker(tmp_path, "--kafka-advertised", new.address)
    try:
        first.start()
        old.upstream = ("127.0.0.1", int(first.address.rpartition(":")[2]))
        async with headrace.aio.connect([old.address, new.address]) as client:
            await client.admin.create_topic("t", partitions=1)
            async with client.producer() as producer, client.consumer("t") as consumer:
                await producer.send("t", b"0")
                assert len(await consumer.take(timeout=10)) == 1
                first.stop()
                await old.stop()
                await asyncio.to_thread(second.start)
                new.upstream = ("127.0.0.1", int(second.address.rpartition(":")[2]))
                assert (await producer.send("t", b"1")).offset == 1
                assert [record.value for record in await consumer.take(timeout=20)] == [b"1"]
            assert (await client.admin.cluster()).nodes[0].address == new.address
    finally:
        for broker in (first, second):
            if broker.is_running:
                broker.stop()
        await old.stop()
        await new.stop()


@pytest.mark.parametrize("policy", ["error", "start"])
async def test_a_log_that_was_cut_below_the_reader_is_told(tmp_path: Path, policy: str) -> None:
    """As power loss does it to what was not synced: the records are gone, and others take their offsets."""
    with ServedBroker(tmp_path) as broker:
        async with headrace.aio.connect(broker.address) as client:
            await client.admin.create_topic("t", partitions=1)
            async with client.consumer("t", out_of_range=policy) as consumer:
                async with client.producer(acks=1) as producer:
                    for number in range(10):
                        await producer.send("t", b"old %d" % number)
                got = 0
                while got < 10:
                    got += len(await consumer.take(timeout=10))
                consumer.pause("t", 0)
                broker.kill()
                (segment,) = [path for path in tmp_path.rglob("*.log") if b"old 9" in path.read_bytes()]
                os.truncate(segment, segment.read_bytes().index(b"old 7"))
                broker.start()
                async with client.producer() as producer:
                    new = [(await producer.send("t", b"new")).offset for _ in range(5)]
                assert new == list(range(7, 12))
                consumer.resume("t", 0)
                if policy == "error":
                    with pytest.raises(errors.OffsetOutOfRange, match="the log was cut at 7"):
                        await consumer.take(timeout=10)
                    await consumer.seek("t", 0, 7)
                read: list[int] = []
                while len(read) < 5:
                    read += [record.offset for record in await consumer.take(timeout=10)]
                assert read == new


async def test_connections_that_ended_while_nobody_used_them_are_made_again(tmp_path: Path) -> None:
    async with behind_proxy(tmp_path) as (proxy, _), headrace.aio.connect(proxy.address) as client:
        await client.admin.create_topic("t", partitions=1)
        async with client.producer() as producer, client.consumer("t") as consumer:
            for number in range(5):
                proxy.drop_all()
                await asyncio.sleep(0.05 * (number % 2))  # at once, or when the client has heard of it
                assert (await producer.send("t", b"x")).offset == number
                assert len(await client.admin.topics()) == 1
                assert [record.offset for record in await consumer.take(timeout=10)] == [number]
            proxy.drop_all()
            await asyncio.sleep(0.05)
            await client.admin.create_topic("u")


async def test_a_refusal_that_names_the_new_leader_sends_the_producer_there(tmp_path: Path) -> None:
    async with behind_proxy(tmp_path) as (proxy, _), headrace.aio.connect(proxy.address) as client:
        await client.admin.create_topic("t", partitions=1)
        other = Proxy()
        await other.start()
        other.upstream = proxy.upstream
        proxy.new_leader = Endpoint(5, "127.0.0.1", int(other.address.rpartition(":")[2]), None)
        proxy.rule = lambda key, number: NOT_LEADER if key == PRODUCE and number >= 1 else PASS
        async with client.producer() as producer:
            assert [(await producer.send("t", b"%d" % number)).offset for number in range(5)] == list(range(5))
        assert (proxy.seen[PRODUCE], other.seen[PRODUCE]) == (2, 4)
        await client._open().metadata.refresh(["t"])  # node 5 is not in the cluster's own story
        assert await values(client, "t") == list(range(5))
        await other.stop()
