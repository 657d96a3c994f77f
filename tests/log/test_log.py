"""The log end to end on a disk that behaves."""

from __future__ import annotations

import pytest

from headrace.errors import OffsetOutOfRange
from headrace.log.config import LogConfig
from headrace.log.files import OsFiles
from headrace.log.log import ENOUGH_ABORTED, Log
from headrace.log.reader import FileRead
from headrace.log.transactions import MANY_ABORTED, MAX_ABORTED
from headrace.records.batch import read_header
from headrace.records.codec import Record, decode, encode
from headrace.testing.disk import SimulatedDisk
from tests.log.kit import START_MS, World, append, batch, fill, joined, read_all, read_now, wait_at_the_end

SMALL = LogConfig(segment_bytes=1024, index_interval_bytes=256, tail_bytes=0)


@pytest.fixture(params=["simulated disk", "real disk"])
def world(request: pytest.FixtureRequest, tmp_path) -> World:
    if request.param == "real disk":
        return World(OsFiles(), str(tmp_path / "data"))
    return World(SimulatedDisk(7, short_writes=0.2, waits=0.2))


def test_a_log_that_was_never_written_to_has_no_folder(world):
    log = world.log()
    assert log.written_offset == log.end_offset == log.start_offset == 0
    assert not world.files.exists(world.folder())
    world.restart()
    assert not world.files.exists(world.folder())


def test_offsets_are_assigned_in_order_and_read_back(world):
    log = world.log()
    first, second = batch(count=3), batch(count=2)
    staged = append(log, first, second, epoch=4)
    assert [(s.base_offset, s.last_offset, s.duplicate) for s in staged] == [(0, 2, False), (3, 4, False)]
    assert [record.offset for record in decode(joined(read_now(log, 0)))] == [0, 1, 2, 3, 4]
    assert read_header(second).leader_epoch == 4
    assert log.epochs.latest == 4


def test_what_is_staged_can_not_be_read_before_the_flush(world):
    log = world.log()
    data = batch(count=2)
    log.stage(data, read_header(data), START_MS, 0)
    assert (log.end_offset, log.written_offset) == (2, 0)
    assert read_now(log, 0).size == 0
    log.flush()
    assert read_now(log, 0).next_offset == 2


def test_an_immutable_batch_is_copied_and_a_writable_one_is_not(world):
    log = world.log()
    append(log, batch())
    mine = bytes(batch())
    log.stage(mine, read_header(mine), START_MS, 0)
    kept = batch()
    log.stage(kept, read_header(kept), START_MS, 0, copy=True)
    log.flush()
    assert read_header(mine).base_offset == read_header(kept).base_offset == 0
    assert [record.offset for record in decode(read_all(log))] == [0, 1, 2]


@pytest.mark.parametrize("tail_bytes", [0, 3000, 4 << 20])
def test_memory_and_file_give_the_same_bytes(world, tail_bytes):
    log = world.log(config=LogConfig(segment_bytes=4096, index_interval_bytes=512, tail_bytes=tail_bytes))
    wait_at_the_end(log)
    written = fill(log, 60)
    world.background.drain()
    for max_bytes in (1, 500, 1 << 20):
        assert read_all(log, max_bytes) == b"".join(written)
    for offset in range(60):
        assert joined(read_now(log, offset, 1)) == written[offset]


def test_a_read_starts_with_the_batch_that_holds_the_offset(world):
    for tail_bytes in (0, 1 << 20):
        log = world.log(f"tail{tail_bytes}", LogConfig(tail_bytes=tail_bytes))
        wait_at_the_end(log)
        append(log, batch(count=5))
        append(log, batch(count=5))
        found = read_now(log, 7)
        assert decode(joined(found))[0].offset == 5
        assert found.next_offset == 10


