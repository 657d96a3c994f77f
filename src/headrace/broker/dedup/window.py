"""The ids that a topic remembers, and where the first record with each of them is.

- An id counts from its append for `headrace.dedup.window.ms`.
- Ids lie in two generations. When the younger one has grown for a whole window, or holds half of what may be
  remembered, the older one goes and it takes its place: nothing is ever searched for what is too old.
- How many are remembered is bounded, for each topic and for all of them (deduplication.py). When that makes the window
  shorter than was asked for, it is told.
- What is remembered is packed: a hundred thousand tuples would cost the garbage collector more than all else together.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from struct import Struct
from typing import NamedTuple

from headrace.records.record import Headers

ID = "id"  # the header that names a record
MAX_IDS = 250_000  # of one topic: some 50 MB
LONG_ID_BYTES = 64  # an id of so many is remembered by its digest, which is as long


class First(NamedTuple):
    """Where the first record with an id is, and since when that counts."""

    partition: int
    offset: int
    timestamp_ms: int
    at_ms: int


_FIRST = Struct("<iqqq")
_pack, _unpack = _FIRST.pack, _FIRST.unpack


class Window:
    __slots__ = ("_began_ms", "_older", "_younger", "is_cut", "is_told", "span_ms")

    def __init__(self, span_ms: int) -> None:
        self.span_ms = span_ms
        self.is_cut = self.is_told = False  # it had to forget what was not too old; somebody was told
        self._older: dict[bytes, bytes] = {}
        self._younger: dict[bytes, bytes] = {}
        self._began_ms = 0  # when the younger one was begun

    def __len__(self) -> int:
        return len(self._older) + len(self._younger)

    def first(self, record_id: bytes, now_ms: int) -> First | None:
        """The record that came with that id, within the window."""
        packed = self._younger.get(record_id) or self._older.get(record_id)
        if packed is None:
            return None
        found = First(*_unpack(packed))
        return found if now_ms - found.at_ms < self.span_ms else None

    def note(self, record_id: bytes, partition: int, offset: int, timestamp_ms: int, at_ms: int) -> None:
        younger = self._younger
        if not younger:
            self._began_ms = at_ms
        elif at_ms - self._began_ms >= self.span_ms or len(younger) >= MAX_IDS // 2:
            self._turn(at_ms)
            younger = self._younger
        younger[record_id] = _pack(partition, offset, timestamp_ms, at_ms)

    def forget(self, record_ids: Iterable[bytes], partition: int) -> None:
        """Their records were not written after all."""
        for record_id in record_ids:
            for ids in (self._younger, self._older):
                if record_id in ids and _unpack(ids[record_id])[0] == partition:
                    del ids[record_id]

    def forget_partition(self, partition: int) -> None:
        """What is known of it is in doubt."""
        for ids in (self._younger, self._older):
            for record_id in [record_id for record_id, packed in ids.items() if _unpack(packed)[0] == partition]:
                del ids[record_id]

    def age(self, now_ms: int) -> None:
        """Now and then: of a topic to which nobody publishes any more, too."""
        if self._began_ms + self.span_ms <= now_ms and len(self):
            self._turn(now_ms)

    def cut(self) -> int:
        """Forgets at least the older half of what it knows, before its time; how many that were."""
        before = len(self)
        self._older = {}
        over = len(self._younger) - before // 2
        if over > 0:
            self._younger = dict(islice(self._younger.items(), over, None))
        self.is_cut = True
        return before - len(self)

    def _turn(self, now_ms: int) -> None:
        if self._older and now_ms - self._began_ms < self.span_ms:
            self.is_cut = True
        self._older, self._younger, self._began_ms = self._younger, {}, now_ms


def id_of(headers: Headers) -> bytes | None:
    """The id that a record has, as it is remembered."""
    for name, value in headers:
        if name == ID:
            if not value:
                return None
            return value if len(value) < LONG_ID_BYTES else _digest(value)
    return None


def _digest(value: bytes) -> bytes:
    from hashlib import blake2b  # hardly anybody needs it: a node starts without

    return blake2b(value, digest_size=LONG_ID_BYTES).digest()
