"""ListOffsets: both ends, times, and a disk that makes everybody else wait for nothing."""

from __future__ import annotations

import asyncio
import datetime
import errno
import threading
from pathlib import Path
from typing import Any

import pytest

from headrace.log.files import OsFiles
from headrace.wire.kafka import (
    header,
    list_offsets,
)
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.list_offsets import AskedOffset, ListOffsetsRequest
from tests.doors.asking import Asker, another, asking, create, record

SECOND = datetime.timedelta(seconds=1)
PATIENCE_S = 10.0  # far more than any answer needs; the machine may be busy


async def _offsets(asker: Asker, version: int, *asked: AskedOffset, isolation: int = 0) -> list[Any]:
    request = ListOffsetsRequest([("t", list(asked))], isolation_level=isolation)
    answer = await asker.ask(list_offsets, header.LIST_OFFSETS, version, request)
    ((name, found),) = answer.topics
    assert name == "t"
    return list(found)


@pytest.mark.parametrize("version", range(1, 12))
async def test_offsets_are_found_at_both_ends_and_by_time(asker: Asker, version: int) -> None:
    topic = await create(asker, "t")
    epoch = topic.partitions[0].leader_epoch if version >= 4 else -1
    for timestamp_ms in (1000, 3000, 2000):
        assert (await asker.produce("t", 0, [record(timestamp_ms)])).error == 0

    async def found(timestamp: int) -> tuple[int, int, int, int]:
        (one,) = await _offsets(asker, version, AskedOffset(0, -1, timestamp), isolation=1)
        return one.error, one.timestamp, one.offset, one.leader_epoch

    assert await found(list_offsets.LATEST) == (0, -1, 3, epoch)
    assert await found(list_offsets.EARLIEST) == (0, -1, 0, epoch)
    assert await found(1000) == (0, 1000, 0, epoch)
    assert await found(1001) == (0, 3000, 1, epoch)
    assert await found(3001) == (0, -1, -1, -1)
    unsupported = (Code.UNSUPPORTED_VERSION, -1, -1, -1)
    assert await found(list_offsets.MAX_TIMESTAMP) == ((0, 3000, 1, epoch) if version >= 7 else unsupported)
    assert await found(list_offsets.EARLIEST_LOCAL) == ((0, -1, 0, epoch) if version >= 8 else unsupported)
    assert await found(list_offsets.LATEST_TIERED) == ((0, -1, -1, -1) if version >= 9 else unsupported)
    assert await found(list_offsets.EARLIEST_PENDING_UPLOAD) == ((0, -1, -1, -1) if version >= 11 else unsupported)
    assert await found(-7) == unsupported


async def test_an_empty_log_begins_and_ends_at_0_and_has_no_times(asker: Asker) -> None:
    await create(asker, "t")
    for timestamp, offset in (
        (list_offsets.LATEST, 0),
        (list_offsets.EARLIEST, 0),
        (list_offsets.MAX_TIMESTAMP, -1),
        (5, -1),
    ):
        (one,) = await _offsets(asker, 11, AskedOffset(0, -1, timestamp))
        assert (one.error, one.offset) == (0, offset)


async def test_a_partition_asked_for_twice_is_a_mistake(asker: Asker) -> None:
    await create(asker, "t", partitions=2)
    found = await _offsets(asker, 11, AskedOffset(0, -1, -1), AskedOffset(0, -1, -2), AskedOffset(1, -1, -1))
    assert [one.error for one in found] == [Code.INVALID_REQUEST, Code.INVALID_REQUEST, 0]


async def test_unknown_partitions_and_epochs_are_told_apart(asker: Asker) -> None:
    topic = await create(asker, "t")
    epoch = topic.partitions[0].leader_epoch
    cases = {
        (0, epoch): 0,
        (0, epoch + 1): Code.UNKNOWN_LEADER_EPOCH,
        (1, -1): Code.UNKNOWN_TOPIC_OR_PARTITION,
        (-1, -1): Code.UNKNOWN_TOPIC_OR_PARTITION,
    }
    for (partition, known), error in cases.items():
        (one,) = await _offsets(asker, 11, AskedOffset(partition, known, -1))
        assert one.error == error


