"""Counting what happens, at next to no cost: plain integers and lists of integers that the machines hold themselves.

- Nothing is counted for a record; a turn of a connection costs a few additions, and looks at the clock only for a
  sample of what is quick. Names, labels and text are made when somebody asks for them (node/metrics/), never here.
- What a machine counts only rises; what it has at the moment (connections, bytes in memory) is read from the machine.
- Everything belongs to one node: two of them in a process share nothing.
"""

from __future__ import annotations

from typing import Protocol

MICROSECONDS = 1e6  # in a second


class Histogram:
    """How many values were how large. The place of a value is its number of binary digits: each bound is twice the one
    before. Comparing with bounds of our own choice would touch them all, and memory is what counting costs.

    `unit` is the finest that is told apart: a millionth for times in seconds, 1 for numbers of things.
    """

    __slots__ = ("counts", "sum", "unit")

    def __init__(self, unit: float = 1 / MICROSECONDS) -> None:
        self.unit = unit
        self.counts = [0] * 64
        self.sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        self.counts[int(value / self.unit).bit_length()] += times
        self.sum += value * times

    def bound(self, place: int) -> float:
        """What all values counted at that place and before it are at most: a time a moment less, a number the one
        before."""
        return float((1 << place) - 1 if self.unit == 1 else (1 << place) * self.unit)


class Appended(Protocol):
    """A log: what it took in since it was opened."""

    appended_bytes: int
    appended_batches: int

    @property
    def appended_records(self) -> int: ...


class Traffic:
    """What went into a topic's logs and what was read from them. Logs count for themselves while they are open; when
    one is closed, what it took in is added here."""

    __slots__ = ("appended_batches", "appended_bytes", "appended_records", "read_bytes", "read_records")

    def __init__(self) -> None:
        self.appended_bytes = self.appended_batches = self.appended_records = 0
        self.read_bytes = self.read_records = 0

    def took_in(self, log: Appended) -> None:
        self.appended_bytes += log.appended_bytes
        self.appended_batches += log.appended_batches
        self.appended_records += log.appended_records

    def add(self, other: Traffic) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
