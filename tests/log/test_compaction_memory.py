"""Compaction takes the memory that it was given, however many keys there are. On a real disk."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from headrace.log.config import LogConfig, StoreLimits
from headrace.log.files import OsFiles
from headrace.log.log import Log
from headrace.records.batch import read_header
from headrace.records.codec import Record, decode, encode
from headrace.records.kernel import NATIVE, OffsetMap
from tests.log.keyed import compact, put, roll
from tests.log.kit import START_MS, Steps, World, joined, read_now

RECORDS = 500  # in a batch
REST_BYTES = 40 << 20  # windows, a batch of output, what the allocator keeps

pytestmark = [
    pytest.mark.skipif(not NATIVE, reason="the twin's bound is by count of keys: a dict grows in leaps"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc"),
]


def memory_bytes() -> int:
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def fill(log: Log, keys: int, turn: int) -> None:
    for first in range(0, keys, RECORDS):
        numbers = range(first, first + RECORDS)
        data = encode([Record(b"key-%d" % number, b"%d" % turn, (), START_MS) for number in numbers])
        log.stage(data, read_header(data), START_MS, 0)
        log.flush()


def check_all(log: Log, keys: int, turn: int) -> None:
    """Each key once, with its last value."""
    seen, offset = bytearray(keys), log.start_offset
    while offset < log.written_offset:
        found = read_now(log, offset, 4 << 20)
        for record in decode(joined(found)):
            assert record.key is not None
            if record.key != b"end":
                number = int(record.key[4:])
                assert record.value == b"%d" % turn
                assert not seen[number]
                seen[number] = 1
        offset = found.next_offset
    assert sum(seen) == keys


def compact_within(tmp_path: Path, keys: int, limit_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    config = LogConfig(segment_bytes=64 << 20, retention_ms=-1, is_compacted=True, min_dirty_ratio=0.0)
    world = World(OsFiles(), str(tmp_path / "data"), StoreLimits(compaction_bytes=limit_bytes), config)
    log = world.log()
    for turn in range(2):
        fill(log, keys, turn)
        world.sync(log)
    roll(log, world)
    put(log, (b"end", b"end"))
    world.sync(log)
    most, honest = [memory_bytes()], Steps.work
    base = most[0]

    def watched(self: Steps, place: int = 0) -> None:
        honest(self, place)
        most[0] = max(most[0], memory_bytes())

    monkeypatch.setattr(Steps, "work", watched)
    compact(log, world)
    passes = [details for kind, details in world.events if kind == "log.compacted"]
    assert len(passes) > keys // (limit_bytes // OffsetMap.KEY_BYTES)
    assert most[0] - base < limit_bytes + REST_BYTES
    check_all(log, keys, 1)
    world.stop()


def test_many_keys_take_several_passes_and_no_more_memory(tmp_path, monkeypatch):
    compact_within(tmp_path, 200_000, 2 << 20, monkeypatch)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_ten_million_keys_take_no_more_memory_than_the_setting(tmp_path, monkeypatch):
    compact_within(tmp_path, 10_000_000, 128 << 20, monkeypatch)
