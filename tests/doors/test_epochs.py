"""Leader epochs as a Kafka client sees them: how it finds out that what it has read is gone."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.broker import NewTopic
from headrace.broker.partition import Partition
from headrace.log.files import OsFiles
from headrace.records.codec import decode
from headrace.records.record import Record
from headrace.wire.kafka import fetch_client, header, metadata
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.fetch import FetchedPartition, FetchPartition, FetchRequest, FetchResponse, FetchTopic
from headrace.wire.kafka.metadata import AskedTopic, MetadataRequest
from tests.doors.asking import Asker, asking


class ForgetfulDisk(OsFiles):
    """A sync that fails takes from the file what was written past `kept_bytes`, as the kernel drops pages."""

    kept_bytes = 0
    fails_syncs = False

    def datasync(self, handle: int) -> None:
        if self.fails_syncs:
            self.fails_syncs = False
            os.ftruncate(handle, self.kept_bytes)
            raise OSError(errno.EIO, "input/output error")
        super().datasync(handle)


def record(value: bytes) -> Record:
    return Record(None, value, (), int(time.time() * 1000))


async def partition_of(asker: Asker) -> Partition:
    topic = asker.node.broker.topic("t")
    assert topic is not None
    return await topic.partitions[0].opened()


async def lose_the_second_of_two_records(asker: Asker, disk: ForgetfulDisk) -> Partition:
    """Both could be read. Then the log failed, and was recovered without the second."""
    await asker.node.broker.create_topics([NewTopic("t")])
    await asker.produce("t", 0, [record(b"kept")])
    partition = await partition_of(asker)
    log: Any = partition.log
    assert log.sync_now()
    disk.kept_bytes = log.segments[-1].size
    await asker.produce("t", 0, [record(b"lost")])
    disk.fails_syncs = True
    assert not log.sync_now()
    asker.node.broker.maintain()
    return partition


async def fetched(asker: Asker, version: int, asked: FetchPartition, **options: Any) -> FetchResponse:
    topic = asker.node.broker.topic("t")
    assert topic is not None
    by_id = version >= 13
    names = [FetchTopic(None if by_id else "t", topic.id if by_id else None, [asked])]
    raw = await asker.answer(fetch_client.encode_request(version, 5, "x", FetchRequest(topics=names, **options)))
    _, at = header.read_response_header(raw, 0, len(raw), header.FETCH, version)
    answer: FetchResponse = fetch_client.decode_response(raw, at, len(raw), version)
    assert answer.error == 0
    return answer


async def fetched_one(asker: Asker, version: int, asked: FetchPartition, **options: Any) -> FetchedPartition:
    (one,) = (await fetched(asker, version, asked, **options)).topics[0].partitions
    return one


def values(fetched: FetchedPartition) -> list[bytes | None]:
    return [record.value for piece in fetched.pieces or () for record in decode(piece)]


@pytest.mark.parametrize("version", [11, 12, 18])
async def test_who_read_what_a_failed_sync_has_lost_is_fenced_and_told_where_the_old_epoch_ended(
    tmp_path: Path, version: int
) -> None:
    disk = ForgetfulDisk()
    async with asking(tmp_path, disk) as asker:
        partition = await lose_the_second_of_two_records(asker, disk)
        old = partition.leader_epoch
        one = await fetched_one(asker, version, FetchPartition(0, old, 2, -1, -1, 1 << 20))
        assert one.error == Code.FENCED_LEADER_EPOCH
        _, (known,) = await asker.ask(metadata, header.METADATA, 9, MetadataRequest([AskedTopic("t", None)]))
        assert known.partitions[0].leader_epoch == old + 1
        assert (await asker.produce("t", 0, [record(b"another")])).base_offset == 1
        asked = {"partition": 0, "current_leader_epoch": old + 1, "leader_epoch": old}
        fields = {"topics": [{"topic": "t", "partitions": [asked]}]}
        answer = await asker.ask_by_schema(header.OFFSET_FOR_LEADER_EPOCH, 4, fields)
        ended = answer.topics[0].partitions[0]
        assert (ended.error_code.value, ended.leader_epoch, ended.end_offset) == (0, old, 1)
        again = await fetched_one(asker, version, FetchPartition(0, old + 1, 1, -1, -1, 1 << 20))
        assert values(again) == [b"another"]


# A reader that tells the epoch of the last record it has


async def two_epochs(asker: Asker, disk: ForgetfulDisk) -> int:
    """The first of them, which ended at offset 1; the log ends at 3."""
    old = (await lose_the_second_of_two_records(asker, disk)).leader_epoch
    for value in (b"another", b"one more"):
        await asker.produce("t", 0, [record(value)])
    return old


@pytest.mark.parametrize("version", [12, 18])
@pytest.mark.parametrize("offset", [2, 3, 4, 50])
async def test_who_left_our_history_is_told_where_and_given_no_records(
    tmp_path: Path, version: int, offset: int
) -> None:
    disk = ForgetfulDisk()
    async with asking(tmp_path, disk) as asker:
        old = await two_epochs(asker, disk)
        begin = time.monotonic()
        asked = FetchPartition(0, -1, offset, old, -1, 1 << 20)
        one = await fetched_one(asker, version, asked, min_bytes=1, max_wait_ms=5000)
        assert (one.error, one.diverging, one.high_watermark, values(one)) == (0, (old, 1), 3, [])
        assert time.monotonic() - begin < 4
        on = await fetched_one(asker, version, FetchPartition(0, -1, 1, old, -1, 1 << 20))
        assert (on.diverging, values(on)) == (None, [b"another", b"one more"])


@pytest.mark.parametrize("version", [12, 18])
async def test_who_left_our_history_is_told_in_a_session_until_it_has_gone_back(tmp_path: Path, version: int) -> None:
    disk = ForgetfulDisk()
    async with asking(tmp_path, disk) as asker:
        old = await two_epochs(asker, disk)
        asked = FetchPartition(0, -1, 3, old + 1, -1, 1 << 20)
        begun = await fetched(asker, version, asked, session_epoch=0)
        assert begun.topics[0].partitions[0].diverging is None
        session: dict[str, Any] = {"session_id": begun.session_id, "min_bytes": 1}
        parted = asked._replace(last_fetched_epoch=old)
        told = await fetched(asker, version, parted, session_epoch=1, **session)
        assert told.topics[0].partitions[0].diverging == (old, 1)
        raw = await asker.answer(
            fetch_client.encode_request(version, 5, "x", FetchRequest(session_epoch=2, max_wait_ms=5000, **session))
        )
        _, at = header.read_response_header(raw, 0, len(raw), header.FETCH, version)
        again = fetch_client.decode_response(raw, at, len(raw), version)
        assert again.topics[0].partitions[0].diverging == (old, 1)
        back = await fetched(asker, version, parted._replace(fetch_offset=1), session_epoch=3, **session)
        assert values(back.topics[0].partitions[0]) == [b"another", b"one more"]


@pytest.mark.parametrize("version", [12, 18])
async def test_an_epoch_that_never_was_and_an_offset_that_is_gone_are_out_of_range(
    tmp_path: Path, version: int
) -> None:
    disk = ForgetfulDisk()
    async with asking(tmp_path, disk) as asker:
        old = await two_epochs(asker, disk)
        unknown = await fetched_one(asker, version, FetchPartition(0, -1, 2, old + 5, -1, 1 << 20))
        assert (unknown.error, unknown.diverging) == (Code.OFFSET_OUT_OF_RANGE, None)
        await (await partition_of(asker)).delete_records(2)
        gone = await fetched_one(asker, version, FetchPartition(0, -1, 1, old, -1, 1 << 20))
        assert (gone.error, gone.log_start_offset) == (Code.OFFSET_OUT_OF_RANGE, 2)
