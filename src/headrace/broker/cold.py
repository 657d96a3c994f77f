"""Partitions that nobody has asked for since the start: time goes on for them too.

Their logs are not open, and opening thousands for a look would cost more than it brings. So the snapshots are read off
the loop, some at a time, and only where something is due is a log opened: then retention and compaction see it as any
other. One that does not read keeps nobody else waiting: it is told once, and asked again in the next round.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError
from headrace.log.cold import is_due
from headrace.log.config import LogConfig
from headrace.ports import Files

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.partition import Partition

AT_ONCE = 256  # looks at one time: some 20 ms of one thread
AGAIN_MS = 600_000  # between one round over all of them and the next


class ColdLogs:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._waiting: list[Partition] = []
        self._unread: set[Partition] = set()  # those that did not read, as was told
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
            self._unread.intersection_update(self._waiting)
        cold, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
        cold = [partition for partition in cold if partition.log is None and partition.error is None]
        if cold:
            self._is_busy = True
            places = [(partition.folder, partition.topic.config.for_log()) for partition in cold]
            files = self._broker.store.services.files

            def work() -> list[bool | Exception]:
                return [_look(files, folder, config, now_ms) for folder, config in places]

            self._broker.background.run(work, lambda found, _: self._looked(cold, found or []))

    def _looked(self, cold: list[Partition], found: list[bool | Exception]) -> None:
        self._is_busy = False
        due = []
        for partition, answer in zip(cold, found, strict=False):
            if isinstance(answer, Exception):
                self._does_not_read(partition, answer)
            elif answer:
                due.append(partition)
            else:
                self._unread.discard(partition)
        self._open(due)

    def _open(self, partitions: list[Partition]) -> None:
        """One after the other. What is due is done by `maintain`, as for all that are open."""
        while partitions:
            partition = partitions.pop()
            if partition.log is None and partition.error is None:
                partition.when_opened(partial(self._opened, partition, partitions))
                return

    def _opened(self, partition: Partition, others: list[Partition], error: HeadraceError | None) -> None:
        if error is not None and partition.error is None:
            self._does_not_read(partition, error)
        elif partition.log is not None and partition.log.failed is None:
            partition.log.maintain(self._broker.clock.now_ms())
        self._open(others)

    def _does_not_read(self, partition: Partition, error: Exception) -> None:
        """Told once, until it reads again."""
        if partition not in self._unread:
            self._unread.add(partition)
            self._broker.on_event("log.not-read", {"folder": partition.folder, "why": str(error)})


def _look(files: Files, folder: str, config: LogConfig, now_ms: int) -> bool | Exception:
    """Off the loop."""
    try:
        return is_due(files, folder, config, now_ms)
    except Exception as error:  # noqa: BLE001  # whatever it was, time goes on for the others
        return error
