"""Memory that all requests of the door share: bodies on their way in, answers on their way out.

A request that finds none is told to come again; one that reads gets less of it the less there is, so that many
stalled clients make pages small before they make them impossible.
"""

from __future__ import annotations

from headrace.doors.http.refusals import UNAVAILABLE, Refused

SHARE = 8  # a request gets at most this part of what is left
LEAST_BYTES = 64 << 10  # and no less than this, or nothing


class Memory:
    def __init__(self, limit: int) -> None:
        self.limit, self.used = limit, 0

    def take(self, size: int) -> None:
        if self.used + size > self.limit:
            raise Refused(UNAVAILABLE, f"requests hold {self.used} bytes of {self.limit}; try again in a moment")
        self.used += size

    def share(self, wish: int) -> int:
        """As much as can be had of `wish`; to be given back."""
        size = max(min(wish, LEAST_BYTES), min(wish, (self.limit - self.used) // SHARE))
        self.take(size)
        return size

    def give_back(self, size: int) -> None:
        self.used -= size
