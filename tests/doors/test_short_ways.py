"""The short ways give what the general ones give: the same question asked alone, and in company of another."""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from headrace.broker.broker import NewTopic
from headrace.broker.partition import Partition
from headrace.log.files import OsFiles
from headrace.ports import Buffer
from headrace.records.codec import BatchOptions, Producer, encode
from headrace.records.header import CONTROL
from headrace.records.record import Record
from headrace.wire.kafka import fetch, fetch_client, header, produce_client
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.fetch import FetchedPartition, FetchPartition, FetchRequest, FetchTopic
from headrace.wire.kafka.produce import PartitionResult
from tests.doors.asking import Asker, asking
from tests.records.kernels import patched

LARGEST = 10_000
PRODUCE_VERSIONS = [3, 5, 7, 8, 9, 12, 13]
FETCH_VERSIONS = [13, 14, 15, fetch.NEWEST]
ALONE, IN_COMPANY = [0], [0, 1]


class FillingDisk(OsFiles):
    is_full = False

    def pwritev(self, handle: int, buffers: Sequence[Buffer], position: int) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, "no space left on device")
        return super().pwritev(handle, buffers, position)


@pytest.fixture
async def asker(tmp_path: Path) -> AsyncIterator[Asker]:
    async with asking(tmp_path) as asker:
        wish = NewTopic("t", partitions=2, configs={"max.message.bytes": str(LARGEST)})
        await asker.node.broker.create_topics([wish])
        for partition in (0, 1):
            await asker.produce("t", partition, [record(b"opens the log")])
        yield asker


def record(value: bytes, timestamp_ms: int | None = None) -> Record:
    return Record(None, value, (), int(time.time() * 1000) if timestamp_ms is None else timestamp_ms)


def good() -> bytes:
    return bytes(encode([record(b"one"), record(b"two")]))


def damaged() -> bytes:
    return good()[:-1] + b"!"


def too_large() -> bytes:
    return bytes(encode([record(b"x" * LARGEST)]))


def of_tomorrow() -> bytes:
    return bytes(encode([record(b"x", int(time.time() * 1000) + 48 * 3600 * 1000)]))


def control() -> bytes:
    return bytes(patched(good(), ">h", 21, CONTROL))


def two_batches() -> bytes:
    return good() + good()


async def produced(
    asker: Asker, version: int, batch: bytes, partitions: list[int], name: str = "t", acks: int = 1
) -> PartitionResult:
    """What becomes of the first."""
    topic = asker.node.broker.topic("t")
    assert topic is not None
    topics = [(name, topic.id, [(partition, batch) for partition in partitions])]
    raw = await asker.answer(b"".join(produce_client.encode_request(version, 13, "me", None, acks, 5000, topics)))
    correlation_id, at = header.read_response_header(raw, 0, len(raw), header.PRODUCE, version)
    assert correlation_id == 13
    return produce_client.decode_response(raw, at, len(raw), version).topics[0].partitions[0]


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@pytest.mark.parametrize("acks", [1, -1])
async def test_a_good_batch_gets_the_next_offset_either_way(asker: Asker, version: int, acks: int) -> None:
    first = await produced(asker, version, good(), ALONE, acks=acks)
    second = await produced(asker, version, good(), IN_COMPANY, acks=acks)
    third = await produced(asker, version, good(), ALONE, acks=acks)
    assert [one.base_offset for one in (first, second, third)] == [1, 3, 5]
    assert first._replace(base_offset=0) == second._replace(base_offset=0) == third._replace(base_offset=0)
    assert first.error == 0


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@pytest.mark.parametrize("acks", [1, -1, 2])
@pytest.mark.parametrize("bad", [damaged, too_large, of_tomorrow, control, two_batches])
async def test_a_bad_batch_is_refused_alike_and_leaves_nothing(
    asker: Asker, version: int, acks: int, bad: Callable[[], bytes]
) -> None:
    batch = bad()
    alone = await produced(asker, version, batch, ALONE, acks=acks)
    in_company = await produced(asker, version, batch, IN_COMPANY, acks=acks)
    assert alone.error == in_company.error != 0
    assert (alone.message is None) == (in_company.message is None)
    assert (await produced(asker, version, good(), ALONE)).base_offset == 1


@pytest.mark.parametrize("version", [7, 12])
async def test_unknown_topics_and_partitions_are_told_alike(asker: Asker, version: int) -> None:
    for name, partitions in (("nobody", [0]), ("t", [2]), ("t", [-1])):
        alone = await produced(asker, version, good(), partitions, name)
        in_company = await produced(asker, version, good(), [*partitions, 1], name)
        assert alone.error == in_company.error == Code.UNKNOWN_TOPIC_OR_PARTITION


async def test_requests_that_come_together_are_answered_in_their_order(asker: Asker) -> None:
    requests = [
        b"".join(produce_client.encode_request(7, number, "me", None, acks, 5000, [("t", None, [(0, good())])]))
        for number, acks in enumerate((1, -1, 1, 1, -1))
    ]
    asker.writer.write(b"".join(requests))
    for number in range(len(requests)):
        raw = await asker.answer(b"")
        assert int.from_bytes(raw[:4]) == number
        assert produce_client.decode_response(raw, 4, len(raw), 7).topics[0].partitions[0].base_offset == 1 + 2 * number


async def test_a_full_disk_is_told_and_the_batch_is_not_kept(tmp_path: Path) -> None:
    files = FillingDisk()
    async with asking(tmp_path, files) as asker:
        await asker.node.broker.create_topics([NewTopic("t", partitions=2)])
        assert (await produced(asker, 7, good(), ALONE)).error == 0
        files.is_full = True
        for partitions in (ALONE, IN_COMPANY):
            assert (await produced(asker, 7, good(), partitions)).error == Code.KAFKA_STORAGE_ERROR
        files.is_full = False
        assert (await produced(asker, 7, good(), ALONE)).base_offset == 2


