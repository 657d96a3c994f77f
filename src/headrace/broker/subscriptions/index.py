"""The index of patterns: who wants a topic, by its name.

A pattern without wildcards is found by its text. One with wildcards lies in a drawer, named by what it begins with or
by what it ends with, whichever is longer: of ten thousand patterns only those are tried whose beginning or end a name
has. Those that begin and end with a wildcard are tried for every name. What is found is good until `version` rises.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Generic, TypeVar

from headrace.broker.subscriptions.pattern import Pattern

Owner = TypeVar("Owner")


class Entry(Generic[Owner]):
    """A pattern and whose it is, in the order in which they came."""

    __slots__ = ("owners", "pattern")

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self.owners: dict[Owner, None] = {}


class _Drawers(Generic[Owner]):
    """Entries by a piece of text at one end of a name."""

    def __init__(self, is_suffix: bool) -> None:
        self._is_suffix = is_suffix
        self._by_length: dict[int, dict[str, dict[str, Entry[Owner]]]] = {}  # text length, text, pattern

    def add(self, text: str, entry: Entry[Owner]) -> None:
        drawers = self._by_length.setdefault(len(text), {})
        drawers.setdefault(text, {})[entry.pattern.text] = entry

    def remove(self, text: str, entry: Entry[Owner]) -> None:
        drawers = self._by_length[len(text)]
        del drawers[text][entry.pattern.text]
        if not drawers[text]:
            del drawers[text]
        if not drawers:
            del self._by_length[len(text)]

    def find(self, name: str) -> Iterator[Entry[Owner]]:
        for length, drawers in self._by_length.items():
            if length <= len(name):
                drawer = drawers.get(name[len(name) - length :] if self._is_suffix else name[:length])
                if drawer is not None:
                    yield from drawer.values()


class PatternIndex(Generic[Owner]):
    def __init__(self) -> None:
        self.version = 0
        self._entries: dict[str, Entry[Owner]] = {}
        self._prefixes: _Drawers[Owner] = _Drawers(is_suffix=False)
        self._suffixes: _Drawers[Owner] = _Drawers(is_suffix=True)

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, text: str, owner: Owner) -> Pattern | None:
        """The pattern, if it was not there yet."""
        self.version += 1
        entry = self._entries.get(text)
        if entry is not None:
            entry.owners[owner] = None
            return None
        entry = self._entries[text] = Entry(Pattern(text))
        entry.owners[owner] = None
        if not entry.pattern.is_literal:
            self._drawers(entry.pattern).add(*self._key(entry))
        return entry.pattern

    def remove(self, text: str, owner: Owner) -> Pattern | None:
        """The pattern, if nobody has it any more."""
        entry = self._entries.get(text)
        if entry is None or owner not in entry.owners:
            return None
        self.version += 1
        del entry.owners[owner]
        if entry.owners:
            return None
        del self._entries[text]
        if not entry.pattern.is_literal:
            self._drawers(entry.pattern).remove(*self._key(entry))
        return entry.pattern

    def owners(self, name: str) -> Collection[Owner]:
        """Each once, however many of its patterns match. Not to be changed: it may be the index's own."""
        found = [entry for entry in self._entries_for(name) if entry.pattern.matches(name)]
        if len(found) == 1:
            return found[0].owners
        return {owner: None for entry in found for owner in entry.owners}

    def _entries_for(self, name: str) -> Iterator[Entry[Owner]]:
        literal = self._entries.get(name)
        if literal is not None and literal.pattern.is_literal:
            yield literal
        yield from self._prefixes.find(name)
        yield from self._suffixes.find(name)

    def _drawers(self, pattern: Pattern) -> _Drawers[Owner]:
        return self._suffixes if len(pattern.suffix) > len(pattern.prefix) else self._prefixes

    def _key(self, entry: Entry[Owner]) -> tuple[str, Entry[Owner]]:
        pattern = entry.pattern
        return (pattern.suffix if len(pattern.suffix) > len(pattern.prefix) else pattern.prefix), entry
