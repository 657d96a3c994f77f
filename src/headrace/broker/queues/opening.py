"""A queue's partitions, opened: where each begins, by what was kept or, for a new queue, as its door asked.

- What is kept of an earlier topic of the same name counts for nothing.
- A leader that was restarted may have lost records that were not synced, and given their offsets to others since. What
  was kept of those is forgotten: the leader epoch that is kept beside it tells how far it is true.
- A queue that was there before its topic, or before a partition of it, begins at the start of what it does not know.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from headrace.broker.partition import Partition
from headrace.broker.queues import records
from headrace.broker.queues.records import PartitionKey, QueueKey, SavedPartition, SavedQueue
from headrace.broker.queues.settings import QueueSettings
from headrace.broker.queues.snapshot import Snapshot
from headrace.broker.queues.state import QueueState
from headrace.broker.topic import Topic
from headrace.errors import HeadraceError, NotLeader
from headrace.log.config import Done

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from headrace.broker.broker import Broker
    from headrace.broker.state_topic import Entry


class Opened(Protocol):
    """As much of a queue as it takes."""

    key: QueueKey
    settings: QueueSettings
    saved: SavedQueue | None
    topic: Topic | None
    is_waiting: bool

    @property
    def name(self) -> str: ...


class Opening:
    def __init__(
        self,
        broker: Broker,
        state: QueueState,
        queue: Opened,
        known: Collection[int],
        done: Callable[[dict[int, Snapshot], HeadraceError | None], None],
    ) -> None:
        """`known`: partitions that are open already; they stay as they are."""
        assert queue.topic is not None
        self._known = frozenset(known)
        self._broker, self._state, self._queue, self._topic, self._done = broker, state, queue, queue.topic, done
        self._found: dict[int, Snapshot] = {}
        self._entries: list[Entry] = []
        self.waiting: list[Done] = []

    def begin(self) -> None:
        self._open([partition for partition in self._topic.partitions if partition.index not in self._known])

    def _open(self, partitions: list[Partition]) -> None:
        """One after the other."""
        if partitions:
            partitions[0].when_opened(partial(self._opened, partitions))
        else:
            self._keep()

    def _opened(self, partitions: list[Partition], error: HeadraceError | None) -> None:
        partition, rest = partitions[0], partitions[1:]
        log = partition.log
        if error is not None or log is None:
            self._done({}, error or partition.error or NotLeader(f"{partition!r} was closed"))
            return
        key, topic_id = self._queue.key, self._topic.image.topic_id
        kept = self._state.partitions.get(PartitionKey(key, partition.index))
        if kept is not None and kept.topic_id == topic_id:
            self._found[partition.index] = as_far_as_true(partition, kept)
        else:
            is_new = self._queue.saved is None and not self._queue.is_waiting
            at_end = is_new and self._queue.settings.start == "end"
            snapshot = Snapshot(log.written_offset if at_end else log.start_offset)
            self._found[partition.index] = snapshot
            value = records.partition_value(topic_id, partition.leader_epoch, snapshot)
            self._entries.append((records.partition_key(key, partition.index), value))
        self._open(rest)

    def _keep(self) -> None:
        queue, topic_id = self._queue, self._topic.image.topic_id
        settings, before = queue.settings, queue.saved
        made_ms = self._broker.clock.now_ms() if before is None else before.made_ms
        saved = SavedQueue(topic_id, settings.at_most_once, settings.start == "start", made_ms)
        if before is not None:
            saved = saved._replace(redelivered_ms=before.redelivered_ms, redelivered=before.redelivered)
        if saved != before:
            self._entries.append((records.queue_key(queue.key), records.queue_value(saved)))
        if self._entries and not self._topic.config.is_memory:
            self._state.append(queue.name, self._entries, partial(self._kept, saved))
        else:
            self._kept(saved, None)

    def _kept(self, saved: SavedQueue, error: HeadraceError | None) -> None:
        if error is None:
            if self._queue.saved is None:
                mode = "at-most-once" if saved.at_most_once else "at-least-once"
                self._broker.on_event("queue.created", {**self._queue.key._asdict(), "mode": mode})
            self._queue.saved = saved
        self._done(self._found, error)


def as_far_as_true(partition: Partition, kept: SavedPartition) -> Snapshot:
    assert partition.log is not None
    _, end = partition.epoch_end(kept.leader_epoch)
    end = partition.log.written_offset if end < 0 else end
    snapshot = kept.snapshot
    if snapshot.end <= end:
        return snapshot
    return Snapshot(end, {offset: attempts for offset, attempts in snapshot.pending.items() if offset < end})
