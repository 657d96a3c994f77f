from __future__ import annotations

import pytest

from headrace.errors import CorruptBatch
from headrace.records.batch import BatchHeader, assign, read_header, validate
from headrace.records.codec import BatchOptions, Producer, encode
from headrace.records.record import Record
from tests.records.kernels import patched, plain_batch


def test_the_header_reads_every_field_that_was_written() -> None:
    producer = Producer(7, 3, 2**31 - 2)
    options = BatchOptions(40, "gzip", 9, producer, is_transactional=True, is_control=True, append_time_ms=777)
    header = read_header(encode([Record(b"a", b"b", (), 10), Record(b"c", b"d", (), 5)], options))
    assert (header.base_offset, header.last_offset, header.next_offset) == (40, 41, 42)
    assert (header.leader_epoch, header.magic, header.record_count) == (9, 2, 2)
    assert (header.base_timestamp, header.max_timestamp) == (10, 777)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 2**31 - 2)
    assert header.compression == 1
    assert header.is_log_append_time and header.is_transactional and header.is_control


def test_sequences_wrap_to_zero_after_the_largest() -> None:
    header = read_header(plain_batch(count=3))
    assert header.last_sequence == -1
    assert header._replace(base_sequence=2**31 - 2).last_sequence == 0
    assert header._replace(base_sequence=5).last_sequence == 7


def test_assigning_an_offset_leaves_the_checksum_true_and_the_rest_as_it_was() -> None:
    batch = plain_batch()
    before = validate(batch)
    assign(memoryview(batch), 0, 123_456, 17)
    after = validate(batch)
    assert after == before._replace(base_offset=123_456, leader_epoch=17)
    assert isinstance(after, BatchHeader)


@pytest.mark.parametrize("size", [0, 1, 12, 60])
def test_fewer_bytes_than_a_header_are_no_header(size: int) -> None:
    with pytest.raises(CorruptBatch, match="61 bytes of header"):
        read_header(bytes(size))


def test_a_header_can_be_read_anywhere_in_a_buffer() -> None:
    batch = patched(plain_batch(), ">q", 0, 99)
    assert read_header(memoryview(b"xyz" + batch), 3).base_offset == 99
