"""Deliveries to subscribers: pairs of topic and value.

A record that came in by this protocol is delivered as the value that was published. Of another door's record, text is
delivered as text, other bytes as bytes, a missing value as nil; what its header `content-type` calls msgpack, and is,
as that value.
"""

from __future__ import annotations

from headrace.ports import Buffer
from headrace.records.header import BatchHeader
from headrace.wire.msgpack.kernel import deliveries, records
from headrace.wire.msgpack.twin import State


def encode(topic: str, header: BatchHeader, body: Buffer, first_offset: int) -> tuple[bytes, int]:
    """The records of a batch (its bytes without compression), back to back, from an offset on; and how many."""
    return records(topic, body, header.record_count, header.base_offset, header.base_timestamp, first_offset)


class DeliveryReader:
    """For clients: bytes in, in any pieces; (topic, value in msgpack's bytes) out."""

    __slots__ = ("_left", "_max_bytes", "_state", "fault")

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes`: of one delivery."""
        self._max_bytes = max_bytes
        self._left = bytearray()
        self._state: State = ()
        self.fault: str | None = None  # why nothing is read any more

    def receive(self, data: Buffer) -> list[tuple[str, bytes]]:
        if self.fault is not None:
            return []
        self._left += data
        found, taken, self._state, self.fault = deliveries(self._left, self._state, self._max_bytes)
        del self._left[:taken]
        return found
