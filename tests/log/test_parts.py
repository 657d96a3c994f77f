"""The small parts, each by itself."""

from __future__ import annotations

from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import OutOfOrderSequence, StaleProducerEpoch
from headrace.log import producers as producers_module
from headrace.log.config import LogConfig
from headrace.log.damage import Hole, Holes
from headrace.log.epochs import LeaderEpochs
from headrace.log.format import (
    MARK_BYTES,
    SEGMENT_HEADER_BYTES,
    Mark,
    SegmentHeader,
    decode_mark,
    decode_segment_header,
    encode_mark,
    encode_segment_header,
)
from headrace.log.index import Index, decode_index
from headrace.log.journal import ROTATE_BYTES, Journal, load_marks
from headrace.log.memory import MemoryLog
from headrace.log.producers import BATCHES_KEPT, Producers
from headrace.log.tail import Tail, TailBudget
from headrace.records.batch import BatchHeader, read_header
from headrace.records.codec import Producer, Record, decode, encode
from headrace.records.control import Marker, encode_marker
from headrace.records.header import MAX_SEQUENCE
from headrace.testing.disk import SimulatedDisk
from tests.log.kit import START_MS, Clock, Steps, append, batch, joined

# Format


def test_headers_and_marks_come_back_and_damage_does_not():
    header = SegmentHeader(1 << 40, START_MS, bytes(range(20)))
    data = encode_segment_header(header)
    assert len(data) == SEGMENT_HEADER_BYTES
    assert decode_segment_header(data, "") == header
    mark = Mark(bytes(20), 3, 1 << 40, 4_000_000_000, 1 << 41)
    assert decode_mark(memoryview(encode_mark(mark)), 0) == mark
    for position in range(SEGMENT_HEADER_BYTES):
        changed = bytearray(data)
        changed[position] ^= 4
        assert decode_segment_header(changed, "") is None
    for position in range(MARK_BYTES):
        changed = bytearray(encode_mark(mark))
        changed[position] ^= 4
        assert decode_mark(memoryview(changed), 0) is None


# Index

steps = st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 100_000), st.integers(0, 50)), max_size=60)


@given(steps, st.integers(0, 70_000), st.integers(-10, 3000))
def test_the_index_gives_the_last_entry_before_an_offset_or_time(entries, offset, time):
    index, at = Index(), (0, SEGMENT_HEADER_BYTES, 0)
    for by_offset, by_position, by_time in entries:
        at = at[0] + by_offset, at[1] + by_position, at[2] + by_time
        index.add(*at)
    place = bisect_right(list(index.offsets), offset) - 1
    assert index.find(offset) == (index.offsets[place], index.positions[place])
    _, position = index.find_time(time)
    later = [p for p, t in zip(index.positions, index.timestamps, strict=True) if t >= time]
    assert all(position < p or p == SEGMENT_HEADER_BYTES for p in later)
    again = decode_index(index.encode(77, at[1]), 77, at[1], "")
    assert again is not None
    assert (again.offsets, again.positions, again.timestamps) == (index.offsets, index.positions, index.timestamps)
    assert decode_index(index.encode(77, at[1]), 78, at[1], "") is None
    assert decode_index(index.encode(77, at[1]), 77, at[1] + 1, "") is None, "it does not cover all of the segment"


# Tail


@given(
    st.lists(st.lists(st.tuples(st.integers(1, 60_000), st.integers(1, 5)), min_size=1, max_size=4), max_size=12),
    st.data(),
)
def test_a_tail_gives_whole_batches_within_the_bounds(flushes, data):
    tail = Tail(200_000, TailBudget(1 << 30), 0)
    sizes: dict[int, tuple[int, int]] = {}
    offset = 0
    for flush in flushes:
        staged = []
        for size, count in flush:
            sizes[offset] = size, offset + count
            staged.append((bytearray(offset.to_bytes(1, "big") * size), offset, offset + count, 0))
            offset += count
        tail.append(staged)
    if tail.first_offset == offset:
        return
    start = data.draw(st.integers(tail.first_offset, offset - 1))
    up_to = data.draw(st.integers(start + 1, offset))
    max_bytes = data.draw(st.integers(1, 300_000))
    result = tail.read(start, max_bytes, up_to, True)
    expected, total, at = b"", 0, max(base for base in sizes if base <= start)
    while at < up_to and (not total or total + sizes[at][0] <= max_bytes):
        expected += at.to_bytes(1, "big") * sizes[at][0]
        total, at = total + sizes[at][0], sizes[at][1]
    assert joined(result) == expected
    assert result.next_offset == at


