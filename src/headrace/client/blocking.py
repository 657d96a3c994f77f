"""The sync face: the async client's methods without `await`, over a thread with a loop of its own.

What is called once per request crosses to that thread and back. What is called once per record does not: `put` leaves
its record in a box that the loop empties, and iteration takes whole batches.
"""

from __future__ import annotations

import concurrent.futures
import datetime
import weakref
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self

from headrace.client import client as core
from headrace.client.blocking_groups import GroupAdmin
from headrace.client.consumer import Consumer as AsyncConsumer
from headrace.client.mailbox import Mailbox
from headrace.client.portal import Portal
from headrace.client.positions import START, Position
from headrace.client.producer import Content, GivenHeaders
from headrace.client.producer import Producer as AsyncProducer
from headrace.client.values import (
    ApiRange,
    Cluster,
    Delivery,
    LogDir,
    OffsetAt,
    Quorum,
    Record,
    Setting,
    Time,
    Topic,
    TopicPartition,
)
from headrace.ports import Buffer

LAST_WORDS_S: Final = 10.0  # for what is not acknowledged when a program ends without `close`
ITERATED_RECORDS: Final = 5000  # taken at once by `for record in consumer`


def connect(
    servers: str | Iterable[str], client_id: str | None = None, timeout: float = core.DEFAULT_TIMEOUT_S
) -> Client:
    """`with connect("host:9092") as client:`, or `close` it. Connects before it returns."""
    return Client(servers, client_id, timeout)


