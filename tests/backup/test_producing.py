"""What only other servers write (transactions, gaps of compaction, times of the broker), brought back into ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace import aio
from headrace.backup import manifest as manifests
from headrace.backup.batches import BatchFile, batches_of
from headrace.backup.manifest import TOPICS, FileEntry, Manifest, PartitionEntry, TopicEntry
from headrace.backup.producing import Producing, Restored, Wish
from headrace.errors import BackupDamaged, CorruptBatch, TopicExists
from headrace.log.files import OsFiles
from headrace.records.codec import BatchOptions, Producer, Record, encode
from headrace.records.control import Marker, encode_marker
from headrace.records.header import CRC_FROM, HEADER, read_header
from headrace.records.kernel import crc32c
from tests.backup.kit import served
from tests.support import Wire

NOW = 1_700_000_000_000


def made(base: int, *values: bytes, **options: object) -> bytearray:
    records = [Record(b"k", value, (("h", b"v"),), NOW + number) for number, value in enumerate(values)]
    return encode(records, BatchOptions(base_offset=base, **options))  # type: ignore[arg-type]


def written(folder: Path, batches: list[bytearray], start: int = 0) -> Manifest:
    files = OsFiles()
    files.make_directory(str(folder / "topics/t/0"))
    file = BatchFile(files, str(folder), "topics/t/0", read_header(batches[0]).base_offset)
    for batch in batches:
        file.add(bytes(batch))
    entry: FileEntry = file.finish()
    end = read_header(batches[-1]).next_offset
    partition = PartitionEntry(0, start, end, entry.bytes, [entry])
    topic = TopicEntry("t", bytes(16).hex(), {}, [partition])
    manifest = Manifest(TOPICS, "0", "c", "elsewhere", NOW, NOW, [topic])
    manifests.save(files, str(folder), manifest)
    return manifests.load(files, str(folder))


async def brought_back(folder: Path, manifest: Manifest, address: str, *, append: bool = False) -> Restored:
    async with aio.connect(address) as client:
        producing = Producing(client, str(folder), manifest, lambda _: None)
        (restored,) = await producing.run([Wish(manifest.topics[0], "t")], append=append)
        return restored


async def test_committed_records_come_back_and_aborted_ones_do_not(tmp_path: Path) -> None:
    one, two = Producer(1, 0, 0), Producer(2, 0, 0)
    batches = [
        made(0, b"plain"),
        made(1, b"committed", producer=one, is_transactional=True),
        made(2, b"aborted", producer=two, is_transactional=True),
        encode_marker(Marker(True, 0), 1, 0, NOW, 3),
        encode_marker(Marker(False, 0), 2, 0, NOW, 4),
        made(5, b"again", producer=Producer(2, 0, 1), is_transactional=True),
        encode_marker(Marker(True, 0), 2, 0, NOW, 6),
        made(7, b"open", producer=Producer(1, 0, 1), is_transactional=True),
        made(8, b"last", producer=Producer(9, 3, 44)),
    ]
    manifest = written(tmp_path / "backup", batches)
    with served(tmp_path / "there") as (broker, wire):
        restored = await brought_back(tmp_path / "backup", manifest, broker.address)
        assert [r.value for r in wire.read_all("t")] == [b"plain", b"committed", b"again", b"last"]
    assert (restored.records, restored.left_out, restored.shift) == (4, 5, None)


async def test_gaps_and_times_of_the_broker_come_back_as_readers_saw_them(tmp_path: Path) -> None:
    gap = made(0, b"a", b"b", b"c", compression="gzip")
    fields = read_header(gap)
    HEADER.pack_into(gap, 0, *fields._replace(last_offset_delta=9))
    batches = [_sealed(gap), made(10, b"d", b"e", append_time_ms=NOW + 500)]
    manifest = written(tmp_path / "backup", batches)
    with served(tmp_path / "there") as (broker, wire):
        restored = await brought_back(tmp_path / "backup", manifest, broker.address)
        found = wire.read_all("t")
    assert [(r.offset, r.value) for r in found] == list(enumerate([b"a", b"b", b"c", b"d", b"e"]))
    assert [r.timestamp_ms for r in found] == [NOW, NOW + 1, NOW + 2, NOW + 500, NOW + 500]
    assert {r.headers for r in found} == {(("h", b"v"),)}
    assert restored.shift is None


def _sealed(batch: bytearray) -> bytearray:
    fields = read_header(batch)
    HEADER.pack_into(batch, 0, *fields._replace(crc=crc32c(bytes(batch[CRC_FROM:]))))
    return batch


async def test_offsets_shift_by_the_start_that_the_log_had(tmp_path: Path) -> None:
    manifest = written(tmp_path / "backup", [made(100, b"a", b"b"), made(102, b"c")], start=101)
    with served(tmp_path / "there") as (broker, wire):
        restored = await brought_back(tmp_path / "backup", manifest, broker.address)
        assert [r.value for r in wire.read_all("t")] == [b"a", b"b", b"c"]
        assert (restored.shift, restored.first_offset) == (-100, 0)
        with pytest.raises(TopicExists):
            await brought_back(tmp_path / "backup", manifest, broker.address)
        restored = await brought_back(tmp_path / "backup", manifest, broker.address, append=True)
        assert (restored.shift, restored.first_offset) == (-97, 3)


async def test_nothing_is_sent_of_a_backup_that_is_damaged(tmp_path: Path) -> None:
    manifest = written(tmp_path / "backup", [made(0, b"a"), made(1, b"b")])
    path = tmp_path / "backup" / manifest.all_files()[0].path
    path.write_bytes(path.read_bytes()[:-1])
    with served(tmp_path / "there") as (broker, _):
        with pytest.raises(BackupDamaged):
            await brought_back(tmp_path / "backup", manifest, broker.address)
        with Wire(broker.address) as wire:
            wire.create_topic("t")


def test_what_is_no_batch_is_not_taken_into_a_backup(tmp_path: Path) -> None:
    batch = made(0, b"a")
    batch[-1] ^= 1
    with pytest.raises(CorruptBatch):
        written(tmp_path / "backup", [batch])


def test_a_batch_larger_than_the_window_is_read_whole(tmp_path: Path) -> None:
    batches = [made(0, b"small"), made(1, b"x" * (5 << 20)), made(2, b"y" * (3 << 20)), made(3, b"small")]
    manifest = written(tmp_path / "backup", batches)
    read = list(batches_of(str(tmp_path / "backup"), manifest, manifest.topics[0].partitions[0]))
    assert read == [bytes(batch) for batch in batches]
