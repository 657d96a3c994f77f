"""Patterns of topic names, character by character: `*` stands for one or more, `?` for exactly one, nothing escapes
them, and `/` is a character as any other. So `foo*` does not match `foo`, and `**` needs two characters.

Topics that begin with `!system` are matched only by patterns that begin with it too: who asks for everything does not
mean the broker's own talk.

A pattern is taken apart at its stars. The first part stands at the beginning of a name, the last one at the end, and
each of the others at the first place where it fits behind the one before, with at least one character between them: no
pattern makes this slow, as some would a regular expression.
"""

from __future__ import annotations

import re

SYSTEM = "!system"


class Pattern:
    __slots__ = ("_first", "_last", "_middle", "_min_length", "is_literal", "prefix", "suffix", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.is_literal = "*" not in text and "?" not in text
        parts = text.split("*")
        self._first = _Part(parts[0])
        self._middle = [_Part(part) for part in parts[1:-1]]
        self._last = _Part(parts[-1]) if len(parts) > 1 else None
        self._min_length = len(text)  # a star is at least one character
        self.prefix = re.split(r"[*?]", text, maxsplit=1)[0]
        self.suffix = re.split(r"[*?]", text)[-1]

    def __repr__(self) -> str:
        return f"<pattern {self.text!r}>"

    def matches(self, name: str) -> bool:
        if name.startswith(SYSTEM) and not self.text.startswith(SYSTEM):
            return False
        return self._fits(name)

    def _fits(self, name: str) -> bool:
        length = len(name)
        if length < self._min_length or not self._first.stands_at(name, 0):
            return False
        at, last = self._first.length, self._last
        if last is None:
            return length == at
        for part in self._middle:
            at = part.find(name, at + 1)
            if at < 0:
                return False
            at += part.length
        end = length - last.length
        return end > at and last.stands_at(name, end)


class _Part:
    """Without stars."""

    __slots__ = ("_regex", "_text", "length")

    def __init__(self, text: str) -> None:
        self._text, self.length = text, len(text)
        fixed = (re.escape(piece) for piece in text.split("?"))
        self._regex = re.compile(".".join(fixed), re.DOTALL) if "?" in text else None

    def stands_at(self, name: str, at: int) -> bool:
        if self._regex is None:
            return name.startswith(self._text, at)
        return self._regex.match(name, at) is not None

    def find(self, name: str, at: int) -> int:
        if self._regex is None:
            return name.find(self._text, at)
        found = self._regex.search(name, at)
        return -1 if found is None else found.start()