class _Closing:
    """What everything here is: a context manager with `close`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        raise NotImplementedError


class Client(_Closing):
    def __init__(
        self,
        servers: str | Iterable[str],
        client_id: str | None = None,
        timeout: float = core.DEFAULT_TIMEOUT_S,
    ) -> None:
        self._core = core.Client(servers, client_id, timeout)
        self._portal = Portal()
        try:
            self._portal.call(self._core.start())
        except BaseException:
            self._portal.stop()
            raise
        self._last = weakref.finalize(self, self._portal.stop)  # at the end of the program at the latest

    @property
    def admin(self) -> Admin:
        return Admin(self)  # it keeps its client alive, as in `connect(...).admin.topics()`; so the client keeps none

    def close(self) -> None:
        """Closes its producers and consumers too; a producer flushes first."""
        if self._last.alive:
            try:
                self._portal.call(self._core.close())
            finally:
                self._last()

    def producer(self, **options: Any) -> Producer:
        """The options are those of headrace.client.producer.ProducerOptions."""
        return Producer._of(self, options)

    def consumer(self, *topics: str, **options: Any) -> Consumer:
        """The options are those of headrace.client.consumer.ConsumerOptions."""
        return Consumer._of(self, topics, options)

    def batches(
        self, topic: str, partition: int, start: Position = START, end: Position | None = None
    ) -> Iterator[bytes]:
        """Whole batches as the broker keeps them."""
        found = self._core.batches(topic, partition, start, end)

        async def step() -> bytes | None:
            return await anext(found, None)

        while (batch := self._portal.call(step())) is not None:
            yield batch

    def produce_batches(self, topic: str, partition: int, batches: Buffer, acks: str | int = "all") -> int:
        return self._portal.call(self._core.produce_batches(topic, partition, batches, acks))


class Producer(_Closing):
    """`client.producer(...)`, or `Producer("host:9092", **options)` with a connection of its own."""

    _owned: Client | None = None

    def __init__(self, servers: str | Iterable[str], *, client_id: str | None = None, **options: Any) -> None:
        client = connect(servers, client_id, options.pop("timeout", core.DEFAULT_TIMEOUT_S))
        try:
            self._begin(client, options)
        except BaseException:
            client.close()
            raise
        self._owned = client

    @classmethod
    def _of(cls, client: Client, options: dict[str, Any]) -> Producer:
        producer = cls.__new__(cls)
        producer._begin(client, options)
        return producer

    def _begin(self, client: Client, options: dict[str, Any]) -> None:
        self._client, self._portal = client, client._portal
        self._core: AsyncProducer = self._portal.run(client._core.producer, **options)
        self._mailbox = Mailbox(self._portal, self._core)
        # A program that ends without `close` must not lose what it put.
        self._last = weakref.finalize(self, _close_producer, self._mailbox, self._portal, self._core, LAST_WORDS_S)

    def send(
        self,
        topic: str,
        value: Content = None,
        key: Content = None,
        headers: GivenHeaders | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Waits for the acknowledgement."""
        self._mailbox.wait_until_empty()  # so that it stays behind what was put before
        return self._portal.call(self._core.send(topic, value, key, headers, partition, timestamp_ms))

    def put(
        self,
        topic: str,
        value: Content = None,
        key: Content = None,
        headers: GivenHeaders | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> concurrent.futures.Future[Delivery]:
        """Waits for room only; the future has the delivery, or why there is none."""
        return self._mailbox.put((topic, value, key, headers, partition, timestamp_ms))

    def flush(self) -> None:
        """Waits until all that was put is acknowledged, or raises DeliveryFailed."""
        self._mailbox.wait_until_empty()
        self._portal.call(self._core.flush())

    def close(self, timeout: float | None = None) -> None:
        try:
            if self._last.detach():
                _close_producer(self._mailbox, self._portal, self._core, timeout)
        finally:
            if self._owned is not None:
                self._owned.close()


def _close_producer(mailbox: Mailbox, portal: Portal, producer: AsyncProducer, timeout: float | None) -> None:
    if not portal.is_stopped:
        mailbox.close()
        portal.call(producer.close(timeout))


class Consumer(_Closing):
    """`client.consumer(...)`, or `Consumer("host:9092", "topic", **options)` with a connection of its own."""

    _owned: Client | None = None

    def __init__(
        self, servers: str | Iterable[str], *topics: str, client_id: str | None = None, **options: Any
    ) -> None:
        client = connect(servers, client_id, options.pop("timeout", core.DEFAULT_TIMEOUT_S))
        try:
            self._begin(client, topics, options)
        except BaseException:
            client.close()
            raise
        self._owned = client

    @classmethod
    def _of(cls, client: Client, topics: Iterable[str], options: dict[str, Any]) -> Consumer:
        consumer = cls.__new__(cls)
        consumer._begin(client, topics, options)
        return consumer

    def _begin(self, client: Client, topics: Iterable[str], options: dict[str, Any]) -> None:
        self._client, self._portal = client, client._portal
        self._core: AsyncConsumer = self._portal.run(client._core.consumer, *topics, **options)
        self._taken: list[Record] = []
        self._at = 0
        if topics:
            self._portal.call(self._core.start())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Record:
        if self._at >= len(self._taken):
            self._taken, self._at = self._portal.call(self._core.take(ITERATED_RECORDS, None)), 0
            if not self._taken:
                raise StopIteration
        self._at += 1
        return self._taken[self._at - 1]

    def take(self, max_records: int = 500, timeout: float | None = 1.0) -> list[Record]:
        """What is there, at most `max_records`; waits for the first. An empty list: none came in time."""
        if self._at < len(self._taken):
            taken = self._taken[self._at : self._at + max_records]
            self._at += len(taken)
            return taken
        return self._portal.call(self._core.take(max_records, timeout))

    @property
    def is_done(self) -> bool:
        return self._at >= len(self._taken) and self._portal.run(lambda: self._core.is_done)

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        return self._portal.run(lambda: self._core.assignment)

    def assign(
        self, where: Iterable[tuple[str, int]] | Mapping[TopicPartition, Position] | Mapping[tuple[str, int], Position]
    ) -> None:
        """Reads these partitions and no others."""
        self._taken, self._at = [], 0
        self._portal.call(self._core.assign(where))

    def seek(self, topic: str, partition: int, to: Position) -> None:
        self._drop(topic, partition)
        self._portal.call(self._core.seek(topic, partition, to))

    def position(self, topic: str, partition: int) -> int:
        """The offset of the next record that will be handed out."""
        for record in self._taken[self._at :]:
            if record.topic == topic and record.partition == partition:
                return record.offset
        return self._portal.run(self._core.position, topic, partition)

    def pause(self, topic: str, partition: int) -> None:
        offset = self.position(topic, partition)
        self._drop(topic, partition)

        async def pause() -> None:
            self._core.pause(topic, partition)
            await self._core.seek(topic, partition, offset)

        self._portal.call(pause())

    def resume(self, topic: str, partition: int) -> None:
        self._portal.run(self._core.resume, topic, partition)

    def close(self) -> None:
        try:
            self._taken, self._at = [], 0
            if not self._portal.is_stopped:
                self._portal.call(self._core.close())
        finally:
            if self._owned is not None:
                self._owned.close()

    def _drop(self, topic: str, partition: int) -> None:
        left = self._taken[self._at :]
        self._taken = [one for one in left if (one.topic, one.partition) != (topic, partition)]
        self._at = 0


class Admin(GroupAdmin):
    """The methods of headrace.client.admin.Admin, without `await`."""

    def __init__(self, owner: Client) -> None:
        super().__init__(owner._core, owner._portal)
        self._owner = owner

    def cluster(self) -> Cluster:
        return self._portal.call(self._client.admin.cluster())

    def api_versions(self, node_id: int | None = None) -> dict[int, ApiRange]:
        return self._portal.call(self._client.admin.api_versions(node_id))

    def quorum(self) -> Quorum:
        return self._portal.call(self._client.admin.quorum())

    def log_dirs(self) -> list[LogDir]:
        return self._portal.call(self._client.admin.log_dirs())

    def topics(self, internal: bool = False) -> list[Topic]:
        return self._portal.call(self._client.admin.topics(internal))

    def topic(self, name: str) -> Topic:
        return self._portal.call(self._client.admin.topic(name))

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication: int = -1,
        config: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> Topic:
        return self._portal.call(self._client.admin.create_topic(name, partitions, replication, config, validate_only))

    def delete_topic(self, name: str) -> None:
        self._portal.call(self._client.admin.delete_topic(name))

    def add_partitions(self, name: str, total: int, validate_only: bool = False) -> None:
        self._portal.call(self._client.admin.add_partitions(name, total, validate_only))

    def config(self, kind: str, name: str) -> list[Setting]:
        return self._portal.call(self._client.admin.config(kind, name))

    def alter_config(
        self,
        kind: str,
        name: str,
        set: Mapping[str, str] | None = None,  # noqa: A002 (it reads as what it does)
        delete: Iterable[str] = (),
        append: Mapping[str, str] | None = None,
        subtract: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        self._portal.call(self._client.admin.alter_config(kind, name, set, delete, append, subtract, validate_only))

    def offsets(
        self, topic: str, at: str | int | datetime.datetime | Time, isolation: str = "read_uncommitted"
    ) -> dict[int, OffsetAt]:
        return self._portal.call(self._client.admin.offsets(topic, at, isolation))

    def delete_records(self, topic: str, before: Mapping[int, int]) -> dict[int, int]:
        return self._portal.call(self._client.admin.delete_records(topic, before))
