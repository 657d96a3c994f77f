"""The queues of this node: opened by doors, found by people, read back after a start.

    queue = await broker.queues.open("lines", topic, group, QueueSettings(at_most_once=True))
    member = queue.join(name, taker)         taker.take(deliveries), and then
    member.acknowledge([(partition, offset)])

A queue is a door's, a topic's and a group's: the same group of another door is another queue. It stays when its members
have left. One that waits for a topic that there is not goes with them; one that delivers at most once, as positions of
groups do, when nobody was in it for `offsets.retention.minutes`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headrace.broker.queues import records
from headrace.broker.queues.burial import DeadLetter, letter_of
from headrace.broker.queues.counts import Budget, Counts
from headrace.broker.queues.records import QueueKey, SavedQueue
from headrace.broker.queues.records import Redelivered as LettersRead
from headrace.broker.queues.settings import MAX_NAME_BYTES, MAX_QUEUES, MAX_REDELIVERED, QueueSettings
from headrace.broker.queues.state import QueueState
from headrace.broker.state_topic import Entry
from headrace.broker.topic import STATE_TOPICS, Topic
from headrace.errors import (
    GroupNotEmpty,
    GroupNotFound,
    HeadraceError,
    InvalidGroupId,
    LimitReached,
    QueueModeConflict,
    UnknownTopic,
)
from headrace.log.config import Done, ignore_error
from headrace.records.record import Record

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.queues.events import Place
    from headrace.broker.queues.overview import QueueView
    from headrace.broker.queues.queue import Queue

DEAD_PAGE = 500  # records of a dead-letter topic that are looked at in one go
UNUSED_S = 60.0  # until a queue of which nothing is kept, and that nobody joined, is forgotten
MAX_DEAD = 1_000  # dead letters that are shown at once,
MAX_DEAD_BYTES = 8 << 20  # with so much of keys and values at most, or one of them


class Dead(NamedTuple):
    """A record in the dead-letter topic: at which offset of which partition of it, and what is known of its end."""

    partition: int
    record: Record
    letter: DeadLetter


class Redelivered(NamedTuple):
    records: int  # that are delivered again
    gone: int  # that the topic does not hold any more; the dead-letter topic does
    unsettled: int  # that are on their way anyhow


def _since(saved: SavedQueue | None, dead_letters: Topic) -> tuple[int, list[int]]:
    """Which letters were not delivered again yet: those after this time, from these offsets on."""
    if saved is None:
        return -1, []
    if saved.redelivered is None:
        return saved.redelivered_ms, []
    is_same = saved.redelivered.topic_id == dead_letters.image.topic_id  # else all of it came since
    return -1, list(saved.redelivered.offsets) if is_same else []


class Queues:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.state = QueueState(broker)
        self.hosted: dict[QueueKey, Queue] = {}
        self.budget = Budget()
        self._gone = Counts()  # of queues that are no more
        self._topics: dict[str, set[QueueKey]] = {}  # which queues each has

    # Coming and going

    def start(self) -> None:
        """Reads back what is kept, in the background."""
        self.state.start(self._loaded)

    async def stop(self) -> None:
        """What members have said so far is kept, if it can be."""
        for queue in list(self.hosted.values()):
            with suppress(HeadraceError):
                await self._wait(queue.when_kept)
            queue.stop()
        self.state.stop()

    def _loaded(self, error: HeadraceError | None) -> None:
        if error is not None:
            return
        for key, saved in self.state.queues.items():
            topic = self._broker.topic(key.topic)
            settings = QueueSettings(at_most_once=saved.at_most_once, start="start" if saved.from_start else "end")
            queue = self._new(key, settings, saved)
            if topic is None or topic.image.topic_id != saved.topic_id:
                self._forget(queue)
        self.state.queues.clear()

    def maintain(self) -> None:
        """What comes due with time; the driver calls it every few seconds."""
        now = self._broker.clock.monotonic()
        idle_s = self._broker.groups.settings.retention_minutes * 60
        for queue in list(self.hosted.values()):
            queue.look()
            idle_for_s = 0.0 if queue.members else now - queue.idle_since
            if queue.saved is None and idle_for_s > UNUSED_S:  # opened, and then nobody came
                self._remove(queue)
            elif queue.settings.at_most_once and idle_for_s > idle_s:
                self._broker.on_event("queue.expired", queue.key._asdict())
                self._forget(queue)

    def catch_up(self) -> None:
        """For a driver that moves the clock: timers may not have seen it."""
        for queue in list(self.hosted.values()):
            queue.tick()

    # Doors

    async def open(self, door: str, topic: str, group: str, settings: QueueSettings | None = None) -> Queue:
        """The queue, whose place is kept; a new one begins as the settings say. The topic need not exist yet."""
        settings = settings or QueueSettings()
        if not group or len(group.encode()) > MAX_NAME_BYTES or not group.isprintable():
            raise InvalidGroupId(f"a group has a name of 1 to {MAX_NAME_BYTES} bytes that can be printed")
        if topic in STATE_TOPICS:
            raise UnknownTopic(f"{topic!r} is the broker's own")
        await self._wait(self.state.when_ready)
        key = QueueKey(door, topic, group)
        queue = self.hosted.get(key)
        if queue is None:
            if len(self.hosted) >= MAX_QUEUES:
                raise LimitReached(f"this node has {MAX_QUEUES} queues already, as many as there may be (max_queues)")
            queue = self._new(key, settings)
        elif queue.members:
            self._check_mode(queue, settings)
        queue.settings = settings
        queue.refresh()
        await self._wait(queue.when_open)
        await self._keep_mode(queue)
        self._check_mode(queue, settings)  # another may have opened it meanwhile
        return queue

    def left(self, queue: Queue) -> None:
        """Its last member is gone."""
        if queue.topic is None and queue.is_waiting and not queue.members and self.hosted.get(queue.key) is queue:
            self._remove(queue)

    def topic_added(self, topic: Topic) -> None:
        """Or more partitions of it. Somebody may have waited for it."""
        for key in self._topics.get(topic.name, ()):
            queue = self.hosted[key]
            if queue.members or queue.topic is not None:  # else whoever joins opens it
                queue.when_open(partial(self._attached, queue))

    def _attached(self, queue: Queue, error: HeadraceError | None) -> None:
        if error is not None:
            self._broker.on_event("queue.not-opened", {**queue.key._asdict(), "error": str(error)})

    def topic_removed(self, topic: Topic) -> None:
        """Its queues go too, unless they have members: those wait for the next of that name."""
        gone = UnknownTopic(f"topic {topic.name!r} was deleted")
        for key in list(self._topics.get(topic.name, ())):
            queue = self.hosted[key]
            self._forget(queue)
            queue.topic_deleted(gone)

    # People

    def all(self) -> list[QueueView]:
        from headrace.broker.queues.overview import view

        return [view(queue, with_partitions=False) for queue in self.hosted.values()]

    async def describe(self, key: QueueKey) -> QueueView:
        from headrace.broker.queues.overview import view

        return view(await self._found(key))

    async def delete(self, key: QueueKey) -> None:
        queue = await self._found(key)
        if queue.members:
            raise GroupNotEmpty(f"queue {queue.name} has members")
        self._forget(queue)

    async def dead(self, key: QueueKey, limit: int = 100, everything: bool = False) -> list[Dead]:
        """The queue's dead letters, oldest first: those since they were last delivered again, or all."""
        queue = await self._found(key)
        letters, _ = await self._letters(queue, min(limit, MAX_DEAD), everything, MAX_DEAD_BYTES)
        return letters

    async def redeliver(self, key: QueueKey, places: Sequence[Place] | None = None) -> Redelivered:
        """Records that are settled, once more, to this queue alone: those, or all its dead letters since the last time
        that this was asked for."""
        queue = await self._found(key)
        if queue.topic is None:
            raise UnknownTopic(f"there is no topic {key.topic!r}")
        now_ms, upto = self._broker.clock.now_ms(), None
        if places is None:
            letters, upto = await self._letters(queue, MAX_REDELIVERED)  # the rest with the next request
            asked = list(dict.fromkeys((one.letter.partition, one.letter.offset) for one in letters))
        else:
            asked = list(dict.fromkeys(places))
            if len(asked) > MAX_REDELIVERED:
                raise LimitReached(f"{len(asked)} records at once; {MAX_REDELIVERED} are the most")
        there = [place for place in asked if self._is_there(queue, place)]
        reopened = 0

        def reopen(done: Done) -> None:
            nonlocal reopened
            reopened = queue.redeliver(there, done)

        await self._wait(reopen)
        if upto is not None and queue.saved is not None:
            queue.saved = queue.saved._replace(redelivered_ms=now_ms, redelivered=upto)
            entry = (records.queue_key(key), records.queue_value(queue.saved))
            await self._wait(partial(self.state.append, queue.name, [entry]))
        return Redelivered(reopened, len(asked) - len(there), len(there) - reopened)

    def counts(self) -> dict[str, int]:
        """What became of records since the start, of all queues."""
        every = [self._gone, *(queue.machine.counts for queue in self.hosted.values())]
        return {what: sum(getattr(counts, what) for counts in every) for what in Counts.__slots__}

    # Inside

    def _check_mode(self, queue: Queue, asked: QueueSettings) -> None:
        if queue.settings.at_most_once != asked.at_most_once:
            mode = "at most once" if queue.settings.at_most_once else "at least once"
            raise QueueModeConflict(
                f"group {queue.key.group!r} of topic {queue.key.topic!r} has members that get each record {mode}: join "
                "it the same way, or use another group"
            )

    async def _keep_mode(self, queue: Queue) -> None:
        """A group that nobody was in may be joined the other way: a restart must not take it for what it was."""
        saved, at_most_once = queue.saved, queue.settings.at_most_once
        if saved is None or saved.at_most_once == at_most_once or queue.is_memory:
            return
        entry = (records.queue_key(queue.key), records.queue_value(saved._replace(at_most_once=at_most_once)))
        await self._wait(partial(self.state.append, queue.name, [entry]))
        if queue.saved is not None:  # its topic may be gone meanwhile
            queue.saved = queue.saved._replace(at_most_once=at_most_once)

    def _is_there(self, queue: Queue, place: Place) -> bool:
        assert queue.topic is not None
        index, offset = place
        if not 0 <= index < len(queue.topic.partitions):
            return False
        log = queue.topic.partitions[index].log
        return log is not None and log.start_offset <= offset < log.written_offset

    async def _letters(
        self, queue: Queue, limit: int, everything: bool = False, max_bytes: int = 0
    ) -> tuple[list[Dead], LettersRead | None]:
        """The oldest, `limit` of them and `max_bytes` of their records at most; 0: without what the records hold. And
        how far the dead-letter topic was read for them; None: there is none."""
        topic, left = self._broker.topic(queue.dead_letter or ""), max_bytes
        found: list[Dead] = []
        if topic is None:
            return found, None
        since_ms, offsets = (-1, []) if everything else _since(queue.saved, topic)
        offsets += [0] * (len(topic.partitions) - len(offsets))  # it may have more by now
        for partition in topic.partitions:
            await partition.opened()
            at = max(offsets[partition.index], partition.start_offset)
            while len(found) < limit:
                page = await self._broker.reading.page(partition, at, max_records=DEAD_PAGE)
                if not page.records:
                    break
                at = page.next_offset
                for record in page.records:
                    letter = letter_of(record)
                    if letter is None or letter.queue != queue.key or letter.time_ms <= since_ms:
                        continue
                    left -= len(record.key or b"") + len(record.value or b"")
                    is_over = max_bytes and left < 0 and found
                    if is_over or len(found) == limit:
                        at, limit = record.offset, len(found)
                        break
                    kept = record if max_bytes else record._replace(key=None, value=None, headers=())
                    found.append(Dead(partition.index, kept, letter))
            offsets[partition.index] = at
        return found, LettersRead(topic.image.topic_id, tuple(offsets))

    async def _found(self, key: QueueKey) -> Queue:
        await self._wait(self.state.when_ready)
        queue = self.hosted.get(key)
        if queue is None:
            raise GroupNotFound(f"no queue {'/'.join(key)}")
        await self._wait(queue.when_open)
        return queue

    def _new(self, key: QueueKey, settings: QueueSettings, saved: SavedQueue | None = None) -> Queue:
        # Imported with the first: a node that has none starts without.
        from headrace.broker.queues.queue import Queue

        queue = self.hosted[key] = Queue(self._broker, self.state, key, settings, self.budget, saved)
        self._topics.setdefault(key.topic, set()).add(key)
        queue.on_last_left = partial(self.left, queue)
        return queue

    def _remove(self, queue: Queue) -> None:
        queue.stop()
        self._gone.add(queue.machine.counts)
        del self.hosted[queue.key]
        keys = self._topics[queue.key.topic]
        keys.discard(queue.key)
        if not keys:
            del self._topics[queue.key.topic]

    def _forget(self, queue: Queue) -> None:
        """What is kept of it goes; it goes too, unless it has members."""
        if queue.saved is not None:
            kept = [place for place in self.state.partitions if place.queue == queue.key]
            indexes = {place.partition for place in kept} | set(queue.machine.windows)
            for place in kept:
                del self.state.partitions[place]
            entries: list[Entry] = [(records.partition_key(queue.key, index), None) for index in sorted(indexes)]
            entries.append((records.queue_key(queue.key), None))
            self.state.append(queue.name, entries, ignore_error)
        if not queue.members:
            self._remove(queue)

    async def _wait(self, ask: Callable[[Done], None]) -> None:
        """For what is told by a call."""
        promise = self._broker.new_promise()

        def done(error: HeadraceError | None) -> None:
            if not promise.done():
                promise.set_result(None) if error is None else promise.set_exception(error)

        ask(done)
        await promise
