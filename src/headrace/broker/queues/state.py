"""What queues and leases keep: the topic `__queue_state`, read back at the start, written a turn at a time.

Until it is read back nobody knows what was kept, so whoever asks waits; a partition that does not read is tried again.
All changes of one turn go into one append for each of its partitions, and of each key only the last.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from headrace.broker.queues import records
from headrace.broker.queues.positions import Positions
from headrace.broker.queues.records import (
    PartitionKey,
    PositionKey,
    QueueKey,
    SavedPartition,
    SavedQueue,
)
from headrace.broker.state_topic import Entry, StateTopic
from headrace.errors import CoordinatorUnavailable, HeadraceError, ShuttingDown
from headrace.log.config import Done

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

TOPIC = "__queue_state"
PARTITIONS = 8  # few: each is a log to sync
SEGMENT_BYTES = 16 << 20  # what is written often is compacted often
RETRY_S = 5.0


class QueueState:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.topic = StateTopic(broker, TOPIC, PARTITIONS, {"segment.bytes": str(SEGMENT_BYTES)})
        self.queues: dict[QueueKey, SavedQueue] = {}  # as they were read back
        self.partitions: dict[PartitionKey, SavedPartition] = {}
        self.positions = Positions()
        self._loading: set[int] | None = None  # partitions that are not read back yet; None: not begun
        self._waiting: list[Done] = []
        self._is_stopped = False
        self._writing: list[Callable[[], None]] = []

    # Reading back

    def start(self, done: Done) -> None:
        topic = self.topic.topic
        indexes = list(range(len(topic.partitions))) if topic is not None else []
        self._loading = set(indexes)
        self._waiting.insert(0, done)
        if indexes:
            self._load_next(indexes)
        else:
            self._loaded_all()

    def stop(self) -> None:
        self._is_stopped = True
        self._tell(ShuttingDown("the node is stopping"))

    @property
    def is_ready(self) -> bool:
        return self._loading is not None and not self._loading

    def when_ready(self, done: Done) -> None:
        """At once, if it is."""
        if self._is_stopped:
            done(ShuttingDown("the node is stopping"))
        elif self.is_ready:
            done(None)
        else:
            self._waiting.append(done)

    def _load_next(self, indexes: list[int]) -> None:
        if indexes and not self._is_stopped:
            self.topic.load(indexes[0], self._apply, partial(self._loaded, indexes))

    def _loaded(self, indexes: list[int], error: HeadraceError | None) -> None:
        index, rest = indexes[0], indexes[1:]
        assert self._loading is not None
        if error is None:
            self._loading.discard(index)
            if not self._loading:
                self._loaded_all()
        else:
            self._broker.on_event("queue.not-loaded", {"partition": index, "error": str(error)})
            self._broker.timers.after(RETRY_S, partial(self._load_next, [index]))
        self._load_next(rest)

    def _loaded_all(self) -> None:
        if not self._is_stopped:
            self._tell(None)

    def _tell(self, error: HeadraceError | None) -> None:
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done(error)

    def _apply(self, raw: bytes, value: bytes | None, offset: int) -> None:
        match records.read_key(raw):
            case QueueKey() as queue:
                if value is None:
                    self.queues.pop(queue, None)
                else:
                    self.queues[queue] = records.read_queue(value)
            case PartitionKey() as place:
                if value is None:
                    self.partitions.pop(place, None)
                else:
                    self.partitions[place] = records.read_partition(value)
            case PositionKey() as position:
                if value is None:
                    self.positions.remove(position)
                else:
                    self.positions.put(position, records.read_position(value))
            case None:
                pass

    # Writing

    def at_turn_end(self, write: Callable[[], None]) -> None:
        """For who has changed: called once the turn is over, to append what it has become."""
        if not self._writing:
            self._broker.timers.after(0, self._write)
        self._writing.append(write)

    def _write(self) -> None:
        writing, self._writing = self._writing, []
        for write in writing:
            write()

    def append(self, name: str, entries: list[Entry], done: Done) -> None:
        """`name` says which partition. `done` when it is synced."""

        def kept(error: HeadraceError | None) -> None:
            done(None if error is None else CoordinatorUnavailable(f"{TOPIC} cannot be written: {error}"))

        self.topic.append(self.topic.partition_for(name), entries, kept)
