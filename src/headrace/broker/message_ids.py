"""Names of records: `msg_<milliseconds>_<8 hex digits>` for those that enter without one, and for those that were
stored without one a name made of their place.

No two ids of one life of a node are the same within one round of the 32-bit word: it goes through all its values in a
scattered order, from a start by chance.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.ports import Clock
from headrace.records.kernel import crc32c

_STRIDE = 0x9E3779B1  # odd: all 2^32 words come before one repeats; and scattered, so that they look as if by chance
_MASK = 0xFFFFFFFF


class MessageIds:
    def __init__(self, clock: Clock, new_id: Callable[[], bytes]) -> None:
        self._clock = clock
        self._word = int.from_bytes(new_id()[-4:], "big")

    def new(self) -> str:
        self._word = word = (self._word + _STRIDE) & _MASK
        return f"msg_{self._clock.now_ms()}_{word:08x}"


def derived_id(topic: str, partition: int, offset: int) -> str:
    """Of a record without an `id` header: the same at every reading, of every node."""
    return f"msg_{partition}-{offset}_{crc32c(topic.encode('utf-8', 'surrogatepass')):08x}"
