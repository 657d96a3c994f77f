"""How many files may be open at once, and which of them is closed for the next.

The least recently used handle goes, by second chance. A pinned handle (in use off the loop) stays; so does a
dirty one, because a failed write-back is only told to handles that were open when it happened: a file closed
dirty and opened anew may hide that its bytes never reached the disk. When nothing but dirty ones is left,
their logs are asked to sync, and the limit is overrun for a while, up to HARD_RATIO; there the oldest is
synced on the spot.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict

from headrace.log.segment import CLOSED, Segment
from headrace.ports import Files

HARD_RATIO = 1.25  # what the store keeps in reserve: the limit is given with room above it
LOOKED_AT = 64  # handles judged for one eviction, so that it never costs more than some microseconds


class FileBudget:
    __slots__ = ("_files", "_open", "_roomy", "limit")

    def __init__(self, files: Files, limit: int) -> None:
        self._files = files
        self.limit = limit
        self._open: OrderedDict[Segment, None] = OrderedDict()
        self._roomy: dict[Segment, None] = {}  # have room ahead of their end

    def __len__(self) -> int:
        return len(self._open)

    def open(self, segment: Segment, *, create: bool = False) -> int:
        """The segment's handle, opened when need be."""
        segment.used = True
        if segment.handle == CLOSED:
            if len(self._open) >= self.limit:
                self._make_room()
            segment.handle = self._files.open(segment.path(), create=create)
            self._open[segment] = None
        return segment.handle

    def close(self, segment: Segment) -> None:
        """Now, or when it is not pinned any more."""
        if segment.handle != CLOSED and not segment.pins:
            self.release(segment)
            self._files.close(segment.handle)
            segment.handle = CLOSED
            self._open.pop(segment, None)

    def reserve(self, segment: Segment, size: int) -> bool:
        """Room ahead of its end. False: it cannot be had."""
        if self._files.reserve(segment.handle, segment.size, size):
            self._roomy[segment] = None
            return True
        return False

    def release(self, segment: Segment) -> None:
        """It does not grow any more, for now: room that it did not need is others' again."""
        if segment in self._roomy:
            del self._roomy[segment]
            segment.reserved = 0
            with contextlib.suppress(OSError):
                self._files.release(segment.handle, segment.size)

    def release_all(self) -> list[Segment]:
        """The disk is full: what is held ahead is needed now. Gives those that held some."""
        released = list(self._roomy)
        for segment in released:
            self.release(segment)
        return released

    def _make_room(self) -> None:
        dirty: list[Segment] = []
        for segment in list(self._oldest()):
            if segment.pins:
                continue
            if segment.used:
                segment.used = False
                self._open.move_to_end(segment)
            elif segment.dirty:
                dirty.append(segment)
            else:
                self.close(segment)
                return
        if not dirty:  # all were used since the last look, or are pinned
            dirty = [segment for segment in self._oldest() if segment.dirty and not segment.pins]
            clean = [segment for segment in self._oldest() if not segment.dirty and not segment.pins]
            if clean:
                self.close(clean[0])
                return
        for segment in dirty:
            if segment.owner is not None:
                segment.owner.sync_soon()
        if dirty and len(self._open) >= self.limit * HARD_RATIO:
            self._sync_now(dirty)

    def _sync_now(self, dirty: list[Segment]) -> None:
        for segment in dirty:
            if segment.owner is not None and segment.owner.sync_quietly(segment):
                self.close(segment)
                return

    def _oldest(self) -> list[Segment]:
        return [segment for segment, _ in zip(self._open, range(LOOKED_AT), strict=False)]
