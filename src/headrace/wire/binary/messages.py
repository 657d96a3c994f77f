"""A message of the binary protocol as a record: the body is the value, the property `key` the key, and all properties
in their order are headers, so that it leaves as it came."""

from __future__ import annotations

from headrace.records.record import Record
from headrace.wire.binary.frame import Frame


def record_of(frame: Frame, timestamp_ms: int) -> Record:
    properties = frame.properties
    key = properties.get("key")
    headers = tuple([(name, value.encode()) for name, value in properties.items()])
    return Record(None if key is None else key.encode(), frame.body, headers, timestamp_ms)
