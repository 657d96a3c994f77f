"""A walk over the batches of a segment file, a window at a time, until they end or stop being true.

Offsets must follow each other: the base offset lies outside of a batch's own checksum, so the neighbours are what tells
a changed one. Without a gap, unless compaction has left some: then they only rise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headrace.records.batch import HEADER_BYTES, read_header
from headrace.records.kernel import scan

WINDOW_BYTES = 1 << 20

# position, size, base offset, next offset, max timestamp, leader epoch, producer id, producer epoch, base
# sequence, attributes
Scanned = tuple[int, int, int, int, int, int, int, int, int, int]
Fetch = Callable[[int, int], bytes]  # size, position -> bytes, fewer only at the end of the file


class Walk:
    __slots__ = ("_check_crc", "_end", "_fetch", "_has_gaps", "expected", "position", "why")

    def __init__(
        self, fetch: Fetch, position: int, end: int, expected: int, *, check_crc: bool, has_gaps: bool = False
    ) -> None:
        self._fetch, self._end, self._check_crc, self._has_gaps = fetch, end, check_crc, has_gaps
        self.position = position  # the walk came so far,
        self.expected = expected  # and the next batch has this offset, or a later one where there are gaps
        self.why: str | None = None  # it did not reach the end

    def batches(self) -> Iterator[tuple[int, Scanned]]:
        """Each batch with its position in the file."""
        window = WINDOW_BYTES
        while self.position < self._end:
            start = self.position
            wanted = min(window, self._end - start)
            data = self._fetch(wanted, start)
            found, at, why = scan(data, 0, len(data), self.expected, self._check_crc)
            for batch in found:
                if batch[2] != self.expected and not self._has_gaps:
                    self.why = f"offset {batch[2]} where {self.expected} was expected"
                    return
                yield start + batch[0], batch
                self.position = start + batch[0] + batch[1]
                self.expected = batch[3]
            if why not in (None, "short"):
                self.why = why
                return
            if len(data) < wanted:
                self.why = "the file ends early"
                return
            if why == "short":
                if start + len(data) >= self._end:
                    self.why = "the last batch is cut off"
                    return
                # One batch larger than the window: the walk's own bound on sizes has judged its length
                # already.
                window = max(WINDOW_BYTES, read_header(data, at).size if len(data) - at >= HEADER_BYTES else 0)
