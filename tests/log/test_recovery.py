"""Opening a log: bounded in cost, careful about what it does not know."""

from __future__ import annotations

import os

import pytest

from headrace.errors import DirectoryLocked, FormatTooNew, HeadraceError, StorageFailed
from headrace.log.config import LogConfig, StoreLimits
from headrace.log.files import OsFiles
from headrace.log.format import INDEX, SEGMENT_HEADER_BYTES, SegmentHeader, encode_segment_header, segment_name
from headrace.log.snapshot import SegmentState, Snapshot, encode_snapshot, load_snapshot, save_snapshot
from headrace.records.batch import read_header
from headrace.records.codec import Producer
from tests.log.kit import START_MS, World, append, batch, fill, read_all, read_now

SMALL = LogConfig(segment_bytes=4096, index_interval_bytes=512)
LARGE = LogConfig(segment_bytes=1 << 20, index_interval_bytes=512, tail_bytes=0)
GIB = 1 << 30


def bytes_read_at_open(world: World, config: LogConfig) -> int:
    before = world.disk.bytes_read
    log = world.log(config=config)
    assert log.written_offset
    return world.disk.bytes_read - before


OFTEN = StoreLimits(snapshot_bytes=8 << 10)


def tick(world: World) -> int:
    """Gives the offset that the snapshot on disk ends at."""
    world.store.tick()
    world.background.drain()
    found = load_snapshot(world.files, world.folder())
    return found.next_offset if found is not None else 0


def test_a_snapshot_comes_with_the_tick_when_there_is_enough_to_walk_over():
    world = World(limits=OFTEN)
    log = world.log(config=LARGE)
    fill(log, 10)
    assert tick(world) == 0, "too little"
    fill(log, 490)
    world.background.drain()
    assert load_snapshot(world.files, world.folder()) is None, "however much comes between two"
    assert tick(world) == 500, "though nothing comes any more"
    fill(log, 10)
    assert tick(world) == 500
    before = world.disk.changes
    assert tick(world) == 500
    assert world.disk.changes == before
    world.crash()
    assert world.log(config=LARGE).written_offset == 510


def test_a_log_that_is_closed_or_failed_meanwhile_gets_none():
    world = World(limits=OFTEN)
    closed, failed = world.log("b", LARGE), world.log(config=LARGE)
    fill(closed, 100)
    fill(failed, 100)
    closed.close()
    world.background.drain()
    saved = load_snapshot(world.files, world.folder("b"))
    failed.fail(StorageFailed("as a sync that went wrong"))
    world.events.clear()
    assert tick(world) == 0
    assert world.events == [], "nobody tried"
    assert load_snapshot(world.files, world.folder("b")) == saved
    assert world.log(config=LARGE).written_offset == 100


def test_a_full_segment_waits_for_no_tick():
    world = World()
    log = world.log(config=SMALL)
    for _ in range(10):
        fill(log, 20)
        world.background.drain()
    found = load_snapshot(world.files, world.folder())
    assert found is not None
    assert found.next_offset >= log.segments[-1].base


def test_who_asks_for_no_answer_is_not_remembered_while_a_sync_does_not_come_back():
    world = World()
    log = world.log(config=SMALL)
    fill(log, 1000)  # dozens of segments
    told: list[object] = []
    log.snapshot(told.append)
    assert len(log.checkpoint._waiting) == 1
    world.background.drain()
    assert told == [None]


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_what_opening_reads_does_not_grow_with_the_data(end):
    costs = []
    for count in (200, 800):
        world = World(limits=OFTEN)
        log = world.log(config=SMALL)
        for _ in range(0, count, 20):
            fill(log, 20)
            tick(world)
        if end == "stopped":
            world.restart()
        else:
            world.crash()
        costs.append(bytes_read_at_open(world, SMALL))
    small, large = costs
    assert large < small + 4096 + 100 * (800 - 200) // 20, "a line per segment more, and no more than a segment"
    assert large < 20_000


def one_large_segment(count: int) -> tuple[World, list[bytes]]:
    written: list[bytes] = []
    world = World(limits=OFTEN)
    log = world.log(config=LARGE)
    for _ in range(0, count, 20):
        written += fill(log, 20)
        tick(world)
    assert len(log.segments) == 1
    assert log.size_bytes > 100_000
    return world, written


