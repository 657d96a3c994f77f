"""The broker: topics by name and id, made from the cluster's image, and the wishes that change it.

Stepped by its driver, on one thread. What must wait (a metadata entry's sync, a log's recovery) comes back through
the ports. `flush` ends every turn in which something was produced: it writes all that was staged, one write for each
partition.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from headrace.broker import config
from headrace.broker.partition import Partition
from headrace.broker.topic import Topic
from headrace.cluster import controller
from headrace.cluster.image import Image, topic_image
from headrace.cluster.quorum import Quorum
from headrace.cluster.records import (
    MetadataRecord,
    PartitionsAdded,
    ProducerIdsReserved,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
)
from headrace.errors import HeadraceError, InvalidReplication, ShuttingDown, TopicExists, UnknownTopic, UnknownTopicId
from headrace.log.log import AnyLog
from headrace.log.store import LogStore
from headrace.ports import Background, Clock, Promise

OnEvent = Callable[[str, dict[str, object]], None]


class BrokerSettings(msgspec.Struct, frozen=True):
    auto_create_topics: bool = True
    default_partitions: int = 1
    max_partitions: int = 20_000
    max_partitions_per_topic: int = 10_000


class NewTopic(msgspec.Struct, frozen=True):
    """What somebody asks for: -1 means the default."""

    name: str
    partitions: int = -1
    replication: int = -1
    assignments: dict[int, tuple[int, ...]] | None = None
    configs: dict[str, str | None] = {}


class Broker:
    def __init__(
        self,
        store: LogStore,
        quorum: Quorum,
        node_id: int,
        settings: BrokerSettings,
        clock: Clock,
        background: Background,
        new_promise: Callable[[], Promise[None]],
        new_topic_id: Callable[[], bytes],
        on_event: OnEvent,
    ) -> None:
        self.store, self.quorum, self.node_id, self.settings = store, quorum, node_id, settings
        self.clock, self._background, self._on_event = clock, background, on_event
        self.new_promise, self._new_topic_id = new_promise, new_topic_id
        self.dirty: list[Partition] = []
        self._refused: dict[Partition, int] = {}
        self._names: dict[str, Topic] = {}
        self._ids: dict[bytes, Topic] = {}
        self._producer_ids = range(0)
        self._closing = False
        for image in quorum.image.topics.values():
            self._add(Topic(self, image))
        store.remove_unknown(f"{store.root}/topics", {topic.folder for topic in self._names.values()})
        quorum.on_apply = self._applied

    # What there is

    @property
    def cluster_id(self) -> str:
        return self.quorum.image.cluster_id

    @property
    def controller_id(self) -> int:
        return self.node_id

    @property
    def metadata_version(self) -> int:
        """Rises with every change of topics and nodes."""
        return self.quorum.image.version

    def topics(self) -> list[Topic]:
        return list(self._names.values())

    def topic(self, name: str) -> Topic | None:
        return self._names.get(name)

    def topic_by_id(self, topic_id: uuid.UUID | bytes) -> Topic | None:
        return self._ids.get(topic_id if isinstance(topic_id, bytes) else topic_id.bytes)

    # The turn's end

    def flush(self) -> dict[Partition, HeadraceError] | None:
        """Writes what was staged. Where that failed, nothing of it was kept: the answer names those partitions."""
        failed: dict[Partition, HeadraceError] | None = None
        dirty = self.dirty
        while dirty:
            # Taken out first: whatever goes wrong with one, the others stay in line.
            partition = dirty.pop()
            try:
                partition.flush()
            except HeadraceError as error:
                failed = failed or {}
                failed[partition] = error
        if failed or self._refused:
            self._tell_of_refused(failed or {})
        return failed

    def _tell_of_refused(self, failed: dict[Partition, HeadraceError]) -> None:
        """Once for each partition, until it is written to again."""
        for partition, error in failed.items():
            if partition not in self._refused:
                self._refused[partition] = partition.log.written_offset if partition.log is not None else -1
                self._on_event(
                    "produce.refused",
                    {"topic": partition.topic.name, "partition": partition.index, "error": str(error)},
                )
        for partition, end in list(self._refused.items()):
            if partition.log is None or partition.log.written_offset != end:
                del self._refused[partition]

    # Wishes

    async def create_topics(
        self, wishes: Sequence[NewTopic], validate_only: bool = False
    ) -> list[Topic | HeadraceError]:
        """In the order of the wishes: the topic, or why not. All that can be made are made by one metadata entry."""
        answers: dict[int, Topic | HeadraceError] = {}
        ids = [self._new_topic_id() for _ in wishes]

        def decide(image: Image) -> list[MetadataRecord]:
            made: list[MetadataRecord] = []
            room = self.settings.max_partitions
            for place, wish in enumerate(wishes):
                try:
                    records = self._create(image, wish, ids[place], room)
                except HeadraceError as error:
                    answers[place] = error
                    continue
                made += records
                room -= sum(len(record.assignments) for record in records)
            return made

        if validate_only:
            for record in decide(self.quorum.image):
                assert isinstance(record, TopicCreated)
                answers[ids.index(record.topic_id)] = Topic(self, topic_image(record))
        else:
            await self._propose(decide)
        return [answers[place] if place in answers else self._ids[ids[place]] for place in range(len(wishes))]

    async def auto_create(self, names: Sequence[str]) -> None:
        """Somebody asked for topics that are not there. That another was quicker is no error."""
        answers: Sequence[Topic | HeadraceError]
        try:
            answers = await self.create_topics([NewTopic(name) for name in names if name not in self._names])
        except HeadraceError as error:  # none of them: who asked finds that they are not there
            answers = [error]
        for answer in answers:
            if isinstance(answer, HeadraceError) and not isinstance(answer, TopicExists):
                self._on_event("topic.not-created", {"error": str(answer)})

    async def delete_topics(self, wishes: Sequence[str | uuid.UUID]) -> list[HeadraceError | None]:
        answers: list[HeadraceError | None] = []
        for wish in wishes:
            topic = self.topic(wish) if isinstance(wish, str) else self.topic_by_id(wish)
            try:
                if topic is None:
                    unknown = UnknownTopic if isinstance(wish, str) else UnknownTopicId
                    raise unknown(f"no topic {wish}")
                await self._propose(partial(controller.delete_topic, topic_id=topic.image.topic_id))
                answers.append(None)
            except HeadraceError as error:
                answers.append(error)
        return answers

    async def new_producer_id(self) -> int:
        while not self._producer_ids:
            await self._propose(lambda image: controller.reserve_producer_ids(image, self.node_id))
        first, self._producer_ids = self._producer_ids[0], self._producer_ids[1:]
        return first

    def maintain(self) -> None:
        """Retention and what else comes due with time; the driver calls it now and then."""
        now_ms = self.clock.now_ms()
        self.quorum.recover(self._background)
        for topic in self._names.values():
            for partition in topic.partitions:
                log = partition.log
                if log is None:
                    continue
                if log.failed is None:
                    log.maintain(now_ms)
                else:
                    partition.recover()

    def sync_due(self) -> None:
        """Topics with a flush.ms, and syncs that had to be put off; the driver calls it more often."""
        now_ms = self.clock.now_ms()
        self.store.retry_syncs()
        for topic in self._names.values():
            if topic.config.flush_ms != config.MAX_LONG:
                for partition in topic.partitions:
                    if partition.log is not None and partition.log.failed is None:
                        partition.log.maintain(now_ms)

    def close(self) -> None:
        self._closing = True
        for topic in self._names.values():
            for partition in topic.partitions:
                partition.close(ShuttingDown("the node is stopping"))

    # Logs, for partitions

    def open_log(self, partition: Partition, done: Callable[[AnyLog | None, BaseException | None], None]) -> None:
        topic = partition.topic
        log_config = topic.config.for_log()
        if topic.config.is_memory:
            done(self.store.open_memory_log(log_config), None)
            return
        folder = f"{self.store.root}/topics/{topic.folder}/{partition.index}"
        log_id = topic.image.topic_id + partition.index.to_bytes(4, "big")
        self._background.run(lambda: self.store.open_log(folder, log_id, log_config, self._on_event), done)

    # Inside

    def _create(self, image: Image, wish: NewTopic, topic_id: bytes, room: int) -> list[TopicCreated]:
        config.parse(wish.configs)
        new = controller.NewTopic(
            topic_id,
            wish.name,
            self.settings.default_partitions if wish.partitions == -1 else wish.partitions,
            1 if wish.replication == -1 else wish.replication,
            _in_order(wish.assignments) if wish.assignments else None,
            {name: value for name, value in wish.configs.items() if value is not None},
        )
        limits = controller.Limits(room, self.settings.max_partitions_per_topic)
        return controller.create_topic(image, new, limits, self.clock.now_ms())

    async def _propose(self, decide: Callable[[Image], list[MetadataRecord]]) -> None:
        if self._closing:
            raise ShuttingDown("the node is stopping")
        promise = self.new_promise()

        def done(error: HeadraceError | None) -> None:
            if promise.done():
                return
            if error is None:
                promise.set_result(None)
            else:
                promise.set_exception(error)

        self.quorum.propose(decide, done)
        await promise

    def _applied(self, records: list[MetadataRecord]) -> None:
        for record in records:
            match record:
                case TopicCreated(topic_id=topic_id, name=name):
                    self._add(topic := Topic(self, self.quorum.image.topics[topic_id]))
                    self._on_event("topic.created", {"topic": name, "partitions": len(topic.partitions)})
                case TopicDeleted(topic_id=topic_id):
                    self._remove(topic_id)
                case PartitionsAdded(topic_id=topic_id):
                    self._ids[topic_id].grow(self)
                case TopicConfigured(topic_id=topic_id):
                    self._ids[topic_id].reconfigure()
                case ProducerIdsReserved(node_id=node_id, next_id=next_id) if node_id == self.node_id:
                    self._producer_ids = range(next_id - controller.PRODUCER_ID_BLOCK, next_id)
                case _:
                    pass

    def _add(self, topic: Topic) -> None:
        self._names[topic.name] = self._ids[topic.image.topic_id] = topic

    def _remove(self, topic_id: bytes) -> None:
        topic = self._ids.pop(topic_id)
        del self._names[topic.name]
        self._on_event("topic.deleted", {"topic": topic.name})
        gone = UnknownTopic(f"topic {topic.name!r} was deleted")
        for partition in topic.partitions:
            partition.close(gone)
        self.store.delete_folder(f"{self.store.root}/topics/{topic.folder}")


def _in_order(assignments: dict[int, tuple[int, ...]]) -> list[list[int]]:
    if sorted(assignments) != list(range(len(assignments))):
        raise InvalidReplication("an assignment names the partitions 0, 1, 2 … each once")
    return [list(assignments[index]) for index in range(len(assignments))]