def test_a_read_stops_where_it_is_told_to():
    world = World()
    for tail_bytes in (0, 1 << 20):
        log = world.log(f"tail{tail_bytes}", LogConfig(tail_bytes=tail_bytes))
        wait_at_the_end(log)
        written = fill(log, 10)
        assert joined(read_now(log, 2, up_to=5)) == b"".join(written[2:5])
        assert read_now(log, 5, up_to=5).size == 0
        assert read_now(log, 7, up_to=5).size == 0
        size = len(written[0])
        assert read_now(log, 0, 3 * size).next_offset == 3
        assert read_now(log, 0, 3 * size - 1).next_offset == 2
        assert read_now(log, 0, size - 1).next_offset == 1
        assert read_now(log, 0, size - 1, at_least_one=False) == ([], 0, 0)


def test_what_is_appended_stays_in_memory_while_somebody_reads_at_the_end_and_only_then():
    world = World()
    log = world.log(config=LogConfig(tail_bytes=1000))
    tails = world.store.services.tails
    fill(log, 3)
    assert tails.size_bytes == 0
    wait_at_the_end(log)
    written = fill(log, 3)
    assert tails.size_bytes > 0
    before = world.disk.bytes_read
    assert joined(read_now(log, 3)) == b"".join(written)
    assert world.disk.bytes_read == before
    fill(log, 50)  # far more than a tail holds, and nobody came
    assert tails.size_bytes == 0
    assert len(decode(read_all(log))) == 56


def test_a_batch_larger_than_any_window_is_read_whole(world):
    log = world.log(config=LogConfig(tail_bytes=0))
    append(log, batch(b"small"))
    append(log, batch(bytes(3 << 20)))
    append(log, batch(b"small"))
    assert read_now(log, 1, 100).next_offset == 2
    assert read_now(log, 2, 100).next_offset == 3
    assert len(decode(read_all(log, 1000))) == 3


def test_offsets_outside_of_the_log_are_refused(world):
    log = world.log()
    fill(log, 3)
    assert read_now(log, 3).size == 0
    for offset in (-1, 4):
        with pytest.raises(OffsetOutOfRange) as caught:
            log.read(offset, 100)
        assert (caught.value.start, caught.value.end) == (0, 3)


def test_a_clean_restart_finds_everything_again(world):
    log = world.log(config=SMALL)
    written = fill(log, 40)
    append(log, batch(count=3), epoch=9)
    end = log.written_offset
    world.restart()
    log = world.log(config=SMALL)
    assert log.written_offset == log.synced_offset == end
    assert read_all(log).startswith(b"".join(written))
    assert log.epochs.entries() == [(0, 0), (9, 40)]
    assert log.size_bytes == sum(segment.size for segment in log.segments)
    assert not world.events
    append(log, batch())
    assert read_now(log, end).next_offset == end + 1


def test_segments_roll_by_size_and_by_age(world):
    log = world.log(config=LogConfig(segment_bytes=1024, segment_ms=1000))
    fill(log, 30)
    assert len(log.segments) > 3
    assert all(segment.size <= 1024 for segment in log.segments)
    before = len(log.segments)
    append(log, batch(), now_ms=START_MS + 1001)
    assert len(log.segments) == before + 1
    assert [segment.base for segment in log.segments[1:]] == [s.next_offset for s in log.segments[:-1]]


def test_a_read_that_would_wait_is_handed_to_the_caller():
    world = World(SimulatedDisk(1, waits=1.0))
    log = world.log(config=SMALL)
    written = fill(log, 3)
    read = log.read(1, 1 << 20)
    assert isinstance(read, FileRead)
    fill(log, 1)
    assert joined(read.run()) == b"".join(written[1:3]), "what came later is not part of it"


def test_the_first_offset_at_or_after_a_time_is_found(world):
    log = world.log(config=SMALL)
    for number in range(50):
        append(log, batch(b"x" * 50, count=2, timestamp_ms=START_MS + 10 * number))
    for compression in ("gzip", "zstd"):
        append(log, batch(b"x" * 50, count=2, timestamp_ms=START_MS + 1000, compression=compression))
    assert log.offset_for_timestamp(START_MS) == (0, START_MS)
    assert log.offset_for_timestamp(START_MS + 101) == (21, START_MS + 101)
    assert log.offset_for_timestamp(START_MS + 102) == (22, START_MS + 110)
    assert log.offset_for_timestamp(START_MS + 1001) == (101, START_MS + 1001)
    assert log.offset_for_timestamp(START_MS + 1002) is None
    assert log.max_timestamp() == (101, START_MS + 1001)
    world.restart()
    log = world.log(config=SMALL)
    assert log.offset_for_timestamp(START_MS + 102) == (22, START_MS + 110)
    assert world.log("empty").max_timestamp() is None


