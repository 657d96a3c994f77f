"""The newest part of a log, kept in memory: who reads near the end needs no system call.

A tail is a list of blocks. Small batches are copied side by side into a block that was allocated at its full
size, so that it never moves while readers hold views of it; a large batch is a block of its own and not
copied at all. Each block knows where its batches start, so a read is two bisections, however small the
batches are.

All that is here is written in the file already: a tail may be dropped at any moment. It is bounded for each
log and, by the TailBudget, for all logs together, which takes from those that were used longest ago.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from headrace.ports import Buffer
from headrace.records.kernel import room

KEEP_BYTES = 32 << 10  # from here on keeping the producer's own buffer is cheaper than copying it
BLOCK_BYTES = 64 << 10
FIRST_BLOCK_BYTES = 4 << 10  # 10,000 partitions with one small batch each stay within the store's budget

# buffer, base offset, next offset, max timestamp
StagedBatch = tuple[Buffer, int, int, int]


class ReadResult(NamedTuple):
    """Whole batches, in order, as views: `size` bytes altogether. The next read asks for `next_offset`."""

    pieces: list[Buffer]
    size: int
    next_offset: int


class Block:
    __slots__ = ("capacity", "next_offset", "offsets", "positions", "used", "view")

    def __init__(self, buffer: Buffer, capacity: int) -> None:
        self.view = memoryview(buffer)
        self.capacity = capacity
        self.used = 0
        self.next_offset = 0
        self.offsets = array("q")
        self.positions = array("I")


class TailBudget:
    """What all tails together may hold."""

    __slots__ = ("_tails", "limit_bytes", "size_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.size_bytes = 0
        self._tails: OrderedDict[Tail, None] = OrderedDict()

    def grew(self, tail: Tail, by_bytes: int) -> None:
        self.size_bytes += by_bytes
        tails = self._tails
        tails[tail] = None
        tails.move_to_end(tail)
        while self.size_bytes > self.limit_bytes:
            oldest = next(iter(tails))
            if oldest is tail:
                return
            oldest.clear()

    def touch(self, tail: Tail) -> None:
        if tail in self._tails:
            self._tails.move_to_end(tail)

    def forget(self, tail: Tail, size_bytes: int) -> None:
        self.size_bytes -= size_bytes
        self._tails.pop(tail, None)


class RingBudget(TailBudget):
    """What all tails together may hold that are all there is of their logs: the one used longest ago loses its oldest
    batches first. Never what is being appended."""

    __slots__ = ()

    def grew(self, tail: Tail, by_bytes: int) -> None:
        self.size_bytes += by_bytes
        tails = self._tails
        tails[tail] = None
        tails.move_to_end(tail)
        while self.size_bytes > self.limit_bytes:
            oldest = next(iter(tails))
            if not oldest.drop_oldest(at_least_one=oldest is tail):
                return


class Tail:
    __slots__ = ("_bases", "_blocks", "_budget", "first_offset", "limit_bytes", "on_loss", "size_bytes")

    def __init__(self, limit_bytes: int, budget: TailBudget, next_offset: int) -> None:
        self.limit_bytes = limit_bytes
        self._budget = budget
        self.on_loss = _nobody  # called when the budget took from it
        self._blocks: list[Block] = []
        self._bases: list[int] = []
        self.first_offset = next_offset  # all from here to the end of the log is in memory
        self.size_bytes = 0

    def append(self, batches: Sequence[StagedBatch]) -> None:
        for buffer, base_offset, next_offset, _ in batches:
            size = len(buffer)
            if size >= KEEP_BYTES:
                block, used = self._add(buffer, size, base_offset), 0
            else:
                block = self._room(size, base_offset)
                used = block.used
                block.view[used : used + size] = buffer
            block.offsets.append(base_offset)
            block.positions.append(used)
            block.used = used + size
            block.next_offset = next_offset
        if self.size_bytes > self.limit_bytes:
            self.shrink()

    def read(self, offset: int, max_bytes: int, up_to: int, at_least_one: bool) -> ReadResult:
        """From `offset`, which must not be before `first_offset` and must be below `up_to`."""
        self._budget.touch(self)
        pieces: list[Buffer] = []
        left, next_offset = max_bytes, offset
        for place in range(bisect_right(self._bases, offset) - 1, len(self._blocks)):
            block = self._blocks[place]
            offsets, positions = block.offsets, block.positions
            first, last = bisect_right(offsets, next_offset) - 1, len(positions)
            begin, end, after = positions[first], block.used, block.next_offset
            if end - begin > left:
                last = bisect_right(positions, begin + left) - 1
            if after > up_to:
                last = min(last, bisect_left(offsets, up_to))
            if last <= first:
                if pieces or not at_least_one:
                    break
                last = first + 1
            whole = last == len(positions)
            if not whole:
                end, after = positions[last], offsets[last]
            pieces.append(block.view[begin:end])
            left -= end - begin
            next_offset = after
            if not whole:
                break
        return ReadResult(pieces, max_bytes - left, next_offset)

    def views(self) -> list[memoryview]:
        return [block.view[: block.used] for block in self._blocks]

    def clear(self, next_offset: int | None = None) -> None:
        """Forgets everything; what follows starts at `next_offset` (where it would have gone on, unless
        said)."""
        if next_offset is None:
            next_offset = self._blocks[-1].next_offset if self._blocks else self.first_offset
        self._budget.forget(self, self.size_bytes)
        self._blocks.clear()
        self._bases.clear()
        self.size_bytes = 0
        self.first_offset = next_offset

    def drop_oldest(self, *, at_least_one: bool) -> bool:
        """Forgets its first block; the last one only unless `at_least_one` is to stay."""
        if len(self._blocks) > 1:
            self._drop(1)
        elif at_least_one:
            return False
        else:
            self.clear()
        self.on_loss()
        return True

    def skip_to(self, next_offset: int) -> None:
        """Nobody reads here: what was appended is not kept."""
        if self._blocks:
            self.clear(next_offset)
        else:
            self.first_offset = next_offset

    def _room(self, size: int, base_offset: int) -> Block:
        last = self._blocks[-1] if self._blocks else None
        if last is not None and last.capacity - last.used >= size:
            return last
        wanted = FIRST_BLOCK_BYTES if last is None else 2 * last.capacity
        capacity = min(BLOCK_BYTES, max(wanted, size))
        return self._add(room(capacity), capacity, base_offset)

    def _add(self, buffer: Buffer, capacity: int, base_offset: int) -> Block:
        block = Block(buffer, capacity)
        if not self._blocks:
            self.first_offset = base_offset
        self._blocks.append(block)
        self._bases.append(base_offset)
        self.size_bytes += capacity
        self._budget.grew(self, capacity)
        return block

    def shrink(self) -> None:
        """To its limit, which may have changed."""
        blocks, freed, count = self._blocks, 0, 0
        while count < len(blocks) - 1 and self.size_bytes - freed > self.limit_bytes:
            freed += blocks[count].capacity
            count += 1
        if count:
            self._drop(count)
        if self.size_bytes > self.limit_bytes and len(blocks) == 1 and blocks[0].used > self.limit_bytes:
            self.clear()

    def _drop(self, count: int) -> None:
        freed = sum(block.capacity for block in self._blocks[:count])
        self.first_offset = self._blocks[count - 1].next_offset
        del self._blocks[:count], self._bases[:count]
        self.size_bytes -= freed
        self._budget.size_bytes -= freed


def _nobody() -> None:
    """Nobody needs to know."""
