"""The kernels in plain Python: the native ones' specification, test oracle, and fallback."""

from headrace.records.twin.batches import cut, pick, scan, stamp_append_time, validate
from headrace.records.twin.checksum import crc32c
from headrace.records.twin.columns import decode_columns, encode_columns, encode_partitioned
from headrace.records.twin.compaction import OffsetMap
from headrace.records.twin.partitions import key_partitions
from headrace.records.twin.records import decode_records, encode_records, survey
from headrace.records.twin.room import room

__all__ = [
    "OffsetMap",
    "crc32c",
    "cut",
    "decode_columns",
    "decode_records",
    "encode_columns",
    "encode_partitioned",
    "encode_records",
    "key_partitions",
    "pick",
    "room",
    "scan",
    "stamp_append_time",
    "survey",
    "validate",
]