def test_what_opening_reads_does_not_grow_with_a_segment_whose_index_is_lost():
    world, written = one_large_segment(800)
    world.crash()
    world.disk.remove(f"{world.folder()}/{segment_name(0, INDEX)}")
    assert bytes_read_at_open(world, LARGE) < 20_000
    (log,) = world.store.services.logs.values()
    found = log.offset_for_timestamp(START_MS)
    assert found == (0, START_MS)
    written += fill(log, 50)
    assert read_all(log) == b"".join(written)
    before = world.disk.bytes_read
    assert read_now(log, 500, 100).next_offset == 501
    assert read_now(log, 849, 100).next_offset == 850
    assert world.disk.bytes_read - before < 4096, "the first read has built the index"
    world.restart()
    assert read_all(world.log(config=LARGE)) == b"".join(written)


def test_power_loss_does_not_take_the_index_that_came_with_a_snapshot():
    world, _ = one_large_segment(800)
    world.power_loss("none")
    before = world.disk.bytes_read
    log = world.log(config=LARGE)
    assert log.written_offset > 700
    assert read_now(log, 500, 100).next_offset == 501
    assert world.disk.bytes_read - before < 24_000, "neither opening nor reading walked over the segment"


def test_a_hundred_gibibytes_open_at_once_and_read_lazily(tmp_path):
    """Sparse files of the right shape: a hundred segments of 1 GiB, the last with a few true batches."""
    world = World(OsFiles(), str(tmp_path / "data"))
    folder = world.folder()
    os.makedirs(folder)
    log_id = b"a".ljust(16, b"-") + bytes(4)
    states = []
    for number in range(100):
        base = number * 1_000_000
        with open(f"{folder}/{segment_name(base)}", "wb") as file:
            file.write(encode_segment_header(SegmentHeader(base, START_MS, log_id)))
            size = GIB if number < 99 else SEGMENT_HEADER_BYTES
            file.truncate(size)
        states.append(SegmentState(base, base + (1_000_000 if number < 99 else 0), size, START_MS, START_MS))
    snapshot = Snapshot(0, 0, 99_000_000, states, [(0, 0)], [])
    save_snapshot(world.files, folder, encode_snapshot(snapshot))
    reads = CountingFiles()
    world.files = reads
    world.restart()
    log = world.log()
    assert (log.start_offset, log.written_offset) == (0, 99_000_000)
    assert log.size_bytes > 99 * GIB
    assert reads.bytes_read < 64 << 10
    append(log, batch())
    assert read_now(log, 99_000_000).next_offset == 99_000_001
    assert world.sync(log) is None
    world.restart()
    assert world.log().written_offset == 99_000_001
    world.stop()


class CountingFiles(OsFiles):
    bytes_read = 0

    def pread(self, handle: int, size: int, position: int) -> bytes:
        data = super().pread(handle, size, position)
        self.bytes_read += len(data)
        return data


