"""Compaction's kernel and its twin: the same records stay, in the same bytes, whatever they are given."""

from __future__ import annotations

import random
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.records import codec, twin
from headrace.records.batch import read_header
from headrace.records.codec import BatchOptions, Producer
from headrace.records.header import DELETE_HORIZON
from headrace.records.record import Record
from tests.records.kernels import KERNELS, name, native, outcome, plain_batch
from tests.records.test_differential import damaged

FAR = 1 << 60
HORIZON = 5_000
keys = st.none() | st.binary(max_size=2)
values = st.none() | st.binary(max_size=20)
keyed = st.builds(Record, keys, values, st.just(()) | st.just((("h", b"1"),)), st.integers(-1, 1 << 45))
batches = st.lists(st.lists(keyed, min_size=1, max_size=6), max_size=6)
seeds = st.randoms(use_true_random=False)


def log_of(given_batches: list[list[Record]], seed: random.Random) -> bytes:
    """Batches one after the other; some with a producer, some packed, some with append time."""
    data, offset = b"", 0
    for given_records in given_batches:
        producer = Producer(seed.randrange(3), 0, 0) if seed.random() < 0.5 else Producer()
        compression = "gzip" if seed.random() < 0.1 else "none"
        append_time = 1_234 if seed.random() < 0.2 else None
        options = BatchOptions(offset, compression, 0, producer, False, False, append_time)
        data += codec.encode(given_records, options)
        offset += len(given_records)
    return data


def sifted(kernel, data: bytes, end_offset: int, now_ms: int, lasts: array) -> list[object]:
    """All that the kernel says of the bytes, twice: the second time of what the first has left."""
    offsets = kernel.OffsetMap(100)
    said = [offsets.note_batches(data, 0, len(data), 0), len(offsets)]
    for _ in range(2):
        answer = offsets.sift_batches(data, 0, len(data), end_offset, now_ms, HORIZON, lasts.tobytes())
        data = bytes(answer[1])
        said += [answer[0], data, *answer[2:]]
    return said


@pytest.mark.skipif(native is None, reason="the native kernels are not built here")
@settings(max_examples=400)
@given(batches, seeds, st.integers(0, 40), st.sampled_from([0, HORIZON - 1, HORIZON, FAR]), st.booleans())
def test_the_same_stays_of_any_log(given_batches, seed, end_offset, now_ms, is_damaged):
    data = log_of(given_batches, seed)
    if is_damaged and data:
        data = damaged(data, seed)
    lasts = array("q", sorted(seed.sample(range(40), 5)))
    assert sifted(native, data, end_offset, now_ms, lasts) == sifted(twin, data, end_offset, now_ms, lasts)


@pytest.mark.skipif(native is None, reason="the native kernels are not built here")
@settings(max_examples=300)
@given(st.lists(keyed, min_size=1, max_size=8), seeds, st.integers(-(1 << 63), (1 << 63) - 1), st.integers(0, 9))
def test_records_of_any_kind_are_noted_and_sifted_alike(given_records, seed, base, capacity):
    body = bytes(twin.encode_records(given_records)[0][61:])
    if seed.random() < 0.5:
        body = damaged(body, seed)
    maps = [kernel.OffsetMap(capacity) for kernel in (twin, native)]
    count = len(given_records) if seed.random() < 0.9 else seed.randrange(-1, 12)
    arguments = (body, count, seed.randrange(-1, 5), seed.randrange(0, 9))
    first, second = (outcome(offsets.note, *arguments) for offsets in maps)
    assert first == second
    assert len(maps[0]) == len(maps[1]) <= capacity
    arguments = (
        body,
        count,
        3,
        base,
        seed.randrange(12),
        seed.choice([base, HORIZON, -(1 << 63)]),
        seed.random() < 0.5,
    )
    first, second = (outcome(offsets.sift, *arguments) for offsets in maps)
    assert first == second


@pytest.mark.parametrize("kernel", KERNELS, ids=name)
@settings(max_examples=200)
@given(batches, seeds)
def test_what_stays_is_the_last_of_each_key(kernel, given_batches, seed):
    data = log_of(given_batches, random.Random(0.5))
    data = b"".join(bytes(batch) for batch in pieces(data) if not read_header(batch).compression)
    records = codec.decode(data)
    expected = {record.key: record for record in records if record.key is not None}
    offsets = kernel.OffsetMap(100)
    assert offsets.note_batches(data, 0, len(data), 0) == (len(data), -1)
    assert len(offsets) == len(expected)
    at, kept, dropped, horizon = offsets.sift_batches(data, 0, len(data), FAR, 0, HORIZON, b"")
    assert at == len(data)
    assert codec.decode(bytes(kept)) == sorted(expected.values(), key=lambda record: record.offset)
    assert dropped == len(records) - len(expected)
    tombstones = [record for record in expected.values() if record.value is None]
    assert horizon == (HORIZON if tombstones else -1)
    _, later, _, horizon = offsets.sift_batches(kept, 0, len(kept), FAR, HORIZON, FAR, b"")
    assert horizon == -1
    alive = [record for record in expected.values() if record.value is not None]
    assert codec.decode(bytes(later)) == sorted(alive, key=lambda record: record.offset)


