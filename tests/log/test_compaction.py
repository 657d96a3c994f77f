"""What compaction keeps of a log, what it lets go, and when."""

from __future__ import annotations

import time

import pytest

from headrace.errors import DamagedRange, StorageFailed
from headrace.log import compaction
from headrace.log.config import StoreLimits
from headrace.log.dirt import find_dirt
from headrace.log.format import SNAPSHOT
from headrace.log.patient import PATIENCE_S
from headrace.log.producers import MAX_PRODUCERS, Producers
from headrace.log.reader import FileRead
from headrace.log.sieve import Caught, make_rules
from headrace.log.transactions import MAX_ABORTED
from headrace.records.batch import read_header
from headrace.records.codec import Producer, Record, decode, encode
from headrace.records.kernel import OffsetMap
from tests.log.keyed import (
    CONFIG,
    compact,
    compact_all,
    end_transaction,
    filled,
    keys,
    put,
    put_each,
    records,
    roll,
    state,
    transactional,
)
from tests.log.kit import START_MS, World, joined, read_all, read_now


def changed(**settings):
    import msgspec

    return msgspec.structs.replace(CONFIG, **settings)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_the_last_value_of_each_key_stays_and_all_before_it_goes(compression):
    world, log = filled(compression=compression)
    before = state(log), log.size_bytes
    compact_all(log, world)
    assert state(log) == before[0] | {b"end": b"end"}
    assert sorted(keys(log)) == [b"end", *(b"k%d" % key for key in range(5))]
    assert log.size_bytes < before[1] / 2
    world.restart()
    log = world.log()
    assert state(log) == before[0] | {b"end": b"end"}
    assert "log.damage" not in world.kinds()


def test_records_keep_their_offsets_times_and_headers():
    world = World(config=CONFIG)
    log = world.log()
    old = encode([Record(b"a", b"1", (), START_MS), Record(b"b", b"2", (("h", b"x"),), START_MS + 7)])
    log.stage(old, read_header(old), START_MS, 0)
    log.flush()
    put(log, (b"a", b"3"), now_ms=START_MS + 9)
    compact_all(log, world)
    assert records(log)[:2] == [
        Record(b"b", b"2", (("h", b"x"),), START_MS + 7, 1),
        Record(b"a", b"3", (), START_MS + 9, 2),
    ]
    first = read_header(read_all(log))
    assert (first.base_offset, first.next_offset, first.record_count) == (0, 2, 1)


def test_a_read_of_an_offset_that_went_gets_the_next_that_stayed():
    world, log = filled(rounds=20)
    compact_all(log, world)
    first = records(log)[0].offset
    for offset in range(log.written_offset):
        header = read_header(joined(read_now(log, offset, 1)))
        assert header.next_offset > offset
        assert offset >= first or header.base_offset == first
    assert log.timestamp_lookup(0).run() == (first, START_MS)


def test_small_neighbours_become_one_segment_and_their_files_go():
    world, log = filled(rounds=20)
    assert len(log.segments) > 10
    compact_all(log, world)
    names = [name for name in world.files.list(world.folder()) if name.endswith(".log")]
    assert len(log.segments) <= 3
    assert sorted(names) == sorted(segment.name() for segment in log.segments)
    assert log.size_bytes == sum(segment.size for segment in log.segments)


def test_the_active_segment_and_what_is_too_young_stay_as_they_are():
    world, log = filled(config=changed(min_compaction_lag_ms=5000))
    roll(log, world)
    put(log, (b"end", b"end"))
    compact(log, world)
    assert len(keys(log)) == 31
    world.clock.ms += 5001
    compact(log, world)
    assert len(keys(log)) == 6
    put_each(log, [(b"k1", b"%d" % number) for number in range(3)])
    compact(log, world)
    assert len(keys(log)) == 9, "the active segment is never compacted"


def test_compaction_waits_for_its_share_of_dirt_but_not_longer_than_the_lag():
    world, log = filled(config=changed(min_dirty_ratio=0.5, max_compaction_lag_ms=60_000))
    compact_all(log, world)
    for number in range(60):
        put(log, (b"own%d" % number, b"x" * 100))
    compact_all(log, world)
    size = log.size_bytes
    put(log, (b"k1", b"once more"))
    roll(log, world)
    put(log, (b"k1", b"and again"))
    compact(log, world)
    assert not find_dirt(log, world.clock.ms).is_due
    assert keys(log).count(b"k1") == 3
    world.clock.ms += 60_001
    compact(log, world)
    assert keys(log).count(b"k1") == 2
    assert log.size_bytes < size + 200


