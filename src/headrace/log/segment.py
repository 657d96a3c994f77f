"""One segment: a file of batches, and what is known about it without looking.

A compacted segment has a revision, which is part of its files' names: it takes the place of the one or several that it
was made from. Its offsets have gaps, and its last batch may end before `next_offset`. Those that it replaced are
`dropped` and point to it: whoever still holds one goes on there.

`size` is what is written and may be read; `synced` what of it was synced. `handle` belongs to the file budget, and only
the loop's thread touches it; whoever reads in the background opens the file for itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headrace.log.format import DAMAGE, DELETED, LOG, segment_name
from headrace.log.index import NO_TIMESTAMP, Index

if TYPE_CHECKING:
    from headrace.log.durability import Durability

CLOSED = -1
NOTHING = 1 << 62  # a position that no file reaches
SEEN_STRETCHES = 32  # consumers that go through one segment at their own pace, and doubts between them


class Part(Protocol):
    """What judges of age and size need to know of a segment, whether it is open or in a snapshot."""

    @property
    def base(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def created_ms(self) -> int: ...


class Segment:
    __slots__ = (
        "base",
        "created_ms",
        "dirty",
        "dropped",
        "folder",
        "handle",
        "index",
        "index_saved",
        "indexed_at",
        "max_timestamp",
        "next_offset",
        "owner",
        "pins",
        "recut",
        "reserved",
        "revision",
        "seen",
        "size",
        "successor",
        "synced",
        "true_from",
        "used",
    )

    def __init__(self, folder: str, base: int, created_ms: int, revision: int = 0) -> None:
        self.folder, self.base, self.created_ms, self.revision = folder, base, created_ms, revision
        self.owner: Durability | None = None  # who is asked to sync when open files run short
        self.next_offset = base
        self.size = 0  # 0: not even the header is written
        self.synced = 0
        self.reserved = 0  # up to here the file has room already
        self.max_timestamp = NO_TIMESTAMP
        self.index: Index | None = None  # None: not in memory
        self.index_saved = False  # the file says as much as the memory
        self.indexed_at = 0  # position of the last entry
        self.true_from = NOTHING  # from here to the end this process wrote it, or read it and found it true;
        self.seen: tuple[tuple[int, int], ...] = ()  # and these stretches before, the newest last
        self.handle = CLOSED
        self.pins = 0  # the handle is in use off the loop
        self.used = False  # since the budget last looked
        self.dirty = False  # bytes below `size`, or a cut, wait for a sync
        self.recut = False  # cut since the last round began, which may have synced what was cut off
        self.dropped = False  # no longer part of the log
        self.successor: Segment | None = None  # because it was compacted

    @property
    def has_gaps(self) -> bool:
        return self.revision > 0

    def saw(self, begin: int, end: int) -> None:
        """That stretch was read, and its checksums are right."""
        apart = []
        for first, last in self.seen:
            if begin <= last and end >= first:
                begin, end = min(begin, first), max(end, last)
            else:
                apart.append((first, last))
        if end >= self.true_from:
            self.true_from = min(begin, self.true_from)
        else:
            apart.append((begin, end))
        self.seen = tuple(apart[-SEEN_STRETCHES:])

    def is_true(self, begin: int, end: int) -> bool:
        return begin >= self.true_from or any(first <= begin and end <= last for first, last in self.seen)

    def knows_some(self, begin: int, end: int) -> bool:
        return self.true_from < min(end, self.size) or any(first < end and begin < last for first, last in self.seen)

    def doubt(self, begin: int = 0, end: int = NOTHING) -> None:
        """What of that stretch is there now is not known to be true any more."""
        left = [(self.true_from, min(self.size, begin))]
        for first, last in self.seen:
            left += [(first, min(last, begin)), (max(first, end), last)]
        self.seen = tuple(stretch for stretch in left if stretch[0] < stretch[1])[-SEEN_STRETCHES:]
        self.true_from = min(max(self.true_from, end), self.size)

    def name(self, ending: str = LOG) -> str:
        return segment_name(self.base, ending, 0 if ending in (DAMAGE, DELETED) else self.revision)

    def path(self, ending: str = LOG) -> str:
        return f"{self.folder}/{self.name(ending)}"

    def note(self, base_offset: int, position: int, max_timestamp: int, interval_bytes: int) -> None:
        """A batch starts at `position`: remembers it in the index when it is time, and its timestamp."""
        if position - self.indexed_at >= interval_bytes and self.index is not None:
            self.index.add(base_offset - self.base, position, self.max_timestamp)
            self.indexed_at = position
            self.index_saved = False
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
