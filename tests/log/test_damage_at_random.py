"""A log whose bytes changed at random places: whoever reads gets what was written, or is told that it is damaged, and
is told the same again. What can be read stays readable, over restarts and behind what is written later.

A batch whose offset was hit may pass for another one where compaction has left gaps, and hide a neighbour: no checksum
covers an offset. Nothing else may."""

from __future__ import annotations

import random
from collections.abc import Iterable

import msgspec
import pytest

from headrace.errors import DamagedRange
from headrace.log.config import LogConfig
from headrace.log.format import SEGMENT_HEADER_BYTES
from headrace.log.log import Log
from headrace.records.batch import read_header
from headrace.records.codec import Record, decode, encode
from headrace.testing.disk import SimulatedDisk
from tests.log.keyed import CONFIG, compact_all, put
from tests.log.kit import START_MS, World, append, joined, read_now

READ_BYTES = (1, 400, 2000, 100_000)
SIZES = ([1], [52], [1, 20, 52, 100], [100, 3000], [20, 20, 20, 5000])


class Batch(msgspec.Struct, frozen=True):
    path: str
    at: int
    size: int
    offsets: range


def value(offset: int, size: int) -> bytes:
    return b"%06d" % offset + b"x" * size


def built(chance: random.Random, has_gaps: bool) -> tuple[World, Log]:
    interval_bytes = chance.choice([200, 400, 4000])
    sizes, counts = chance.choice(SIZES), chance.choice([[1], [1, 1, 2, 5], [3]])
    if has_gaps:
        segment_bytes = chance.choice([1500, 4000, 100_000])
        config = msgspec.structs.replace(CONFIG, segment_bytes=segment_bytes, index_interval_bytes=interval_bytes)
    else:
        segment_bytes = chance.choice([1000, 4000, 30_000, 1 << 20])
        config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=interval_bytes, tail_bytes=0)
    world = World(SimulatedDisk(chance.randrange(1 << 30)), config=config)
    log = world.log()
    until = chance.randint(10, 60)
    while log.written_offset < until:
        first, count = log.written_offset, chance.choice(counts)
        values = [value(first + number, chance.choice(sizes)) for number in range(count)]
        if has_gaps:
            keys = [b"key %d" % (first + number) if chance.random() < 0.6 else b"the same" for number in range(count)]
            put(log, *zip(keys, values, strict=True), now_ms=START_MS + first)
        else:
            append(log, encode([Record(None, each, (), START_MS + first) for each in values]))
    if has_gaps:
        compact_all(log, world)
    else:
        assert world.sync(log) is None
    world.background.drain()
    return world, log


def batches(world: World, log: Log) -> list[Batch]:
    found = []
    for segment in log.segments:
        path, at = segment.path(), SEGMENT_HEADER_BYTES
        while at < segment.size:
            header = read_header(world.disk.contents(path), at)
            found.append(Batch(path, at, header.size, range(header.base_offset, header.next_offset)))
            at += header.size
    return found


def strike(chance: random.Random, world: World, batch: Batch) -> None:
    size = len(world.disk.contents(batch.path))
    within = chance.choice([chance.randrange(12), chance.randrange(61), chance.randrange(batch.size)])
    begin = batch.at + within % batch.size
    match chance.choice(["flip", "flip", "zeros", "noise", "tear"]):
        case "flip":
            world.disk.flip_bit(batch.path, begin, chance.randrange(8))
        case "tear":
            world.disk.tear(batch.path, begin)
        case kind:
            for at in range(begin, min(begin + chance.choice([1, 8, 61, 512]), size)):
                was = world.disk.contents(batch.path)[at]
                new = 0 if kind == "zeros" else chance.randrange(256)
                for bit in range(8):
                    if (was ^ new) >> bit & 1:
                        world.disk.flip_bit(batch.path, at, bit)


def readable(log: Log, max_bytes: int) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    offset = log.start_offset
    while offset < log.written_offset:
        try:
            result = read_now(log, offset, max_bytes)
        except DamagedRange as damage:
            assert damage.next_offset > offset
            offset = damage.next_offset
            continue
        for record in decode(joined(result)):
            assert record.value is not None
            assert found.setdefault(record.offset, record.value) == record.value
        assert result.next_offset > offset
        offset = result.next_offset
    return found


def numbers(batches: Iterable[Batch]) -> set[int]:
    return {offset for batch in batches for offset in batch.offsets}


def check(seed: int, has_gaps: bool) -> None:
    chance = random.Random(seed)
    world, log = built(chance, has_gaps)
    every, end, max_bytes = batches(world, log), log.written_offset, chance.choice(READ_BYTES)
    truth = readable(log, 100_000)
    is_recovered = chance.random() < 0.5
    if is_recovered:
        world.crash()
    before = {path: world.disk.contents(path) for path in {batch.path for batch in every}}
    for _ in range(chance.choice([1, 1, 2])):
        strike(chance, world, chance.choice(every))

    def is_hit(batch: Batch, size: int) -> bool:
        now = world.disk.contents(batch.path)
        return now[batch.at : batch.at + size] != before[batch.path][batch.at : batch.at + size]

    hit = [batch for batch in every if is_hit(batch, batch.size)]
    liars = numbers(batch for batch in hit if is_hit(batch, 8))
    if is_recovered:
        log = world.log()
    assert log.written_offset == end, "an offset that was proven is never given again"
    for offset in chance.sample(sorted(truth), 4):
        told = log.offset_for_timestamp(START_MS + offset)
        assert told is None or told[0] in truth or liars, "nobody is sent to what never was"
    found = readable(log, max_bytes)
    for offset, seen in found.items():
        assert seen == truth.get(offset) or (has_gaps and int(seen[:6]) in liars), f"{seen[:6]!r} at {offset}"
    if not liars:
        assert set(truth) - numbers(hit) <= set(found), "what was not hit is there"
    assert readable(log, 100_000) == found, "whoever asks again gets the same"
    for _ in range(chance.randint(1, 2)):
        world.crash() if chance.random() < 0.7 else world.power_loss()
        log = world.log()
        assert log.written_offset == end
        earlier, found = found, readable(log, max_bytes)
        assert set(earlier) <= set(found), "what could be read stays readable"
    new = {end + number: value(end + number, 30) for number in range(3)}
    for each in new.values():
        append(log, encode([Record(b"new", each, (), START_MS + 10_000)]))
    assert world.sync(log) is None
    for _ in range(2):
        assert readable(log, max_bytes) == found | new
        world.crash()
        log = world.log()


@pytest.mark.parametrize("has_gaps", [False, True])
@pytest.mark.parametrize(
    "seeds", [range(first, first + 100) for first in range(0, 600, 100)], ids=lambda seeds: seeds[0]
)
def test_some_logs_are_damaged_at_random_and_tell(seeds: range, has_gaps: bool) -> None:
    for seed in seeds:
        check(seed, has_gaps)


def test_a_count_and_the_offset_behind_it_that_lie_alike_are_no_evidence() -> None:
    """The seed in which they once were."""
    check(22_537, has_gaps=False)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("has_gaps", [False, True])
def test_ten_thousand_logs_are_damaged_at_random_and_tell(has_gaps: bool) -> None:
    for seed in range(1000, 6000):
        check(seed, has_gaps)
