"""Drawers: patterns by a text that every name has which they match, so that few of them are tried for a name.

The text is what names begin with, or end with (`Ends`), a piece from anywhere in them (`Grams`), or what stands at
certain places from their beginning or their end (`Holes`). Of all texts of a pattern the one is taken that the fewest
others have. What has no text, but `*` and `?` alone, goes by its length (`Lengths`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from itertools import islice
from typing import Generic, TypeVar

from headrace.broker.subscriptions.pattern import Pattern

GRAM_SIZES = (16, 8, 6, 4, 3, 2, 1)  # a piece is looked up by texts of the largest of these that it has
GRAMS_LOOKED_AT = 256  # of one pattern: as many as the longest name of a topic has
SEEK_EACH = 32  # with fewer texts than this it is quicker to seek each of them than to take the name apart
MAX_HOLES = 32  # different ones: each is a look for each name

Owner = TypeVar("Owner")
Key = tuple[Hashable, str]  # the kind of text, and the text


class Entry(Generic[Owner]):
    """A pattern and whose it is, in the order in which they came."""

    __slots__ = ("_together", "drawer", "owners", "pattern")

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self.owners: dict[Owner, None] = {}
        self.drawer: Drawer[Owner] | None = None  # where it lies, if it has wildcards
        self._together: tuple[Owner, ...] | None = None

    def add(self, owner: Owner) -> None:
        if owner not in self.owners:
            self.owners[owner] = self._together = None
            if self.drawer is not None:
                self.drawer.owners[owner] = self.drawer.owners.get(owner, 0) + 1

    def remove(self, owner: Owner) -> None:
        del self.owners[owner]
        self._together = None
        if self.drawer is not None:
            left = self.drawer.owners.pop(owner) - 1
            if left:
                self.drawer.owners[owner] = left

    @property
    def together(self) -> tuple[Owner, ...]:
        """The owners; the same for all names that have no other pattern."""
        if self._together is None:
            self._together = tuple(self.owners)
        return self._together


class Drawer(Generic[Owner]):
    __slots__ = ("drawers", "entries", "key", "owners")

    def __init__(self, drawers: Drawers[Owner], key: Key) -> None:
        self.drawers, self.key = drawers, key
        self.entries: dict[str, Entry[Owner]] = {}  # by the pattern's own text
        self.owners: dict[Owner, int] = {}  # and how many of the entries are theirs


class Drawers(Generic[Owner]):
    def __init__(self) -> None:
        self._by_length: dict[Hashable, dict[str, Drawer[Owner]]] = {}

    def __len__(self) -> int:
        """Different kinds of text."""
        return len(self._by_length)

    def add(self, key: Key, entry: Entry[Owner]) -> None:
        """It has no owners yet."""
        drawers = self._by_length.setdefault(key[0], {})
        drawer = drawers.get(key[1])
        if drawer is None:
            drawer = drawers[key[1]] = Drawer(self, key)
        drawer.entries[entry.pattern.text] = entry
        entry.drawer = drawer

    def remove(self, entry: Entry[Owner]) -> None:
        """It has none any more."""
        assert entry.drawer is not None
        entries, (kind, text) = entry.drawer.entries, entry.drawer.key
        entry.drawer = None
        del entries[entry.pattern.text]
        if not entries:
            del self._by_length[kind][text]
            if not self._by_length[kind]:
                del self._by_length[kind]

    def size(self, key: Key) -> int:
        drawer = self._by_length.get(key[0], {}).get(key[1])
        return len(drawer.entries) if drawer is not None else 0

    def keys(self, pattern: Pattern) -> Iterable[Key]:
        """Under which it could lie."""
        raise NotImplementedError

    def find(self, name: str) -> Iterator[Drawer[Owner]]:
        """In which there may be patterns that match."""
        raise NotImplementedError


class Ends(Drawers[Owner]):
    def __init__(self, is_suffix: bool) -> None:
        super().__init__()
        self._is_suffix = is_suffix

    def keys(self, pattern: Pattern) -> Iterable[Key]:
        text = pattern.suffix if self._is_suffix else pattern.prefix
        return ((len(text), text),) if text else ()

    def find(self, name: str) -> Iterator[Drawer[Owner]]:
        for length, drawers in self._by_length.items():
            assert isinstance(length, int)
            drawer = drawers.get(name[-length:] if self._is_suffix else name[:length])
            if drawer is not None:
                yield drawer


class Grams(Drawers[Owner]):
    def keys(self, pattern: Pattern) -> Iterable[Key]:
        return islice(_grams(pattern.inner), GRAMS_LOOKED_AT)

    def find(self, name: str) -> Iterator[Drawer[Owner]]:
        for size, drawers in self._by_length.items():
            if len(drawers) < SEEK_EACH:
                for text, drawer in drawers.items():
                    if text in name:
                        yield drawer
            else:
                assert isinstance(size, int)
                grams = {name[at : at + size] for at in range(len(name) - size + 1)}
                for text in drawers.keys() & grams:
                    yield drawers[text]


class Holes(Drawers[Owner]):
    """Kinds are slices of a name."""

    def __init__(self, is_tail: bool) -> None:
        super().__init__()
        self._is_tail = is_tail

    def keys(self, pattern: Pattern) -> Iterable[Key]:
        text = pattern.tail if self._is_tail else pattern.head
        shift = len(text) if self._is_tail else 0
        slices, at = [], 0
        for piece in text.split("?"):
            if piece:
                slices.append((at - shift, (at + len(piece) - shift) or None))
            at += len(piece) + 1
        kind = tuple(slices)
        if len(kind) < 2 or (kind not in self._by_length and len(self._by_length) >= MAX_HOLES):
            return ()
        return ((kind, text.replace("?", "")),)

    def find(self, name: str) -> Iterator[Drawer[Owner]]:
        for kind, drawers in self._by_length.items():
            assert isinstance(kind, tuple)
            drawer = drawers.get("".join([name[first:after] for first, after in kind]))
            if drawer is not None:
                yield drawer


class Lengths(Drawers[Owner]):
    """Kinds are how many characters there are at least, and whether there may be more."""

    def keys(self, pattern: Pattern) -> Iterable[Key]:
        return (((pattern.min_length, "*" in pattern.text), ""),) if pattern.is_loose else ()

    def find(self, name: str) -> Iterator[Drawer[Owner]]:
        length = len(name)
        for kind, drawers in self._by_length.items():
            assert isinstance(kind, tuple)
            least, is_open = kind
            if least == length or (is_open and least < length):
                yield drawers[""]


def _grams(pieces: Iterable[str]) -> Iterator[Key]:
    for piece in pieces:
        size = next(size for size in GRAM_SIZES if size <= len(piece))
        for at in range(len(piece) - size + 1):
            yield size, piece[at : at + size]
