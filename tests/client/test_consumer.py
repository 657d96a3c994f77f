"""What a consumer promises whoever reads with it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import headrace.aio
from headrace import errors
from headrace.aio import Client
from headrace.client.values import Node
from headrace.wire.kafka.header import FETCH, METADATA
from tests.client.proxy import PASS, REFUSE, behind_proxy


async def fill(client: Client, topic: str, count: int, size: int = 100, partitions: int = 1) -> None:
    await client.admin.create_topic(topic, partitions=partitions)
    async with client.producer(batch_bytes=20_000) as producer:
        for number in range(count):
            await producer.put(topic, b"%08d" % number + bytes(size), partition=number % partitions)


async def test_a_slow_reader_holds_little_memory_and_loses_nothing(tmp_path: Path) -> None:
    async with behind_proxy(tmp_path) as (proxy, _), headrace.aio.connect(proxy.address) as client:
        await fill(client, "t", 20_000, 500, partitions=3)
        async with client.consumer("t", follow=False, prefetch_bytes=300_000) as consumer:
            first = await anext(consumer)
            await asyncio.sleep(0.5)
            asked = proxy.seen[FETCH]
            await asyncio.sleep(0.5)
            assert proxy.seen[FETCH] == asked  # it is full: nobody asks
            assert consumer.buffered_bytes < 3 * 300_000
            got = [first] + [record async for record in consumer]
        assert len({(record.partition, record.offset) for record in got}) == 20_000


@pytest.mark.parametrize("prefetch_bytes", [1, 10_000])
async def test_who_reads_little_ahead_reads_all_the_same(
    headrace_address: str, topic: str, prefetch_bytes: int
) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        await fill(client, topic, 400, partitions=2)
        async with client.consumer(topic, follow=False, prefetch_bytes=prefetch_bytes) as consumer:
            assert len([record async for record in consumer]) == 400


async def test_no_partition_starves_another(headrace_address: str, topic: str) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        await fill(client, topic, 9_000, 500, partitions=3)
        async with client.consumer(topic) as consumer:
            await consumer.take(timeout=10)
            await asyncio.sleep(0.5)
            seen = {record.partition for record in await consumer.take(1_000)}
    assert seen == {0, 1, 2}


async def test_a_reader_of_one_busy_and_many_idle_partitions_hears_of_records_soon(
    headrace_address: str, topic: str
) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        await client.admin.create_topic(topic, partitions=50)
        async with client.consumer(topic, start="end") as consumer, client.producer() as producer:
            for number in range(10):
                begin = time.monotonic()
                await producer.send(topic, b"x", partition=number * 5)
                (record,) = await consumer.take(timeout=10)
                assert record.partition == number * 5
                assert time.monotonic() - begin < 3


@pytest.mark.parametrize("prefetch_bytes", [70_000, 32 << 20])
async def test_a_node_with_nothing_to_read_takes_no_other_its_room(
    headrace_address: str, topic: str, monkeypatch: pytest.MonkeyPatch, prefetch_bytes: int
) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        await fill(client, topic, 10)
        metadata = client._asking.metadata
        await client.admin.add_partitions(topic, 2)
        await metadata.refresh([topic])
        (node,) = metadata.nodes.values()
        second = Node(node.id + 1, node.host, node.port)
        monkeypatch.setitem(metadata.nodes, second.id, second)
        monkeypatch.setattr(metadata, "leader", lambda _, partition: node if partition else second)
        async with client.consumer(topic, partitions=[1, 0], prefetch_bytes=prefetch_bytes) as consumer:
            assert len(await consumer.take(timeout=5)) == 10


async def test_reading_on_after_an_error_tries_again_and_seek_goes_elsewhere(headrace_address: str, topic: str) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        await fill(client, topic, 10)
        async with client.consumer(topic, start=50) as consumer:
            for _ in range(2):
                with pytest.raises(errors.OffsetOutOfRange) as raised:
                    await consumer.take(timeout=10)
                assert (raised.value.offset, raised.value.start, raised.value.end) == (50, 0, 10)
            await consumer.seek(topic, 0, "start")
            assert len(await consumer.take(timeout=10)) == 10


async def test_a_topic_that_is_deleted_under_a_reader_is_told(headrace_address: str, topic: str) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        await fill(client, topic, 10)
        async with client.consumer(topic) as consumer:
            assert len(await consumer.take(timeout=10)) == 10
            await client.admin.delete_topic(topic)
            with pytest.raises(errors.UnknownTopic, match="is not there any more"):
                await consumer.take(timeout=30)


async def test_a_reader_finds_a_topic_that_comes_back_after_it_was_told_that_it_is_gone(
    headrace_address: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.client.fetcher.UNKNOWN_TOPIC_S", 0.3)
    async with headrace.aio.connect(headrace_address) as client:
        await fill(client, topic, 10)
        async with client.consumer(topic) as consumer:
            assert len(await consumer.take(timeout=10)) == 10
            await client.admin.delete_topic(topic)
            for _ in range(2):
                with pytest.raises(errors.UnknownTopic, match="is not there any more"):
                    await consumer.take(timeout=30)
            await fill(client, topic, 3)
            await consumer.seek(topic, 0, "start")
            assert await taken(consumer, 3) == 3


@pytest.mark.parametrize("policy", ["error", "start"])
async def test_a_topic_that_is_made_again_is_another_topic(headrace_address: str, topic: str, policy: str) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        await fill(client, topic, 10)
        async with client.consumer(topic, out_of_range=policy) as consumer:
            assert len(await consumer.take(timeout=10)) == 10
            async with headrace.aio.connect(headrace_address) as other:
                await other.admin.delete_topic(topic)
                await fill(other, topic, 12)
            if policy == "error":
                for _ in range(2):
                    with pytest.raises(errors.UnknownTopicId, match="made again"):
                        await consumer.take(timeout=10)
                await consumer.seek(topic, 0, "start")
            got: list[headrace.aio.Record] = []
            while len(got) < 12:
                got += await consumer.take(timeout=10)
            assert [record.offset for record in got] == list(range(12))


async def test_a_reader_never_asks_a_topic_of_the_same_name_for_its_offsets(headrace_address: str, topic: str) -> None:
    """Not even when somebody else who uses the same client has learned of the new topic first."""
    async with headrace.aio.connect(headrace_address) as client:
        await fill(client, topic, 10, partitions=2)
        async with client.consumer(topic, max_wait=0.05) as consumer:
            assert await taken(consumer, 10) == 10
            for partition in range(2):
                consumer.pause(topic, partition)
            await asyncio.sleep(0.3)  # until no Fetch is on its way, whose refusal would tell
            async with headrace.aio.connect(headrace_address) as other:
                await other.admin.delete_topic(topic)
                await fill(other, topic, 12)
            await consumer._asking.metadata.refresh([topic])
            for partition in range(2):
                consumer.resume(topic, partition)
            for _ in range(2):  # a partition each, of which the second is not even there any more
                with pytest.raises(errors.UnknownTopicId, match="made again"):
                    await consumer.take(timeout=10)


async def taken(consumer: headrace.aio.Consumer, count: int) -> int:
    got = 0
    while got < count:
        got += len(await consumer.take(timeout=10))
    return got


async def test_partitions_that_are_added_later_are_read_too(
    headrace_address: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.client.consumer.MAX_AGE_S", 0.2)
    async with headrace.aio.connect(headrace_address) as client:
        await fill(client, topic, 10)
        async with client.consumer(topic) as consumer:
            assert len(await consumer.take(timeout=10)) == 10
            async with headrace.aio.connect(headrace_address) as other, other.producer() as producer:
                await other.admin.add_partitions(topic, 2)
                await producer.send(topic, b"new", partition=1)
            assert [record.value for record in await consumer.take(timeout=10)] == [b"new"]


async def test_closing_wakes_who_waits(headrace_address: str, topic: str) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        await client.admin.create_topic(topic)
        consumer = client.consumer(topic)
        waiting = asyncio.create_task(anext(consumer))
        await asyncio.sleep(0.2)
        await consumer.close()
        with pytest.raises(errors.ClientClosed):
            await asyncio.wait_for(waiting, 5)


async def test_a_take_that_is_cancelled_loses_no_record(headrace_address: str, topic: str) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        await client.admin.create_topic(topic, partitions=1)
        async with client.consumer(topic) as consumer, client.producer() as producer:
            got: list[bytes | None] = []
            for number in range(50):
                taking = asyncio.create_task(consumer.take(timeout=10))
                await asyncio.sleep(0.001 * (number % 4))
                sending = asyncio.create_task(producer.send(topic, b"%d" % number))
                await asyncio.sleep(0.001 * (number % 3))
                taking.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    got += [record.value for record in await taking]
                await sending
            while len(got) < 50:
                got += [record.value for record in await consumer.take(timeout=10)]
    assert got == [b"%d" % number for number in range(50)]


@pytest.mark.parametrize("options", [{}, {"group": "g", "session_timeout": 6.0}])
async def test_who_takes_without_waiting_gets_what_is_there_and_hears_of_errors(
    headrace_address: str, topic: str, options: dict[str, Any]
) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        await fill(client, topic, 10)
        async with client.consumer(topic, **options) as consumer:
            assert len(await given(lambda: consumer.take(timeout=0))) == 10
            assert await consumer.take(timeout=0) == []
            await consumer.seek(topic, 0, 50)
            with pytest.raises(errors.OffsetOutOfRange):
                await given(lambda: consumer.take(timeout=0))
        with pytest.raises(errors.ClientClosed):
            await consumer.take(timeout=0)
        async with client.columns(topic) as reader:
            assert (await given(lambda: reader.take(timeout=0))).num_rows == 10


async def given(take: Callable[[], Awaitable[Any]]) -> Any:
    deadline = time.monotonic() + 10
    while not (found := await take()):
        assert time.monotonic() < deadline, "nothing was given"
        await asyncio.sleep(0.01)
    return found


async def test_at_least_one_record_is_taken(headrace_address: str, topic: str) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        await client.admin.create_topic(topic)
        async with client.consumer(topic) as consumer:
            with pytest.raises(ValueError, match="at least one"):
                await consumer.take(0)


@pytest.mark.parametrize("options", [{"isolation": "none"}, {"out_of_range": "top"}, {"prefetch_bytes": 0}])
async def test_options_that_make_no_sense_are_refused(headrace_address: str, options: dict[str, object]) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        with pytest.raises(ValueError, match=r"isolation|out_of_range|prefetch_bytes"):
            client.consumer("t", **options)


async def test_a_client_leaves_no_task_behind(headrace_address: str, topic: str) -> None:
    before = asyncio.all_tasks()
    async with headrace.aio.connect(headrace_address) as client:
        await fill(client, topic, 100)
        producer, consumer = client.producer(), client.consumer(topic)
        await producer.send(topic, b"x")
        await consumer.take(timeout=10)
    await asyncio.sleep(0.05)
    assert asyncio.all_tasks() == before
    with pytest.raises(errors.ClientClosed):
        await producer.put(topic, b"x")


@pytest.mark.parametrize("at", ["sometime", 1.5, True, None])
async def test_a_position_that_is_none_is_refused_in_words(headrace_address: str, topic: str, at: object) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        await client.admin.create_topic(topic)
        with pytest.raises(ValueError, match="is not a position"):
            async with client.consumer(topic, start=at, follow=False) as consumer:
                await consumer.take()


async def test_a_start_that_is_cut_short_is_made_again(tmp_path: Path) -> None:
    async with behind_proxy(tmp_path) as (proxy, _), headrace.aio.connect(proxy.address) as client:
        await fill(client, "t", 10)
        client._asking.metadata.forget("t")
        proxy.rule = lambda key, _: REFUSE if key == METADATA else PASS
        consumer = client.consumer("t")
        assert await consumer.take(timeout=0.2) == []
        proxy.rule = lambda key, _: PASS
        assert len(await consumer.take(timeout=10)) == 10


@pytest.mark.parametrize("options", [{}, {"group": "g", "session_timeout": 6.0}])
async def test_two_who_begin_to_read_at_once_share_what_is_there(
    headrace_address: str, topic: str, options: dict[str, Any]
) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        await fill(client, topic, 2)
        client._asking.metadata.forget(topic)
        consumer = client.consumer(topic, **options)
        found = await asyncio.gather(consumer.take(1, 10), consumer.take(1, 10))
    assert sorted(record.offset for taken in found for record in taken) == [0, 1]


async def test_an_assignment_that_fails_leaves_what_was_read(headrace_address: str, topic: str) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        await fill(client, topic, 10)
        async with client.consumer(topic) as consumer:
            assert len(await consumer.take(4, 10)) == 4
            with pytest.raises(ValueError, match="nonsense"):
                await consumer.assign({(topic, 0): "nonsense"})
            assert [record.offset for record in await consumer.take(timeout=10)] == [4, 5, 6, 7, 8, 9]
