"""What a Fetch brought, turned into records, without a socket."""

from __future__ import annotations

import pytest

from headrace.client.fetched import Chunk
from headrace.client.reading import Reading
from headrace.client.values import Record, TopicPartition
from headrace.errors import CorruptBatch, DecompressionLimit
from headrace.records import codec
from headrace.records.codec import BatchOptions, Producer
from headrace.records.control import Marker, encode_marker
from headrace.records.header import HEADER_BYTES, assign
from headrace.records.record import Record as Written


def batch(offset: int, *values: str, **options: object) -> bytes:
    records = [Written(None, value.encode(), (), 5, -1) for value in values]
    return bytes(codec.encode(records, BatchOptions(base_offset=offset, **options)))  # type: ignore[arg-type]


def transaction(offset: int, producer: int, *values: str) -> bytes:
    return batch(offset, *values, producer=Producer(producer, 0, 0), is_transactional=True)


def marker(offset: int, producer: int, is_commit: bool) -> bytes:
    return bytes(encode_marker(Marker(is_commit, 0), producer, 0, 5, offset))


def read(
    raw: bytes, offset: int = 0, end: int | None = None, aborted: list[tuple[int, int]] | None = None
) -> list[Record]:
    reading = Reading(TopicPartition("t", 3), offset, end)
    reading.add(Chunk(raw, offset, aborted))
    found: list[Record] = []
    while reading.chunks:
        found += reading.next()
    return found


def values(records: list[Record]) -> list[str]:
    return [(record.value or b"").decode() for record in records]


def test_records_carry_where_they_were_read() -> None:
    raw = bytearray(batch(10, "a", "b"))
    assign(raw, 0, 10, 4)
    first, second = read(bytes(raw), 10)
    assert first == ("t", 3, 10, 5, "create", None, b"a", (), 4)
    assert second.offset == 11


def test_what_is_before_the_wanted_offset_or_after_the_end_is_left_out() -> None:
    raw = batch(0, "a", "b", "c") + batch(3, "d", "e") + batch(5, "f")
    assert values(read(raw, 1)) == ["b", "c", "d", "e", "f"]
    assert values(read(raw, 3)) == ["d", "e", "f"]
    assert values(read(raw, 1, 4)) == ["b", "c", "d"]
    assert values(read(raw, 2, 3)) == ["c"]


def test_reading_stands_behind_control_batches_and_at_the_end() -> None:
    reading = Reading(TopicPartition("t", 0), 0, 3)
    reading.add(Chunk(batch(0, "a") + marker(1, 7, True) + batch(2, "b", "c"), 0, None))
    assert values(reading.next()) == ["a"]
    assert (reading.next(), reading.offset) == ([], 2)
    assert values(reading.next()) == ["b"]
    assert reading.offset == 3 and reading.is_done and reading.buffered == 0


def test_a_batch_that_compaction_emptied_moves_the_reader_on() -> None:
    raw = bytearray(batch(0, "a"))
    head = codec.read_header(raw)
    empty = codec.seal(bytearray(HEADER_BYTES), 1, 5, 5, BatchOptions(base_offset=0))
    codec.HEADER.pack_into(empty, 0, *codec.read_header(empty)._replace(record_count=0))
    with memoryview(empty) as view:
        crc = codec.kernel.crc32c(view[codec.CRC_FROM :])
    codec.HEADER.pack_into(empty, 0, *codec.read_header(empty)._replace(crc=crc))
    assert head.record_count == 1
    reading = Reading(TopicPartition("t", 0), 0, None)
    reading.add(Chunk(empty, 0, None))
    assert (reading.next(), reading.offset) == ([], 1)


def test_aborted_transactions_are_left_out_from_where_they_began_to_their_marker() -> None:
    raw = (
        batch(0, "plain")
        + transaction(1, 7, "lost")
        + transaction(2, 8, "kept")
        + transaction(3, 7, "lost too")
        + marker(4, 7, False)
        + transaction(5, 7, "a new one")
        + marker(6, 7, True)
        + marker(7, 8, True)
        + transaction(8, 9, "lost at last")
    )
    assert values(read(raw, 0, None, [(9, 8), (7, 1)])) == ["plain", "kept", "a new one"]
    assert values(read(raw, 3, None, [(9, 8), (7, 1)])) == ["a new one"]
    assert len(read(raw)) == 6  # read_uncommitted


def test_a_part_of_a_batch_at_the_end_is_left_for_the_next_fetch() -> None:
    whole, next_one = batch(0, "a"), batch(1, "b")
    chunk = Chunk(whole + next_one[:-3], 0, None)
    assert chunk.next_offset == 1
    with pytest.raises(CorruptBatch, match="a part of a batch"):
        Chunk(next_one[:-3], 0, None)


def test_damage_is_an_error_where_it_is() -> None:
    damaged = bytearray(batch(1, "b"))
    damaged[-2] ^= 1
    chunk = Chunk(batch(0, "a") + bytes(damaged), 0, None)
    assert chunk.next_offset == 1
    with pytest.raises(CorruptBatch, match="damaged batch: the checksum"):
        Chunk(bytes(damaged), 1, None)
    old = bytearray(batch(1, "b"))
    old[16] = 1
    with pytest.raises(CorruptBatch, match="messages of format 1"):
        Chunk(bytes(old), 1, None)


def test_a_body_that_unfolds_without_end_is_not_unfolded(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = batch(0, "x" * 1_000_000, compression="gzip")
    monkeypatch.setattr("headrace.records.compression.MAX_DECOMPRESSED_BYTES", 1_000)
    monkeypatch.setattr("headrace.records.compression.decompress.__defaults__", (1_000,))
    with pytest.raises(DecompressionLimit):
        read(raw)


def test_moving_drops_what_was_read_ahead() -> None:
    reading = Reading(TopicPartition("t", 0), 0, None)
    reading.add(Chunk(batch(0, "a"), 0, None))
    reading.move(40)
    assert (reading.buffered, reading.offset, reading.fetch_offset, reading.generation) == (0, 40, 40, 1)
    assert not reading.chunks
