"""Which partition each row of a key column goes to, as Java's clients choose it, so that all clients agree."""

from __future__ import annotations

from array import array
from typing import Final

from headrace.ports import Buffer
from headrace.records.buffers import Binary
from headrace.records.partitioning import partition_of
from headrace.records.twin.columns import TOO_SHORT, binary_at

WITHOUT_KEY: Final = -1
MAX_PARTITIONS: Final = (1 << 31) - 1


def key_partitions(rows: int, key: Binary, count: int) -> Buffer:
    """For each row the partition, of `count`, as a number of 4 bytes; -1 where there is no key."""
    if rows < 0 or not 1 <= count <= MAX_PARTITIONS:
        raise ValueError(f"{rows} rows for {count} partitions")
    if key[-1] < 0:
        raise ValueError(TOO_SHORT)
    found = array("i")
    for row in range(rows):
        content = binary_at(key, row)
        found.append(WITHOUT_KEY if content is None else partition_of(content, count))
    return found.tobytes()
