"""The index of patterns: who wants a topic, by its name.

A pattern without wildcards is found by its text, any other lies in a drawer (drawers.py): of ten thousand patterns only
those are tried that have a text in common with the name.

What was found for a name is kept, and is good as long as no pattern came or went that matches the name: who subscribes
all the time does not make others look again. After more changes than are remembered it is looked for anew, when
somebody asks; and dropped, or it would hold on to who is gone.

A name that is far longer than a topic's is not taken apart: all patterns are tried, a step at a time (`search`).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Generic

from headrace.broker.subscriptions.drawers import Drawer, Drawers, Ends, Entry, Grams, Holes, Key, Lengths, Owner
from headrace.broker.subscriptions.pattern import LONG, Pattern
from headrace.broker.subscriptions.search import Search

CHANGES_KEPT = 64  # to try so many patterns costs what looking anew does
NAMES_KEPT = 32_768  # as many partitions as a node has, some MB
OWNERS_KEPT = 1 << 22  # of all names together, 8 bytes each; those of one pattern are not copied
DROPPED_AT_ONCE = 500  # names, with each change: a fraction of a millisecond
LONGEST_KEPT = 249  # characters of a name: no topic has a longer one
FEW = 8  # patterns in one drawer that need no better one
FEW_OWNERS = 16  # of one drawer, that it pays to look whether all of them are found


class _Found(Generic[Owner]):
    """The owners of one entry are read from it: they are those of now."""

    __slots__ = ("_entry", "_merged", "version")

    def __init__(self, entry: Entry[Owner] | None, merged: tuple[Owner, ...], version: int) -> None:
        self._entry, self._merged, self.version = entry, merged, version

    @property
    def owners(self) -> tuple[Owner, ...]:
        return self._entry.together if self._entry is not None else self._merged

    @property
    def weight(self) -> int:
        return len(self._merged)


class PatternIndex(Generic[Owner]):
    def __init__(self) -> None:
        self.version = 0
        self._entries: dict[str, Entry[Owner]] = {}
        self._prefixes: Ends[Owner] = Ends(is_suffix=False)
        self._suffixes: Ends[Owner] = Ends(is_suffix=True)
        self._inner: Grams[Owner] = Grams()
        self._heads: Holes[Owner] = Holes(is_tail=False)
        self._tails: Holes[Owner] = Holes(is_tail=True)
        self._loose: Lengths[Owner] = Lengths()
        self._all = self._prefixes, self._suffixes, self._inner, self._heads, self._tails, self._loose
        self._changed: deque[Pattern] = deque(maxlen=CHANGES_KEPT)
        self._found: OrderedDict[str, _Found[Owner]] = OrderedDict()  # by version
        self._weight = 0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, text: str, owner: Owner) -> Pattern:
        entry = self._entries.get(text)
        if entry is None:
            entry = self._entries[text] = Entry(Pattern(text))
            if not entry.pattern.is_literal:
                self._file(entry)
        entry.add(owner)
        self._has_changed(entry.pattern)
        return entry.pattern

    def remove(self, text: str, owner: Owner) -> Pattern | None:
        """None: it was not there."""
        entry = self._entries.get(text)
        if entry is None or owner not in entry.owners:
            return None
        entry.remove(owner)
        if not entry.owners:
            del self._entries[text]
            if entry.drawer is not None:
                entry.drawer.drawers.remove(entry)
        self._has_changed(entry.pattern)
        return entry.pattern

    def owners(self, name: str) -> Collection[Owner]:
        """Each once, however many of its patterns match."""
        found = self._found.get(name)
        if found is not None:
            if found.version == self.version:
                return found.owners
            if not self._concerns(name, self.version - found.version):
                found.version = self.version
                self._found.move_to_end(name)
                return found.owners
            del self._found[name]
            self._weight -= found.weight
        if len(name) > LONG:
            search = self.search(name)
            search.go_on()
            return tuple(search.owners)
        return self._look(name) if self._entries else ()

    def search(self, name: str) -> Search[Owner]:
        """The same for who has a name of any length and little time."""
        return Search(name, self._entries.values())

    def _concerns(self, name: str, changes: int) -> bool:
        """Whether any of the last so many may have changed who wants it."""
        if changes > len(self._changed):
            return True
        return any(pattern.matches(name) for pattern in islice(reversed(self._changed), changes))

    def _has_changed(self, pattern: Pattern) -> None:
        self.version += 1
        self._changed.append(pattern)
        if not self._entries:
            self._found.clear()
            self._weight = 0
            return
        for _ in range(min(DROPPED_AT_ONCE, len(self._found))):
            if self.version - next(iter(self._found.values())).version <= CHANGES_KEPT:
                break
            self._drop_oldest()

    def _look(self, name: str) -> tuple[Owner, ...]:
        literal = self._entries.get(name)
        found: _Matches[Owner] = _Matches(name)
        if literal is not None and literal.pattern.is_literal:
            found.take(literal)
        for drawers in self._all:
            if drawers:
                for drawer in drawers.find(name):
                    found.search(drawer)
        if found.merged is not None:
            return self._keep(name, _Found(None, tuple(found.merged), self.version))
        return self._keep(name, _Found(found.first, (), self.version))

    def _keep(self, name: str, found: _Found[Owner]) -> tuple[Owner, ...]:
        if len(name) <= LONGEST_KEPT:
            self._found[name] = found
            self._weight += found.weight
            while len(self._found) > NAMES_KEPT or self._weight > OWNERS_KEPT:
                self._drop_oldest()
        return found.owners

    def _drop_oldest(self) -> None:
        self._weight -= self._found.popitem(last=False)[1].weight

    def _file(self, entry: Entry[Owner]) -> None:
        """Into the smallest drawer. Holes are a look for each name, so they have to be needed."""
        pattern = entry.pattern
        choices = self._sized(pattern, self._prefixes, self._suffixes, self._inner, self._loose)
        best = min(choices, key=_rank, default=None)
        if best is None or best[0] >= FEW:
            best = min((*self._sized(pattern, self._heads, self._tails), *((best,) if best else ())), key=_rank)
        _, drawers, key = best
        drawers.add(key, entry)

    def _sized(self, pattern: Pattern, *among: Drawers[Owner]) -> Iterator[tuple[int, Drawers[Owner], Key]]:
        for drawers in among:
            for key in drawers.keys(pattern):
                yield drawers.size(key), drawers, key


class _Matches(Generic[Owner]):
    """What is found for one name. The owners of one entry are not copied."""

    __slots__ = ("_known", "_name", "first", "merged")

    def __init__(self, name: str) -> None:
        self._name = name
        self.first: Entry[Owner] | None = None
        self.merged: dict[Owner, None] | None = None
        self._known: dict[Owner, None] = {}

    def take(self, entry: Entry[Owner]) -> None:
        if not entry.pattern.matches(self._name):
            return
        if self.first is None:
            self.first, self._known = entry, entry.owners
            return
        if self.merged is None:
            self.merged = self._known = dict(self._known)
        self.merged.update(entry.owners)

    def search(self, drawer: Drawer[Owner]) -> None:
        """Who has many patterns that match is found by the first of them."""
        is_few = len(drawer.owners) <= FEW_OWNERS
        for entry in drawer.entries.values():
            if is_few:
                if drawer.owners.keys() <= self._known.keys():
                    return
            elif len(entry.owners) == 1 and entry.owners.keys() <= self._known.keys():
                continue
            self.take(entry)


def _rank(choice: tuple[int, object, Key]) -> tuple[int, int]:
    """The fewest patterns, then the longest text."""
    size, _, (_, text) = choice
    return size, -len(text)