def test_all_tails_share_one_budget_and_the_longest_unused_goes():
    budget = TailBudget(16_384)
    tails = [Tail(1 << 20, budget, 0) for _ in range(6)]
    for tail in tails[:4]:
        tail.append([(bytearray(1000), 0, 1, 0)])
    budget.touch(tails[0])
    for tail in tails[4:]:
        tail.append([(bytearray(1000), 0, 1, 0)])
    assert budget.size_bytes <= 16_384
    assert [tail.first_offset for tail in tails] == [0, 1, 1, 0, 0, 0]
    assert budget.size_bytes == sum(tail.size_bytes for tail in tails)


def test_a_tail_is_bounded_and_readers_keep_what_they_hold():
    tail = Tail(100_000, TailBudget(1 << 30), 0)
    tail.append([(bytearray(b"a" * 1000), 0, 1, 0)])
    held = tail.read(0, 5000, 1, True)
    for number in range(1, 500):
        tail.append([(bytearray(b"b" * 1000), number, number + 1, 0)])
    assert tail.size_bytes <= 100_000 + 64 * 1024
    assert joined(held) == b"a" * 1000
    assert tail.first_offset > 300
    tail.append([(bytearray(200_000), 500, 501, 0)])
    assert tail.size_bytes == 0, "larger than all that may be kept"


# Producers


def header(sequence: int, count: int = 1, epoch: int = 0, producer_id: int = 1) -> BatchHeader:
    data = batch(count=count, producer=Producer(producer_id, epoch, sequence))
    return read_header(data)


def put(producers: Producers, head: BatchHeader, offset: int, now_ms: int = 0) -> None:
    assert producers.check(head, now_ms) is None
    producers.put(head, offset, now_ms)


def test_the_last_five_batches_of_a_producer_are_known():
    producers = Producers(1000)
    for number in range(8):
        put(producers, header(2 * number, 2), 10 * number)
    for number in range(8 - BATCHES_KEPT, 8):
        found = producers.check(header(2 * number, 2), 0)
        assert found is not None
        assert found[2:4] == (10 * number, 10 * number + 1)
    for sequence, count in ((4, 2), (14, 1), (17, 2), (18, 2)):
        with pytest.raises(OutOfOrderSequence):
            producers.check(header(sequence, count), 0)


def test_sequences_wrap_after_the_largest():
    producers = Producers(1000)
    put(producers, header(MAX_SEQUENCE - 1, 2), 0)
    put(producers, header(0, 1), 2)
    put(producers, header(1, 1), 3)
    producers = Producers(1000)
    put(producers, header(MAX_SEQUENCE, 3), 0)
    put(producers, header(2, 1), 3)


def test_epochs_fence_and_start_at_zero():
    producers = Producers(1000)
    put(producers, header(7, epoch=3), 0)
    with pytest.raises(StaleProducerEpoch):
        producers.check(header(8, epoch=2), 0)
    with pytest.raises(OutOfOrderSequence):
        producers.check(header(8, epoch=4), 0)
    put(producers, header(0, epoch=4), 1)
    with pytest.raises(StaleProducerEpoch):
        producers.check(header(8, epoch=3), 0)


def test_a_producer_that_is_not_known_may_start_anywhere():
    producers = Producers(1000)
    put(producers, header(500), 0, now_ms=0)
    assert producers.check(header(9), 1001) is None, "expired"
    producers.expire(1001)
    assert len(producers) == 0