def test_tombstones_stay_for_their_time_and_take_all_that_they_delete_along():
    world, log = filled()
    put(log, (b"k3", None))
    compact_all(log, world)
    tombstones = [record for record in records(log) if record.value is None]
    assert [record.key for record in tombstones] == [b"k3"]
    assert tombstones[0].timestamp_ms == START_MS, "its own time is not touched by the horizon"
    assert keys(log).count(b"k3") == 1
    compact(log, world)
    world.clock.ms += 999
    compact(log, world)
    assert b"k3" in keys(log)
    world.clock.ms += 2
    compact(log, world)
    assert b"k3" not in keys(log)
    assert log.horizon_ms == -1
    world.restart()
    assert b"k3" not in keys(world.log())


def test_records_without_a_key_go():
    world = World(config=CONFIG)
    log = world.log()
    data = encode([Record(None, b"keyless", (), START_MS), Record(b"k", b"v", (), START_MS)])
    log.stage(data, read_header(data), START_MS, 0)
    log.flush()
    compact_all(log, world)
    assert keys(log) == [b"k", b"end"]


def test_more_keys_than_fit_into_memory_take_several_passes(monkeypatch):
    world = World(config=changed(segment_bytes=4000), limits=StoreLimits(compaction_bytes=40 * OffsetMap.KEY_BYTES))
    log = world.log()
    expected = {}
    for turn in range(4):
        for key in range(100):
            value = b"%d" % (turn * key)
            put(log, (b"%d" % key, value), (b"x%d" % key, value))
            expected[b"%d" % key] = expected[b"x%d" % key] = value
    compact_all(log, world)
    passes = [details for kind, details in world.events if kind == "log.compacted"]
    assert len(passes) >= 4
    assert max(details["keys"] for details in passes) <= 40
    assert len(keys(log)) == 201
    assert state(log) == expected | {b"end": b"end"}


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
def test_the_last_batch_of_a_producer_stays_empty_so_that_a_duplicate_is_known(compression):
    world = World(config=CONFIG)
    log = world.log()
    producer = Producer(7, 0, 0)
    put(log, (b"a", b"1"), (b"a", b"2"), producer=producer, compression=compression)
    put(log, (b"a", b"3"))
    compact_all(log, world)
    assert [read_header(read_all(log)).producer_id, read_header(read_all(log)).record_count] == [7, 0]
    assert read_header(read_all(log)).compression == 0
    assert keys(log) == [b"a", b"end"]
    world.restart()
    world.files.remove(f"{world.folder()}/snapshot")
    log = world.log()
    assert put(log, (b"a", b"1"), (b"a", b"2"), producer=producer).duplicate
    assert not put(log, (b"a", b"4"), producer=Producer(7, 0, 2)).duplicate
    assert state(log)[b"a"] == b"4"


def test_nothing_of_a_transaction_under_way_is_touched():
    world = World(config=CONFIG)
    log = world.log()
    put(log, (b"a", b"1"))
    transactional(log, Producer(9, 0, 0), (b"a", b"2"))
    put(log, (b"a", b"3"))
    roll(log, world)
    put(log, (b"end", b"end"))
    compact(log, world)
    assert len(keys(log)) == 4
    end_transaction(log, Producer(9, 0), commit=True)
    compact_all(log, world)
    assert keys(log)[:1] == [b"a"]
    assert state(log)[b"a"] == b"3"


def test_aborted_records_go_and_never_count():
    world = World(config=CONFIG)
    log = world.log()
    put(log, (b"a", b"kept"))
    transactional(log, Producer(9, 0, 0), (b"a", b"aborted"), (b"b", b"aborted"))
    marker = end_transaction(log, Producer(9, 0), commit=False)
    transactional(log, Producer(9, 0, 2), (b"c", b"committed"))
    end_transaction(log, Producer(9, 0), commit=True)
    assert log.transactions.aborted(0, 100) == [(9, 1, marker)]
    compact_all(log, world)
    assert state(log) == {b"a": b"kept", b"c": b"committed", b"end": b"end"}
    assert log.transactions.aborted(0, 100) == [(9, 1, marker)], "its marker is still there"
    compact_forced(log, world)
    world.clock.ms += 1001
    compact_forced(log, world)
    assert log.transactions.aborted(0, 100) == []
    assert marker not in offsets_of_batches(log)
    assert marker + 2 in offsets_of_batches(log), "the commit's marker stays as long as its records"
    assert state(log) == {b"a": b"kept", b"c": b"committed", b"end": b"end"}


