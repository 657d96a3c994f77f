"""Files and directories of a disk that forgets: what programs see, and what the platter holds."""

from __future__ import annotations

import random
from typing import Literal

from headrace.ports import Buffer

PAGE_BYTES = 4096
SECTOR_BYTES = 512  # the largest unit that a disk writes whole

Keep = Literal["none", "all", "some"]


class File:
    __slots__ = ("bad", "data", "dirty", "durable", "is_resized")

    def __init__(self) -> None:
        self.data = bytearray()  # what programs see
        self.durable = bytearray()  # what the platter holds
        self.dirty: set[int] = set()  # pages that a sync would write
        self.is_resized = False
        self.bad: set[int] = set()  # pages that do not read, until they are written again

    def write(self, data: Buffer, position: int) -> None:
        end = position + len(data)
        if end > len(self.data):
            self.data.extend(bytes(end - len(self.data)))
            self.is_resized = True
        self.data[position:end] = data
        pages = range(position // PAGE_BYTES, (end + PAGE_BYTES - 1) // PAGE_BYTES)
        self.dirty.update(pages)
        self.bad.difference_update(pages)

    def readable_up_to(self, position: int) -> int:
        """Where the next bad page begins; at or before the position: it is one."""
        return min(
            (page * PAGE_BYTES for page in self.bad if (page + 1) * PAGE_BYTES > position), default=len(self.data)
        )

    def resize(self, size: int) -> None:
        if size < len(self.data):
            del self.data[size:]
            self.dirty = {page for page in self.dirty if page * PAGE_BYTES < size}
        else:
            self.data.extend(bytes(size - len(self.data)))
        self.is_resized = True

    def sync(self) -> None:
        _resize(self.durable, len(self.data))
        for page in self.dirty:
            at = page * PAGE_BYTES
            self.durable[at : at + PAGE_BYTES] = self.data[at : at + PAGE_BYTES]
        self.call_clean()

    def forget(self, share: float, chance: random.Random) -> None:
        """A sync has failed: all is called clean, and that share of the pages shows what the platter holds from now on.
        The others do so only as long as they stay in memory: until the power goes."""
        for page in sorted(self.dirty) if share else ():
            if chance.random() < share:
                at = page * PAGE_BYTES
                size = min(PAGE_BYTES, len(self.data) - at)
                self.data[at : at + size] = self.durable[at : at + size].ljust(size, b"\0")
        self.call_clean()

    def call_clean(self) -> None:
        self.dirty.clear()
        self.is_resized = False

    def lose(self, keep: Keep, chance: random.Random) -> None:
        """What is left of it after a power loss is all there ever was."""
        left = bytearray(self.durable)
        reached = len(left)
        for page in sorted(self.dirty):
            at = page * PAGE_BYTES
            new = self.data[at : at + PAGE_BYTES]
            kept = _kept_bytes(len(new), keep, chance)
            if kept:
                _resize(left, max(len(left), at + kept))
                left[at : at + kept] = new[:kept]
                reached = max(reached, at + kept)
        if self.is_resized:
            sizes = {"none": [len(self.durable)], "all": [len(self.data)]}.get(keep)
            _resize(left, chance.choice(sizes or [len(self.durable), len(self.data), reached]))
        self.data, self.durable = left, bytearray(left)
        self.call_clean()


class Directory:
    __slots__ = ("durable", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, File | Directory] = {}
        self.durable: dict[str, File | Directory] = {}


def apply(names: dict[str, File | Directory], what: str, name: str, new: str, node: File | Directory) -> None:
    """A change of a directory: a name linked, unlinked, or (anything else) renamed to `new`."""
    if what == "link":
        names[name] = node
    elif what == "unlink":
        if names.get(name) is node:
            del names[name]
    else:
        if names.get(name) is node:
            del names[name]
        names[new] = node


def _kept_bytes(size: int, keep: Keep, chance: random.Random) -> int:
    if keep != "some":
        return size if keep == "all" else 0
    fate = chance.random()
    if fate < 0.45:
        return size
    if fate < 0.85:
        return 0
    torn = chance.randint(0, size)
    return torn if fate < 0.9 else torn // SECTOR_BYTES * SECTOR_BYTES


def _resize(data: bytearray, size: int) -> None:
    if size < len(data):
        del data[size:]
    else:
        data.extend(bytes(size - len(data)))
