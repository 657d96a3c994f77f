"""Which batch is the next true one behind a damaged one: whatever the sizes, whoever meets it, and where compaction has
left gaps. What is not hit stays readable, at its own offset, and a lookup by time finds it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.errors import DamagedRange, StorageFailed
from headrace.log.format import SEGMENT_HEADER_BYTES, SNAPSHOT
from headrace.log.log import Log
from headrace.records.batch import HEADER_BYTES, read_header
from headrace.records.codec import BatchOptions, Record, decode, encode
from tests.log.damaged import PLAIN, path
from tests.log.keyed import CONFIG, compact_all, put
from tests.log.kit import START_MS, World, append, joined, read_now

GAPPY = msgspec.structs.replace(CONFIG, segment_bytes=100_000)
POWER_OF_TWO = 128 - 76  # the value of a batch of one record that has 128 bytes

Shape = tuple[int, int]  # bytes of a value, records
shapes = st.lists(
    st.tuples(st.sampled_from([1, 20, POWER_OF_TWO, 100, 180, 3000]), st.sampled_from([1, 1, 2, 5])),
    min_size=12,
    max_size=12,
)
places = st.one_of(st.integers(0, HEADER_BYTES - 1), st.integers(0, 10_000))
flips = st.lists(st.tuples(places, st.integers(0, 7)), min_size=1, max_size=2, unique=True)


def numbered(first: int, size: int, count: int) -> bytearray:
    """Each value says at which offset it is to stand."""
    values = (b"%06d" % (first + number) + b"x" * size for number in range(count))
    return encode([Record(None, value, (), START_MS + first) for value in values], BatchOptions())


def written(shapes: list[Shape]) -> tuple[World, list[int], list[range]]:
    """A synced log; where each batch starts, and what its offsets are."""
    world, starts, offsets = World(), [SEGMENT_HEADER_BYTES], [range(0)]
    log = world.log(config=PLAIN)
    for size, count in shapes:
        data = numbered(log.written_offset, size, count)
        offsets.append(range(log.written_offset, log.written_offset + count))
        append(log, data)
        starts.append(starts[-1] + len(data))
    assert world.sync(log) is None
    return world, starts, offsets[1:]


def found(log: Log, max_bytes: int, damaged: int | None = None) -> set[int]:
    """All that can be read, each at the offset that it was written at; only the damaged one may lie."""
    seen, offset = set(), log.start_offset
    while offset < log.written_offset:
        try:
            result = read_now(log, offset, max_bytes)
        except DamagedRange as damage:
            offset = damage.next_offset
            continue
        for record in decode(joined(result)):
            number = record.value[:6] if record.value is not None else b""
            assert not number.isdigit() or int(number) in (record.offset, damaged)
            seen.add(record.offset)
        assert result.next_offset > offset
        offset = result.next_offset
    return seen


@given(
    shapes=shapes,
    hits=st.dictionaries(st.integers(0, 11), flips, min_size=1, max_size=2),
    is_recovered=st.booleans(),
    max_bytes=st.sampled_from([1, 400, 100_000]),
)
@example([(POWER_OF_TWO, 1)] * 12, {5: [(11, 7)]}, False, 400).via("the length leads to a later batch")
@example([(POWER_OF_TWO, 1)] * 12, {5: [(11, 7)]}, True, 400).via("the length leads to a later batch")
@example([(3000, 5)] * 12, {9: [(7, 5)]}, False, 1).via("a lower offset, met by a read in small windows")
@example([(3000, 5)] * 12, {9: [(6, 1)]}, False, 400).via("a higher offset, met by a read in small windows")
@example([(100, 5)] * 12, {3: [(26, 1)]}, False, 400).via("a count that a read for a later offset passes over")
def test_one_or_two_batches_are_damaged_and_no_other_is_lost(shapes, hits, is_recovered, max_bytes):
    world, starts, offsets = written(shapes)
    log = world.store.services.logs[world.folder()]
    if is_recovered:
        world.crash()
    for number, bits in hits.items():
        for at, bit in bits:
            size = starts[number + 1] - starts[number]
            world.disk.flip_bit(path(world), starts[number] + at % size, bit)
    if is_recovered:
        log = world.log(config=PLAIN)
    whole = {offset for number, its in enumerate(offsets) if number not in hits for offset in its}
    middles = sorted(whole)[:: max(1, len(whole) // 5)]
    for offset in middles:  # by a reader who comes from nowhere
        result = None
        while result is None:
            try:
                result = read_now(log, offset, max_bytes)
            except DamagedRange as damage:
                pytest.fail(f"{offset} is whole, and {damage}")
        assert offset in {record.offset for record in decode(joined(result))}
    assert whole <= found(log, max_bytes)
    assert found(log, max_bytes) == found(log, 100_000)
    assert log.written_offset == offsets[-1][-1] + 1


@given(shapes=shapes, number=st.integers(0, 11), bits=flips)
@example([(100, 1)] * 12, 5, [(8, 1)]).via("a length that leads into nothing")
@example([(100, 5)] * 12, 5, [(26, 1)]).via("a count that the next offset does not go on from")
@example([(1, 1)] * 12, 11, [(29, 0)]).via("its records are not as late as its header says")
@example([(100, 1)] * 12, 5, [(36, 0)]).via("its header says that it is the last of all")
def test_a_lookup_by_time_passes_over_damage_that_nobody_has_met_yet(shapes, number, bits):
    """Else whoever asks is told that nothing is so late, and goes on at the end."""
    world, starts, offsets = written(shapes)
    log = world.store.services.logs[world.folder()]
    for at, bit in bits:
        size = starts[number + 1] - starts[number]
        world.disk.flip_bit(path(world), starts[number] + at % size, bit)
    whole = [its.start for other, its in enumerate(offsets) if other != number]
    for first in whole:
        told = log.offset_for_timestamp(START_MS + first)
        assert told is not None
        assert told == (first, START_MS + first) or told[0] in offsets[number], "only a damaged batch may lie"
    told = log.max_timestamp()
    assert told is not None and (told[0] in offsets[number] or told[0] == max(whole))


def test_a_lookup_by_time_fails_while_what_is_not_synced_does_not_read_as_it_was_written():
    world = World()
    log = world.log(config=msgspec.structs.replace(PLAIN, index_interval_bytes=1 << 20))
    for number in range(12):
        append(log, numbered(number, 100, 1))
    size = len(numbered(0, 100, 1))
    world.disk.flip_bit(path(world), SEGMENT_HEADER_BYTES + 5 * size + 8, 1)
    for lookup in (log.timestamp_lookup(START_MS + 9), log.max_timestamp_lookup()):
        with pytest.raises(StorageFailed, match="not synced yet"):
            lookup.run()
    with pytest.raises(StorageFailed, match="not synced yet"):  # the next one has it synced
        log.offset_for_timestamp(START_MS + 9)
    assert log.synced_offset == 0
    world.background.drain()
    assert log.synced_offset == 12
    assert log.offset_for_timestamp(START_MS + 9) == (9, START_MS + 9)
    assert world.kinds() == ["log.damage"]


def odd(number: int) -> bool:
    return number % 2 == 1


def in_pairs(number: int) -> bool:
    return number % 4 >= 2


def with_gaps(is_kept: Callable[[int], bool] = odd) -> tuple[World, Log, list[int], list[int]]:
    """A compacted log; where its batches start, and their offsets."""
    world = World(config=GAPPY)
    log = world.log()
    for number in range(40):
        put(log, (b"key %d" % number if is_kept(number) else b"the same", b"%06d" % number + b"v" * 54))
    compact_all(log, world)
    data, starts, offsets = world.disk.contents(log.segments[0].path()), [], []
    at = SEGMENT_HEADER_BYTES
    while at < len(data):
        header = read_header(data, at)
        starts.append(at)
        offsets.append(header.base_offset)
        at += header.size
    assert offsets[:4] == [number for number in range(40) if is_kept(number)][:4]
    return world, log, starts, offsets


def hit(world: World, log: Log, starts: list[int], place: int, bits: list[tuple[int, int]]) -> None:
    for at, bit in bits:
        size = starts[place + 1] - starts[place]
        world.disk.flip_bit(log.segments[0].path(), starts[place] + at % size, bit)


@given(place=st.integers(0, 15), bits=flips, is_kept=st.sampled_from([odd, in_pairs]))
@example(5, [(9, 4)], odd).via("a length")
@example(5, [(7, 3)], odd).via("an offset")
@example(5, [(80, 0)], odd).via("a value")
@example(5, [(16, 1)], odd).via("no batch of ours any more")
@example(5, [(7, 1)], odd).via("an offset that is too low, by little")
@example(6, [(7, 1), (8, 7)], odd).via("an offset, and a length below zero")
def test_in_a_compacted_segment_damage_costs_its_own_batch_too(place, bits, is_kept):
    world, log, starts, offsets = with_gaps(is_kept)
    hit(world, log, starts, place, bits)
    others = set(offsets) - {offsets[place]}
    lost = others - found(log, 400, offsets[place])
    if any(at % (starts[place + 1] - starts[place]) < 8 for at, _ in bits):
        others -= lost & set(offsets[max(0, place - 1) : place + 2])  # nothing may tell which of two lies
    assert others <= found(log, 400, offsets[place])


@pytest.mark.parametrize("is_recovered", [False, True])
@pytest.mark.parametrize("is_kept", [odd, in_pairs])
@pytest.mark.parametrize("bit", range(64))
def test_an_offset_that_lies_costs_one_neighbour_at_most_and_that_where_nothing_tells_them_apart(
    is_kept, bit, is_recovered
):
    for place in (0, 1, 6, 7):
        world, log, starts, offsets = with_gaps(is_kept)
        hit(world, log, starts, place, [(7 - bit // 8, bit % 8)])
        if is_recovered:
            world.files.remove(f"{world.folder()}/{SNAPSHOT}")
            world.crash()
            log = world.log()
            assert log.written_offset == 41
        lies = offsets[place] ^ 1 << bit
        before, behind = (offsets[place - 1] if place else -1), offsets[place + 1]
        seen = found(log, 400, offsets[place])
        assert seen == found(log, 100_000, offsets[place])
        lost = set(offsets) - {offsets[place]} - seen
        if before < lies < behind:
            assert not lost, "it lies in the gap, where no one can tell"
            continue
        assert len(lost) <= 1
        for offset in lost:  # the two are in one hole
            hole = log.holes.at(offset)
            assert hole is not None
            assert hole is log.holes.at(offsets[place])
            first = offsets[place - 2] + 1 if place > 1 else 0
            assert first < lies <= before or behind <= lies < offsets[place + 2] - 1, "there was one who could tell"


def test_a_header_of_zeros_in_a_compacted_segment_costs_its_own_batch():
    world, log, starts, offsets = with_gaps()
    data = world.disk.contents(log.segments[0].path())
    for at in range(starts[5], starts[5] + HEADER_BYTES):
        for bit in range(8):
            if data[at] >> bit & 1:
                world.disk.flip_bit(log.segments[0].path(), at, bit)
    assert found(log, 400) >= set(offsets) - {offsets[5]}


@pytest.mark.parametrize("bits", [[(10, 4)], [(10, 4), (80, 0)]])
def test_a_length_that_leads_to_a_later_batch_of_a_compacted_segment_costs_none_before_it(bits):
    world = World(config=GAPPY)
    log = world.log()
    for number in range(80):  # of 128 bytes each, so that a bit of a length leads from the start of one to another's
        key = b"key %d" % number if odd(number) else b"the same"
        put(log, (key, (b"%06d" % number).ljust(POWER_OF_TWO + 7 - len(key), b"v")))
    compact_all(log, world)
    segment = world.disk.contents(log.segments[0].path())
    starts = [SEGMENT_HEADER_BYTES + 128 * place for place in range(39)]
    offsets = [read_header(segment, at).base_offset for at in starts]
    assert offsets == list(range(1, 78, 2))
    hit(world, log, starts, 0, bits)
    assert found(log, 400) >= set(offsets[1:])


def test_a_batch_in_a_record_is_not_taken_for_the_next_one():
    """Who knows what offset comes next can write a record that holds a batch with it. The length of what holds it is
    damaged; its checksum still says where it ends."""
    for bit in range(4, 8):
        world = World()
        log = world.log(config=PLAIN)
        for number in range(12):
            inner = numbered(number + 1, 10, 1)
            append(log, encode([Record(None, b"%06d" % number + inner, (), START_MS)], BatchOptions()))
        assert world.sync(log) is None
        data = world.disk.contents(path(world))
        at = SEGMENT_HEADER_BYTES
        for _ in range(5):
            at += read_header(data, at).size
        world.disk.flip_bit(path(world), at + 11, bit)
        assert found(log, 400) == set(range(12)) - {5}
