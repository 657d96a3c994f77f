"""How much lies in the logs that are not open: after a restart that is nearly all of them, and opening is recovering.

Each is measured once, off the loop, when somebody asks: a log that is not open does not grow. One that was opened
tells of itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headrace.broker.partition import Partition
from headrace.broker.sizes import measure
from headrace.ports import Files


class ClosedSizes:
    def __init__(self) -> None:
        self._known: dict[Partition, int] = {}

    def of(self, partition: Partition) -> int | None:
        """None: not measured yet."""
        return partition.log.size_bytes if partition.log is not None else self._known.get(partition)

    def look(self, partitions: Iterable[Partition], files: Files) -> Callable[[], list[tuple[Partition, int]]] | None:
        """Work for off the loop, whose result is for `learn`; None where all is known. Who is open, or gone, is
        forgotten."""
        closed = [partition for partition in partitions if partition.log is None]
        self._known = {partition: self._known[partition] for partition in closed if partition in self._known}
        new = [partition for partition in closed if partition not in self._known]
        if not new:
            return None
        sizes = measure(new, files)
        return lambda: list(zip(new, sizes(), strict=True))

    def learn(self, found: Iterable[tuple[Partition, int]]) -> None:
        self._known.update(found)
