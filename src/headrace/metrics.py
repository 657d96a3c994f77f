"""Counting what happens, at next to no cost: plain integers and lists of integers that the machines hold themselves.

- Nothing is counted for a record; a turn of a connection costs two looks at the clock and a few additions. Names,
  labels and text are made when somebody asks for them (node/metrics/), never here.
- What a machine counts only rises; what it has at the moment (connections, bytes in memory) is read from the machine.
- Everything belongs to one node: two of them in a process share nothing.
"""

from __future__ import annotations

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
        """All values counted at that place and before it are below."""
        return float(1 << place) * self.unit


class Traffic:
    """What went into a topic's logs and what was read from them. It outlives the logs, which are opened anew."""

    __slots__ = ("appended_batches", "appended_bytes", "appended_records", "read_bytes", "read_records")

    def __init__(self) -> None:
        self.appended_bytes = self.appended_batches = self.appended_records = 0
        self.read_bytes = self.read_records = 0

    def add(self, other: Traffic) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