def compact_forced(log, world):
    """A pass over everything, as if something had become dirty."""
    put(log, (b"end", b"end"))
    compact_all(log, world)


def offsets_of_batches(log):
    data, at, found = read_all(log), 0, []
    while at < len(data):
        header = read_header(data, at)
        found.append(header.base_offset)
        at += header.size
    return found


def test_a_read_on_its_way_goes_on_in_the_segment_that_took_the_place_of_its_own():
    world, log = filled(rounds=20)
    roll(log, world)
    put(log, (b"end", b"end"))
    world.sync(log)
    for segment in log.segments:
        log.services.indexes.forget(segment)
    read = log.read(3, 1 << 20)
    assert isinstance(read, FileRead)
    lookup = log.timestamp_lookup(START_MS)
    compact(log, world)
    world.files.list(world.folder())
    found = read.run()
    assert read_header(joined(found)).base_offset == records(log)[0].offset
    assert lookup.run() == (records(log)[0].offset, START_MS)
    assert "log.damage" not in world.kinds()


def test_a_damaged_segment_is_not_rewritten_and_no_tombstone_goes_while_there_is_one():
    world, log = filled(rounds=6, config=changed(segment_bytes=500))
    put(log, (b"k1", None))
    roll(log, world)
    put(log, (b"end", b"end"))
    world.sync(log)
    damaged = log.segments[1]
    world.disk.flip_bit(damaged.path(), 300)
    compact(log, world)
    assert "log.not-compacted" in world.kinds()
    assert log.holes.of_segment(damaged.base)
    for _ in range(3):
        world.clock.ms += 100_000
        compact(log, world)
    assert damaged in log.segments
    assert log.segments[0].has_gaps
    hole = next(iter(log.holes))
    with pytest.raises(DamagedRange):
        read_now(log, hole.offset)
    after = []
    offset = hole.next_offset
    while offset < log.written_offset:
        found = read_now(log, offset)
        after += decode(joined(found))
        offset = found.next_offset
    assert any(record.key == b"k1" and record.value is None for record in after)


def test_a_compacted_segment_that_does_not_read_keeps_no_log_closed_when_the_snapshot_is_lost():
    world, log = filled(rounds=20)
    compact_all(log, world)
    made = log.segments[0]
    assert made.revision and len(log.segments) > 1
    left = [record for record in records(log) if record.offset >= made.next_offset]
    world.stop()
    world.disk.flip_bit(f"{world.folder()}/{SNAPSHOT}", 40)
    world.disk.spoil(made.path(), 0)
    world.start()
    with pytest.raises(StorageFailed):
        world.log()
    world.clock.ms += int(PATIENCE_S * 1000)
    log = world.log()
    with pytest.raises(DamagedRange) as caught:
        read_now(log, log.start_offset)
    assert decode(joined(read_now(log, caught.value.next_offset))) == left


def test_compaction_goes_on_beside_a_segment_that_stays_unreadable():
    world, log = filled(rounds=20)
    roll(log, world)
    put(log, (b"end", b"end"))
    world.sync(log)
    bad = log.segments[1]
    world.disk.spoil(bad.path(), 0)
    compact(log, world)
    assert not log.holes, "the disk may be away for a moment"
    assert "log.not-compacted" in world.kinds()
    for _ in range(2):
        world.clock.ms += int(PATIENCE_S * 1000)
        compact(log, world)
    assert [(hole.offset, hole.next_offset) for hole in log.holes] == [(bad.base, bad.next_offset)]
    assert bad in log.segments
    assert log.segments[0].has_gaps and log.segments[2].has_gaps


def test_a_full_disk_stops_compaction_and_harms_nothing():
    world, log = filled(rounds=20)
    roll(log, world)
    put(log, (b"end", b"end"))
    world.sync(log)
    before = state(log)
    world.disk.fill(300)
    compact(log, world)
    assert "log.not-compacted" in world.kinds()
    assert log.failed is None
    assert not [name for name in world.files.list(world.folder()) if name.endswith(".log.new")]
    world.disk.empty()
    assert state(log) == before
    world.clock.ms += 60_001
    compact(log, world)
    assert state(log) == before
    assert len(keys(log)) == 6


