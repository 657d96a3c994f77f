"""Patterns of topic names, character by character: `*` stands for one or more, `?` for exactly one, nothing escapes
them, and `/` is a character as any other. So `foo*` does not match `foo`, and `**` needs two characters.

Topics that begin with `!system` are matched only by patterns that begin with it too: who asks for everything does not
mean the broker's own talk.

A pattern is taken apart at its stars. The first part stands at the beginning of a name, the last one at the end, and
each of the others at the first place where it fits behind the one before, with at least one character between them: no
pattern makes this slow, as some would a regular expression, and none has to be compiled. Where a part with `?` fits is
found for all places at once: a bit for each place of a name where a character stands, shifted and put together. In a
name longer than `LONG` that is done in steps (`LongName`), and nothing of it is kept.
"""

from __future__ import annotations

import functools
from collections.abc import Generator

from headrace.broker.subscriptions.long_name import LongName

SYSTEM = "!system"
LONG = (
    1024  # characters of a name, some times as many as a topic's has: the work for all its places grows as their square
)
NAMES_AT_HAND = 16  # of which the places of characters are known: many patterns are tried for the same name


class Pattern:
    __slots__ = ("_parts", "is_literal", "is_loose", "min_length", "prefix", "suffix", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.min_length = len(text)  # a star is at least one character
        self.is_literal = "*" not in text and "?" not in text
        self.is_loose = not self.is_literal and not text.strip("*?")  # any name that is long enough
        self.prefix, self.suffix = self.head.partition("?")[0], self.tail.rpartition("?")[2]
        self._parts: tuple[_Part, list[_Part], _Part | None] | None = None

    def __repr__(self) -> str:
        return f"<pattern {self.text!r}>"

    @property
    def head(self) -> str:
        """What names begin with, `?` included."""
        return self.text.partition("*")[0]

    @property
    def tail(self) -> str:
        return self.text.rpartition("*")[2]

    @property
    def inner(self) -> list[str]:
        """Texts that every name has, beside the prefix and the suffix."""
        return [piece for piece in self.text.replace("*", "?").split("?")[1:-1] if piece]

    def matches(self, name: str) -> bool:
        if len(name) > LONG:
            return _last(self.steps(LongName(name)))
        return self._may_match(name) and self._fits(name)

    def steps(self, name: LongName) -> Generator[int, None, bool]:
        """The same for a long name, a step at a time: each yields how many characters it looked at."""
        if not self._may_match(name.text):
            return False
        text, head, tail = self.text, self.head, self.tail
        at, end = len(head), len(name.text) - len(tail)
        yield len(text)
        if at == len(text):
            return end == 0 and name.has(text, 0)
        if not (name.has(head, 0) and name.has(tail, end)):
            return False
        begin, last_star = at + 1, len(text) - len(tail) - 1
        while begin <= last_star:
            star = text.index("*", begin)
            found = yield from name.find(text[begin:star], at + 1)
            if found < 0:
                return False
            at, begin = found + star - begin, star + 1
        return end > at

    def _may_match(self, name: str) -> bool:
        if name.startswith(SYSTEM) and not self.text.startswith(SYSTEM):
            return False
        return len(name) >= self.min_length

    def _fits(self, name: str) -> bool:
        first, middle, last = self._parts or self._take_apart()
        if not first.stands_at(name, 0):
            return False
        at, length = first.length, len(name)
        if last is None:
            return length == at
        end = length - last.length
        if not last.stands_at(name, end):
            return False
        for part in middle:
            at = part.find(name, at + 1)
            if at < 0:
                return False
            at += part.length
        return end > at

    def _take_apart(self) -> tuple[_Part, list[_Part], _Part | None]:
        """Not before a name is there that is long enough."""
        first, *others = map(_Part, self.text.split("*"))
        self._parts = parts = first, others[:-1], others[-1] if others else None
        return parts


class _Part:
    """Without stars."""

    __slots__ = ("_pieces", "_text", "length")

    def __init__(self, text: str) -> None:
        self._text, self.length = text, len(text)
        self._pieces = _pieces(text) if "?" in text else None

    def stands_at(self, name: str, at: int) -> bool:
        if self._pieces is None:
            return name.startswith(self._text, at)
        for place, piece in self._pieces:
            if not name.startswith(piece, at + place):
                return False
        return at + self.length <= len(name)

    def find(self, name: str, at: int) -> int:
        if self._pieces is None:
            return name.find(self._text, at)
        last = len(name) - self.length
        if last < at:
            return -1
        for place, piece in self._pieces:  # most often one is nowhere
            if name.find(piece, at + place) < 0:
                return -1
        places, fits = _places(name), (1 << (last + 1)) - (1 << at)
        for place, piece in self._pieces:
            for further, one in enumerate(piece, place):
                fits &= places.get(one, 0) >> further
            if not fits:
                return -1
        return (fits & -fits).bit_length() - 1


def _last(steps: Generator[int, None, bool]) -> bool:
    """What all of them come to."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return bool(end.value)


def _pieces(text: str) -> list[tuple[int, str]]:
    """What stands between the `?`, and where."""
    found, at = [], 0
    for piece in text.split("?"):
        if piece:
            found.append((at, piece))
        at += len(piece) + 1
    return found


@functools.lru_cache(NAMES_AT_HAND)
def _places(name: str) -> dict[str, int]:
    """Of each character, a bit for each place where it stands."""
    places: dict[str, int] = {}
    bit = 1
    for one in name:
        places[one] = places.get(one, 0) | bit
        bit <<= 1
    return places