def test_a_first_batch_that_was_taken_back_comes_again_before_those_behind_it(monkeypatch):
    """Else a small one that still fits on a full disk would be acknowledged, and the first be refused for good."""
    monkeypatch.setattr(producers_module, "MAX_AWAITED", 3)
    producers = Producers(1000)
    taken = [producers.put(header(sequence, 2), 0, 5) for sequence in (7, 9)]
    for before in reversed(taken):
        producers.undo(before)
    for sequence in (9, 11, 0):
        with pytest.raises(OutOfOrderSequence, match="7 comes first"):
            producers.check(header(sequence, 2), 0)
    assert producers.check(header(0, epoch=1), 0) is None, "it has begun anew"
    put(producers, header(7, 2), 0)
    put(producers, header(9, 2), 2)
    producers.expire(5000)
    assert producers.check(header(500), 5000) is None, "which is forgotten as it always was"
    for producer_id in range(10, 14):
        producers.undo(producers.put(header(0, producer_id=producer_id), 0, 5))
    assert producers.check(header(5, producer_id=10), 0) is None
    with pytest.raises(OutOfOrderSequence):
        producers.check(header(5, producer_id=11), 0)


def test_whose_first_batch_was_lost_with_a_log_that_failed_is_awaited_by_the_one_in_its_place(monkeypatch):
    monkeypatch.setattr(producers_module, "MAX_AWAITED", 3)
    failed, opened = Producers(1000), Producers(1000)
    put(failed, header(0, producer_id=1), 0)
    put(failed, header(1, producer_id=1), 11)
    for producer_id in (2, 3, 4):
        put(failed, header(7, producer_id=producer_id), 8 + producer_id)
    failed.undo(failed.put(header(7, producer_id=5), 20, 5))
    put(opened, header(0, producer_id=1), 0)
    put(opened, header(7, producer_id=3), 11)
    opened.await_unkept(failed.unkept(10))
    assert opened.check(header(1, producer_id=1), 0) is None, "what was synced of it is known"
    assert opened.check(header(8, producer_id=3), 0) is None, "its first batch is there after all"
    for producer_id in (2, 4):
        with pytest.raises(OutOfOrderSequence, match="7 comes first"):
            opened.check(header(8, producer_id=producer_id), 0)
    assert opened.check(header(8, producer_id=5), 0) is None, "there are so many and no more, the oldest give way"
    assert opened.unkept(20).keys() == {2, 4}, "should this one fail too"


def test_a_marker_carries_an_epoch_and_no_sequence():
    producers = Producers(1000)
    put(producers, header(0), 0)
    marker = read_header(encode_marker(Marker(True, 0), 1, 2, START_MS))
    producers.check_marker(marker, Marker(True, 0))
    producers.put(marker, 1, 0, Marker(True, 0))
    with pytest.raises(StaleProducerEpoch):
        producers.check(header(1), 0)
    put(producers, header(0, epoch=2), 2)


def test_the_longest_idle_producers_make_room(monkeypatch):
    monkeypatch.setattr(producers_module, "MAX_PRODUCERS", 20)
    monkeypatch.setattr(producers_module, "EVICTED_AT_ONCE", 5)
    producers = Producers(1 << 40)
    for number in range(21):
        put(producers, header(0, producer_id=number), number, now_ms=number)
    assert len(producers) == 16
    assert producers.check(header(0, producer_id=20), 30) is not None
    assert producers.check(header(0, producer_id=0), 30) is None


@given(st.lists(st.integers(0, 4), max_size=12), st.lists(st.integers(0, 4), max_size=6))
def test_undoing_brings_the_old_state_back(kept, undone):
    producers = Producers(1000)
    sequences = dict.fromkeys(range(5), 0)
    for producer_id in kept:
        put(producers, header(sequences[producer_id], producer_id=producer_id), 0)
        sequences[producer_id] += 1
    before = dict(producers.save())
    undo = []
    for producer_id in undone:
        undo.append(producers.put(header(sequences[producer_id], producer_id=producer_id), 9, 5))
        sequences[producer_id] += 1
    for old in reversed(undo):
        producers.undo(old)
    assert dict(producers.save()) == before


