"""Publishing: records in, from doors that carry single messages.

What one turn brings for a partition is gathered into a run, and a run into one batch (run.py). The turn ends when the
door says so with `end_turn`, which it does when one read from its socket is taken, or else by itself. A topic that is
not there is made, with one partition; a log that is not open is opened, and where the topic looks at ids they are read
back; what comes meanwhile waits in its order. `done` never comes before the call that it was given to returns. For one
partition and level it comes in the order of the calls; a refusal may come before what waits for the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.broker.dedup.window import ID
from headrace.broker.partition import Partition
from headrace.broker.publishing.batching import sizes
from headrace.broker.publishing.keys import by_key
from headrace.broker.publishing.published import (
    RECEIVED,
    WRITTEN,
    OnPublished,
    OnRunPublished,
    Scattered,
    check_level,
    level_of,
)
from headrace.broker.publishing.run import ONE, Run
from headrace.broker.topic import Topic, is_ours
from headrace.broker.wishes import NewTopic
from headrace.errors import HeadraceError, InvalidTopicName, LimitReached, MessageTooLarge, NotLeader, UnknownTopic
from headrace.log.config import Done, Staged, ignore_error
from headrace.records.record import Record

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

HELD_BYTES = 64 << 20  # of records that wait for topics to be made and logs to be opened, all together


class Publishing:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._runs: dict[Partition, Run] = {}
        self._making: dict[str, list[Callable[[HeadraceError | None], None]]] = {}  # topics, and who waits for them
        self._held_bytes = 0
        self._is_due = False
        self._last: tuple[str, int | None, int | str | None, int, Run] | None = None  # the last of this turn
        self._turn = 0  # over partitions, for records without a key

    def publish(
        self,
        topic: str,
        record: Record,
        done: OnPublished,
        *,
        partition: int | None = None,
        acks: int | str | None = None,
        create: bool = True,
        message_id: str | None = None,
        system: bool = False,
    ) -> None:
        """One record. `partition` None: by its key, else in turn. `acks` None: the topic's own level. `message_id`
        becomes the record's header `id`, unless it has one. `system`: this node itself writes."""
        if message_id is not None:
            record = with_id(record, message_id)
        last = self._last
        if last is not None and last[0] == topic and last[1] == partition and last[2] == acks:
            _, _, _, level, run = last  # as for the record before, which is what a turn mostly brings
            records = run.records
            run.takers.append((done, level, len(records), ONE))
            records.append(record)
            return
        found = self._broker.topic(topic)
        try:
            if found is None or topic in self._making:
                options = {"partition": partition, "acks": acks, "system": system}
                again = partial(self.publish, topic, record, done, create=False, **options)  # type: ignore[arg-type]
                self._make_first(topic, (record,), done, again, create, system)
                return
            run = self._run(found, self._choose(found, partition, record), acks, system)
            if run.is_opening:
                self._hold(run, (record,))
            elif not system and (partition is not None or len(found.partitions) == 1):
                self._last = (topic, partition, acks, run.checked_level, run)
        except HeadraceError as error:
            self._broker.timers.after(0, partial(done, error))
            return
        records = run.records
        run.takers.append((done, run.checked_level, len(records), ONE))
        records.append(record)

    def publish_run(
        self,
        topic: str,
        records: Sequence[Record],
        done: OnRunPublished,
        *,
        partition: int | None = None,
        acks: int | str | None = None,
        create: bool = True,
        system: bool = False,
    ) -> None:
        """Several records, in their order. Those for one partition are taken together, or refused together."""
        found = self._broker.topic(topic)
        if not records:
            self._broker.timers.after(0, partial(done, ()))
            return
        try:
            if found is None or topic in self._making:
                options = {"partition": partition, "acks": acks, "system": system}
                again = partial(self.publish_run, topic, records, done, create=False, **options)  # type: ignore[arg-type]
                self._make_first(topic, records, done, again, create, system)
                return
            if partition is None and len(found.partitions) > 1:
                self._scatter(found, records, done, acks, system)
                return
            run = self._run(found, self._choose(found, partition or 0, records[0]), acks, system)
            if run.is_opening:
                self._hold(run, records)
        except HeadraceError as error:
            self._broker.timers.after(0, partial(done, error))
            return
        run.takers.append((done, run.checked_level, len(run.records), len(records)))
        run.records += records

    def publish_batch(self, topic: Topic, partition: int, batch: bytearray, now_ms: int) -> Staged:
        """A batch that a door has encoded itself, for a memory topic or a log that is open. It becomes ours. Staged:
        it is written when the turn ends."""
        if len(batch) > topic.config.max_message_bytes:
            raise MessageTooLarge(
                f"{len(batch)} bytes are over the topic's max.message.bytes={topic.config.max_message_bytes}"
            )
        chosen = topic.partitions[partition]
        if chosen.log is None:
            chosen.when_opened(ignore_error)  # at once, for what is in memory
        elif chosen in self._runs:
            self.end_turn()  # what came before it goes first
        staged = chosen.append_own(batch, now_ms)
        self._end_turn_soon()
        return staged

    def end_turn(self) -> None:
        """Appends all that was gathered; who asked for no more than that is told."""
        broker = self._broker
        gathered, self._runs, self._last = self._runs, {}, None
        staged = []
        if gathered:
            now_ms = broker.clock.now_ms()
            for chosen, run in gathered.items():
                if chosen.log is None:
                    self._wait_first(run, chosen.when_opened)
                elif chosen.topic.window_ms and not (ids := broker.deduplication.of(chosen.topic)).is_ready:
                    self._wait_first(run, ids.prepare)
                else:
                    run.stage(now_ms, broker.deduplication)
                    staged.append(run)
        if staged or broker.dirty:
            failed = broker.flush()
            for run in staged:
                run.flushed(failed)

    # Where to

    def _run(self, topic: Topic, chosen: Partition, acks: int | str | None, system: bool) -> Run:
        if topic.is_ours and not system:
            check_name(topic.name)
        run = self._runs.get(chosen)
        level = topic.level if acks is None else level_of(acks)
        if (run is None or level != run.checked_level) and not RECEIVED <= level <= WRITTEN:
            check_level(chosen, level)
        if run is None:
            run = self._runs[chosen] = Run(chosen, self._broker.timers)
            self._end_turn_soon()
        run.checked_level = level
        return run

    def _choose(self, topic: Topic, partition: int | None, record: Record) -> Partition:
        partitions = topic.partitions
        count = len(partitions)
        if partition is None:
            if count == 1:
                return partitions[0]
            if record.key is not None:
                return partitions[by_key(topic, record.key)]
            self._turn += 1
            return partitions[self._turn % count]
        if not 0 <= partition < count:
            raise UnknownTopic(f"topic {topic.name!r} has the partitions 0 to {count - 1}, not {partition}")
        return partitions[partition]

    def _scatter(
        self, topic: Topic, records: Sequence[Record], done: OnRunPublished, acks: int | str | None, system: bool
    ) -> None:
        """A run over several partitions."""
        places: dict[Partition, list[int]] = {}
        for place, record in enumerate(records):
            places.setdefault(self._choose(topic, None, record), []).append(place)
        scattered = Scattered(len(records), len(places), done)
        for chosen, own in places.items():
            self.publish_run(
                topic.name,
                [records[place] for place in own],
                partial(scattered.came, own),
                partition=chosen.index,
                acks=acks,
                create=False,
                system=system,
            )

    # What has to wait

    def _make_first(
        self,
        topic: str,
        records: Sequence[Record],
        done: Callable[..., None],
        again: Callable[[], None],
        create: bool,
        system: bool,
    ) -> None:
        waiting = self._making.get(topic)
        if waiting is None:
            if not (create and self._broker.configuration.auto_create_topics):
                raise UnknownTopic(f"no topic {topic!r}")
            if not system:
                check_name(topic)
        size = self._reserve(records)

        def made(error: HeadraceError | None) -> None:
            self._held_bytes -= size
            again() if error is None else done(error)

        if waiting is not None:
            waiting.append(made)
            return
        self._making[topic] = [made]
        self._broker.make_topic(NewTopic(topic, 1), partial(self._made, topic))

    def _made(self, topic: str, error: HeadraceError | None) -> None:
        for made in self._making.pop(topic):
            made(error)

    def _wait_first(self, run: Run, for_what: Callable[[Done], None]) -> None:
        """For its log to be opened, or the ids in it to be read back."""
        self._runs[run.partition] = run  # what comes meanwhile comes after it
        if not run.is_opening:
            try:
                self._hold(run, run.records)
            except HeadraceError as error:
                del self._runs[run.partition]
                run.fail(error)
                return
            run.is_opening = True
            for_what(partial(self._opened, run))

    def _opened(self, run: Run, error: HeadraceError | None) -> None:
        self._held_bytes -= run.held_bytes
        run.held_bytes, run.is_opening = 0, False
        if error is None and run.partition.log is not None:
            self._end_turn_soon()
        else:
            del self._runs[run.partition]
            run.fail(error or NotLeader(f"{run.partition!r} was closed"))

    def _hold(self, run: Run, records: Sequence[Record]) -> None:
        run.held_bytes += self._reserve(records)

    def _reserve(self, records: Sequence[Record]) -> int:
        size = sum(sizes(record)[1] for record in records)
        if self._held_bytes + size > HELD_BYTES:
            raise LimitReached(f"{HELD_BYTES} bytes wait for topics to be made or opened: try again in a moment")
        self._held_bytes += size
        return size

    def _end_turn_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._broker.timers.after(0, self._due)

    def _due(self) -> None:
        self._is_due = False
        self.end_turn()


def check_name(topic: str) -> None:
    """Refuses names that are not for publishers."""
    if is_ours(topic):
        raise InvalidTopicName(f"{topic!r} is the broker's own to write")


def with_id(record: Record, message_id: str) -> Record:
    headers = record.headers
    if headers and any(name == ID for name, _ in headers):
        return record
    key, value, _, timestamp_ms, offset = record
    return Record(key, value, (*headers, (ID, message_id.encode("utf-8", "replace"))), timestamp_ms, offset)
