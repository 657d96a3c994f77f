"""Start-up does not grow with the data: what was saved is trusted, and only what came after it is looked at."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from headrace.broker.topic import folder_name
from headrace.records import codec
from tests.growth.sparse import BATCH_BYTES, BATCHES, TIME_MS, SparseLog
from tests.support import MIB, Wire, rss_bytes, serving

GIB = 1 << 30
PARTITIONS, SEGMENTS = 4, 26
UNSAVED_BATCHES = 6  # 48 MiB: almost as much as a log appends before it saves a snapshot again
START_LIMIT_S = 2.0


def make(home: Path, unsaved_batches: int) -> list[SparseLog]:
    """104 GiB in four partitions; a part of each partition's last segment came after its snapshot, as after a kill."""
    with serving(home) as node, Wire(node.address) as wire:
        wire.create_topic("huge", PARTITIONS, {"retention.ms": "-1"})
        topic_id = wire.topic_id("huge").bytes
    logs = []
    for partition in range(PARTITIONS):
        place = home / "data" / "topics" / folder_name("huge", topic_id) / str(partition)
        log = SparseLog(place, topic_id + partition.to_bytes(4, "big"))
        for _ in range(SEGMENTS):
            log.add_segment()
        log.save()
        if unsaved_batches:
            log.add_segment(unsaved_batches)
        logs.append(log)
    assert sum(log.size_bytes for log in logs) > 100 * GIB
    return logs


@pytest.mark.parametrize("unsaved_batches", [0, UNSAVED_BATCHES])
def test_a_hundred_gibibytes_start_within_two_seconds_and_are_read_at_places_all_over(
    tmp_path: Path, unsaved_batches: int
) -> None:
    logs = make(tmp_path, unsaved_batches)
    begin = time.monotonic()
    with serving(tmp_path) as node:
        with Wire(node.address) as wire:
            ends = [end_offset(wire, partition) for partition in range(PARTITIONS)]
            took_s = time.monotonic() - begin
        assert ends == [log.next_offset for log in logs]
        assert took_s < START_LIMIT_S, f"{took_s:.2f} s until every partition was served"
        with Wire(node.address) as wire:
            check_reading(wire, logs)
        assert rss_bytes(node.pid) < 300 * MIB
        assert "log." not in node.log(), node.log()


def test_a_thousand_small_segments_start_as_quickly(tmp_path: Path) -> None:
    with serving(tmp_path) as node, Wire(node.address) as wire:
        wire.create_topic("many")
        topic_id = wire.topic_id("many").bytes
    log = SparseLog(tmp_path / "data" / "topics" / folder_name("many", topic_id) / "0", topic_id + bytes(4))
    for _ in range(1000):
        log.add_segment(batches=1)
    log.save()
    begin = time.monotonic()
    with serving(tmp_path) as node, Wire(node.address) as wire:
        assert end_offset(wire, 0, "many") == 1000
        assert time.monotonic() - begin < START_LIMIT_S
        for offset in (0, 500, 999):
            assert first_offset(wire, "many", 0, offset) == offset


def end_offset(wire: Wire, partition: int, topic: str = "huge") -> int:
    fetched = wire.fetch(topic, 0, partition, max_wait_ms=0, max_bytes=1)
    assert fetched.error == 0
    return fetched.high_watermark


def first_offset(wire: Wire, topic: str, partition: int, offset: int) -> int:
    fetched = wire.fetch(topic, offset, partition, max_wait_ms=0, max_bytes=1)
    (record,) = codec.decode(b"".join(fetched.pieces or []))
    assert record.value is not None and len(record.value) == BATCH_BYTES
    assert record.timestamp_ms == TIME_MS
    return record.offset


def check_reading(wire: Wire, logs: list[SparseLog]) -> None:
    for partition, log in enumerate(logs):
        for offset in (0, 1, BATCHES, log.next_offset // 2, log.next_offset - 1):
            assert first_offset(wire, "huge", partition, offset) == offset
