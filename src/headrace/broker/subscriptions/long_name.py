"""A name that is longer than any topic's: where parts of patterns stand in it, found a step at a time.

It may have as many characters as a command has bytes. So nothing is done for all its pieces, and nothing of it is kept
when it is done with. A step passes over the name once, which takes milliseconds at most; what steps yield is how many
characters they looked at, for who bounds what is done in a turn.
"""

from __future__ import annotations

from collections.abc import Generator

Steps = Generator[int, None, int]

CHARACTERS_AT_HAND = 16  # whose places are known: an eighth of the name's length each
READING = 8  # times as long as looking for a text: to find all places of a character


class LongName:
    __slots__ = ("_places", "_planes", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._planes: tuple[bytes, ...] = ()  # the first bytes of all its characters, the second, the third
        self._places: dict[str, int] = {}

    def has(self, part: str, at: int) -> bool:
        """Whether the part, without stars, stands there."""
        if at < 0 or at + len(part) > len(self.text):
            return False
        for piece in part.split("?"):
            if not self.text.startswith(piece, at):
                return False
            at += len(piece) + 1
        return True

    def find(self, part: str, at: int) -> Steps:
        """The first place from `at` on where the part stands; -1 if there is none."""
        length = len(self.text)
        last = length - len(part)
        if last < at:
            return -1
        if "?" not in part:
            found = self.text.find(part, at)
            yield len(part) + (found if found >= 0 else length) - at
            return found
        fits = (1 << (last + 1 - at)) - 1  # a bit for each place
        for further, one in enumerate(part, at):
            if one == "?":
                continue
            if one not in self._places:
                self._look_for(one)
                yield length * READING
            fits &= self._places[one] >> further
            yield (length - at) // READING
            if not fits:
                return -1
        return at + (fits & -fits).bit_length() - 1

    def _look_for(self, one: str) -> None:
        if not self._planes:
            wide = self.text[::-1].encode("utf-32-le", "surrogatepass")
            self._planes = tuple(wide[byte::4] for byte in range(3))
        if len(self._places) >= CHARACTERS_AT_HAND:
            del self._places[next(iter(self._places))]
        places = -1
        for plane, byte in zip(self._planes, one.encode("utf-32-le", "surrogatepass"), strict=False):
            if plane.count(byte) < len(plane):
                places &= int(plane.translate(b"0" * byte + b"1" + b"0" * (255 - byte)), 2)
        self._places[one] = places if places >= 0 else (1 << len(self.text)) - 1
