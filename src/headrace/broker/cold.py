"""Partitions that nobody has asked for since the start: time goes on for them too.

Their logs are not open, and opening thousands for a look would cost more than it brings. So the snapshots are read off
the loop, some at a time, and only where something is due is a log opened: then retention and compaction see it as any
other.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError
from headrace.log.cold import is_due

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.partition import Partition

AT_ONCE = 256  # looks at one time: some 20 ms of one thread
AGAIN_MS = 600_000  # between one round over all of them and the next


class ColdLogs:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._waiting: list[Partition] = []
        self._is_busy = False
        self._next_round_ms = 0

    def look(self, now_ms: int) -> None:
        """Now and then."""
        if self._is_busy:
            return
        if not self._waiting:
            if now_ms < self._next_round_ms:
                return
            self._next_round_ms = now_ms + AGAIN_MS
            topics = [topic for topic in self._broker.topics() if not topic.config.is_memory]
            self._waiting = [partition for topic in topics for partition in topic.partitions if partition.log is None]
        cold, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
        cold = [partition for partition in cold if partition.log is None and partition.error is None]
        if cold:
            self._is_busy = True
            places = [(partition.folder, partition.topic.config.for_log()) for partition in cold]
            files = self._broker.store.services.files

            def work() -> list[bool]:
                return [is_due(files, folder, config, now_ms) for folder, config in places]

            self._broker.background.run(work, lambda due, _: self._looked(cold, due or []))

    def _looked(self, cold: list[Partition], due: list[bool]) -> None:
        """Without an answer the disk did not give one: the next round asks again."""
        self._is_busy = False
        self._open([partition for partition, is_due in zip(cold, due, strict=False) if is_due])

    def _open(self, partitions: list[Partition]) -> None:
        """One after the other. What is due is done by `maintain`, as for all that are open."""
        while partitions:
            partition = partitions.pop()
            if partition.log is None and partition.error is None:
                partition.when_opened(partial(self._opened, partition, partitions))
                return

    def _opened(self, partition: Partition, others: list[Partition], error: HeadraceError | None) -> None:
        if error is None and partition.log is not None and partition.log.failed is None:
            partition.log.maintain(self._broker.clock.now_ms())
        self._open(others)
