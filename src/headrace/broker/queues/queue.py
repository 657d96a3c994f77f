"""A queue on the node that serves it: drives the machine, and reads, keeps, buries and delivers for it.

- A queue whose topic does not exist yet waits for it, and begins with its first record. When the topic is deleted it
  waits for the next of that name; what was kept goes.
- Of a memory topic nothing is kept: its records are gone after a restart, and their offsets never come again.
- What the machine wants done is done one after the other, never within another: a member may say something while it is
  given something.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from math import inf
from typing import TYPE_CHECKING

from headrace.broker.page_read import Page
from headrace.broker.partition import Partition
from headrace.broker.queues import records
from headrace.broker.queues.burial import MAX_REASON, DeadLetter, bury
from headrace.broker.queues.counts import Budget
from headrace.broker.queues.events import (
    Buried,
    Bury,
    Came,
    Cut,
    Deliver,
    Drop,
    Effect,
    Event,
    Flush,
    Full,
    Held,
    Join,
    Lost,
    More,
    NotRead,
    Place,
    Reach,
    Read,
    Reopen,
    Save,
    Saved,
    Snapshot,
    Tell,
    Tick,
    Trimmed,
)
from headrace.broker.queues.machine import Machine
from headrace.broker.queues.membership import Membership, QueueMember
from headrace.broker.queues.opening import Opening
from headrace.broker.queues.records import PartitionKey, QueueKey, SavedPartition, SavedQueue
from headrace.broker.queues.settings import (
    MAX_MEMBERS,
    MEMBER_BYTES,
    MEMBER_RECORDS,
    Policy,
    QueueSettings,
    dead_letter_name,
    policy,
)
from headrace.broker.queues.state import QueueState
from headrace.broker.queues.untold import Untold
from headrace.broker.topic import Topic
from headrace.errors import HeadraceError, LimitReached, OffsetOutOfRange
from headrace.log.config import Done
from headrace.log.log import AnyLog
from headrace.ports import Cancel

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

ALL = 1 << 31  # records of a read: its bytes are bounded


class Queue:
    def __init__(
        self,
        broker: Broker,
        state: QueueState,
        key: QueueKey,
        settings: QueueSettings,
        budget: Budget,
        saved: SavedQueue | None = None,
    ) -> None:
        self._broker, self._state, self.key, self.settings = broker, state, key, settings
        self.saved = saved  # None: nothing is kept of it yet
        self.topic: Topic | None = None
        self.is_waiting = False  # for a topic that there is not (any more): it begins at its start
        self.machine = Machine(Policy(settings.at_most_once), budget)
        self.members: dict[int, Membership] = {}
        self.untold = Untold(broker, key)
        self.on_last_left: Callable[[], None] = lambda: None
        self.idle_since = broker.clock.monotonic()  # while it has no members
        self._opening: Opening | None = None
        self._logs: dict[int, AnyLog] = {}  # as they were when the partition was read from
        self._numbers = count(1)
        self._effects: deque[Effect] = deque()
        self._is_running = False
        self._life = 0  # rises with each topic that it had: what was begun for an earlier one comes to nothing
        self._armed_at = inf
        self._cancel: Cancel | None = None

    @property
    def name(self) -> str:
        return f"{self.key.door}/{self.key.topic}/{self.key.group}"

    @property
    def topic_now(self) -> Topic | None:
        """Also before anybody has opened it since the start."""
        return self._broker.topic(self.key.topic)

    @property
    def kept(self) -> Mapping[PartitionKey, SavedPartition]:
        """What is known of partitions that nobody has opened since the start."""
        return self._state.partitions

    @property
    def is_memory(self) -> bool:
        return self.topic is not None and self.topic.config.is_memory

    @property
    def dead_letter(self) -> str | None:
        if self.topic is None:
            return None
        return dead_letter_name(self.settings, self.topic.config, self.key.topic, self.key.group)

    # Its topic

    def when_open(self, done: Done) -> None:
        """With its partitions, when there is a topic; what a new one begins with is kept by then."""
        topic = self._broker.topic(self.key.topic)
        if topic is None:
            self.is_waiting = True
            done(None)
        elif self.topic is topic and self._opening is None and len(self.machine.windows) == len(topic.partitions):
            self.refresh()
            done(None)
        else:
            if self.topic is not topic:
                self.topic = topic
                self._life += 1
            if self._opening is None:
                opened = partial(self._opened, self._life)
                self._opening = Opening(self._broker, self._state, self, self.machine.windows, opened)
                self._opening.waiting.append(done)
                self._opening.begin()
            else:
                self._opening.waiting.append(done)

    def _opened(self, life: int, found: dict[int, Snapshot], error: HeadraceError | None) -> None:
        opening, self._opening = self._opening, None
        assert opening is not None
        if life != self._life:  # the topic is gone, and maybe there is another
            for done in opening.waiting:
                self.when_open(done)
            return
        if error is None and self.topic is not None:
            self.is_waiting = False
            self.refresh()
            for index, snapshot in found.items():
                partition = self.topic.partitions[index]
                self.machine.open(index, snapshot)
                self._state.partitions.pop(PartitionKey(self.key, index), None)
                self._remember(partition)
                if self.members:
                    partition.watch(self)
            for index in found:
                self.step(More(index))
        for done in opening.waiting:
            done(error)

    def refresh(self) -> None:
        """Its settings, or its topic's, may have changed."""
        if self.topic is not None:
            self.machine.policy = policy(self.settings, self.topic.config, len(self.topic.partitions))

    def topic_deleted(self, error: HeadraceError) -> None:
        self._life += 1
        topic, self.topic, self.saved, self.is_waiting = self.topic, None, None, True
        if topic is not None:
            for partition in topic.partitions:
                partition.unwatch(self)
        self._logs.clear()
        self._effects = deque(effect for effect in self._effects if isinstance(effect, Tell))
        self._effects += self.machine.let_go(error)
        self._disarm()
        self._run()

    def look(self) -> None:
        """Now and then: whether a log was closed, for its recovery, and what there is to tell."""
        self.untold.tell(self.dead_letter)
        if self.topic is None or self._opening is not None:
            return
        for index, log in list(self._logs.items()):
            partition = self.topic.partitions[index]
            if partition.log is not log and partition.error is None:
                partition.when_opened(partial(self._reopened, self._life, partition, log))

    def _reopened(self, life: int, partition: Partition, before: AnyLog, error: HeadraceError | None) -> None:
        """A log came back from its recovery, and maybe without its end; others may have appended to it since. One that
        does not open is looked at again."""
        log, index = partition.log, partition.index
        if life != self._life or error is not None or log is None or self._logs.get(index) is not before:
            return
        self._logs[index] = log
        _, end = log.epochs.end_offset_for(before.epochs.latest, log.written_offset)
        if end < self.machine.windows[index].fresh_at:
            self.step(Cut(index, end))
        self.step(More(index))

    def _remember(self, partition: Partition) -> None:
        """The first that it was read from: that there is another by now is for `look` to find."""
        if partition.log is not None:
            self._logs.setdefault(partition.index, partition.log)

    # Members

    def join(
        self, name: str, taker: QueueMember, max_records: int = MEMBER_RECORDS, max_bytes: int = MEMBER_BYTES
    ) -> Membership:
        """Nothing is delivered before this returns."""
        if len(self.members) >= MAX_MEMBERS:
            raise LimitReached(f"queue {self.name} has {MAX_MEMBERS} members already, as many as there may be")
        number = next(self._numbers)
        membership = self.members[number] = Membership(self, number, name, taker)
        if len(self.members) == 1 and self.topic is not None:
            for index in self.machine.windows:
                self.topic.partitions[index].watch(self)
        self._note(Join(number, max_records, max_bytes))
        for index in self.machine.windows:
            self._note(More(index))
        self._broker.timers.after(0, self._run)
        return membership

    def left(self, number: int) -> None:
        if self.members.pop(number, None) is not None and not self.members:
            for partition in self.topic.partitions if self.topic is not None else ():
                partition.unwatch(self)
            self.idle_since = self._broker.clock.monotonic()
            self._broker.timers.after(0, self.on_last_left)

    def wake(self, partition: Partition) -> None:
        """There is more, or the partition is closed."""
        window = self.machine.windows.get(partition.index)
        if window is not None and window.is_at_end and partition.error is None:
            self.step(More(partition.index))

    # Driving the machine

    def step(self, event: Event) -> int:
        """How many places were whoever's that asked."""
        held = self._note(event)
        self._run()
        return held

    def _note(self, event: Event) -> int:
        held = 0
        for effect in self.machine.step(self._broker.clock.monotonic(), event):
            if isinstance(effect, Held):
                held = effect.records
            else:
                self._effects.append(effect)
        return held

    def _run(self) -> None:
        if self._is_running:
            return
        self._is_running = True
        try:
            while self._effects:
                self._carry_out(self._effects.popleft())
        finally:
            self._is_running = False
        self._arm()

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Deliver(number, deliveries):
                membership = self.members.get(number)  # who left meanwhile has given them back
                if membership is not None and not membership.taker.take(deliveries):
                    self._note(Full(number))
            case Read():
                self._read(effect)
            case Save(partition):
                if self.is_memory:
                    self._save(self._life, partition)
                else:
                    self._state.at_turn_end(partial(self._save, self._life, partition))
            case Bury():
                self._bury(effect)
            case Drop(reason=reason):
                self.untold.dropped(reason)
            case Lost(_, lost):
                self.untold.lost += lost
            case Tell(who, error):
                assert callable(who)
                self._broker.timers.after(0, partial(who, error))  # never before the call that it was given to returns

    def _read(self, wish: Read) -> None:
        assert self.topic is not None
        partition = self.topic.partitions[wish.partition]
        done = partial(self._came, self._life, wish, partition)
        self._broker.reading.read(partition, wish.offset, done, max_records=ALL, max_bytes=wish.max_bytes)

    def _came(self, life: int, wish: Read, partition: Partition, page: Page | HeadraceError) -> None:
        if life != self._life:
            return
        index, offset = wish.partition, wish.offset
        log, before = partition.log, self._logs.get(wish.partition)
        if log is not None and before is not None and log is not before:
            self._reopened(life, partition, before, None)
            self.step(Came(index, offset, (), offset, False))  # what was read may be of the log that was
        elif isinstance(page, Page):
            end = page.end_offset if log is None else log.stable_offset  # what came meanwhile has woken nobody
            self._remember(partition)
            self.step(Came(index, offset, page.records, page.next_offset, page.next_offset >= end))
        elif isinstance(page, OffsetOutOfRange):
            self._note(Trimmed(index, page.start) if page.start > offset else Cut(index, page.end))
            self.step(Came(index, offset, (), offset, False))
        else:
            self.step(NotRead(index))

    def _save(self, life: int, partition: int) -> None:
        if life != self._life or self.topic is None:
            return
        snapshot = self.machine.begin_save(partition)
        done = partial(self._saved, life, partition)
        if self.is_memory:
            done(None)
            return
        epoch = self.topic.partitions[partition].leader_epoch
        value = records.partition_value(self.topic.image.topic_id, epoch, snapshot)
        self._state.append(self.name, [(records.partition_key(self.key, partition), value)], done)

    def _saved(self, life: int, partition: int, error: HeadraceError | None) -> None:
        if life == self._life:
            self.step(Saved(partition, error))

    def _bury(self, wish: Bury) -> None:
        name, topic, record = self.dead_letter, self.topic, wish.record
        if name is None or topic is None:  # switched off meanwhile
            self.untold.dropped(wish.reason)
            self._note(Buried(wish.partition, record.offset))
            return
        now_ms, reason = self._broker.clock.now_ms(), wish.reason[:MAX_REASON]
        place = (wish.partition, record.offset)
        letter = DeadLetter(self.key, *place, record.timestamp_ms, wish.attempts, reason, now_ms)
        bury(self._broker, topic, name, record, letter, partial(self._buried, self._life, place, reason))

    def _buried(self, life: int, place: tuple[int, int], reason: str, error: HeadraceError | None) -> None:
        self.untold.buried(self.dead_letter, reason, error)
        if life == self._life:
            self.step(Buried(*place, error))

    # Time

    def _arm(self) -> None:
        """One timer at a time; it may go off early, never late."""
        at = self.machine.wake_at
        if at < self._armed_at:
            self._disarm()
            self._armed_at = at
            self._cancel = self._broker.timers.after(max(0.0, at - self._broker.clock.monotonic()), self.tick)

    def _disarm(self) -> None:
        if self._cancel is not None:
            self._cancel()
        self._armed_at, self._cancel = inf, None

    def tick(self) -> None:
        """For the timer, and for a driver that moves the clock."""
        self._armed_at, self._cancel = inf, None
        if self.machine.wake_at <= self._broker.clock.monotonic():
            self.step(Tick())
        else:
            self._arm()

    def redeliver(self, places: Sequence[Place], done: Done) -> int:
        """How many were settled, and are delivered again."""
        return self.step(Reopen(places, done))

    def when_kept(self, done: Done) -> None:
        """All that has happened so far."""
        self.step(Flush(done))

    def when_sent(self, done: Done) -> None:
        """All that its topic has by now, as far as members have room."""
        ends = {index: log.stable_offset for index, log in self._open_logs()}
        self.step(Reach(ends, done))

    def _open_logs(self) -> list[tuple[int, AnyLog]]:
        partitions = () if self.topic is None else self.topic.partitions
        return [(one.index, one.log) for one in partitions if one.log is not None]

    def stop(self) -> None:
        self._life += 1
        self._disarm()
