"""What the kernel sends by itself: the same bytes as ever, whoever reads and however slowly."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace.broker.broker import NewTopic
from headrace.log.files import OsFiles
from headrace.log.log import Log
from headrace.ports import Buffer
from headrace.records.batch import read_header
from headrace.records.codec import BatchOptions, Producer, encode
from headrace.records.kernel import scan
from headrace.records.record import Record
from headrace.wire.kafka import fetch_client, header
from headrace.wire.kafka.fetch import NEWEST, FetchedPartition, FetchPartition, FetchRequest, FetchTopic
from tests.doors.asking import Asker, another, asking

MIB = 1 << 20
BATCHES = 300
ALONE, IN_COMPANY = [0], [0, 1]
DEFAULT = BatchOptions()


class Watched(OsFiles):
    """All is in memory, whether the kernel can tell or not; counts what goes out unseen."""

    def __init__(self) -> None:
        self.sent_bytes = 0
        self.waits_for: set[str] = set()  # folders whose files are not in memory
        self.refuses = 0
        self._paths: dict[int, str] = {}

    def open(self, path: str, *, create: bool = False) -> int:
        handle = super().open(path, create=create)
        self._paths[handle] = path
        return handle

    def _waits(self, handle: int) -> bool:
        return any(folder in self._paths[handle] for folder in self.waits_for)

    def pread_nowait(self, handle: int, size: int, position: int) -> Buffer | None:
        return None if self._waits(handle) else super().pread_nowait(handle, size, position)

    def is_resident(self, handle: int, size: int, position: int) -> bool:
        return not self._waits(handle)

    def pour(self, handle: int, pipe: int, size: int, position: int) -> int:
        if self.refuses:
            raise OSError(self.refuses, os.strerror(self.refuses))
        count = super().pour(handle, pipe, size, position)
        self.sent_bytes += count
        return count


@pytest.fixture
def files() -> Watched:
    return Watched()


@pytest.fixture
async def asker(tmp_path: Path, files: Watched) -> AsyncIterator[Asker]:
    async with asking(tmp_path, files) as asker:
        await asker.node.broker.create_topics([NewTopic("t", partitions=2)])
        for partition in (0, 1):
            await asker.produce("t", partition, [record(b"opens the log")])
        yield asker


def record(value: bytes) -> Record:
    return Record(None, value, (), int(time.time() * 1000))


def log_of(asker: Asker, partition: int = 0) -> Log:
    topic = asker.node.broker.topic("t")
    assert topic is not None
    log = topic.partitions[partition].log
    assert isinstance(log, Log)
    return log


def fill(asker: Asker, count: int = BATCHES, size: int = 10_000) -> bytes:
    """All that is in the first partition then, as it is stored; the second gets as much."""
    for partition in (0, 1):
        log = log_of(asker, partition)
        for number in range(count):
            append(log, [record(b"%d %d " % (partition, number) + os.urandom(size))])
    log = log_of(asker)
    with open(log.segments[0].path(), "rb") as file:
        return file.read()[256 : log.segments[0].size]


def append(log: Log, records: list[Record], options: BatchOptions = DEFAULT) -> None:
    batch = encode(records, options)
    log.stage(batch, read_header(batch), int(time.time() * 1000), 0)
    log.flush()


def question(asker: Asker, partitions: list[int], offset: int, **options: int) -> Buffer:
    topic = asker.node.broker.topic("t")
    assert topic is not None
    max_bytes = options.pop("partition_bytes", MIB)
    asked = [FetchPartition(index, -1, offset, -1, -1, max_bytes) for index in partitions]
    request = FetchRequest(topics=[FetchTopic(None, topic.id, asked)], **options)
    return fetch_client.encode_request(NEWEST, 5, "x", request)


def decoded(raw: bytes) -> list[FetchedPartition]:
    _, at = header.read_response_header(raw, 0, len(raw), header.FETCH, NEWEST)
    answer = fetch_client.decode_response(raw, at, len(raw), NEWEST)
    assert answer.error == 0
    return list(answer.topics[0].partitions)


def records_of(one: FetchedPartition) -> bytes:
    return b"".join(bytes(piece) for piece in one.pieces or ())


async def read_through(asker: Asker, partitions: list[int], **options: int) -> bytes:
    """The first of the partitions, from its first record to its last, as a consumer does."""
    data, offset = b"", 0
    while offset <= BATCHES:
        one = decoded(await asker.answer(question(asker, partitions, offset, **options)))[0]
        assert one.error == 0 and one.size > 0
        data += records_of(one)
        offset += _count(records_of(one))
    return data


def _count(batches: bytes) -> int:
    """Of one record each."""
    found, _, why = scan(batches, 0, len(batches), -1, True)
    assert why is None
    return found[-1][3] - found[0][2]


@pytest.mark.parametrize("isolation", [0, 1])
@pytest.mark.parametrize("partitions", [ALONE, IN_COMPANY])
async def test_a_consumer_gets_the_bytes_as_they_are_stored_most_of_them_unseen(
    asker: Asker, files: Watched, partitions: list[int], isolation: int
) -> None:
    stored = fill(asker)
    assert await read_through(asker, partitions, isolation_level=isolation) == stored
    assert files.sent_bytes > len(stored) * 0.7
    metrics = asker.node.broker.store.services.metrics
    assert metrics.unseen_reads >= 3


async def test_a_reader_that_takes_nothing_for_a_while_gets_all_of_it_and_in_order(
    asker: Asker, files: Watched
) -> None:
    """More than socket and pipe hold: what they do not take is copied, and follows."""
    stored = fill(asker, size=25_000)
    address = asker.node.addresses["kafka"]
    link = socket.socket()
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    link.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(link, (address.host, address.port))
    with link:
        wish = question(asker, ALONE, 0, partition_bytes=8 * MIB)
        await loop.sock_sendall(link, bytes(wish) + bytes(wish))
        for _ in range(1000):
            if files.sent_bytes:
                break
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.3)  # until the socket takes no more
        assert 0 < files.sent_bytes < len(stored), "the socket took some of it"
        for _ in range(2):
            size = int.from_bytes(await _exactly(link, 4))
            (one,) = decoded(await _exactly(link, size))
            assert records_of(one) == stored


async def _exactly(link: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = await asyncio.get_running_loop().sock_recv(link, min(65536, size - len(data)))
        assert more
        data += more
    return data


async def test_one_that_leaves_in_the_middle_costs_nobody_anything(asker: Asker, files: Watched) -> None:
    stored = fill(asker)
    address = asker.node.addresses["kafka"]
    handles = len(os.listdir("/proc/self/fd")) + 2  # the pipe, if all that is in it can be sent
    for _ in range(20):
        link = socket.create_connection((address.host, address.port))
        link.sendall(question(asker, ALONE, 0, partition_bytes=8 * MIB))
        await asyncio.sleep(0.01)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        link.close()
    (one,) = decoded(await asker.answer(question(asker, ALONE, 0, partition_bytes=8 * MIB)))
    assert records_of(one) == stored
    for _ in range(100):
        if len(os.listdir("/proc/self/fd")) <= handles:
            break
        await asyncio.sleep(0.05)
    assert len(os.listdir("/proc/self/fd")) <= handles


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EIO, errno.ENOSYS])
@pytest.mark.parametrize("partitions", [ALONE, IN_COMPANY])
async def test_what_the_kernel_does_not_send_is_read_and_sent(
    asker: Asker, files: Watched, partitions: list[int], number: int
) -> None:
    stored = fill(asker)
    files.refuses = number
    found = decoded(await asker.answer(question(asker, partitions, 0, partition_bytes=8 * MIB)))
    assert records_of(found[0]) == stored


async def test_a_file_that_became_shorter_ends_the_connection_and_stops_nobody(asker: Asker, files: Watched) -> None:
    fill(asker)
    log = log_of(asker)
    os.truncate(log.segments[0].path(), log.segments[0].size - 10)
    assert await asker.answer(question(asker, ALONE, 0, partition_bytes=8 * MIB)) == b""
    async with another(asker) as second:
        assert records_of(decoded(await second.answer(question(second, [1], 0)))[0])


async def test_records_behind_the_last_stable_offset_are_not_sent_whatever_segment_they_are_in(asker: Asker) -> None:
    log = log_of(asker)
    append(
        log, [record(b"of a transaction that goes on")], BatchOptions(producer=Producer(7, 0, 0), is_transactional=True)
    )
    log.start_segment(log.written_offset, int(time.time() * 1000))
    fill(asker)
    assert len(log.segments) == 2
    for partitions in (ALONE, IN_COMPANY):
        wish = question(asker, partitions, log.segments[1].base, isolation_level=1)
        assert decoded(await asker.answer(wish))[0].size == 0


async def test_answers_that_stand_behind_others_come_in_their_order(asker: Asker) -> None:
    stored = fill(asker)
    wishes = [question(asker, partitions, 0) for partitions in (ALONE, IN_COMPANY, ALONE, IN_COMPANY)]
    asker.writer.write(b"".join(bytes(wish) for wish in wishes))
    for partitions in (1, 2, 1, 2):
        raw = await asker.answer(b"")
        found = decoded(raw)
        assert len(found) == partitions
        assert stored.startswith(records_of(found[0]))
        assert records_of(found[0])


@pytest.mark.parametrize("partitions", [ALONE, IN_COMPANY])
async def test_a_read_that_waits_for_the_disk_is_counted_once(
    asker: Asker, files: Watched, partitions: list[int]
) -> None:
    stored = fill(asker)
    files.waits_for = {log_of(asker).folder}
    metrics = asker.node.broker.store.services.metrics
    for count in (1, 2):
        found = decoded(await asker.answer(question(asker, partitions, 0)))
        assert stored.startswith(records_of(found[0]))
        assert metrics.disk_reads == count


async def test_a_span_beside_a_partition_that_waits_for_the_disk_is_kept_for_it(asker: Asker, files: Watched) -> None:
    stored = fill(asker)
    files.waits_for = {log_of(asker, 1).folder}
    found = decoded(await asker.answer(question(asker, IN_COMPANY, 0)))
    assert [one.error for one in found] == [0, 0]
    assert stored.startswith(records_of(found[0]))
    assert records_of(found[1])
    assert files.sent_bytes == 0


async def test_what_is_sent_unseen_is_whole_batches_below_the_last_stable_offset(asker: Asker, files: Watched) -> None:
    fill(asker, BATCHES // 2)
    options = BatchOptions(producer=Producer(7, 0, 0), is_transactional=True)
    append(log_of(asker), [record(b"of a transaction that goes on")], options)
    stored = fill(asker, BATCHES // 2)
    (one, _) = decoded(await asker.answer(question(asker, IN_COMPANY, 0, isolation_level=1, partition_bytes=8 * MIB)))
    assert stored.startswith(records_of(one))
    assert 100 < _count(records_of(one)) <= BATCHES // 2 + 1
    assert files.sent_bytes > 0
