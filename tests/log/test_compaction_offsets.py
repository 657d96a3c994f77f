"""Only its neighbours tell that a batch's offset changed on the disk, and compaction takes these away: so it looks."""

from __future__ import annotations

import pytest

from headrace.errors import DamagedRange
from headrace.log import sifting
from headrace.log.compactor import AGAIN_MS
from headrace.log.config import LogConfig
from headrace.log.format import SEGMENT_HEADER_BYTES
from headrace.log.log import Log
from headrace.log.segment import Segment
from headrace.records.codec import decode
from tests.log.keyed import CONFIG, batches_of, compact, compact_all, put, roll
from tests.log.kit import World, joined, read_now

BATCHES = 40
PLACES = [(0, 5), (0, 0), (7, 0), (8, 1), (20, 3), (20, 2), (39, 2), (39, 0)]  # of a batch, and which bit changes
LARGE = LogConfig(
    segment_bytes=100_000,
    index_interval_bytes=200,
    tail_bytes=0,
    retention_ms=-1,
    is_compacted=True,
    min_dirty_ratio=0.0,
    delete_retention_ms=CONFIG.delete_retention_ms,
)


def two_segments(compression: str = "none") -> tuple[World, Log]:
    """The first with a batch for each offset, of a few keys."""
    world = World(config=LARGE)
    log = world.log()
    for number in range(BATCHES):
        put(log, (b"k%d" % (number % 5), b"%d" % number + b"." * 40), compression=compression)
    roll(log, world)
    put(log, (b"end", b"end"))
    world.sync(log)
    return world, log


def change_offset(world: World, segment: Segment, place: int, bit: int) -> int:
    """Of the batch in that place; what it was."""
    batches = batches_of(world.disk.contents(segment.path())[SEGMENT_HEADER_BYTES:])
    position = SEGMENT_HEADER_BYTES + sum(len(data) for _, data in batches[:place])
    world.disk.flip_bit(segment.path(), position + 7, bit)
    return batches[place][0].base_offset


def found(log: Log) -> dict[int, bytes]:
    """Values by offset, past what is damaged."""
    values: dict[int, bytes] = {}
    offset = log.start_offset
    while offset < log.written_offset:
        try:
            result = read_now(log, offset)
        except DamagedRange as damage:
            offset = damage.next_offset
            continue
        values |= {record.offset: record.value or b"" for record in decode(joined(result))}
        offset = result.next_offset
    return values


def holes(log: Log) -> list[tuple[int, int]]:
    return [(hole.offset, hole.next_offset) for hole in log.holes]


def why(world: World) -> list[str]:
    return [details["why"] for kind, details in world.events if kind == "log.not-compacted"]


@pytest.mark.parametrize("window_bytes", [1 << 20, 300, 100])
@pytest.mark.parametrize(("place", "bit"), PLACES)
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_changed_offset_is_damage_and_not_what_the_log_says_from_then_on(
    place: int, bit: int, window_bytes: int, compression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sifting, "WINDOW_BYTES", window_bytes)
    world, log = two_segments(compression)
    before, damaged = found(log), log.segments[0]
    change_offset(world, damaged, place, bit)
    compact(log, world)
    assert holes(log) == [(place, place + 1)]
    assert "log.damage" in world.kinds()
    assert [f"from offset {place}: offset {place ^ (1 << bit)} where" in text for text in why(world)] == [True]
    world.clock.ms += AGAIN_MS
    put(log, (b"k1", b"behind"))
    compact_all(log, world)
    assert damaged in log.segments, "segments with holes stay as they are"
    after = found(log)
    assert after.items() >= {offset: value for offset, value in before.items() if offset != place}.items()
    assert place not in after


@pytest.mark.parametrize("steps", [1, 4096])
def test_a_changed_offset_behind_a_hole_and_from_step_to_step_is_met_as_well(
    steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sifting, "WINDOW_BYTES", 150)
    monkeypatch.setattr(sifting, "STEP_BYTES", steps)
    world, log = two_segments()
    damaged = log.segments[0]
    change_offset(world, damaged, 10, 4)
    compact(log, world)
    change_offset(world, damaged, 11, 6)
    world.clock.ms += AGAIN_MS
    compact(log, world)
    assert holes(log) == [(10, 11), (11, 12)]
    world.clock.ms += AGAIN_MS
    compact(log, world)
    assert log.cleaned_offset == BATCHES
    assert len(why(world)) == 2


def compacted() -> tuple[World, Log, Segment]:
    """With a segment in which offsets have gaps, and something to be compacted behind it."""
    world, log = two_segments()
    compact(log, world)
    put(log, (b"k0", b"behind"))
    roll(log, world)
    put(log, (b"end", b"end"))
    world.sync(log)
    made = log.segments[0]
    assert made.has_gaps
    return world, log, made


def test_where_there_are_gaps_offsets_have_to_rise() -> None:
    world, log, made = compacted()
    offset = change_offset(world, made, 2, 5)
    compact(log, world)
    assert [hole.offset for hole in log.holes] == [offset]
    world.clock.ms += AGAIN_MS
    compact(log, world)
    assert log.cleaned_offset > BATCHES
    assert made in log.segments


@pytest.mark.parametrize(("place", "bit"), [(4, 0), (8, 0), (14, 0), (21, 1), (30, 0), (BATCHES - 3, 1)])
def test_where_there_are_gaps_an_offset_that_two_batches_say_is_damage_whichever_is_wrong(place: int, bit: int) -> None:
    world = World(config=LARGE)
    log = world.log()
    for number in range(BATCHES):
        put(log, (b"k%d" % number, b"1" * 60))
    put(log, (b"k0", b"2"), (b"k1", b"2"))
    compact_all(log, world)
    put(log, (b"k2", b"2"))
    roll(log, world)
    put(log, (b"end", b"end"))
    world.sync(log)
    made = log.segments[0]
    assert made.has_gaps and made.next_offset == BATCHES + 2
    offset = change_offset(world, made, place, bit)
    for _ in range(2):
        compact(log, world)
        world.clock.ms += AGAIN_MS
    assert any(first <= offset < behind for first, behind in holes(log))
    assert log.cleaned_offset > BATCHES + 2


def test_an_offset_behind_the_end_of_its_segment_is_not_taken_for_what_compaction_wrote() -> None:
    world, log, made = compacted()
    offset = change_offset(world, made, 4, 7)
    compact(log, world)
    (told,) = why(world)
    assert f"{made.path()}, from offset {offset}: offset {offset + 128} is too high" in told
    assert made in log.segments
