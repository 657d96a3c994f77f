"""The transactions of a log: which are under way, where the first of them begins, and which were aborted.

- A transaction begins with a producer's first transactional batch and ends with the marker that its coordinator writes.
  Everything before the first batch of all that are under way is stable: that is as far as `read_committed` goes.
- Of an aborted one, (producer id, first offset, marker's offset) is kept as long as the marker is in the log: whoever
  reads any of it is told to skip that producer's batches up to the marker. With each goes the stable offset that its
  marker left behind: what is aborted later begins there or after, so a search need not go to the end.
- Of the last committed ones as much is kept, for one purpose: when the end of the log is cut off, those whose marker
  goes are under way again.

All of it can be read back from the log. It is saved with the log's snapshot, so that only what came after is.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from heapq import heapify, heappop, heappush

import msgspec

MAX_ABORTED = 500_000  # of one log, 16 MB; beyond it nobody begins a transaction there until retention has let some go
MANY_ABORTED = MAX_ABORTED * 8 // 10  # there is still time to shorten retention
COMMITS_KEPT = 4_096  # more than the end of a log that is ever cut off holds
NONE = -1


class SavedTransactions(msgspec.Struct, frozen=True, array_like=True):
    """Columns are 8-byte integers, little-endian."""

    ongoing: list[tuple[int, int]] = []
    coordinators: list[tuple[int, int]] = []
    aborted: tuple[bytes, bytes, bytes, bytes] = (b"", b"", b"", b"")
    committed: tuple[bytes, bytes, bytes] = (b"", b"", b"")
    forgotten: int = 0


# What `begin` and `end` did, to be undone.
Undo = tuple[str, int] | None


class Transactions:
    __slots__ = (
        "_committed_firsts",
        "_committed_lasts",
        "_committed_producers",
        "_firsts",
        "_forgotten",
        "_lasts",
        "_order",
        "_producers",
        "_stables",
        "coordinators",
        "ongoing",
    )

    def __init__(self) -> None:
        self.ongoing: dict[int, int] = {}  # producer id -> offset of its first batch
        self._order: list[tuple[int, int]] = []  # the same as a heap by offset; what ended is passed over
        self.coordinators: dict[int, int] = {}  # producer id -> epoch of the coordinator that last ended one of its own
        # The aborted ones, by the offset of their markers.
        self._producers, self._firsts, self._lasts, self._stables = array("q"), array("q"), array("q"), array("q")
        self._committed_producers, self._committed_firsts = array("q"), array("q")
        self._committed_lasts = array("q")
        self._forgotten = 0  # commits before this offset are not remembered

    # Under way

    def begin(self, producer_id: int, offset: int) -> Undo:
        """A transactional batch at `offset`."""
        if producer_id in self.ongoing:
            return None
        self.ongoing[producer_id] = offset
        heappush(self._order, (offset, producer_id))
        return "begun", offset

    def end(self, producer_id: int, offset: int, is_commit: bool, coordinator_epoch: int) -> Undo:
        """A marker at `offset`. One that ends nothing is no error: a coordinator that lost its memory writes twice."""
        self.coordinators[producer_id] = max(coordinator_epoch, self.coordinators.get(producer_id, NONE))
        first = self.ongoing.pop(producer_id, None)
        if first is None:
            return None
        if is_commit:
            self._committed_producers.append(producer_id)
            self._committed_firsts.append(first)
            self._committed_lasts.append(offset)
            if len(self._committed_lasts) >= 2 * COMMITS_KEPT:
                self._forget_commits()
            return "committed", first
        self._producers.append(producer_id)
        self._firsts.append(first)
        self._lasts.append(offset)
        self._stables.append(self.stable_offset(offset + 1))
        return "aborted", first

    def undo(self, producer_id: int, done: Undo) -> None:
        if done is None:
            return
        what, first = done
        if what == "begun":
            del self.ongoing[producer_id]
            return
        if what == "committed":
            for column in (self._committed_producers, self._committed_firsts, self._committed_lasts):
                column.pop()
        else:
            for column in (self._producers, self._firsts, self._lasts, self._stables):
                column.pop()
        self.ongoing[producer_id] = first
        heappush(self._order, (first, producer_id))

    def stable_offset(self, end_offset: int) -> int:
        """Where the first transaction that is under way begins, else the end."""
        if not self.ongoing:
            self._order.clear()
            return end_offset
        order = self._order
        while self.ongoing.get(order[0][1]) != order[0][0]:
            heappop(order)
        return min(order[0][0], end_offset)

    @property
    def is_full(self) -> bool:
        """Were one more begun and aborted, its place could not be kept."""
        return self.places >= MAX_ABORTED

    @property
    def places(self) -> int:
        """That are taken: by aborted ones, and by those under way, which may be."""
        return len(self._lasts) + len(self.ongoing)

    # Aborted

    def aborted(self, from_offset: int, to_offset: int) -> list[tuple[int, int, int]]:
        """(producer id, first offset, marker's offset) of those of which something lies between."""
        found = []
        for place in range(bisect_left(self._lasts, from_offset), len(self._lasts)):
            if self._firsts[place] < to_offset:
                found.append((self._producers[place], self._firsts[place], self._lasts[place]))
            if self._stables[place] >= to_offset:
                break
        return found

    def aborted_columns(self, from_offset: int) -> tuple[array[int], array[int], array[int]]:
        """Copies: producer ids, first offsets and markers' offsets of those that end at the offset or after."""
        place = bisect_left(self._lasts, from_offset)
        return self._producers[place:], self._firsts[place:], self._lasts[place:]

    @property
    def aborted_count(self) -> int:
        return len(self._lasts)

    def forget_marker(self, offset: int) -> None:
        """The marker of an aborted transaction is gone from the log: without it nobody could tell where it ends."""
        place = bisect_left(self._lasts, offset)
        if place < len(self._lasts) and self._lasts[place] == offset:
            for column in (self._producers, self._firsts, self._lasts, self._stables):
                del column[place]

    # Retention and truncation

    def cut_start(self, start_offset: int) -> None:
        """Forgets aborted ones that lie wholly before."""
        place = bisect_left(self._lasts, start_offset)
        if place:
            for column in (self._producers, self._firsts, self._lasts, self._stables):
                del column[:place]

    def can_cut_end(self, end_offset: int) -> bool:
        return end_offset >= self._forgotten

    def cut_end(self, end_offset: int) -> None:
        """Forgets what is at `end_offset` and after. What was ended there is under way again."""
        reopened: dict[int, int] = {}
        place = bisect_left(self._lasts, end_offset)
        for producer_id, first in zip(self._producers[place:], self._firsts[place:], strict=True):
            reopened.setdefault(producer_id, first)
        for column in (self._producers, self._firsts, self._lasts, self._stables):
            del column[place:]
        place = bisect_left(self._committed_lasts, end_offset)
        for producer_id, first in zip(self._committed_producers[place:], self._committed_firsts[place:], strict=True):
            reopened[producer_id] = min(first, reopened.get(producer_id, first))
        for column in (self._committed_producers, self._committed_firsts, self._committed_lasts):
            del column[place:]
        for producer_id, first in reopened.items():
            self.ongoing[producer_id] = min(first, self.ongoing.get(producer_id, first))
        self.ongoing = {producer_id: first for producer_id, first in self.ongoing.items() if first < end_offset}
        self._reorder()

    # Saving

    def save(self) -> SavedTransactions:
        return SavedTransactions(
            list(self.ongoing.items()),
            list(self.coordinators.items()),
            (_packed(self._producers), _packed(self._firsts), _packed(self._lasts), _packed(self._stables)),
            (_packed(self._committed_producers), _packed(self._committed_firsts), _packed(self._committed_lasts)),
            self._forgotten,
        )

    def load(self, saved: SavedTransactions | None) -> None:
        saved = saved or SavedTransactions()
        self.ongoing, self.coordinators = dict(saved.ongoing), dict(saved.coordinators)
        self._producers, self._firsts, self._lasts, self._stables = map(_unpacked, saved.aborted)
        self._committed_producers, self._committed_firsts, self._committed_lasts = map(_unpacked, saved.committed)
        self._forgotten = saved.forgotten
        self._reorder()

    def _reorder(self) -> None:
        self._order = [(first, producer_id) for producer_id, first in self.ongoing.items()]
        heapify(self._order)

    def _forget_commits(self) -> None:
        gone = len(self._committed_lasts) - COMMITS_KEPT
        self._forgotten = self._committed_lasts[gone - 1] + 1
        for column in (self._committed_producers, self._committed_firsts, self._committed_lasts):
            del column[:gone]


def _packed(column: array[int]) -> bytes:
    return _in_order(column).tobytes()


def _unpacked(data: bytes) -> array[int]:
    return _in_order(array("q", data))


def _in_order(column: array[int]) -> array[int]:
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column
