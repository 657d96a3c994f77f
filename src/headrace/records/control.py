"""Control batches: the commit and abort markers that end a transaction. One record each.

key     version (2 bytes), type (2 bytes): 0 abort, 1 commit; others belong to Kafka's own quorum
value   version (2 bytes), epoch of the coordinator that decided (4 bytes)
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from headrace.errors import CorruptBatch
from headrace.ports import Buffer
from headrace.records.codec import BatchOptions, Producer, decode, encode
from headrace.records.record import Record

ABORT, COMMIT = 0, 1

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")


class Marker(NamedTuple):
    is_commit: bool
    coordinator_epoch: int


def encode_marker(
    marker: Marker, producer_id: int, producer_epoch: int, timestamp_ms: int, base_offset: int = 0
) -> bytearray:
    key = _KEY.pack(0, COMMIT if marker.is_commit else ABORT)
    record = Record(key, _VALUE.pack(0, marker.coordinator_epoch), (), timestamp_ms)
    producer = Producer(producer_id, producer_epoch)
    return encode(
        [record],
        BatchOptions(base_offset=base_offset, producer=producer, is_transactional=True, is_control=True),
    )


def decode_marker(batch: Buffer) -> Marker | None:
    """None for a control batch that is not the end of a transaction."""
    records = decode(batch, control=True)
    if not records or records[0].key is None or len(records[0].key) < _KEY.size:
        raise CorruptBatch("a control batch without the key that says what it is")
    _, kind = _KEY.unpack_from(records[0].key)
    if kind not in (ABORT, COMMIT):
        return None
    value = records[0].value
    if value is None or len(value) < _VALUE.size:
        raise CorruptBatch("the end of a transaction without its coordinator's epoch")
    return Marker(kind == COMMIT, _VALUE.unpack_from(value)[1])
