"""The kernels in plain Python: the native ones' specification, test oracle, and fallback."""

from headrace.records.twin.batches import cut, scan, stamp_append_time, validate
from headrace.records.twin.checksum import crc32c
from headrace.records.twin.columns import decode_columns, encode_columns
from headrace.records.twin.compaction import OffsetMap
from headrace.records.twin.records import decode_records, encode_records
from headrace.records.twin.room import room

__all__ = [
    "OffsetMap",
    "crc32c",
    "cut",
    "decode_columns",
    "decode_records",
    "encode_columns",
    "encode_records",
    "room",
    "scan",
    "stamp_append_time",
    "validate",
]
