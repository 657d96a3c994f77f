"""Keyed records for the tests of compaction, and the model that it is held to: a dict of last values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from headrace.log.config import LogConfig, Staged
from headrace.log.dirt import find_dirt
from headrace.log.log import Log
from headrace.records.batch import BatchHeader, read_header
from headrace.records.codec import BatchOptions, Producer, Record, decode, encode
from headrace.records.control import Marker, encode_marker
from tests.log.kit import START_MS, World, read_all

CONFIG = LogConfig(
    segment_bytes=1000,
    index_interval_bytes=200,
    tail_bytes=0,
    retention_ms=-1,
    is_compacted=True,
    min_dirty_ratio=0.0,
    delete_retention_ms=1000,
)

Pair = tuple[bytes, bytes | None]


def put(log: Log, *pairs: Pair, now_ms: int = START_MS, **options: Any) -> Staged:
    """One batch of these, written."""
    data = encode([Record(key, value, (), now_ms) for key, value in pairs], BatchOptions(**options))
    staged = log.stage(data, read_header(data), now_ms, 0)
    log.flush()
    return staged


def put_each(log: Log, pairs: Sequence[Pair], **options: Any) -> None:
    for pair in pairs:
        put(log, pair, **options)


def filled(rounds: int = 6, config: LogConfig = CONFIG, **options: Any) -> tuple[World, Log]:
    """Five keys, each written once a round."""
    world = World(config=config)
    log = world.log()
    for turn in range(rounds):
        put_each(log, [(b"k%d" % key, b"%d" % turn + b"." * 60) for key in range(5)], **options)
    return world, log


def transactional(log: Log, producer: Producer, *pairs: Pair, now_ms: int = START_MS) -> Staged:
    return put(log, *pairs, now_ms=now_ms, producer=producer, is_transactional=True)


def end_transaction(log: Log, producer: Producer, *, commit: bool, now_ms: int = START_MS) -> int:
    """The marker's offset."""
    data = encode_marker(Marker(commit, 0), producer.id, producer.epoch, now_ms)
    staged = log.stage(data, read_header(data), now_ms, 0, is_own=True, marker=Marker(commit, 0))
    log.flush()
    return staged.base_offset


def roll(log: Log, world: World) -> None:
    """The next batch begins a segment, and all before it is synced."""
    if log.segments[-1].size:
        log.start_segment(log.written_offset, world.clock.ms)
    assert world.sync(log) is None or log.written_offset == log.synced_offset


def compact(log: Log, world: World) -> None:
    """All that may be compacted is."""
    world.background.drain()
    log.services.compactor.look(log, world.clock.ms)
    world.background.drain()


def compact_all(log: Log, world: World) -> None:
    roll(log, world)
    put(log, (b"end", b"end"))
    world.sync(log)
    compact(log, world)
    dirt = find_dirt(log, world.clock.ms)
    assert log.cleaned_offset == dirt.end_offset, world.events


def records(log: Log) -> list[Record]:
    return decode(read_all(log, 700))


def state(log: Log, skip: Callable[[BatchHeader], bool] = lambda _: False) -> dict[bytes, bytes]:
    """What a reader knows who has read all of it, but for batches that it skips."""
    found: dict[bytes, bytes] = {}
    batches = [bytes(read_batch) for header, read_batch in batches_of(read_all(log, 700)) if not skip(header)]
    for record in decode(b"".join(batches)):
        assert record.key is not None
        if record.value is None:
            found.pop(record.key, None)
        else:
            found[record.key] = record.value
    return found


def committed(log: Log, under_way: Collection[int] = ()) -> dict[bytes, bytes]:
    """What `read_committed` sees: aborted batches are skipped, and those of transactions under way."""
    aborted = log.transactions.aborted(log.start_offset, log.written_offset)

    def is_skipped(header: BatchHeader) -> bool:
        is_aborted = any(
            header.producer_id == producer_id and first <= header.base_offset < marker
            for producer_id, first, marker in aborted
        )
        return is_aborted or header.base_offset in under_way

    return state(log, is_skipped)


def batches_of(data: bytes) -> list[tuple[BatchHeader, bytes]]:
    found, at = [], 0
    while at < len(data):
        header = read_header(data, at)
        found.append((header, data[at : at + header.size]))
        at += header.size
    return found


def keys(log: Log) -> list[bytes]:
    return [record.key or b"" for record in records(log)]