def pieces(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        size = read_header(data, at).size
        found.append(data[at : at + size])
        at += size
    return found


@pytest.mark.parametrize("kernel", KERNELS, ids=name)
def test_a_batch_keeps_its_place_and_its_producer_whatever_goes_from_it(kernel):
    options = BatchOptions(10, producer=Producer(7, 2, 40), leader_epoch=3)
    batch = codec.encode([Record(b"a", b"1", (), 5), Record(b"b", None, (), 6), Record(b"a", b"2", (), 4)], options)
    offsets = kernel.OffsetMap(10)
    offsets.note_batches(batch, 0, len(batch), 0)
    _, kept, _, _ = offsets.sift_batches(batch, 0, len(batch), FAR, 0, HORIZON, b"")
    header = read_header(kept)
    assert (header.base_offset, header.last_offset, header.record_count) == (10, 12, 2)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.leader_epoch) == (7, 2, 40, 3)
    assert (header.attributes, header.base_timestamp, header.max_timestamp) == (DELETE_HORIZON, HORIZON, 6)
    assert [(record.key, record.timestamp_ms, record.offset) for record in codec.decode(kept)] == [
        (b"b", 6, 11),
        (b"a", 4, 12),
    ]
    offsets.note(bytes(codec.encode([Record(b"a", b"3", (), 1), Record(b"b", b"4", (), 1)])[61:]), 2, 13, 0)
    assert offsets.sift_batches(kept, 0, len(kept), FAR, 0, HORIZON, b"")[1] == b""
    _, empty, _, _ = offsets.sift_batches(kept, 0, len(kept), FAR, 0, HORIZON, array("q", [12]).tobytes())
    header = read_header(empty)
    assert (len(empty), header.record_count, header.base_offset, header.last_offset) == (61, 0, 10, 12)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 40)
    assert codec.decode(bytes(empty)) == []


@pytest.mark.parametrize("kernel", KERNELS, ids=name)
def test_a_full_map_says_where_it_stopped_and_goes_on_there(kernel):
    data = bytes(plain_batch(3, 0) + plain_batch(5, 3))
    offsets = kernel.OffsetMap(4)
    assert (offsets.capacity, len(offsets)) == (4, 0)
    first = read_header(data).size
    assert offsets.note_batches(data, 0, len(data), 0) == (first, 7)
    again = kernel.OffsetMap(4)
    assert again.note_batches(data, first, len(data), 7) == (len(data), -1)
    assert len(again) == 1


@pytest.mark.parametrize("kernel", KERNELS, ids=name)
def test_a_tombstone_gets_its_horizon_only_when_all_of_its_batch_was_compared(kernel):
    batch = codec.encode([Record(b"a", None, (), 5), Record(b"b", b"1", (), 6)])
    offsets = kernel.OffsetMap(1)
    assert offsets.note_batches(batch, 0, len(batch), 0) == (0, 1)
    _, kept, _, horizon = offsets.sift_batches(batch, 0, len(batch), 1, FAR, HORIZON, b"")
    assert (bytes(kept), horizon) == (bytes(batch), -1)


@pytest.mark.parametrize("kernel", KERNELS, ids=name)
@pytest.mark.parametrize("what", ["packed", "transactional", "damaged", "cut off"])
def test_the_walk_stops_in_front_of_what_is_not_plain(kernel, what):
    plain = bytes(plain_batch(1, 0))
    options = BatchOptions(1, "gzip" if what == "packed" else "none", is_transactional=what == "transactional")
    other = bytearray(codec.encode([Record(b"k", b"v", (), 1)], options))
    if what == "damaged":
        other[-1] ^= 1
    data = plain + bytes(other[:-5] if what == "cut off" else other)
    offsets = kernel.OffsetMap(10)
    assert offsets.note_batches(data, 0, len(data), 0) == (len(plain), -1)
    assert offsets.sift_batches(data, 0, len(data), FAR, 0, 0, b"")[0] == len(plain)
    with pytest.raises(ValueError, match="is not within"):
        offsets.note_batches(data, 5, len(data) + 1, 0)


@pytest.mark.parametrize("kernel", KERNELS, ids=name)
def test_a_map_that_was_released_knows_nothing_and_takes_nothing(kernel):
    data = bytes(plain_batch(3, 0))
    offsets = kernel.OffsetMap(10)
    offsets.note_batches(data, 0, len(data), 0)
    offsets.release()
    assert (len(offsets), offsets.capacity) == (0, 0)
    assert offsets.note_batches(data, 0, len(data), 0) == (0, 0)
    assert bytes(offsets.sift_batches(data, 0, len(data), FAR, 0, HORIZON, b"")[1]) == data
