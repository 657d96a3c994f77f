"""What becomes of a record that was published: its place, and when that counts.

Levels are numbers inside: 0 received, 1 written, -1 (all) synced, N over 1 synced and refused unless at least N
replicas are in sync. Outside they are also text, as in the topic's `headrace.acks`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, overload

from headrace.broker.partition import Partition
from headrace.broker.values import MAX_ACKS
from headrace.errors import HeadraceError, InvalidAcks, NotEnoughReplicas

ALL = -1
RECEIVED = 0
WRITTEN = 1


class Published(NamedTuple):
    partition: int
    offset: int
    timestamp_ms: int
    duplicate: bool = False  # its id was known: this is the place of the first one, and nothing more was stored


OnPublished = Callable[[Published | HeadraceError], None]
OnRunPublished = Callable[[Sequence[Published] | HeadraceError], None]


def level_of(acks: int | str) -> int:
    """The level that is meant; InvalidAcks when none is."""
    if isinstance(acks, str):
        text = acks.strip().lower()
        if text == "all":
            return ALL
        if not (text == "-1" or (text.isascii() and text.isdigit() and len(text) <= len(str(MAX_ACKS)))):
            raise InvalidAcks(f"acks is 0, 1, all or a number of replicas, not {acks[:20]!r}")
        acks = int(text)
    if isinstance(acks, bool) or not ALL <= acks <= MAX_ACKS:
        raise InvalidAcks(f"acks is 0, 1, all or a number of replicas up to {MAX_ACKS}, not {acks}")
    return acks


def check_level(partition: Partition, level: int) -> None:
    """Refuses what could not be promised now."""
    if level == ALL or level > WRITTEN:
        partition.check_in_sync()
        in_sync = len(partition.image.isr)
        if level > in_sync:
            raise NotEnoughReplicas(f"acks={level}, and {in_sync} replicas in sync")


class Stretch(Sequence[Published]):
    """The places of records that follow each other, made when somebody looks."""

    __slots__ = ("_count", "_first_offset", "_partition", "_times")

    def __init__(self, partition: int, first_offset: int, count: int, times: Sequence[int] | int) -> None:
        self._partition, self._first_offset, self._count, self._times = partition, first_offset, count, times

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> Published: ...

    @overload
    def __getitem__(self, at: slice) -> list[Published]: ...

    def __getitem__(self, at: int | slice) -> Published | list[Published]:
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(self._count))]
        place = at + self._count if at < 0 else at
        if not 0 <= place < self._count:
            raise IndexError(at)
        time = self._times if isinstance(self._times, int) else self._times[place]
        return Published(self._partition, self._first_offset + place, time)


class Scattered:
    """The places of records that went to several partitions, gathered until the last has come."""

    def __init__(self, count: int, runs: int, done: OnRunPublished) -> None:
        self._places: list[Published] = [NOWHERE] * count
        self._left, self._done = runs, done
        self._error: HeadraceError | None = None

    def came(self, own: Sequence[int], result: Sequence[Published] | HeadraceError) -> None:
        """Of one partition, whose records are at the places `own` of them all."""
        if isinstance(result, HeadraceError):
            self._error = self._error or result
        else:
            for place, published in zip(own, result, strict=True):
                self._places[place] = published
        self._left -= 1
        if not self._left:
            self._done(self._error or self._places)


NOWHERE = Published(-1, -1, -1)
