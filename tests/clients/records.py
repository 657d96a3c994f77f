"""What every client sends and must get back: a thousand records that differ in everything a record can differ in."""

from __future__ import annotations

import random
import time
from typing import NamedTuple

# Of today: what is older than the retention of the node that all clients share may go at any moment.
WHEN_MS = int(time.time() * 1000) - 3_600_000
COUNT = 1000
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


class Sent(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]
    timestamp_ms: int


def records(seed: int, now_ms: int) -> list[Sent]:
    """Null and empty keys and values, repeated headers, sizes from nothing to some kilobytes; times that rise."""
    chance = random.Random(seed)
    made = []
    for number in range(COUNT):
        key = chance.choice((None, b"", b"key-%d" % number, b"\0\xff"))
        value = chance.choice((None, b"", b"value-%d" % number, bytes(chance.randrange(3000)), chance.randbytes(700)))
        if key is None and value is None:
            value = b""  # some clients refuse a record of nothing
        names = chance.choice(((), ("a",), ("same", "same"), ("text", "ünï", "")))
        headers = [(name, chance.randbytes(chance.choice((0, 3)))) for name in names]
        made.append(Sent(key, value, headers, now_ms - COUNT + number))
    return made
