"""Whole batches, against the record builders and parsers of two clients."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from hypothesis import given
from kafka.record.default_records import DefaultRecordBatch as PythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as PythonBuilder

from headrace.errors import CorruptBatch, DecompressionLimit, MessageTooLarge
from headrace.records import batch as batches
from headrace.records import compression
from headrace.records.codec import BatchOptions, Producer, decode, encode, seal, split
from headrace.records.control import Marker, decode_marker, encode_marker
from headrace.records.record import Record
from tests.records.kernels import COMPRESSIONS, numbered, patched, plain_batch, runs_of_records

SAMPLE = [
    Record(b"key", b"value " * 30, (("a", b"1"), ("a", None), ("\u00e9", b"")), 1_700_000_000_000),
    Record(None, b"", (), 1_699_999_999_000),
    Record(b"", None, (("z", b"\xff\x00"),), 1_700_000_000_500),
]

# One record ("k", "v") at 1,000 ms, laid out by hand from the list of fields; the checksum left at zero.
GOLDEN = bytes.fromhex(
    "0000000000000000 0000003a ffffffff 02 00000000 0000 00000000"
    "00000000000003e8 00000000000003e8 ffffffffffffffff ffff ffffffff 00000001"
    "10 00 00 00 02 6b 02 76 00"
)


def theirs(parser: Any, batch: bytes) -> list[Record]:
    parsed = parser(bytes(batch))
    assert parsed.validate_crc()
    return [
        Record(
            None if record.key is None else bytes(record.key),
            None if record.value is None else bytes(record.value),
            tuple((key, None if value is None else bytes(value)) for key, value in record.headers),
            record.timestamp,
            record.offset,
        )
        for record in parsed
    ]


def built(builder: Any, kind: int) -> bytes:
    made = builder(
        magic=2,
        compression_type=kind,
        is_transactional=0,
        producer_id=5,
        producer_epoch=1,
        base_sequence=9,
        batch_size=9999,
    )
    for index, record in enumerate(SAMPLE):
        made.append(index, record.timestamp_ms, record.key, record.value, list(record.headers))
    return bytes(made.build())


def test_a_batch_spelled_out_byte_by_byte_is_what_we_write() -> None:
    batch = encode([Record(b"k", b"v", (), 1_000)])
    assert patched(batch, ">I", 17, 0, seal=False) == GOLDEN
    assert decode(patched(GOLDEN, ">q", 0, 6)) == [Record(b"k", b"v", (), 1_000, 6)]


@pytest.mark.parametrize("kind", range(5), ids=COMPRESSIONS)
def test_aiokafka_reads_ours_and_we_read_its(kind: int) -> None:
    assert theirs(AioBatch, encode(SAMPLE, BatchOptions(compression=COMPRESSIONS[kind]))) == numbered(SAMPLE)
    batch = built(AioBuilder, kind)
    assert decode(batch) == numbered(SAMPLE)
    assert batches.validate(batch).compression == kind


@pytest.mark.parametrize("kind", [0, 1], ids=["none", "gzip"])
def test_kafka_python_reads_ours_and_we_read_its(kind: int) -> None:
    assert theirs(PythonBatch, encode(SAMPLE, BatchOptions(compression=COMPRESSIONS[kind]))) == numbered(SAMPLE)
    batch = built(PythonBuilder, kind)
    assert decode(batch) == numbered(SAMPLE)
    header = batches.validate(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (
        5,
        1,
        9,
        11,
    )


def test_without_compression_we_write_the_very_bytes_of_kafka_python() -> None:
    ours = encode(SAMPLE, BatchOptions(producer=Producer(5, 1, 9), leader_epoch=0))
    theirs_too = built(PythonBuilder, 0)
    assert ours[:12] == theirs_too[:12] and ours[16:] == theirs_too[16:]


@given(runs_of_records)
@pytest.mark.parametrize("name", COMPRESSIONS)
def test_records_read_back_through_every_compression(name: str, given_records: list[Record]) -> None:
    options = BatchOptions(1_000, name, 4, Producer(1, 2, 3), is_transactional=True)
    batch = encode(given_records, options)
    assert batches.validate(batch).compression == compression.number(name)
    assert decode(batch) == numbered(given_records, 1_000)


def test_append_time_covers_every_record() -> None:
    batch = encode(SAMPLE, BatchOptions(append_time_ms=42))
    assert {record.timestamp_ms for record in decode(batch)} == {42}
    assert {record.timestamp for record in PythonBatch(bytes(batch))} == {42}
    later = encode(SAMPLE)
    batches.stamp_append_time(later, 0, len(later), 43)
    assert {record.timestamp_ms for record in decode(later)} == {43}


def test_a_buffer_of_several_batches_gives_all_records_in_order() -> None:
    data = encode(SAMPLE) + encode(SAMPLE, BatchOptions(10, "zstd"))
    assert decode(data) == numbered(SAMPLE) + numbered(SAMPLE, 10)
    assert [header.base_offset for header, _ in split(data)] == [0, 10]
    assert decode(b"") == []


def test_what_is_no_batch_is_named_with_its_place() -> None:
    data = encode(SAMPLE) + plain_batch(2, 3)
    second = len(encode(SAMPLE))
    with pytest.raises(CorruptBatch, match=f"at byte {second}: the batch is cut off"):
        decode(data[:-1])
    data[-1] ^= 1
    with pytest.raises(CorruptBatch, match=f"at byte {second}: the checksum does not match"):
        decode(data)
    assert len(split(data, check_crc=False)) == 2


def test_a_lying_record_count_in_a_true_batch_is_refused() -> None:
    for name in COMPRESSIONS:
        lie = patched(patched(encode(SAMPLE, BatchOptions(compression=name)), ">i", 57, 10**9), ">i", 23, 10**9)
        with pytest.raises(CorruptBatch, match="1000000000 records can not fit"):
            decode(lie)


def test_a_batch_that_unfolds_past_the_limit_is_refused() -> None:
    body = compression.compress(compression.ZSTD, bytes(compression.MAX_DECOMPRESSED_BYTES + 1))
    batch = bytearray(61) + body
    struct.pack_into(">qiibIhiqqqhii", batch, 0, 0, len(batch) - 12, 0, 2, 0, 4, 0, 0, 0, -1, -1, -1, 1)
    with pytest.raises(DecompressionLimit):
        decode(patched(batch, ">i", 57, 1))


def test_a_batch_over_the_limit_is_not_made() -> None:
    with pytest.raises(MessageTooLarge, match="over the limit"):
        seal(bytearray(batches.MAX_BATCH_BYTES + 1), 1, 0, 0, BatchOptions())
    with pytest.raises(ValueError, match="at least one record"):
        encode([])


def test_options_go_on_after_a_batch_and_sequences_wrap() -> None:
    options = BatchOptions(5, producer=Producer(1, 2, 2**31 - 2)).after(3)
    assert (options.base_offset, options.producer) == (8, Producer(1, 2, 1))
    assert BatchOptions().after(3).producer == Producer()


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_transactions_end_reads_back_and_other_clients_see_it(is_commit: bool) -> None:
    batch = encode_marker(Marker(is_commit, 12), 77, 3, 1_000, base_offset=40)
    header = batches.validate(batch)
    assert header.is_control and header.is_transactional and header.base_sequence == -1
    assert (header.producer_id, header.producer_epoch, header.base_offset) == (77, 3, 40)
    assert decode_marker(batch) == Marker(is_commit, 12)
    assert decode(batch) == [] and len(decode(batch, control=True)) == 1
    (record,) = PythonBatch(bytes(batch))
    assert record.commit is is_commit and record.abort is not is_commit


def test_control_batches_of_other_kinds_are_left_alone_and_broken_ones_refused() -> None:
    control = BatchOptions(is_control=True)
    assert decode_marker(encode([Record(struct.pack(">hh", 0, 2), b"leader", (), 0)], control)) is None
    for key, value in ((None, None), (b"\0", None), (struct.pack(">hh", 0, 1), b"\0")):
        with pytest.raises(CorruptBatch):
            decode_marker(encode([Record(key, value, (), 0)], control))