async def test_a_log_that_cannot_be_opened_is_told_as_that_and_not_as_a_missing_topic(asker: Asker) -> None:
    topic = await create(asker, "t")
    folder = Path(asker.node.settings.data, "topics", topic.folder, "0")
    (folder / f"{0:020}.log").mkdir(parents=True)  # a folder where a file has to be
    (one,) = await _offsets(asker, 11, AskedOffset(0, -1, -1))
    assert one.error == Code.KAFKA_STORAGE_ERROR


class Disk(OsFiles):
    """Can be told to let those who read a log's file wait, and to fail them."""

    def __init__(self) -> None:
        self.go_on, self.was_asked = threading.Event(), threading.Event()
        self.go_on.set()
        self.broken = "nothing"  # what the path of a file has in it that cannot be read
        self._paths: dict[int, str] = {}

    def open(self, path: str, *, create: bool = False) -> int:
        if not create:
            self._reach(path)
        handle = super().open(path, create=create)
        self._paths[handle] = path
        return handle

    def pread(self, handle: int, size: int, position: int) -> bytes:
        self._reach(self._paths.get(handle, ""))
        return super().pread(handle, size, position)

    def _reach(self, path: str) -> None:
        if self.broken in path:
            raise OSError(errno.EIO, "the disk has failed", path)
        if path.endswith(".log") and not self.go_on.is_set():
            self.was_asked.set()
            self.go_on.wait(PATIENCE_S)


@pytest.mark.parametrize("timestamp", [1000, list_offsets.MAX_TIMESTAMP])
async def test_nobody_waits_while_a_time_is_looked_for_on_a_slow_disk(tmp_path: Path, timestamp: int) -> None:
    disk = Disk()
    async with asking(tmp_path, disk) as asker, another(asker) as other:
        await create(asker, "t")
        assert (await asker.produce("t", 0, [record(1000)])).error == 0
        disk.go_on.clear()
        by_time = asyncio.create_task(_offsets(asker, 11, AskedOffset(0, -1, timestamp)))
        try:
            assert await asyncio.to_thread(disk.was_asked.wait, PATIENCE_S)
            (one,) = await _offsets(other, 11, AskedOffset(0, -1, list_offsets.LATEST))
            assert (one.error, one.offset) == (0, 1)
            assert not by_time.done()
        finally:
            disk.go_on.set()
        (one,) = await by_time
        assert (one.error, one.timestamp, one.offset) == (0, 1000, 0)


async def test_a_file_that_cannot_be_read_fails_its_own_partition_and_no_other(tmp_path: Path) -> None:
    disk = Disk()
    async with asking(tmp_path, disk) as asker:
        topic = await create(asker, "t", partitions=3)
        for partition in range(3):
            assert (await asker.produce("t", partition, [record(1000)])).error == 0
        disk.broken = f"{topic.folder}/1/"
        for timestamp in (1000, list_offsets.MAX_TIMESTAMP):
            found = await _offsets(asker, 11, *(AskedOffset(partition, -1, timestamp) for partition in range(3)))
            assert [(one.error, one.offset) for one in found] == [(0, 0), (Code.KAFKA_STORAGE_ERROR, -1), (0, 0)]


async def test_a_topic_deleted_while_a_time_is_looked_for_in_it_is_told_as_missing(tmp_path: Path) -> None:
    disk = Disk()
    async with asking(tmp_path, disk) as asker:
        topic = await create(asker, "t")
        assert (await asker.produce("t", 0, [record(1000)])).error == 0
        disk.go_on.clear()
        by_time = asyncio.create_task(_offsets(asker, 11, AskedOffset(0, -1, 1000)))
        try:
            assert await asyncio.to_thread(disk.was_asked.wait, PATIENCE_S)
            assert await asker.node.broker.delete_topics([topic.id]) == [None]
        finally:
            disk.go_on.set()
        (one,) = await by_time
        assert one.error == Code.UNKNOWN_TOPIC_OR_PARTITION


async def test_times_are_found_in_a_memory_topic_too(asker: Asker) -> None:
    await create(asker, "t", configs={"headrace.storage": "memory"})
    first, second, _ = [(await asker.produce("t", 0, [record(time_ms)])).base_offset for time_ms in (1000, 3000, 2000)]
    for timestamp, offset in ((0, first), (1001, second), (list_offsets.MAX_TIMESTAMP, second), (3001, -1)):
        (one,) = await _offsets(asker, 11, AskedOffset(0, -1, timestamp))
        assert (one.error, one.offset) == (0, offset)
