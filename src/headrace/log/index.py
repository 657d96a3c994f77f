"""The sparse index of one segment: for about every 16 KiB of log the offset, the position and the time
reached.

An entry (relative offset, position, max timestamp) says: the batch with that offset starts at that position,
and no batch before it has a timestamp over that maximum. So one array answers both "where is offset x" and
"since when".

The index is a hint and never trusted over the log: whoever uses an entry checks that the batch found there
has its offset, and builds the index anew when not. A file that is missing, torn or damaged costs one walk
over the segment's headers.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right

from headrace.log.format import INDEX_HEADER, INDEX_MAGIC, SEGMENT_HEADER_BYTES, VERSION, check_version
from headrace.ports import Buffer
from headrace.records.kernel import crc32c

NO_TIMESTAMP = -(1 << 63)  # before all timestamps
ENTRY_BYTES = 16
MAX_RELATIVE_OFFSET = (1 << 32) - 1
MAX_POSITION = (1 << 32) - 1

_CRC = struct.Struct(">I")


class Index:
    __slots__ = ("offsets", "positions", "timestamps")

    def __init__(self) -> None:
        self.offsets = array("I", (0,))
        self.positions = array("I", (SEGMENT_HEADER_BYTES,))
        self.timestamps = array("q", (NO_TIMESTAMP,))

    @property
    def size_bytes(self) -> int:
        return len(self.offsets) * ENTRY_BYTES

    def add(self, relative_offset: int, position: int, max_timestamp: int) -> None:
        """What does not fit is left out: a sparse index is allowed to be sparser."""
        if relative_offset > MAX_RELATIVE_OFFSET or position > MAX_POSITION:
            return
        self.positions.append(position)
        self.timestamps.append(max_timestamp)
        self.offsets.append(relative_offset)  # last, because a read in the background may look at the same moment

    def find(self, relative_offset: int) -> tuple[int, int]:
        """The last entry at or before the offset: (its relative offset, its position)."""
        place = bisect_right(self.offsets, relative_offset) - 1
        return self.offsets[place], self.positions[place]

    def boundary(self, position: int) -> int:
        """The last position at or before that one where an entry says that a batch starts."""
        return self.positions[bisect_right(self.positions, position, 0, len(self.offsets)) - 1]

    def find_time(self, timestamp_ms: int) -> tuple[int, int]:
        """An entry, as `find` gives it, with no batch of that timestamp or later before it."""
        place = max(0, bisect_left(self.timestamps, timestamp_ms, 0, len(self.offsets)) - 1)
        return self.offsets[place], self.positions[place]

    def before(self, position: int) -> Index:
        """The entries before `position`, the first in any case. A copy: a read may be looking at this one."""
        keep = max(1, bisect_left(self.positions, position, 0, len(self.offsets)))
        index = Index.__new__(Index)
        index.offsets, index.positions = self.offsets[:keep], self.positions[:keep]
        index.timestamps = self.timestamps[:keep]
        return index

    def encode(self, base_offset: int, covered_bytes: int) -> bytes:
        body = b"".join(
            (
                INDEX_HEADER.pack(INDEX_MAGIC, VERSION, 0, base_offset, covered_bytes, len(self.offsets)),
                _swapped(self.offsets).tobytes(),
                _swapped(self.positions).tobytes(),
                _swapped(self.timestamps).tobytes(),
            )
        )
        return body + _CRC.pack(crc32c(body))


def decode_index(data: Buffer, base_offset: int, segment_bytes: int, path: str) -> Index | None:
    """None when this is not an index of that segment, or not of all of it."""
    if len(data) < INDEX_HEADER.size + ENTRY_BYTES + _CRC.size:
        return None
    end = len(data) - _CRC.size
    view = memoryview(data)
    if crc32c(view[:end]) != _CRC.unpack_from(data, end)[0]:
        return None
    magic, version, _flags, base, covered_bytes, count = INDEX_HEADER.unpack_from(data)
    if magic != INDEX_MAGIC:
        return None
    check_version(version, path)
    if base != base_offset or covered_bytes < segment_bytes or end - INDEX_HEADER.size != count * ENTRY_BYTES:
        return None
    index = Index.__new__(Index)
    at = INDEX_HEADER.size
    index.offsets = _column("I", view[at : at + 4 * count])
    index.positions = _column("I", view[at + 4 * count : at + 8 * count])
    index.timestamps = _column("q", view[at + 8 * count : end])
    return index


def _column(kind: str, data: memoryview) -> array[int]:
    values: array[int] = array(kind)
    values.frombytes(data)
    if sys.byteorder == "little":
        values.byteswap()
    return values


def _swapped(values: array[int]) -> array[int]:
    if sys.byteorder == "little":
        values = values[:]
        values.byteswap()
    return values
