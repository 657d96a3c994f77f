"""Which batch is the next true one behind a damaged one: whatever the sizes, whoever meets it, and where compaction has
left gaps. What is not hit stays readable, at its own offset, and a lookup by time finds it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.errors import DamagedRange, StorageFailed
from headrace.log.format import INDEX, SEGMENT_HEADER_BYTES, SNAPSHOT
from headrace.log.log import Log
from headrace.log.reader import FileRead
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
@example([(20, 1)] * 12, {2: [(70, 0)], 8: [(7, 0)]}, False, 100_000).via("a higher offset, behind a hole")
@example([(20, 5)] * 12, {4: [(70, 0)], 5: [(7, 0)]}, False, 400).via("a lower offset, right behind a damaged batch")
@example([(20, 5)] * 12, {4: [(17, 0)], 5: [(7, 0)]}, True, 400).via("a lower offset, right behind a damaged batch")
@example([(20, 1)] * 12, {4: [(26, 1)], 5: [(7, 1)]}, True, 400).via("a count and the offset behind it, alike")
@example([(20, 1)] * 12, {4: [(26, 1)], 5: [(7, 1)]}, False, 400).via("a count and the offset behind it, alike")
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
@example([(1, 1)] * 12, 0, [(10, 0), (110, 0)]).via("a length, in a batch that is to answer")
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


@pytest.mark.parametrize("by_maximum", [False, True])
def test_a_lookup_by_time_fails_while_what_is_not_synced_does_not_read_as_it_was_written(by_maximum):
    world = World()
    log = world.log(config=msgspec.structs.replace(PLAIN, index_interval_bytes=1 << 20))
    for number in range(12):
        append(log, numbered(number, 100, 1))
    size = len(numbered(0, 100, 1))
    world.disk.flip_bit(path(world), SEGMENT_HEADER_BYTES + 5 * size + 8, 1)
    first = log.max_timestamp_lookup() if by_maximum else log.timestamp_lookup(START_MS + 9)
    with pytest.raises(StorageFailed, match="not synced yet"):
        first.run()
    with pytest.raises(StorageFailed, match="not synced yet"):  # the next one has it synced
        (log.max_timestamp_lookup() if by_maximum else log.timestamp_lookup(START_MS + 9)).run()
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
        key = b"key %d" % number if is_kept(number) else b"the same"
        put(log, (key, b"%06d" % number + b"v" * 54), now_ms=START_MS + number)
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
    for place, max_bytes in [(0, 1), (1, 400), (6, 400), (7, 100_000), (-1, 400)]:
        world, log, starts, offsets = with_gaps(is_kept)
        place %= len(offsets)
        starts.append(len(world.disk.contents(log.segments[0].path())))
        hit(world, log, starts, place, [(7 - bit // 8, bit % 8)])
        if is_recovered:
            world.files.remove(f"{world.folder()}/{SNAPSHOT}")
            world.crash()
            log = world.log()
            assert log.written_offset == 41
        lies = offsets[place] ^ 1 << bit
        around = [-1, -1, *offsets, 40, 40]
        first, before, _, behind, last = around[place : place + 5]
        lost = set(offsets) - {offsets[place]} - found(log, max_bytes, offsets[place])
        if before < lies < behind:
            assert not lost, "it lies in the gap, where no one can tell"
            continue
        assert len(lost) <= 1
        for offset in lost:  # the two are in one hole
            assert log.holes.at(offset) is log.holes.at(offsets[place]) is not None
            assert first + 1 < lies <= before or behind <= lies < last - 1, "there was one who could tell"


@pytest.mark.parametrize("bit", [40, 9, 4, 3, 2, 1])
@pytest.mark.parametrize("is_torn", [False, True])
@pytest.mark.parametrize("place", [4, 5, 17, -1])
def test_a_lookup_by_time_believes_no_offset_that_lies_in_a_compacted_segment(place, bit, is_torn):
    for beside in range(-2, 4):
        world, log, starts, offsets = with_gaps()
        starts.append(len(world.disk.contents(log.segments[0].path())))
        hit(world, log, starts, place % len(offsets), [(7 - bit // 8, bit % 8)] + [(80, 0)] * is_torn)
        first = place % len(offsets)
        asked = offsets[first + beside : first + 3]  # of those hit, and of one beside it, the next one may answer
        if asked:
            told = log.offset_for_timestamp(START_MS + asked[0])
            answers = [(offset, START_MS + offset) for offset in asked] + [None] * (place == -1)
            assert told in answers, "at its own offset, if there is one"


def test_an_offset_that_leads_past_the_end_of_a_compacted_segment_is_none():
    world = World(config=GAPPY)
    log = world.log()
    for number in range(37):
        put(log, (b"key %d" % number if odd(number) else b"the same", b"%06d" % number))
    put(log, *((b"key %d" % number, b"%06d" % number) for number in range(37, 40)), now_ms=START_MS + 37)
    compact_all(log, world)
    data = world.disk.contents(log.segments[0].path())
    last = data.rindex(b"000037")
    start = max(at for at in range(SEGMENT_HEADER_BYTES, last) if data[at : at + 8] == (37).to_bytes(8, "big"))
    world.disk.flip_bit(log.segments[0].path(), start + 7, 1)  # 39 to 41
    assert log.offset_for_timestamp(START_MS + 37) is None
    assert max(found(log, 400) - {40}) == 36
    assert [(hole.offset, hole.next_offset) for hole in log.holes] == [(37, 40)]


def test_one_that_contradicts_but_is_damaged_itself_puts_none_in_doubt():
    world, log, starts, offsets = with_gaps()
    hit(world, log, starts, 5, [(7, 1), (80, 0)])  # 11 says 9, and is not true
    assert found(log, 400) >= set(offsets) - {11}


@pytest.mark.parametrize("is_recovered", [False, True])
@pytest.mark.parametrize("place", [0, 1, 5, 9, 16])
def test_what_a_lying_offset_skips_is_missed_though_the_batch_that_would_tell_is_damaged(place, is_recovered):
    for bit in range(8):
        for at in (80, 8, 17, 26):  # its records, its length, its checksum, its count
            world, log, starts, offsets = with_gaps()
            hit(world, log, starts, place, [(7, bit)])
            hit(world, log, starts, place + 1, [(at, 1)])
            if is_recovered:
                world.crash()
                log = world.log()
            lost = set(offsets) - found(log, 400, offsets[place]) - set(offsets[place : place + 2])
            assert len(lost) <= 1, "the one who contradicts it"
            for offset in lost:
                assert log.holes.at(offset) is not None
            assert found(log, 400, offsets[place]) == found(log, 100_000, offsets[place])
            for offset in set(offsets) - lost - set(offsets[place : place + 2]):
                assert log.offset_for_timestamp(START_MS + offset) is not None


def test_a_lookup_by_time_leaves_the_index_of_the_segment_that_is_written_to_as_it_is():
    world = World()
    log = world.log(config=msgspec.structs.replace(PLAIN, index_interval_bytes=200))
    for number in range(100):
        append(log, numbered(number, 100, 1))
    assert world.sync(log) is None
    (segment,) = log.segments
    assert segment.index is not None
    entries, place = len(segment.index.positions), 5
    world.disk.flip_bit(path(world), segment.index.positions[place] + 6, 3)
    asked = segment.index.offsets[place]
    assert log.offset_for_timestamp(START_MS + asked + 1) == (asked + 1, START_MS + asked + 1)
    assert len(segment.index.positions) == entries


@pytest.mark.parametrize("is_known", [False, True])
def test_bytes_that_were_made_to_look_like_batches_cost_who_reads_before_them_little(monkeypatch, is_known):
    """Each says that a megabyte is its own, and none is true."""
    world = World(config=msgspec.structs.replace(GAPPY, segment_bytes=8 << 20))
    log = world.log()
    for number in range(6):
        put(log, (b"key %d" % number if odd(number) else b"the same", b"%06d" % number))
    looks = bytearray(encode([Record(None, b"x", (), START_MS)])[:HEADER_BYTES])
    looks[:12] = (7).to_bytes(8) + (1 << 20).to_bytes(4)
    put(log, (b"key 6", bytes(looks) * 15_000))
    for number in range(7, 30):
        put(log, (b"key %d" % number, b"%06d" % number + b"v" * 100_000))
    compact_all(log, world)
    segment = log.segments[0]
    data, start = world.disk.contents(segment.path()), SEGMENT_HEADER_BYTES
    while (header := read_header(data, start)).base_offset != 6:
        start += header.size
    world.disk.flip_bit(segment.path(), start + 8, 7)  # a length below zero
    if is_known:
        with pytest.raises(DamagedRange):
            read_now(log, 6)
    fetched = {"pread": 0, "pread_nowait": 0}
    for name in fetched:
        real = getattr(world.disk, name)

        def counted(handle, size, position, real=real, name=name):
            data = real(handle, size, position)
            fetched[name] += len(data or b"")
            return data

        monkeypatch.setattr(world.disk, name, counted)
    assert read_now(log, 5, 100).next_offset == 6
    assert fetched["pread_nowait"] < 1 << 20, "nothing that could take long is done on the loop"
    assert fetched["pread"] < 40 << 20


def test_a_lookup_by_time_does_not_go_on_from_an_index_that_names_what_is_not_there():
    for place in range(2, 18):
        for bit in range(4):
            world, log, starts, offsets = with_gaps()
            hit(world, log, starts, place, [(7, bit)])
            hit(world, log, starts, place + 1, [(80, 0)])
            for offset in offsets[: place + 3]:
                told = log.offset_for_timestamp(START_MS + offset)
                assert told is not None
                assert (
                    offset <= told[1] - START_MS <= max(offset, *offsets[place : place + 3], offsets[place] ^ 1 << bit)
                )


def test_the_largest_time_is_looked_for_anew_where_a_damaged_batch_says_that_it_has_it():
    world = World()
    log = world.log(config=PLAIN)
    times = [START_MS + (1 << 41), *range(START_MS, START_MS + 11)]
    for time_ms in times:
        append(log, encode([Record(None, b"x", (), time_ms)], BatchOptions()))
    assert world.sync(log) is None
    log.delete_records(1)
    world.background.drain()
    at = SEGMENT_HEADER_BYTES
    for _ in range(5):
        at += read_header(world.disk.contents(path(world)), at).size
    world.disk.flip_bit(path(world), at + 38, 6)  # later than all, but the first one, which is gone
    assert log.max_timestamp() == (11, START_MS + 10)
    assert world.kinds() == ["log.damage"]


@pytest.mark.parametrize("place", range(4, 14))
def test_an_index_made_anew_names_no_batch_that_the_next_one_contradicts(place):
    """Whoever reads from where an index says takes its offset for true."""
    for bit in range(1, 6):
        world, log, starts, offsets = with_gaps()
        lies = offsets[place] ^ 1 << bit
        if not offsets[place + 1] <= lies < 40:
            continue
        hit(world, log, starts, place, [(7, bit)])
        world.files.remove(log.segments[0].path(INDEX))
        world.crash()
        try:
            result = read_now(world.log(), lies, 1)
        except DamagedRange:
            continue
        assert [record.value[:6] for record in decode(joined(result))] == [b"%06d" % lies]


def test_a_batch_that_is_read_in_part_without_waiting_is_waited_for_before_its_neighbour_is_believed(monkeypatch):
    world, log, starts, offsets = with_gaps()
    hit(world, log, starts, 5, [(7, 2)])  # 11 says 15
    nowait, edge = world.disk.pread_nowait, starts[6] + 30
    monkeypatch.setattr(world.disk, "pread_nowait", lambda *where: (nowait(*where) or b"")[: max(0, edge - where[2])])
    assert isinstance(log.read(offsets[5], 1), FileRead)


def test_two_offsets_side_by_side_that_lie_cost_none_but_themselves_and_one_neighbour():
    world, log, starts, offsets = with_gaps()
    hit(world, log, starts, 0, [(6, 4)])  # 1 says 4097
    hit(world, log, starts, 1, [(7, 5)])  # 3 says 35
    assert set(offsets) - found(log, 400) <= set(offsets[:3])


def test_an_offset_that_lies_is_doubted_before_a_hole_that_is_known_is_taken_for_all_that_lies_ahead():
    world, log, starts, offsets = with_gaps()
    hit(world, log, starts, 3, [(7, 4)])  # 7 says 23
    hit(world, log, starts, 10, [(80, 0)])  # 21
    with pytest.raises(DamagedRange):
        read_now(log, offsets[10], 400)
    assert set(offsets) - found(log, 400, offsets[3]) <= {offsets[3], offsets[4], offsets[10]}


def test_a_header_of_zeros_in_a_compacted_segment_costs_its_own_batch():
    world, log, starts, offsets = with_gaps()
    data = world.disk.contents(log.segments[0].path())
    for at in range(starts[5], starts[5] + HEADER_BYTES):
        for bit in range(8):
            if data[at] >> bit & 1:
                world.disk.flip_bit(log.segments[0].path(), at, bit)
    assert found(log, 400) >= set(offsets) - {offsets[5]}


def test_a_length_that_leads_to_a_later_batch_of_a_compacted_segment_costs_none_before_it():
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
    hit(world, log, starts, 0, [(10, 4)])
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
