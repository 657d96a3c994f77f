"""Leader epochs: which leader wrote from which offset on. Followers and consumers ask to find out where
histories part.

An epoch that has begun but written nothing has no entry yet: it starts wherever the log ends. So nothing of
it needs to be kept, and the whole list can be read back from the batches.
"""

from __future__ import annotations

from bisect import bisect_right

NONE = -1


class LeaderEpochs:
    __slots__ = ("_epochs", "_starts", "latest", "written")

    def __init__(self, entries: list[tuple[int, int]] | None = None) -> None:
        self._epochs = [epoch for epoch, _ in entries or ()]
        self._starts = [start for _, start in entries or ()]
        self.written = self._epochs[-1] if self._epochs else NONE  # the last epoch that wrote something
        self.latest = self.written  # the last that began

    def begin(self, epoch: int) -> None:
        if epoch > self.latest:
            self.latest = epoch

    def wrote(self, epoch: int, base_offset: int) -> None:
        """A batch of `epoch` starts at `base_offset`, the end of the log so far."""
        if epoch > self.written:
            self._epochs.append(epoch)
            self._starts.append(base_offset)
            self.written = epoch
            self.begin(epoch)

    def end_offset_for(self, epoch: int, end_offset: int) -> tuple[int, int]:
        """(the largest epoch up to `epoch`, where it ends); (-1, -1) for an epoch that has not begun."""
        if epoch == NONE or epoch > self.latest:
            return NONE, NONE
        if epoch == self.latest:
            return epoch, end_offset
        place = bisect_right(self._epochs, epoch)
        end = self._starts[place] if place < len(self._starts) else end_offset
        return (self._epochs[place - 1] if place else epoch), end

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._starts, strict=True))

    def cut_end(self, end_offset: int) -> None:
        """Forgets what was written from `end_offset` on. An epoch that had begun has still begun."""
        while self._starts and self._starts[-1] >= end_offset:
            del self._starts[-1], self._epochs[-1]
        self.written = self._epochs[-1] if self._epochs else NONE

    def cut_start(self, start_offset: int) -> None:
        """Forgets epochs that ended before `start_offset`."""
        place = bisect_right(self._starts, start_offset) - 1
        if place > 0:
            del self._starts[:place], self._epochs[:place]
        if self._starts and self._starts[0] < start_offset:
            self._starts[0] = start_offset
