"""Which task reads what, and how much one micro-batch takes. Arithmetic only.

A task costs Spark about 85 ms of CPU, as much as reading 150,000 rows, so small partitions share a task. A large one is
split only on request (`minPartitions`, `maxRecordsPerPartition`): whoever reads a partition in one task gets its
records in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from headrace.client.values import TopicPartition
from headrace.spark.offsets import Offsets


class Range(NamedTuple):
    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def tasks(
    ranges: Iterable[Range], rows_per_task: int, min_tasks: int | None = None, max_records: int | None = None
) -> list[list[Range]]:
    """At least `min_tasks`, and else as few as leave `rows_per_task` offsets to each."""
    pieces = [one for one in ranges if one.size > 0]
    total = sum(one.size for one in pieces)
    if max_records is not None:
        pieces = [part for one in pieces for part in _split(one, -(-one.size // max_records))]
    if min_tasks is not None and len(pieces) < min_tasks:
        pieces = [part for one in pieces for part in _split(one, round(min_tasks * one.size / total))]
        while pieces and len(pieces) < min(min_tasks, total):  # rounding left some out: the largest are halved
            largest = max(pieces, key=lambda one: one.size)
            pieces.remove(largest)
            pieces += _split(largest, 2)
    if not pieces:
        return []
    if max_records is not None:
        return [[one] for one in sorted(pieces)]
    count = min(len(pieces), max(min_tasks or 1, -(-total // rows_per_task)))
    bins: list[list[Range]] = [[] for _ in range(count)]
    sizes = [0] * count
    for one in sorted(pieces, key=lambda one: (-one.size, one)):
        least = sizes.index(min(sizes))
        bins[least].append(one)
        sizes[least] += one.size
    return [sorted(one) for one in bins]


def _split(one: Range, parts: int) -> list[Range]:
    parts = max(1, min(parts, one.size))
    cuts = [one.start + one.size * part // parts for part in range(parts + 1)]
    return [one._replace(start=start, end=end) for start, end in pairwise(cuts)]


def limited(starts: Offsets, ends: Offsets, most: int) -> dict[TopicPartition, int]:
    """Ends that are at most `most` offsets from the starts. Each partition that has something gets one, so that a small
    one does not wait for a large one's end; the rest is shared out by how much each has. Where the limit is below the
    number of partitions, they take turns."""
    sizes = {where: end - starts[where] for where, end in ends.items() if starts.get(where, end) < end}
    total = sum(sizes.values())
    if total <= most:
        return dict(ends)
    found = {where: starts.get(where, end) for where, end in ends.items()}
    waiting = sorted(sizes)
    turn = sum(starts[where] for where in waiting) % len(waiting)  # it moves on by what a batch takes
    for where in (waiting[turn:] + waiting[:turn])[:most]:
        found[where] += 1
    left, rest = max(0, most - len(waiting)), total - len(waiting)
    shares = {where: (sizes[where] - 1) * left // rest for where in waiting} if left else {}
    for where, share in shares.items():
        found[where] += share
        left -= share
    for where in sorted(shares, key=lambda where: (-sizes[where], where)):  # what rounding left over
        if left and found[where] < ends[where]:
            found[where] += 1
            left -= 1
    return found


def rounds(ranges: Sequence[Range]) -> list[list[Range]]:
    """Each with every partition once at the most, in the order of their offsets."""
    found: list[list[Range]] = []
    count: dict[TopicPartition, int] = {}
    for one in sorted(ranges):
        where = TopicPartition(one.topic, one.partition)
        at = count[where] = count.get(where, 0) + 1
        if at > len(found):
            found.append([])
        found[at - 1].append(one)
    return found


def available(starts: Offsets, ends: Mapping[TopicPartition, int]) -> int:
    return sum(max(0, end - starts.get(where, end)) for where, end in ends.items())
