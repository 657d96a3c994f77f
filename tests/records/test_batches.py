"""Every kernel: check one batch, walk many."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import CorruptBatch, UnsupportedMagic
from headrace.records.header import MAX_BATCH_BYTES, BatchHeader, read_header
from tests.records.kernels import KERNELS, name, patched, plain_batch

pytestmark = pytest.mark.parametrize("kernel", KERNELS, ids=name)

EVERYTHING = 1 << 62


def log_of(*counts: int) -> bytearray:
    out, offset = bytearray(), 0
    for count in counts:
        out += plain_batch(count, offset)
        offset += count
    return out


def test_crc32c_is_the_castagnoli_one_and_goes_on_from_a_part(kernel: Any) -> None:
    assert kernel.crc32c(b"123456789") == 0xE3069283
    assert kernel.crc32c(b"") == 0
    assert kernel.crc32c(b"6789", kernel.crc32c(b"12345")) == 0xE3069283
    data = bytes(range(256)) * 40
    assert kernel.crc32c(memoryview(data)[3:5000]) == kernel.crc32c(bytearray(data[3:5000]))


def test_a_good_batch_is_valid_in_any_kind_of_buffer_and_at_any_place(kernel: Any) -> None:
    batch = plain_batch()
    header = read_header(batch)
    for buffer in (bytes(batch), bytearray(batch), memoryview(batch), memoryview(bytes(batch))):
        found = kernel.validate(buffer)
        assert found == header and type(found) is BatchHeader
    wide = b"abc" + batch + b"defg"
    assert kernel.validate(wide, 3, 3 + len(batch)) == header
    assert hash(kernel.validate(batch)) == hash(header)


def test_a_batch_cut_off_anywhere_is_refused(kernel: Any) -> None:
    batch = plain_batch()
    for size in range(len(batch)):
        with pytest.raises(CorruptBatch):
            kernel.validate(bytes(batch[:size]))
        with pytest.raises(CorruptBatch):
            kernel.validate(batch, 0, size)


def test_a_byte_behind_the_batch_is_refused(kernel: Any) -> None:
    with pytest.raises(CorruptBatch, match="bytes, and there are"):
        kernel.validate(plain_batch() + b"\x00")


def test_a_flipped_bit_is_noticed_wherever_it_is_outside_of_offset_and_epoch(kernel: Any) -> None:
    batch = plain_batch()
    for bit in range(8 * 8, 8 * len(batch)):
        if not 12 * 8 <= bit < 16 * 8:
            damaged = bytearray(batch)
            damaged[bit // 8] ^= 1 << bit % 8
            with pytest.raises(CorruptBatch):
                kernel.validate(damaged)


@pytest.mark.parametrize(
    ("layout", "at", "value", "why"),
    [
        (">i", 8, 48, "less than the header"),
        (">i", 8, -1, "less than the header"),
        (">i", 8, MAX_BATCH_BYTES, "over the limit"),
        (">i", 8, 2**31 - 1, "over the limit"),
        (">i", 8, 100, "the batch says 112 bytes"),
        (">h", 21, 5, "compression 5 is not known"),
        (">h", 21, 7, "compression 7 is not known"),
        (">i", 23, 5, "3 records with a last offset delta of 5"),
        (">i", 23, -1, "3 records do not fit a last offset delta of -1"),
        (">i", 57, 0, "0 records with a last offset delta of 2"),
        (">i", 57, -3, "-3 records do not fit"),
        (">i", 57, 2**31 - 1, "2147483647 records do not fit"),
    ],
)
def test_a_field_that_cannot_be_is_named(kernel: Any, layout: str, at: int, value: int, why: str) -> None:
    with pytest.raises(CorruptBatch, match=why):
        kernel.validate(patched(plain_batch(3), layout, at, value))


def test_more_records_than_the_bytes_can_hold_are_refused(kernel: Any) -> None:
    batch = patched(patched(plain_batch(3), ">i", 57, 1000), ">i", 23, 999)
    with pytest.raises(CorruptBatch, match="1000 records can not fit in"):
        kernel.validate(batch)


def test_a_compressed_batch_holds_no_more_records_than_the_largest_body_could(kernel: Any) -> None:
    most = MAX_BATCH_BYTES // 7
    for count in (most, most + 1, (1 << 31) - 1):
        batch = patched(patched(patched(plain_batch(), ">h", 21, 1), ">i", 23, count - 1), ">i", 57, count)
        if count == most:
            assert kernel.validate(batch).record_count == most
        else:
            with pytest.raises(CorruptBatch, match=f"{count} records can not fit"):
                kernel.validate(batch)


@pytest.mark.parametrize("magic", [0, 1])
def test_the_formats_before_v2_are_told_from_damage_even_when_shorter_than_a_header(kernel: Any, magic: int) -> None:
    for size in (17, 26, 61, 100):
        with pytest.raises(UnsupportedMagic, match=f"magic {magic}"):
            kernel.validate(bytes(16) + bytes([magic]) + bytes(size - 17))


def test_a_magic_that_never_was_is_damage(kernel: Any) -> None:
    for magic in (3, 127, 128, 255):
        with pytest.raises(CorruptBatch) as caught:
            kernel.validate(patched(plain_batch(), ">B", 16, magic))
        assert type(caught.value) is CorruptBatch


@pytest.mark.parametrize("ends", [(-1, 5), (5, 4), (0, 10**6), (10**6, 10**6), (-(2**61), 2**61)])
def test_a_range_outside_of_the_buffer_is_the_callers_fault(kernel: Any, ends: tuple[int, int]) -> None:
    start, end = ends
    batch = plain_batch()
    for call in (
        lambda: kernel.validate(batch, start, end),
        lambda: kernel.scan(batch, start, end, -1, True),
        lambda: kernel.cut(batch, start, end, 0, EVERYTHING),
        lambda: kernel.stamp_append_time(batch, start, end - start, 0),
    ):
        with pytest.raises(ValueError, match="not within the"):
            call()


def test_a_scan_lists_every_batch_with_what_the_log_asks_of_it(kernel: Any) -> None:
    data = log_of(3, 1, 2)
    found, stop, why = kernel.scan(data, 0, len(data), 0, True)
    assert (stop, why) == (len(data), None)
    assert [entry[2:4] for entry in found] == [(0, 3), (3, 4), (4, 6)]
    position = 0
    for entry in found:
        header = read_header(data, position)
        assert entry == (
            position,
            header.size,
            header.base_offset,
            header.next_offset,
            header.max_timestamp,
            header.leader_epoch,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.attributes,
        )
        position += header.size


def test_a_scan_of_nothing_is_whole(kernel: Any) -> None:
    assert kernel.scan(b"", 0, 0, -1, True) == ([], 0, None)


def test_a_scan_stops_short_in_a_batch_that_is_cut_off_and_keeps_those_before(kernel: Any) -> None:
    data = log_of(2, 2)
    first = read_header(data).size
    for end in range(first + 1, len(data)):
        found, stop, why = kernel.scan(data, 0, end, 0, True)
        assert (len(found), stop, why) == (1, first, "short")


def test_a_scan_says_why_it_stops_at_damage(kernel: Any) -> None:
    data = log_of(2, 2, 2)
    second = read_header(data).size
    data[second + 70] ^= 1
    assert kernel.scan(data, 0, len(data), 0, True)[1:] == (second, "the checksum does not match")
    assert kernel.scan(data, 0, len(data), 0, False)[1:] == (len(data), None)
    zeros = log_of(2) + bytes(100)
    assert kernel.scan(zeros, 0, len(zeros), 0, True)[1:] == (second, "magic 0 where RecordBatch v2 has 2")


def test_offsets_never_go_back_in_a_scan_though_gaps_are_fine(kernel: Any) -> None:
    gap = plain_batch(2, 0) + plain_batch(2, 10)
    assert kernel.scan(gap, 0, len(gap), 0, True)[2] is None
    back = plain_batch(2, 10) + plain_batch(2, 11)
    assert kernel.scan(back, 0, len(back), -1, True)[2] == "offset 11 where 12 or more was expected"
    assert kernel.scan(gap, 0, len(gap), 1, True)[1:] == (0, "offset 0 where 1 or more was expected")
    for offset in (-1, 2**63 - 1):
        wild = patched(plain_batch(), ">q", 0, offset)
        assert "is not an offset" in kernel.scan(wild, 0, len(wild), -1, True)[2]


def test_a_scan_accepts_what_compaction_leaves(kernel: Any) -> None:
    sparse = patched(plain_batch(2), ">i", 23, 500)
    empty = patched(sparse, ">i", 57, 0)
    assert kernel.scan(sparse, 0, len(sparse), 0, True)[0][0][3] == 501
    assert kernel.scan(empty, 0, len(empty), 0, True)[2] is None


def test_a_large_scan_that_lets_other_threads_run_gives_the_same(kernel: Any) -> None:
    data = b"".join(plain_batch(50, 50 * index) for index in range(60))
    assert len(data) > 64 << 10
    found, stop, why = kernel.scan(memoryview(data), 0, len(data), 0, True)
    assert (len(found), stop, why) == (60, len(data), None)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.integers(0, 30), st.integers(0, 30), st.data())
def test_a_cut_holds_just_the_whole_batches_that_a_reader_may_have(
    kernel: Any, counts: list[int], from_offset: int, up_to: int, data: st.DataObject
) -> None:
    log = log_of(*counts)
    limit = data.draw(st.integers(0, len(log)))
    begin, end, next_offset, damaged = kernel.cut(log, 0, limit, from_offset, up_to)
    whole = kernel.scan(log, 0, len(log), 0, True)[0]
    wanted = [entry for entry in whole if entry[3] > from_offset and entry[2] < up_to and entry[0] + entry[1] <= limit]
    assert not damaged
    if wanted:
        assert (begin, end) == (wanted[0][0], wanted[-1][0] + wanted[-1][1])
        assert next_offset == wanted[-1][3]
    else:
        assert begin == end and next_offset == from_offset


def test_a_cut_points_at_the_first_batch_even_if_it_is_larger_than_the_limit(kernel: Any) -> None:
    log = log_of(2, 2)
    first = read_header(log).size
    assert kernel.cut(log, 0, first + 61, 2, EVERYTHING) == (first, first, 2, False)


def test_a_cut_stops_before_what_is_no_header_and_says_so(kernel: Any) -> None:
    log = log_of(2) + bytes(100)
    size = len(log) - 100
    assert kernel.cut(log, 0, len(log), 0, EVERYTHING) == (0, size, 2, True)
    assert kernel.cut(log, size, len(log), 0, EVERYTHING) == (size, size, 0, True)


def test_append_time_replaces_the_timestamps_and_the_checksum(kernel: Any) -> None:
    log = log_of(2, 3)
    first = read_header(log).size
    before, untouched = read_header(log, first), bytes(log[:first])
    kernel.stamp_append_time(memoryview(log), first, len(log) - first, 999_999)
    after = kernel.validate(log, first, len(log))
    assert after.is_log_append_time and after.max_timestamp == 999_999
    assert after == before._replace(attributes=8, max_timestamp=999_999, crc=after.crc)
    assert log[:first] == untouched


def test_append_time_cannot_be_written_into_bytes_that_do_not_change_or_are_no_batch(kernel: Any) -> None:
    batch = plain_batch()
    with pytest.raises((TypeError, BufferError)):
        kernel.stamp_append_time(bytes(batch), 0, len(batch), 1)
    with pytest.raises(ValueError, match="61 bytes at least"):
        kernel.stamp_append_time(batch, 0, 60, 1)


def test_a_pick_holds_just_the_true_batches_that_a_reader_may_have(kernel: Any) -> None:
    log = log_of(2, 3, 1)
    first, second = len(plain_batch(2)), len(plain_batch(3))
    assert kernel.pick(log, 0, 0, EVERYTHING, EVERYTHING) == (0, len(log), 6)
    assert kernel.pick(log, 0, 1, EVERYTHING, first + second) == (0, first + second, 5)
    assert kernel.pick(log, 0, 4, EVERYTHING, EVERYTHING) == (first, len(log), 6)
    assert kernel.pick(log, 0, 2, 5, EVERYTHING) == (first, first + second, 5)
    assert kernel.pick(log[:-1], 0, 2, EVERYTHING, EVERYTHING) == (first, first + second, 5)


def test_a_pick_of_what_is_not_as_it_should_be_is_none(kernel: Any) -> None:
    log = log_of(2, 3)
    first = len(plain_batch(2))
    assert kernel.pick(log, 0, 0, EVERYTHING, first - 1) is None, "the first is too large"
    assert kernel.pick(log, 0, 5, EVERYTHING, EVERYTHING) is None, "there is no such offset"
    assert kernel.pick(log, 1, 1, EVERYTHING, EVERYTHING) is None, "it does not start where it should"
    assert kernel.pick(log_of(2) + plain_batch(1, 3), 0, 0, EVERYTHING, EVERYTHING) is None, "a gap"
    assert kernel.pick(patched(log, ">B", len(log) - 1, 7, seal=False), 0, 0, EVERYTHING, EVERYTHING) is None
    assert kernel.pick(log[:60], 0, 0, EVERYTHING, EVERYTHING) is None