# Epochs, holes, journal


def test_epochs_are_cut_at_both_ends():
    epochs = LeaderEpochs([(1, 0), (3, 10), (7, 20)])
    epochs.cut_end(20)
    assert epochs.entries() == [(1, 0), (3, 10)]
    assert (epochs.written, epochs.latest) == (3, 7)
    epochs.cut_start(15)
    assert epochs.entries() == [(3, 15)]
    epochs.wrote(8, 30)
    assert epochs.end_offset_for(3, 40) == (3, 30)


def test_holes_know_where_reading_stops_and_goes_on():
    holes = Holes([Hole(10, 20, 0, 500, 900, "x"), Hole(30, 40, 25, 300, 400, "y")])
    assert holes.at(9) is None
    assert holes.at(19) is not None
    assert holes.next_start(0, 100) == 10
    assert holes.next_start(20, 25) == 25
    assert holes.skip(0, 400, 22) == (900, 20)
    assert holes.skip(0, 900, 22) is None
    assert holes.skip(25, 256, 29) is None
    assert [hole.offset for hole in holes.without_before(20)] == [30]


def test_the_journal_keeps_the_newest_mark_of_each_log_and_stays_small():
    disk = SimulatedDisk()
    disk.make_directory("/data")
    journal = Journal(disk, "/data/synced")
    background = Steps()
    for number in range(60_000):
        journal.append([Mark(bytes([number % 7]) * 20, 0, 0, 300, number)])
        if not number % 1000:
            journal.keep(background)
            background.drain()
    assert len(disk.contents("/data/synced")) <= ROTATE_BYTES
    journal.forget([bytes([3]) * 20])
    journal.close()
    again = Journal(disk, "/data/synced")
    assert again.mark(bytes([3]) * 20) is None
    assert again.mark(bytes([0]) * 20) == Mark(bytes(20), 0, 0, 300, 59_997)


def test_a_torn_journal_gives_what_is_whole():
    disk = SimulatedDisk()
    disk.make_directory("/data")
    journal = Journal(disk, "/data/synced")
    for number in range(10):
        journal.append([Mark(bytes([number]) * 20, 0, 0, 300, number)])
    journal.close()
    disk.flip_bit("/data/synced", MARK_BYTES * 3 + 5)
    disk.tear("/data/synced", MARK_BYTES * 9 + 10)
    Journal(disk, "/data/synced").close()
    found = load_marks(disk, "/data/synced")
    assert [log_id[0] for log_id in found] == [0, 1, 3, 4, 5, 6, 7]


# Memory


def test_the_largest_time_in_a_memory_log_is_one_of_the_records_that_are_left():
    log = MemoryLog(LogConfig(), Clock())
    for times in ((100, 40, 50), (10,)):
        append(log, encode([Record(b"", b"x", (), START_MS + ms) for ms in times]))
    log.delete_records(log.start_offset + 1)
    assert log.max_timestamp() == (log.start_offset + 1, START_MS + 50)


def test_a_memory_log_is_a_ring_whose_offsets_come_from_the_clock():
    log = MemoryLog(LogConfig(retention_bytes=200_000), Clock())
    first = START_MS * 4000
    assert log.start_offset == log.written_offset == first
    for _ in range(400):
        append(log, batch(b"x" * 1000))
    assert log.written_offset == log.synced_offset == first + 400
    assert first < log.start_offset < log.written_offset
    assert log.size_bytes <= 200_000 + 64 * 1024
    result = log.read(log.start_offset, 5000)
    assert decode(joined(result))[0].offset == log.start_offset
    told: list[object] = []
    log.when_synced(log.written_offset, told.append)
    assert told == [None]
    assert log.offset_for_timestamp(START_MS) == (log.start_offset, START_MS)
    assert log.max_timestamp() == (log.start_offset, START_MS)
    again = batch(producer=Producer(1, 0, 0))
    append(log, again)
    assert log.stage(bytearray(again), read_header(again), START_MS, 0).duplicate
