"""Members of groups, and transactions, over connections that end before a request or instead of its answer, and with a
broker that is killed: nothing is lost, and what is in a transaction is there once."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from pathlib import Path

import pytest

import headrace.aio
from headrace import errors
from headrace.client import transaction_coordinator
from headrace.client.apis import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    FETCH,
    FIND_COORDINATOR,
    HEARTBEAT,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PRODUCE,
    SYNC_GROUP,
    TXN_OFFSET_COMMIT,
)
from headrace.testing.served import ServedBroker
from tests.client.proxy import HOLD, LOSE, PASS, REFUSE, Proxy, behind_proxy

TOPIC, GROUP, PARTITIONS = "orders", "billing", 4
LIMIT_S = 60.0
OF_GROUPS = {api.key for api in (JOIN_GROUP, SYNC_GROUP, HEARTBEAT, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR)}
OF_TRANSACTIONS = {
    api.key
    for api in (INIT_PRODUCER_ID, ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, TXN_OFFSET_COMMIT, END_TXN, PRODUCE)
}


def harm(proxy: Proxy, keys: set[int], seed: int, share: float = 0.3) -> None:
    chance = random.Random(seed)
    proxy.rule = lambda key, number: chance.choice([LOSE, REFUSE]) if key in keys and chance.random() < share else PASS


async def feed(client: headrace.aio.Client, numbers: range) -> None:
    async with client.producer() as producer:
        for number in numbers:
            await producer.put(TOPIC, str(number), partition=number % PARTITIONS)


async def read(consumer: headrace.aio.GroupConsumer, seen: Counter[int], is_over: asyncio.Event) -> None:
    while not is_over.is_set():
        for record in await consumer.take(10, 0.1):
            seen[int(record.value or b"")] += 1


async def all_seen(seen: Counter[int], count: int) -> None:
    deadline = time.monotonic() + LIMIT_S
    while len(seen) < count:
        assert time.monotonic() < deadline, f"{count - len(seen)} records were not read"
        await asyncio.sleep(0.05)


async def shared(first: headrace.aio.GroupConsumer, second: headrace.aio.GroupConsumer) -> None:
    deadline = time.monotonic() + LIMIT_S
    while len(first.assignment) != 2 or len(second.assignment) != 2:
        assert time.monotonic() < deadline, "the members do not share"
        await asyncio.sleep(0.1)


async def positions(client: headrace.aio.Client) -> int:
    return sum(at.offset for at in (await client.admin.group_offsets(GROUP)).values())


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
async def test_members_lose_nothing_over_connections_that_end(tmp_path: Path, assignor: str) -> None:
    options = {"group": GROUP, "assignors": [assignor], "session_timeout": 6.0, "max_wait": 0.1, "commit_interval": 0.2}
    seen: Counter[int] = Counter()
    is_over = asyncio.Event()
    async with behind_proxy(tmp_path) as (proxy, _), headrace.aio.connect(proxy.address) as client:
        await client.admin.create_topic(TOPIC, PARTITIONS)
        await feed(client, range(100))
        harm(proxy, OF_GROUPS | {FETCH.key}, seed=len(assignor))
        async with client.consumer(TOPIC, **options) as first:
            reading = [asyncio.create_task(read(first, seen, is_over))]
            await all_seen(seen, 100)
            async with client.consumer(TOPIC, **options) as second:
                reading.append(asyncio.create_task(read(second, seen, is_over)))
                await shared(first, second)
                await feed(client, range(100, 200))
                await all_seen(seen, 200)
                is_over.set()
                await asyncio.gather(*reading)
                proxy.rule = lambda key, number: PASS
                await asyncio.gather(first.take(1, 0), second.take(1, 0))
                await asyncio.gather(first.commit(), second.commit())
        assert sorted(seen) == list(range(200)) and await positions(client) == 200
        assert sum(seen.values()) < 400, "too much was read again"


async def test_a_member_survives_a_coordinator_that_falls_silent(tmp_path: Path) -> None:
    async with (
        behind_proxy(tmp_path) as (proxy, _),
        headrace.aio.connect(proxy.address, timeout=5.0) as client,
    ):
        await client.admin.create_topic(TOPIC, PARTITIONS)
        await feed(client, range(20))
        async with client.consumer(TOPIC, group=GROUP, session_timeout=2.0, auto_commit=False) as consumer:
            assert len(await consumer.take(100, LIMIT_S)) > 0
            held = proxy.seen[HEARTBEAT.key]
            proxy.rule = lambda key, number: HOLD if key == HEARTBEAT.key and number == held else PASS
            await asyncio.sleep(5.0)  # the session is over, and the group has gone on without it
            seen = 0
            with contextlib.suppress(errors.IllegalGeneration):
                await consumer.commit()
            deadline = time.monotonic() + LIMIT_S
            while seen < 20 and time.monotonic() < deadline:
                seen += len(await consumer.take(100, 0.5))
            await consumer.commit()
            assert await positions(client) == 20


@pytest.mark.parametrize("version", ["first", "second"])
@pytest.mark.parametrize("seed", range(3))
async def test_a_transaction_is_there_once_over_connections_that_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, seed: int
) -> None:
    if version == "first":
        monkeypatch.setattr(transaction_coordinator, "SECOND", 99)
    chance = random.Random(seed)
    async with behind_proxy(tmp_path) as (proxy, _), headrace.aio.connect(proxy.address) as client:
        await client.admin.create_topic(TOPIC, PARTITIONS)
        await client.admin.create_topic("copies", PARTITIONS)
        await feed(client, range(100))
        harm(proxy, OF_TRANSACTIONS | OF_GROUPS, seed)
        async with (
            client.consumer(TOPIC, group=GROUP, auto_commit=False, session_timeout=6.0) as consumer,
            client.producer(transactional_id="copier") as producer,
        ):
            copied = 0
            deadline = time.monotonic() + LIMIT_S
            while copied < 100 and time.monotonic() < deadline:
                records = await consumer.take(chance.randint(1, 20), 1.0)
                with contextlib.suppress(KeyError):
                    async with producer.transaction() as transaction:
                        for record in records:
                            await transaction.put("copies", record.value, partition=record.partition)
                        await transaction.send_positions(consumer)
                        if chance.random() < 0.3:
                            raise KeyError
                    copied += len(records)
                    continue
                await consumer.rewind()
        proxy.rule = lambda key, number: PASS
        async with client.consumer("copies", follow=False, isolation="read_committed") as reader:
            values = [int(record.value or b"") async for record in reader]
        assert sorted(values) == list(range(100))
        await client.admin.fence_producer("copier")  # all marks are set then
        assert await positions(client) == 100


async def test_an_outcome_that_is_not_known_in_time_can_be_asked_for_again(tmp_path: Path) -> None:
    async with (
        behind_proxy(tmp_path) as (proxy, _),
        headrace.aio.connect(proxy.address, timeout=1.0) as client,
    ):
        await client.admin.create_topic(TOPIC, 1)
        async with client.producer(transactional_id="slow", delivery_timeout=1.0) as producer:
            await producer.begin()
            await producer.send(TOPIC, "mine")
            proxy.rule = lambda key, number: LOSE if key == END_TXN.key else PASS
            with pytest.raises(errors.RequestTimedOut, match="commit again to find out"):
                await producer.commit()
            with pytest.raises(errors.InvalidTransactionState, match="commit again"):
                await producer.abort()
            proxy.rule = lambda key, number: PASS
            await producer.commit()
            async with producer.transaction() as transaction:
                await transaction.send(TOPIC, "next")
        async with client.consumer(TOPIC, follow=False, isolation="read_committed") as reader:
            assert [record.value async for record in reader] == [b"mine", b"next"]


@pytest.mark.timeout(200)
async def test_a_group_survives_its_broker(tmp_path: Path) -> None:
    """kill -9, again and again, while two members read and commit."""
    seen: Counter[int] = Counter()
    is_over = asyncio.Event()
    options = {"group": GROUP, "session_timeout": 6.0, "max_wait": 0.1, "commit_interval": 0.2}
    with ServedBroker(tmp_path) as broker:
        async with headrace.aio.connect(broker.address) as client:
            await client.admin.create_topic(TOPIC, PARTITIONS)
            async with client.consumer(TOPIC, **options) as first, client.consumer(TOPIC, **options) as second:
                reading = [asyncio.create_task(read(one, seen, is_over)) for one in (first, second)]
                for number in range(5):
                    await feed(client, range(100 * number, 100 * number + 100))
                    await asyncio.sleep(random.uniform(0.0, 0.6))
                    await asyncio.to_thread(broker.kill)
                    await asyncio.to_thread(broker.start)
                await all_seen(seen, 500)
                is_over.set()
                await asyncio.gather(*reading)
                await asyncio.gather(first.take(1, 0), second.take(1, 0))
                await asyncio.gather(first.commit(), second.commit())
                assert len(first.assignment) == len(second.assignment) == 2
            assert sorted(seen) == list(range(500)) and await positions(client) == 500