# Fetch


async def fetched(asker: Asker, version: int, partitions: list[int], offset: int, **options: int) -> FetchedPartition:
    topic = asker.node.broker.topic("t")
    assert topic is not None
    max_bytes, epoch = options.pop("partition_bytes", 1 << 20), options.pop("epoch", -1)
    asked = [FetchPartition(index, epoch, offset, -1, -1, max_bytes) for index in partitions]
    request = FetchRequest(topics=[FetchTopic(None, topic.id, asked)], **options)
    raw = await asker.answer(fetch_client.encode_request(version, 5, "x", request))
    _, at = header.read_response_header(raw, 0, len(raw), header.FETCH, version)
    answer = fetch_client.decode_response(raw, at, len(raw), version)
    assert answer.error == 0
    (one,) = [one for one in answer.topics[0].partitions if one.partition == partitions[0]]
    return one


def partition_of(asker: Asker) -> Partition:
    topic = asker.node.broker.topic("t")
    assert topic is not None
    return topic.partitions[0]


def whole(one: FetchedPartition) -> tuple[object, ...]:
    return (*one._replace(pieces=()), b"".join(one.pieces or ()))


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@pytest.mark.parametrize("isolation", [0, 1])
async def test_a_partition_is_read_alike_from_everywhere(asker: Asker, version: int, isolation: int) -> None:
    for _ in range(20):
        await asker.produce("t", 0, [record(b"x" * 500), record(b"y" * 500)])
    for offset in (0, 1, 2, 17, 40, 41, 42, -1):
        for partition_bytes in (1, 1500, 1 << 20):
            options = {"isolation_level": isolation, "partition_bytes": partition_bytes}
            alone = await fetched(asker, version, ALONE, offset, **options)
            in_company = await fetched(asker, version, IN_COMPANY, offset, **options)
            assert whole(alone) == whole(in_company)
    assert (await fetched(asker, version, ALONE, 0)).size > 0


@pytest.mark.parametrize("version", FETCH_VERSIONS)
async def test_leader_epochs_are_judged_alike(asker: Asker, version: int) -> None:
    topic = asker.node.broker.topic("t")
    assert topic is not None
    now = topic.partitions[0].leader_epoch
    for epoch in (now - 1, now, now + 1):
        alone = await fetched(asker, version, ALONE, 0, epoch=epoch)
        assert whole(alone) == whole(await fetched(asker, version, IN_COMPANY, 0, epoch=epoch))
        assert (alone.error == 0) == (epoch in (-1, now))


@pytest.mark.parametrize("version", [fetch.NEWEST + 1, 30])
@pytest.mark.parametrize("partitions", [ALONE, IN_COMPANY])
async def test_a_version_that_there_is_not_ends_the_connection(
    asker: Asker, version: int, partitions: list[int]
) -> None:
    topic = asker.node.broker.topic("t")
    assert topic is not None
    asked = [FetchPartition(index, -1, 0, -1, -1, 1 << 20) for index in partitions]
    request = FetchRequest(topics=[FetchTopic(None, topic.id, asked)])
    question = bytearray(fetch_client.encode_request(fetch.NEWEST, 5, "x", request))
    question[6:8] = version.to_bytes(2)
    assert await asker.answer(bytes(question)) == b""


async def test_nothing_is_read_behind_what_is_stable(asker: Asker) -> None:
    """Not either when a transaction has its marker, and it is not written yet: a full disk may still refuse it."""
    partition, now_ms = partition_of(asker), int(time.time() * 1000)
    options = BatchOptions(producer=Producer(7, 0, 0), is_transactional=True)
    partition.append_own(encode([record(b"in a transaction")], options), now_ms)
    asker.node.broker.flush()
    log = partition.serving_log()
    stable = log.stable_offset
    assert stable < log.written_offset
    partition.append_marker(7, 0, 0, commit=True, now_ms=now_ms)
    assert not log.transactions.ongoing
    isolated = {"isolation_level": fetch.READ_COMMITTED}
    for partitions in (ALONE, IN_COMPANY):
        found = await fetched(asker, fetch.NEWEST, partitions, 0, **isolated)
        assert b"in a transaction" not in whole(found)[-1]
    asker.node.broker.flush()
    assert b"in a transaction" in whole(await fetched(asker, fetch.NEWEST, ALONE, 0, **isolated))[-1]


@pytest.mark.parametrize("partitions", [ALONE, IN_COMPANY])
async def test_a_limit_below_the_least_that_is_wanted_is_answered_at_once(asker: Asker, partitions: list[int]) -> None:
    for _ in range(5):
        await asker.produce("t", 0, [record(b"x" * 500)])
    options = {"min_bytes": 1 << 20, "partition_bytes": 600, "max_wait_ms": 60_000}
    found = await asyncio.wait_for(fetched(asker, fetch.NEWEST, partitions, 1, **options), 10)
    assert 0 < found.size < 1200


async def test_less_than_what_is_wanted_is_waited_for(asker: Asker) -> None:
    asking = asyncio.ensure_future(fetched(asker, fetch.NEWEST, ALONE, 0, min_bytes=300, max_wait_ms=60_000))
    await asyncio.sleep(0.1)
    assert not asking.done()
    partition_of(asker).append_own(encode([record(b"x" * 300)]), int(time.time() * 1000))
    asker.node.broker.flush()
    assert (await asyncio.wait_for(asking, 10)).size > 300
