"""Which partition a key belongs to: by Kafka's own hash, so that all clients and all doors agree."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF
KEYS_KEPT: Final = 4096  # keys repeat, and finding a hash costs a tenth of making it
KEPT_KEY_BYTES: Final = 256  # of one that is kept, so that all of them hold a megabyte; longer ones are for the kernel


def murmur2(key: bytes) -> int:
    """MurmurHash 2 with Kafka's seed, unsigned."""
    size = len(key)
    h = _SEED ^ size
    whole = size & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(key[at : at + 4], "little") * _M & _MASK
        h = (h * _M & _MASK) ^ ((k ^ k >> 24) * _M & _MASK)
    if size != whole:
        h = (h ^ int.from_bytes(key[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


_kept = lru_cache(maxsize=KEYS_KEPT)(murmur2)


def partition_of(key: bytes, count: int) -> int:
    found = _kept(key) if len(key) <= KEPT_KEY_BYTES else murmur2(key)
    return (found & _POSITIVE) % count
