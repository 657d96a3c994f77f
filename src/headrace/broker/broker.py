"""The broker: topics by name and id, made from the cluster's image, and the wishes that change it.

Stepped by its driver, on one thread. What must wait (a metadata entry's sync, a log's recovery) comes back through
the ports. `flush` ends every turn in which something was produced: it writes all that was staged, one write for each
partition.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from headrace.broker import alteration, strays
from headrace.broker.alteration import Alteration
from headrace.broker.cold import ColdLogs
from headrace.broker.configuration import Configuration
from headrace.broker.dedup.deduplication import Deduplication
from headrace.broker.groups.coordinator import Groups
from headrace.broker.leases import Leases
from headrace.broker.memory_topics import MemoryTopics
from headrace.broker.message_ids import MessageIds
from headrace.broker.partition import Partition
from headrace.broker.producer_ids import ProducerIds
from headrace.broker.publishing import Publishing
from headrace.broker.queues.coordinator import Queues
from headrace.broker.reading import Reading
from headrace.broker.settings import BrokerSettings as BrokerSettings
from headrace.broker.settings import Loggers
from headrace.broker.subscriptions.subscriptions import Subscriptions
from headrace.broker.topic import Topic
from headrace.broker.transactions.coordinator import TransactionCoordinator
from headrace.broker.turns import Failed as Failed
from headrace.broker.turns import OnEvent as OnEvent
from headrace.broker.turns import Turns
from headrace.broker.values import MAX_LONG
from headrace.broker.wishes import MorePartitions, check_asked, create, grow
from headrace.broker.wishes import NewTopic as NewTopic
from headrace.cluster import controller
from headrace.cluster.image import Image, topic_image
from headrace.cluster.quorum import Quorum
from headrace.cluster.records import (
    ALL_NODES,
    MetadataRecord,
    NodesConfigured,
    PartitionsAdded,
    ProducerIdsReserved,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
)
from headrace.errors import HeadraceError, ShuttingDown, TopicExists, UnknownTopic, UnknownTopicId
from headrace.log.config import Done
from headrace.log.log import AnyLog
from headrace.log.store import LogStore
from headrace.metrics import Traffic
from headrace.ports import Background, Clock, Promise, Timers

_Wish = TypeVar("_Wish")


class Broker(Turns):
    def __init__(
        self,
        store: LogStore,
        quorum: Quorum,
        node_id: int,
        settings: BrokerSettings,
        clock: Clock,
        background: Background,
        new_promise: Callable[[], Promise[None]],
        new_id: Callable[[], bytes],
        on_event: OnEvent,
        timers: Timers,
    ) -> None:
        super().__init__(timers, on_event)
        self.store, self.quorum, self.node_id, self.settings = store, quorum, node_id, settings
        self.clock, self.background = clock, background
        self.new_promise, self.new_id = new_promise, new_id
        self.loggers: Loggers | None = None
        self.disk_space: Callable[[], tuple[int, int] | None] = lambda: None  # free and all bytes; None: not known
        self.gone_traffic = Traffic()  # of topics that were deleted
        self._names: dict[str, Topic] = {}
        self._ids: dict[bytes, Topic] = {}
        self.producer_ids = ProducerIds(quorum, node_id)
        self.subscriptions, self.queues = Subscriptions(self), Queues(self)
        self.leases = Leases(self, self.queues.state)
        self._closing = False
        self.configuration = Configuration(node_id, settings, quorum.image)
        for image in quorum.image.topics.values():
            self.remember(Topic(self, image))
        strays.settle(store, quorum, on_event)
        quorum.on_apply = self._applied
        self._cold = ColdLogs(self)
        self.transactions = TransactionCoordinator(self)
        self.groups = Groups(self, settings.groups)
        self.deduplication = Deduplication(self)
        self.publishing = Publishing(self)
        self.memory_topics = MemoryTopics(self)
        self.reading = Reading(self)
        self.new_message_id = MessageIds(clock, new_id).new

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
        return self.quorum.image.version + self.memory_topics.version

    def topics(self) -> list[Topic]:
        return list(self._names.values())

    def topic(self, name: str) -> Topic | None:
        return self._names.get(name)

    def topic_by_id(self, topic_id: uuid.UUID | bytes) -> Topic | None:
        return self._ids.get(topic_id if isinstance(topic_id, bytes) else topic_id.bytes)

    # Wishes

    async def create_topics(
        self, wishes: Sequence[NewTopic], validate_only: bool = False
    ) -> list[Topic | HeadraceError]:
        """In the order of the wishes: the topic, or why not. All that can be made are made by one metadata entry."""
        answers: dict[int, Topic | HeadraceError] = {}
        ids = [self.new_id() for _ in wishes]

        def decide(image: Image) -> list[MetadataRecord]:
            made: list[MetadataRecord] = []
            now_ms = self.clock.now_ms()
            for place, wish in enumerate(wishes):
                try:
                    check_asked(wish, self._own_wishes)
                    limits = self._limits(_partitions(made))
                    made += create(image, self.configuration, wish, ids[place], limits, now_ms)
                except HeadraceError as error:
                    answers[place] = error
            return made

        if validate_only:
            for record in decide(self.quorum.image):
                assert isinstance(record, TopicCreated)
                answers[ids.index(record.topic_id)] = Topic(self, topic_image(record))
        else:
            await self._propose(decide)
        return [answers[place] if place in answers else self._ids[ids[place]] for place in range(len(wishes))]

    def make_topic(self, wish: NewTopic, done: Done) -> None:
        """`done` when it is there; that it was already is no error."""

        def decide(image: Image) -> list[MetadataRecord]:
            if wish.name in image.names:
                return []
            now_ms = self.clock.now_ms()
            return [*create(image, self.configuration, wish, self.new_id(), self._limits(0), now_ms)]

        self.quorum.propose(decide, done)

    async def auto_create(self, names: Sequence[str]) -> None:
        """Somebody asked for topics that are not there."""
        own = self._own_wishes
        await self.make_sure_of([own.get(name) or NewTopic(name) for name in names])

    @property
    def _own_wishes(self) -> dict[str, NewTopic]:
        """The topics that hold state, as this node makes them."""
        topics = self.groups.state, self.transactions.state_topic, self.queues.state.topic
        return {topic.name: topic.wish for topic in topics}

    async def make_sure_of(self, wishes: Sequence[NewTopic]) -> None:
        """Makes those that are not there. That another was quicker is no error; any other is told."""
        answers: Sequence[Topic | HeadraceError]
        missing = [wish for wish in wishes if wish.name not in self._names]
        if not missing:
            return
        try:
            answers = await self.create_topics(missing)
        except HeadraceError as error:  # none of them: who asked finds that they are not there
            answers = [error]
        for answer in answers:
            if isinstance(answer, HeadraceError) and not isinstance(answer, TopicExists):
                self.on_event("topic.not-created", {"error": str(answer)})

    async def delete_topics(self, wishes: Sequence[str | uuid.UUID]) -> list[HeadraceError | None]:
        answers: list[HeadraceError | None] = []
        for wish in wishes:
            topic = self.topic(wish) if isinstance(wish, str) else self.topic_by_id(wish)
            try:
                if topic is None:
                    raise (UnknownTopic if isinstance(wish, str) else UnknownTopicId)(f"no topic {wish}")
                if topic in self.memory_topics:
                    self._drop_soft(topic, "deleted")
                else:
                    await self._propose(partial(controller.delete_topic, topic_id=topic.image.topic_id))
                answers.append(None)
            except HeadraceError as error:
                answers.append(error)
        await self.groups.buried()
        return answers

    async def add_partitions(
        self, wishes: Sequence[MorePartitions], validate_only: bool = False
    ) -> list[HeadraceError | None]:
        """In the order of the wishes: None, or why not."""
        return await self._fulfil(
            wishes, lambda image, wish, made: grow(image, wish, self._limits(_partitions(made))), validate_only
        )

    async def alter_configs(
        self, wishes: Sequence[Alteration], validate_only: bool = False
    ) -> list[HeadraceError | None]:
        """In the order of the wishes: None, or why not. No two may be about the same topic or node."""
        return await self._fulfil(
            wishes, lambda image, wish, _: alteration.decide(image, self.configuration, wish), validate_only
        )

    async def _fulfil(
        self,
        wishes: Sequence[_Wish],
        decide_one: Callable[[Image, _Wish, list[MetadataRecord]], Sequence[MetadataRecord]],
        validate_only: bool,
    ) -> list[HeadraceError | None]:
        """All that can be are fulfilled by one metadata entry; `decide_one` is told what it holds so far."""
        answers: list[HeadraceError | None] = [None] * len(wishes)

        def decide(image: Image) -> list[MetadataRecord]:
            made: list[MetadataRecord] = []
            for place, wish in enumerate(wishes):
                try:
                    made += decide_one(image, wish, made)
                except HeadraceError as error:
                    answers[place] = error
            return made

        if validate_only:
            decide(self.quorum.image)
        else:
            await self._propose(decide)
        return answers

    async def delete_records(self, partition: Partition, before: int) -> int:
        """As the partition does it; -1: all that is readable now. Its new start."""
        start = await partition.delete_records(before)
        self.on_event(
            "topic.trimmed", {"topic": partition.topic.name, "partition": partition.index, "start_offset": start}
        )
        return start

    async def new_producer_id(self) -> int:
        return await self.producer_ids.new(self.new_promise())

    def maintain(self) -> None:
        """Retention and what else comes due with time; the driver calls it now and then."""
        now_ms = self.clock.now_ms()
        self.quorum.recover(self.background)
        self.groups.maintain()
        self._cold.look(now_ms)
        self.memory_topics.look(now_ms)
        self.deduplication.maintain(now_ms)
        for topic in self._names.values():
            for partition in topic.partitions:
                log = partition.log
                if log is None:
                    continue
                if log.failed is None:
                    log.maintain(now_ms)
                else:
                    partition.recover()
        self.queues.maintain()
        self.leases.maintain()

    def sync_due(self) -> None:
        """Topics with a flush.ms, syncs that had to be put off, transactions; the driver calls it more often."""
        now_ms = self.clock.now_ms()
        self.transactions.tick()
        self.store.tick()
        for topic in self._names.values():
            if topic.config.flush_ms != MAX_LONG:
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
        folder = partition.folder
        log_id = topic.image.topic_id + partition.index.to_bytes(4, "big")
        self.background.run(lambda: self.store.open_log(folder, log_id, log_config, self.on_event), done)

    # Inside

    def _limits(self, planned: int) -> controller.Limits:
        """`planned`: partitions that the same entry is going to make."""
        return controller.Limits(self.settings.max_partitions - planned, self.settings.max_partitions_per_topic)

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
                    if (soft := self._names.get(name)) is not None:
                        self._drop_soft(soft, "made anew")
                    self.remember(topic := Topic(self, self.quorum.image.topics[topic_id]))
                    self.on_event("topic.created", {"topic": name, "partitions": len(topic.partitions)})
                case TopicDeleted(topic_id=topic_id):
                    self._remove(self._ids[topic_id])
                case PartitionsAdded(topic_id=topic_id):
                    (topic := self._ids[topic_id]).grow(self)
                    self._added(topic)
                    self.on_event("topic.grown", {"topic": topic.name, "partitions": len(topic.partitions)})
                case TopicConfigured(topic_id=topic_id, changes=changes):
                    self._reconfigured(self._ids[topic_id], changes)
                case NodesConfigured(node_id=node_id, changes=changes):
                    self._nodes_configured(node_id, changes)
                case ProducerIdsReserved(node_id=node_id, next_id=next_id) if node_id == self.node_id:
                    self.producer_ids.reserved(next_id)
                case _:
                    pass

    def _reconfigured(self, topic: Topic, changes: dict[str, str | None]) -> None:
        topic.reconfigure(self)
        self.on_event("topic.configured", {"topic": topic.name, "changes": changes})
        now_ms = self.clock.now_ms()
        for partition in topic.partitions:  # what the new settings let go goes now
            if partition.log is not None:
                partition.log.maintain(now_ms)

    def _nodes_configured(self, node_id: int, changes: dict[str, str | None]) -> None:
        """Logs find what became due at the next look, as they do with time."""
        self.configuration.refresh(self.quorum.image)
        for topic in self._names.values():
            topic.reconfigure(self)
        whose = "all" if node_id == ALL_NODES else node_id
        self.on_event("node.configured", {"node_id": whose, "changes": changes})

    def remember(self, topic: Topic) -> None:
        self._names[topic.name] = self._ids[topic.image.topic_id] = topic
        self._added(topic)

    def _added(self, topic: Topic) -> None:
        self.subscriptions.topic_added(topic)
        self.queues.topic_added(topic)

    def forget(self, topic: Topic, why: HeadraceError) -> None:
        del self._ids[topic.image.topic_id], self._names[topic.name]
        for partition in topic.partitions:
            partition.close(why)
        self.subscriptions.topic_removed(topic)
        self.queues.topic_removed(topic)
        self.leases.topic_removed(topic)
        self.gone_traffic.add(topic.traffic)

    def _remove(self, topic: Topic) -> None:
        self.on_event("topic.deleted", {"topic": topic.name})
        self.groups.topic_deleted(topic.name)
        self.forget(topic, UnknownTopic(f"topic {topic.name!r} was deleted"))
        self.store.delete_folder(f"{self.store.root}/topics/{topic.folder}")

    def _drop_soft(self, topic: Topic, why: str) -> None:
        self.groups.topic_deleted(topic.name)
        self.memory_topics.drop(topic, UnknownTopic(f"memory topic {topic.name!r} was {why}"))


def _partitions(made: list[MetadataRecord]) -> int:
    return sum(len(record.assignments) for record in made if isinstance(record, TopicCreated | PartitionsAdded))
