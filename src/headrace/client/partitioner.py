"""Which partition a record goes to: by its key as Java's clients do, so that all clients agree; without a key to one
partition until a batch is full there, then to another, which makes few large batches instead of many small ones.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.records.partitioning import murmur2 as murmur2
from headrace.records.partitioning import partition_of

# Key (or None) and number of partitions to a partition; None leaves it to the producer.
Partitioner = Callable[[bytes | None, int], int | None]


def by_key(key: bytes | None, count: int) -> int | None:
    return None if key is None else partition_of(key, count)
