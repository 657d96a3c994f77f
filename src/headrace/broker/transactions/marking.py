"""Writing a transaction's marker into one partition, until it is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.broker.partition import Partition
from headrace.broker.transactions.events import WriteMarkers
from headrace.broker.transactions.transaction import EPOCH_ON_EACH_END, Place
from headrace.errors import CoordinatorFenced, HeadraceError, NotLeader, ShuttingDown, StaleProducerEpoch, StorageFailed
from headrace.log.log import AnyLog

if TYPE_CHECKING:
    from headrace.broker.broker import Broker, Failed

OFFSETS_TOPIC = "__consumer_offsets"
FIRST_WAIT_S, MAX_WAIT_S = 0.05, 5.0  # between attempts


def mark(broker: Broker, wanted: WriteMarkers, place: Place, done: Callable[[], None]) -> None:
    """`done` when the marker is synced, or nobody needs it any more."""
    _Marking(broker, wanted, place, done).attempt()


class _Marking:
    def __init__(self, broker: Broker, wanted: WriteMarkers, place: Place, done: Callable[[], None]) -> None:
        self._broker, self._wanted, self._place, self._done = broker, wanted, place, done
        self._wait_s = FIRST_WAIT_S

    def attempt(self) -> None:
        partition = self._partition()
        if partition is None:
            self._done()
        else:
            partition.when_opened(lambda error: self._opened(partition, error))

    def _partition(self) -> Partition | None:
        name, index = self._place
        topic = self._broker.topic(name)
        return topic.partitions[index] if topic is not None and 0 <= index < len(topic.partitions) else None

    def _opened(self, partition: Partition, error: HeadraceError | None) -> None:
        transaction, broker = self._wanted.transaction, self._broker
        log = partition.log
        if error is not None or log is None:
            self._again(error or NotLeader(f"{partition!r} is not open"))
            return
        try:
            staged = partition.append_marker(
                transaction.producer_id,
                transaction.epoch,
                self._wanted.coordinator_epoch,
                transaction.is_commit,
                broker.clock.now_ms(),
                is_bumped=transaction.version >= EPOCH_ON_EACH_END,
            )
        except (StaleProducerEpoch, CoordinatorFenced) as refused:
            broker.on_event("transaction.marker-refused", self._told(refused))
            self._done()
            return
        except HeadraceError as refused:
            self._again(refused)
            return
        end_offset = staged.last_offset + 1
        broker.flush_soon(lambda failed: self._flushed(partition, log, end_offset, failed))

    def _flushed(self, partition: Partition, log: AnyLog, end_offset: int, failed: Failed | None) -> None:
        error = failed.get(partition) if failed else None
        if error is None and (partition.log is not log or log.written_offset < end_offset):
            error = partition.error or StorageFailed(f"{partition!r} was closed before the write")
        if error is not None:
            self._again(error)
        else:
            log.when_synced(end_offset, self._synced)

    def _synced(self, error: HeadraceError | None) -> None:
        if error is not None:
            self._again(error)
            return
        if self._place[0] == OFFSETS_TOPIC:
            transaction = self._wanted.transaction
            self._broker.groups.end_transaction(transaction.producer_id, self._place[1], transaction.is_commit)
        self._done()

    def _again(self, error: HeadraceError) -> None:
        if self._partition() is None:
            self._done()
            return
        if isinstance(error, ShuttingDown):  # the next life goes on
            return
        if self._wait_s == MAX_WAIT_S:
            self._broker.on_event("transaction.marker-delayed", self._told(error))
        self._broker.timers.after(self._wait_s, self.attempt)
        self._wait_s = min(2 * self._wait_s, MAX_WAIT_S)

    def _told(self, error: HeadraceError) -> dict[str, object]:
        topic, partition = self._place
        told: dict[str, object] = {"transactional_id": self._wanted.transaction.id, "topic": topic}
        return told | {"partition": partition, "error": str(error)}
