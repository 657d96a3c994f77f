"""No more bytes a second than asked, and a word to whoever watches."""

from __future__ import annotations

import time
from collections.abc import Callable

LONGEST_NAP_S = 1.0  # so that an interrupt is heard
BURST_S = 0.25  # a wait that was longer than needed is not made good by a rush of more than this


class Pace:
    """Called with every so many bytes; waits when they came too quickly. 0: as quickly as they come."""

    def __init__(self, bytes_per_s: int = 0, watch: Callable[[int], None] = lambda _: None) -> None:
        self._bytes_per_s, self._watch = bytes_per_s, watch
        self._due = time.monotonic()  # when the bytes so far should have taken their time
        self.bytes = 0

    def __call__(self, count: int) -> None:
        self.bytes += count
        self._watch(count)
        if not self._bytes_per_s:
            return
        self._due = max(self._due, time.monotonic() - BURST_S) + count / self._bytes_per_s
        while (wait := self._due - time.monotonic()) > 0:
            time.sleep(min(wait, LONGEST_NAP_S))
