"""Names of records that enter without one, through a door that stores one: `msg_<milliseconds>_<8 hex digits>`. Any
other record is called by its place (records/ids.py).

No two ids of one life of a node are the same within one round of the 32-bit word: it goes through all its values in a
scattered order, from a start by chance.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.ports import Clock

_STRIDE = 0x9E3779B1  # odd: all 2^32 words come before one repeats; and scattered, so that they look as if by chance
_MASK = 0xFFFFFFFF


class MessageIds:
    def __init__(self, clock: Clock, new_id: Callable[[], bytes]) -> None:
        self._clock = clock
        self._word = int.from_bytes(new_id()[-4:], "big")

    def new(self) -> str:
        self._word = word = (self._word + _STRIDE) & _MASK
        return f"msg_{self._clock.now_ms()}_{word:08x}"