def test_the_largest_time_is_found_among_the_records_that_are_left(world):
    log = world.log(config=SMALL)
    for late in (100, 50, 70):
        append(log, batch(timestamp_ms=START_MS + late))
    log.delete_records(1)
    assert log.max_timestamp() == (2, START_MS + 70)
    append(log, batch(count=3, timestamp_ms=START_MS))
    log.delete_records(3)
    assert log.max_timestamp() == (5, START_MS + 2)
    append(log, encode([Record(b"", b"x", (), START_MS + ms) for ms in (90, 30, 40, 40)]))
    log.delete_records(7)
    assert log.max_timestamp() == (8, START_MS + 40), "one batch of them lies on both sides of the start"
    fill(log, 100)
    assert log.max_timestamp() == (8, START_MS + 40)
    log.delete_records(log.written_offset)
    assert log.max_timestamp() is None
    world.restart()
    assert world.log(config=SMALL).max_timestamp() is None


def test_waiters_are_told_in_the_order_of_their_offsets(world):
    log = world.log()
    told: list[int] = []
    for number in range(4):
        append(log, batch())
        log.when_synced(number + 1, lambda error, n=number: told.append(n) if error is None else None)
    log.when_synced(1, lambda error: told.append(10))
    assert not told, "a sync takes its time"
    world.background.drain()
    assert told == [0, 10, 1, 2, 3]
    assert log.synced_offset == 4
    log.when_synced(4, lambda error: told.append(99))
    assert told[-1] == 99, "already synced: at once"


def test_a_round_promises_only_what_was_written_when_it_began(world):
    log = world.log()
    append(log, batch())
    told: list[int] = []
    log.when_synced(1, lambda error: told.append(1))
    append(log, batch())
    log.when_synced(2, lambda error: told.append(2))
    world.background.step()
    assert told == [1]
    assert log.synced_offset == 1
    world.background.step()
    assert told == [1, 2]


def test_waiting_for_what_is_not_written_is_a_mistake(world):
    log = world.log()
    with pytest.raises(ValueError):
        log.when_synced(1, lambda error: None)


def test_ten_thousand_logs_share_few_files(tmp_path):
    world = World(OsFiles(), str(tmp_path / "data"))
    world.store.services.budget.limit = 20
    logs: list[Log] = [world.log(f"t{number}") for number in range(60)]
    for turn in range(3):
        for log in logs:
            append(log, batch(b"%d" % turn))
        world.background.drain()
    assert len(world.store.services.budget) <= 25
    for log in logs:
        log._tail.clear()
        assert len(decode(read_all(log))) == 3
    world.stop()


def test_many_aborted_transactions_are_warned_of_once_and_again_when_it_had_become_better():
    world = World()
    log = world.log()
    transactions = log.producers.transactions

    def warned_at(count: int) -> int:
        transactions.load(None)
        for number in range(count):
            transactions.begin(7, number)
            transactions.end(7, number, False, 0)
        log.maintain(world.clock.ms)
        return world.kinds().count("log.many-aborted")

    assert [warned_at(count) for count in (MANY_ABORTED - 1, MANY_ABORTED, MAX_ABORTED)] == [0, 1, 1]
    told = next(details for kind, details in world.events if kind == "log.many-aborted")
    assert (told["transactions"], told["limit"]) == (MANY_ABORTED, MAX_ABORTED)
    assert [warned_at(count) for count in (ENOUGH_ABORTED, MANY_ABORTED)] == [1, 1]
    assert [warned_at(count) for count in (ENOUGH_ABORTED - 1, MANY_ABORTED)] == [1, 2]