def test_retention_and_compaction_work_together():
    world, log = filled(rounds=20, config=changed(retention_ms=10_000))
    compact_all(log, world)
    world.clock.ms += 10_001
    log.maintain(world.clock.ms)
    world.background.drain()
    assert keys(log) == []
    put(log, (b"k", b"v"), now_ms=world.clock.ms)
    world.restart()
    assert state(world.log()) == {b"k": b"v"}


def test_retention_removes_the_files_of_compacted_segments():
    world, log = filled(rounds=20, config=changed(retention_ms=10_000))
    compact_all(log, world)
    assert any(segment.revision for segment in log.segments)
    world.clock.ms += 10_001
    log.maintain(world.clock.ms)
    world.background.drain()
    kept = {segment.name() for segment in log.segments}
    assert {name for name in world.disk.list(log.folder) if name.endswith(".log")} == kept
    assert not [name for name in world.disk.list(log.folder) if name.endswith((".deleted", ".1.index"))]
    start = log.start_offset
    world.power_loss("none")
    assert world.log().start_offset == start
    assert "log.damage" not in world.kinds()


def test_a_clean_segment_is_not_written_again():
    world, log = filled(rounds=6, config=changed(segment_bytes=1500))
    for number in range(40):
        put(log, (b"own%d" % number, b"x" * 100))
    compact_all(log, world)
    compact_forced(log, world)
    clean = [segment for segment in log.segments if segment.has_gaps][:-1]
    written = world.disk.changes
    compact_forced(log, world)
    assert clean
    assert [segment for segment in log.segments if segment in clean] == clean
    assert world.disk.changes - written < 60


def test_the_rules_are_made_off_the_loop(monkeypatch):
    made = []
    monkeypatch.setattr(compaction, "make_rules", lambda caught: made.append(caught) or make_rules(caught))
    world, log = filled()
    producer = Producer(7, 0, 0)
    transactional(log, producer, (b"k1", b"aborted"))
    end_transaction(log, producer, commit=False)
    roll(log, world)
    world.background.drain()
    log.services.compactor.look(log, world.clock.ms)
    assert log.services.compactor.running is log and not made
    later = Producer(8, 0, 0)  # what comes meanwhile is not of this pass
    transactional(log, later, (b"k1", b"later"))
    end_transaction(log, later, commit=False)
    world.background.drain()
    assert [set(one.producers) for one in made] == [{7}]


def test_at_its_limits_the_loop_is_held_up_for_a_small_part_of_what_the_rules_cost():
    producers = Producers(1 << 60)
    for number in range(MAX_ABORTED):
        producers.transactions.begin(number % 1_000, 3 * number)
        producers.transactions.end(number % 1_000, 3 * number + 2, False, 0)
    batch = (0, 0, 1, 1, 0)
    producers.load([(number, (0, 0, (batch,) * 5)) for number in range(MAX_PRODUCERS)], producers.transactions.save())
    began = time.thread_time()
    caught = Caught(0, 0, 1 << 60, producers.transactions.aborted_columns(0), producers.states())
    caught_s, began = time.thread_time() - began, time.thread_time()
    rules = make_rules(caught)
    assert caught_s < (time.thread_time() - began) / 5
    assert rules.aborted[7][:2] == [(21, 23), (3_021, 3_023)] and len(rules.last_offsets) == MAX_PRODUCERS


def test_the_rules_name_what_was_aborted_before_the_end_in_the_order_of_its_beginning():
    producers = Producers(1 << 60)
    transactions = producers.transactions
    for producer, offset in ((1, 0), (2, 5), (3, 6)):
        transactions.begin(producer, offset)
    for producer, offset in ((3, 10), (1, 11), (2, 12)):
        transactions.end(producer, offset, False, 0)
    transactions.begin(1, 20)
    transactions.end(1, 21, False, 0)
    for from_offset, end_offset in ((0, 30), (11, 30), (0, 20), (11, 6), (22, 30)):
        caught = Caught(0, 0, end_offset, transactions.aborted_columns(from_offset), {})
        wanted: dict[int, list[tuple[int, int]]] = {}
        for producer, first, last in sorted(transactions.aborted(from_offset, end_offset), key=lambda one: one[1]):
            wanted.setdefault(producer, []).append((first, last))
        assert make_rules(caught).aborted == wanted
