"""Where runs of Publish commands go: into the topic of that name, which comes into being as a memory topic if there is
none.

A name that no topic can have (empty, too long, with control characters, the broker's own), and any when there are as
many memory topics as there may be, is delivered to who subscribed to it and kept nowhere. Clients are told nothing: a
run that is refused is counted, and the log has one line for all of one interval. Who subscribed to a name of very many
characters is found in several turns (`Passing`).
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.broker.broker import Broker, Failed, OnEvent
from headrace.broker.partition import Partition
from headrace.broker.publishing.published import Published
from headrace.broker.subscriptions.search import Search
from headrace.broker.subscriptions.subscription import PatternSubscription
from headrace.broker.topic import Topic
from headrace.doors.msgpack.connection import FORM, MsgpackConnection
from headrace.doors.msgpack.limits import TURN_CHARACTERS
from headrace.doors.tcp.metrics import DoorMetrics
from headrace.errors import HeadraceError, InvalidTopicName, LimitReached, MessageTooLarge
from headrace.records import codec


class Passing:
    """A run under a long name, on its way to who subscribed."""

    def __init__(self, search: Search[PatternSubscription], count: int, chunk: bytes) -> None:
        self._search, self._count, self._chunk = search, count, chunk

    def go_on(self) -> bool:
        """As far as goes into a turn. Whether there is more to do."""
        if self._search.go_on(TURN_CHARACTERS):
            return True
        _hand_out(self._search.owners, self._count, self._chunk)
        return False


class Publisher:
    def __init__(self, broker: Broker, metrics: DoorMetrics, on_event: OnEvent) -> None:
        self._broker, self._metrics, self._on_event = broker, metrics, on_event
        self._subscriptions = broker.subscriptions
        self._staged: dict[Partition, int] = {}  # records that the next flush writes
        self._refused = 0  # of this interval
        self._why = ""

    def publish(self, name: str, count: int, batch: bytearray, chunk: bytes) -> Passing | None:
        """`chunk`: the same as subscribers get it. What is returned is for its publisher to go on with."""
        self._metrics.published += count
        try:
            topic = self._broker.memory_topics.get_or_create(name)
        except (InvalidTopicName, LimitReached):
            return self._pass_on(name, count, chunk)
        try:
            self._append(topic, count, batch, chunk)
        except HeadraceError as error:
            self._refuse(count, error)
        return None

    def end_turn(self) -> None:
        """All of it is written, and delivered."""
        self._subscriptions.flush()

    def interval_over(self) -> None:
        if self._refused:
            self._on_event("msgpack.refused", {"records": self._refused, "why": self._why})
            self._refused = 0

    def _append(self, topic: Topic, count: int, batch: bytearray, chunk: bytes) -> None:
        partitions = topic.partitions
        partition = partitions[0]
        if topic.is_state:
            raise InvalidTopicName(f"{topic.name!r} is the broker's own to write")
        is_plain = not (topic.is_compacted or topic.is_log_append_time or topic.config.dedup_window_ms)
        if len(partitions) == 1 and is_plain and (partition.log is not None or topic.config.is_memory):
            try:
                staged = self._broker.publishing.publish_batch(topic, 0, batch, self._broker.clock.now_ms())
            except MessageTooLarge:
                pass  # it may be none of its records that is
            else:
                self._subscriptions.prepared(partition, staged, FORM, chunk)
                if not self._staged:
                    self._broker.when_flushed(self._flushed)
                self._staged[partition] = self._staged.get(partition, 0) + count
                return
        publishing = self._broker.publishing
        for record in codec.decode(batch):  # one by one: what is refused takes nobody along
            publishing.publish(topic.name, record, self._published, acks=0, create=False, system=True)
        publishing.end_turn()

    def _flushed(self, failed: Failed | None) -> None:
        staged, self._staged = self._staged, {}
        for partition, error in (failed or {}).items():
            if partition in staged:
                self._refuse(staged[partition], error)

    def _published(self, published: Published | HeadraceError) -> None:
        if isinstance(published, HeadraceError):
            self._refuse(1, published)

    def _pass_on(self, name: str, count: int, chunk: bytes) -> Passing | None:
        search = self._subscriptions.search(name)
        if search is not None:
            return Passing(search, count, chunk)
        _hand_out(self._subscriptions.matching(name), count, chunk)
        return None

    def _refuse(self, count: int, error: HeadraceError) -> None:
        self._metrics.errors += count
        self._refused += count
        self._why = str(error)


def _hand_out(subscriptions: Iterable[PatternSubscription], count: int, chunk: bytes) -> None:
    for subscription in tuple(subscriptions):
        subscriber = subscription.subscriber
        if isinstance(subscriber, MsgpackConnection) and not subscription.is_closed:
            subscriber.take(chunk, count)
