"""A cursor: reads a partition run by run, from a position on.

What memory holds comes at once, what the disk holds later: `next_run` gives the run, or None and `on_run` gets it when
it is there. What can no longer be read is stepped over and counted as lost: what a ring dropped, what retention let go
while somebody was behind, what the disk damaged (the log has told of that).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.broker.partition import Partition
from headrace.broker.subscriptions.run import Run
from headrace.errors import DamagedRange, HeadraceError, OffsetOutOfRange
from headrace.log.log import AnyLog
from headrace.log.reader import FileRead, ReadResult

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

RETRY_S = 1.0  # between two attempts to read a log that has failed
RUN_BYTES = 256 << 10  # of one run: some milliseconds to decode and encode, then others have their turn


class Cursor:
    __slots__ = ("_broker", "_on_lost", "_on_run", "is_closed", "is_waiting", "partition", "position")

    def __init__(
        self,
        broker: Broker,
        partition: Partition,
        position: int,
        on_run: Callable[[Run | None], None],
        on_lost: Callable[[int], None],
    ) -> None:
        """`on_run` gets None when a wait brought nothing: whoever waits looks again."""
        self._broker, self.partition, self.position = broker, partition, position
        self._on_run, self._on_lost = on_run, on_lost
        self.is_waiting = self.is_closed = False

    def next_run(self, log: AnyLog, end: int, max_bytes: int = RUN_BYTES) -> Run | None:
        """The run that begins at the position, which moves behind it. None: nothing before `end`, or `is_waiting`."""
        while self.position < end:
            try:
                found = log.read(self.position, max_bytes, up_to=end)
            except HeadraceError as error:
                if self._steps_over(error, log):
                    continue
                self._wait_for_recovery()
                return None
            if isinstance(found, FileRead):
                self.is_waiting = True
                self._broker.background.run(found.run, self._came)
                return None
            return self._run(found, log)
        return None

    def _came(self, found: ReadResult | None, error: BaseException | None) -> None:
        self.is_waiting = False
        if self.is_closed:
            return
        log = self.partition.log
        if found is not None and log is not None:
            self._on_run(self._run(found, log))
            return
        if isinstance(error, HeadraceError) and log is not None and self._steps_over(error, log):
            self._on_run(None)
        else:
            self._wait_for_recovery()

    def _wait_for_recovery(self) -> None:
        """The log does not read at present, or is closed: the broker opens it anew."""
        self.is_waiting = True
        self._broker.timers.after(RETRY_S, self._look_again)

    def _look_again(self) -> None:
        self.is_waiting = False
        if not self.is_closed:
            self._on_run(None)

    def _run(self, found: ReadResult, log: AnyLog) -> Run:
        first, partition = self.position, self.partition
        self.position = next_offset = max(found.next_offset, first + 1)
        transactions = log.transactions
        aborted = transactions.aborted(first, next_offset) if transactions.aborted_count else ()
        topic = partition.topic
        topic.traffic.read_bytes += found.size
        topic.traffic.read_records += next_offset - first
        return Run(topic, partition.index, first, next_offset, found.pieces, aborted, self._unreadable)

    def _steps_over(self, error: HeadraceError, log: AnyLog) -> bool:
        """Whether reading can go on."""
        if isinstance(error, DamagedRange) and error.next_offset > self.position:
            self._skip_to(error.next_offset)
            return True
        if isinstance(error, OffsetOutOfRange) and log.start_offset > self.position:
            self._skip_to(log.start_offset)
            return True
        return False

    def _skip_to(self, offset: int) -> None:
        count, self.position = offset - self.position, offset
        self._on_lost(count)

    def _unreadable(self, offset: int, why: str) -> None:
        partition = self.partition
        self._broker.on_event(
            "topic.unreadable",
            {"topic": partition.topic.name, "partition": partition.index, "offset": offset, "error": why},
        )
