"""Which partition of a topic a key goes to.

A long key is the kernel's: its hash in Python takes a tenth of a second for each megabyte, and all wait for it.
"""

from __future__ import annotations

import sys
from struct import Struct

from headrace.broker.topic import Topic
from headrace.records import kernel
from headrace.records.partitioning import KEPT_KEY_BYTES, partition_of

_OFFSETS = Struct("=ii")  # of a column with one key in it


def by_key(topic: Topic, key: bytes) -> int:
    size, count = len(key), len(topic.partitions)
    if size <= KEPT_KEY_BYTES:
        return partition_of(key, count)
    if size > topic.config.max_message_bytes:
        return 0  # which refuses it, as all of them would
    column = None, _OFFSETS.pack(0, size), key, 0
    return int.from_bytes(kernel.key_partitions(1, column, count), sys.byteorder)