def test_producers_are_remembered_across_snapshots_and_walks():
    world = World()
    log = world.log(config=SMALL)
    batches = [batch(b"x" * 500, 2, producer=Producer(n % 3, 1, 2 * (n // 3))) for n in range(30)]
    for data in batches:
        append(log, data)
    world.background.drain()
    for life in (world.crash, world.restart, lambda: world.power_loss("all")):
        life()
        log = world.log(config=SMALL)
        for data in batches[-15:]:
            again = bytearray(data)
            staged = log.stage(again, read_header(again), START_MS, 0)
            assert staged.duplicate
            assert staged.base_offset == read_header(data).base_offset
        assert log.written_offset == 60


def test_leader_epochs_are_remembered():
    world = World()
    log = world.log(config=SMALL)
    for epoch in (1, 1, 4, 9):
        append(log, batch(b"x" * 3000, 2), epoch=epoch)
    world.crash()
    log = world.log(config=SMALL)
    assert log.epochs.entries() == [(1, 0), (4, 4), (9, 6)]
    log.epochs.begin(12)
    assert log.epochs.end_offset_for(12, log.written_offset) == (12, 8)
    assert log.epochs.end_offset_for(9, log.written_offset) == (9, 8)
    assert log.epochs.end_offset_for(5, log.written_offset) == (4, 6)
    assert log.epochs.end_offset_for(0, log.written_offset) == (0, 0)
    assert log.epochs.end_offset_for(13, log.written_offset) == (-1, -1)


def test_only_one_process_works_in_a_directory(tmp_path):
    for world in (World(), World(OsFiles(), str(tmp_path))):
        with pytest.raises(DirectoryLocked):
            world.start()
        world.restart()


@pytest.mark.parametrize("what", ["store", "segment", "encrypted", "marked", "snapshot"])
def test_a_newer_format_is_refused_and_not_touched(what):
    world = World()
    log = world.log(config=SMALL)
    fill(log, 50)
    log.snapshot()
    world.background.drain()
    fill(log, 2)
    world.crash()
    path = {
        "store": "/data/format",
        "segment": log.segments[-1].path(),
        "encrypted": log.segments[-1].path(),
        "marked": log.segments[-1].path(),
        "snapshot": f"{world.folder()}/snapshot",
    }[what]
    make_newer(world, path, what)
    before = {name: world.disk.contents(f"{world.folder()}/{name}") for name in world.files.list(world.folder())}
    with pytest.raises(FormatTooNew):
        world.disk.crash()
        world.start()
        world.log(config=SMALL)
    after = {name: world.disk.contents(f"{world.folder()}/{name}") for name in world.files.list(world.folder())}
    assert before == after


def make_newer(world: World, path: str, what: str) -> None:
    from headrace.records.kernel import crc32c

    data = bytearray(world.disk.contents(path))
    if what == "store":
        data = data.replace(b'"format":1', b'"format":2')
    else:
        if what == "encrypted":
            data[48] = 1  # the first byte of a key's id
        elif what == "marked":
            data[10] = 0x80  # a flag that means nothing yet
        else:
            data[8:10] = (2).to_bytes(2, "big")
        if what != "snapshot":
            end = SEGMENT_HEADER_BYTES - 4
            data[end : end + 4] = crc32c(bytes(data[:end])).to_bytes(4, "big")
    handle = world.files.open(path)
    world.files.pwritev(handle, [data], 0)
    world.files.close(handle)


def test_another_logs_segment_is_set_aside():
    world = World()
    fill(world.log("a", SMALL), 30)
    fill(world.log("b", SMALL), 30)
    world.background.drain()
    world.crash()
    foreign = world.disk.contents(f"{world.folder('b')}/{segment_name(0)}")
    handle = world.files.open(f"{world.folder('a')}/{segment_name(30)}", create=True)
    world.files.pwritev(handle, [foreign], 0)
    world.files.close(handle)
    log = world.log("a", SMALL)
    assert "log.stale" in world.kinds()
    assert log.written_offset == 30
    append(log, batch())


def test_a_log_is_opened_once():
    world = World()
    world.log()
    with pytest.raises(StorageFailed):
        world.log()


def test_a_closed_log_syncs_first_and_can_be_opened_again():
    world = World()
    log = world.log()
    fill(log, 3)
    log.close()
    with pytest.raises(HeadraceError):
        append(log, batch())
    world.background.drain()
    assert log.synced_offset == 3
    assert len(world.store.services.budget) == 0
    assert world.log().written_offset == 3
    world.power_loss("none")
    assert world.log().written_offset == 3


def test_a_deleted_folder_is_gone_and_nothing_of_it_is_missed():
    world = World()
    logs = {name: world.log(name) for name in "ab"}
    for log in logs.values():
        fill(log, 3)
        assert world.sync(log) is None
    told: list[HeadraceError | None] = []
    world.store.delete_folder(f"{world.root}/topics/a", told.append)
    with pytest.raises(HeadraceError):
        logs["a"].read(0, 100)
    world.background.drain()
    assert told == [None]
    assert world.files.list(f"{world.root}/topics") == ["b"]
    world.power_loss("some")
    assert world.log("a").written_offset == 0
    assert world.log("b").written_offset == 3
    assert not world.events


def test_a_deletion_that_was_cut_short_is_finished_at_the_next_start():
    world = World()
    fill(world.log("a"), 3)
    world.background.drain()
    world.crash()
    world.files.rename(f"{world.root}/topics/a", f"{world.root}/topics/a.deleted")
    world.crash()
    assert world.files.list(f"{world.root}/topics") == []


def test_a_store_that_is_drained_has_nothing_left_to_sync():
    world = World()
    logs = [world.log(name) for name in "abc"]
    for log in logs:
        fill(log, 3)
    done: list[bool] = []
    world.store.drain(lambda: done.append(True))
    assert not done
    world.background.drain()
    assert done == [True]
    world.power_loss("none")
    for name in "abc":
        assert read_all(world.log(name))
