"""The records inside a batch, uncompressed.

    record       length, attributes (a zero byte), timestamp delta, offset delta, key, value, count, headers
    header       key, value
    key, value   length, bytes; a length of -1 is null, which a header's key can not be

All numbers are zigzag varints of 32 bits, the timestamp delta of 64.

Every length is judged against the bytes that are there before it is used, so what is allocated never
exceeds what was sent. A record must fill its length exactly, and the records their body. A header key that
is not UTF-8 is read with replacement characters, as Java's clients do, because one such record must not
make a partition unreadable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.errors import CorruptBatch, InvalidTimestamp
from headrace.ports import Buffer
from headrace.records.header import HEADER_BYTES, MAX_OFFSET
from headrace.records.record import Headers, Record
from headrace.records.twin import varint

MIN_RECORD_BYTES = 7  # length, attributes, two deltas, two lengths, count of headers: a byte each at least
MIN_HEADER_BYTES = 2
MIN_LONG, MAX_LONG = -(1 << 63), (1 << 63) - 1


def decode_records(
    body: Buffer, count: int, base_offset: int, base_timestamp: int, append_time_ms: int | None
) -> list[Record]:
    """The `count` records that `body` holds. With an append time, all have that one as their timestamp."""
    return list(_each(body, count, base_offset, base_timestamp, append_time_ms))


def survey(
    body: Buffer,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time_ms: int | None,
    from_offset: int,
    timestamp_ms: int,
) -> tuple[tuple[int, int] | None, int | None, int]:
    """What there is to know of records without keeping any: of those from an offset on, (offset, time) of the first
    that is not older than a time, and the largest time; of all, how many have no key."""
    found: tuple[int, int] | None = None
    largest: int | None = None
    keyless = 0
    for record in _each(body, count, base_offset, base_timestamp, append_time_ms):
        keyless += record.key is None
        if record.offset < from_offset:
            continue
        if largest is None or record.timestamp_ms > largest:
            largest = record.timestamp_ms
        if found is None and record.timestamp_ms >= timestamp_ms:
            found = record.offset, record.timestamp_ms
    return found, largest, keyless


def _each(
    body: Buffer, count: int, base_offset: int, base_timestamp: int, append_time_ms: int | None
) -> Iterator[Record]:
    _check(body, count, base_offset)
    data = bytes(body)
    at, end = 0, len(data)
    for index in range(count):
        try:
            length, at = varint.read(data, at, end)
            if not 0 <= length <= end - at:
                raise CorruptBatch(f"a length of {length} where {end - at} bytes are left")
            record = _decode(data, at, at + length, base_offset, base_timestamp, append_time_ms)
        except CorruptBatch as error:
            raise CorruptBatch(f"record {index}: {error}") from None
        at += length
        yield record
    if at != end:
        raise CorruptBatch(f"{end - at} bytes are left over after the last record")


def encode_records(records: Sequence[Record]) -> tuple[bytearray, int, int]:
    """(HEADER_BYTES of room and the records, base timestamp, max timestamp); offsets count from 0."""
    out = bytearray(HEADER_BYTES)
    base_timestamp = records[0].timestamp_ms if records else -1
    max_timestamp = base_timestamp
    for index, record in enumerate(records):
        delta = check_timestamp(record.timestamp_ms, base_timestamp)
        max_timestamp = max(max_timestamp, record.timestamp_ms)
        encode_one(out, index, delta, record.key, record.value, record.headers)
    return out, base_timestamp, max_timestamp


def encode_one(
    out: bytearray, index: int, delta: int, key: Buffer | None, value: Buffer | None, headers: Headers
) -> None:
    one = bytearray(1)
    varint.write(one, delta)
    varint.write(one, index)
    _write_bytes(one, key)
    _write_bytes(one, value)
    varint.write(one, len(headers))
    for name, content in headers:
        _write_bytes(one, name.encode())
        _write_bytes(one, content)
    varint.write(out, len(one))
    out += one


def check_timestamp(timestamp_ms: int, base_timestamp: int) -> int:
    """The difference of the two, if it can be written."""
    delta = timestamp_ms - base_timestamp
    if not (MIN_LONG <= timestamp_ms <= MAX_LONG and MIN_LONG <= delta <= MAX_LONG):
        raise InvalidTimestamp(f"{timestamp_ms} ms does not fit a batch that starts at {base_timestamp} ms")
    return delta


def _check(body: Buffer, count: int, base_offset: int) -> None:
    if count < 0 or count * MIN_RECORD_BYTES > len(body):
        raise CorruptBatch(f"{count} records can not fit in {len(body)} bytes")
    if not 0 <= base_offset <= MAX_OFFSET:
        raise CorruptBatch(f"a base offset of {base_offset} is not an offset")


def _decode(
    data: bytes, at: int, end: int, base_offset: int, base_timestamp: int, append_time_ms: int | None
) -> Record:
    if at == end:
        raise CorruptBatch("a record of no bytes")
    timestamp_delta, at = varint.read(data, at + 1, end, varint.LONG)
    offset_delta, at = varint.read(data, at, end)
    if offset_delta < 0:
        raise CorruptBatch(f"an offset delta of {offset_delta}")
    timestamp_ms = base_timestamp + timestamp_delta
    if not MIN_LONG <= timestamp_ms <= MAX_LONG:
        raise CorruptBatch("a timestamp out of range")
    key, at = _read_bytes(data, at, end)
    value, at = _read_bytes(data, at, end)
    headers, at = _read_headers(data, at, end)
    if at != end:
        raise CorruptBatch(f"{end - at} bytes are left over")
    if append_time_ms is not None:
        timestamp_ms = append_time_ms
    return Record(key, value, headers, timestamp_ms, base_offset + offset_delta)


def _read_headers(data: bytes, at: int, end: int) -> tuple[Headers, int]:
    count, at = varint.read(data, at, end)
    if count == 0:
        return (), at
    if count < 0 or count * MIN_HEADER_BYTES > end - at:
        raise CorruptBatch(f"{count} headers where {end - at} bytes are left")
    headers = []
    for _ in range(count):
        name, at = _read_bytes(data, at, end)
        if name is None:
            raise CorruptBatch("a header without a key")
        content, at = _read_bytes(data, at, end)
        headers.append((name.decode(errors="replace"), content))
    return tuple(headers), at


def _read_bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    length, at = varint.read(data, at, end)
    if length == -1:
        return None, at
    if not 0 <= length <= end - at:
        raise CorruptBatch(f"a length of {length} where {end - at} bytes are left")
    return data[at : at + length], at + length


def _write_bytes(out: bytearray, content: Buffer | None) -> None:
    if content is None:
        varint.write(out, -1)
    else:
        varint.write(out, len(content))
        out += content
