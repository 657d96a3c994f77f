"""The sync face: the async client's methods without `await`, over a thread with a loop of its own.

What is called once per request crosses to that thread and back. What is called once per record does not: `put` leaves
its record in a box that the loop empties, and iteration takes whole batches.
"""

from __future__ import annotations

import datetime
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, overload

from headrace.client import client as core
from headrace.client.blocking_columns import ColumnProducer, ColumnReader
from headrace.client.blocking_consumer import Consumer, GroupConsumer
from headrace.client.blocking_groups import GroupAdmin
from headrace.client.blocking_producer import Producer, TransactionalProducer
from headrace.client.closing import Closing
from headrace.client.group_options import Wanted
from headrace.client.portal import Portal
from headrace.client.positions import START, Position
from headrace.client.values import (
    ApiRange,
    Cluster,
    LogDir,
    OffsetAt,
    Quorum,
    Setting,
    Time,
    Topic,
)
from headrace.ports import Buffer


def connect(
    servers: str | Iterable[str], client_id: str | None = None, timeout: float = core.DEFAULT_TIMEOUT_S
) -> Client:
    """`with connect("host:9092") as client:`, or `close` it. Connects before it returns."""
    return Client(servers, client_id, timeout)


class Client(Closing):
    def __init__(
        self,
        servers: str | Iterable[str],
        client_id: str | None = None,
        timeout: float = core.DEFAULT_TIMEOUT_S,
    ) -> None:
        self._core = core.Client(servers, client_id, timeout)
        self._portal = Portal()
        self._producers: weakref.WeakSet[Producer] = weakref.WeakSet()
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
                for producer in list(self._producers):
                    producer._mailbox.close()  # what was put comes before the flush
                self._portal.call(self._core.close())
            finally:
                self._last()

    @overload
    def producer(self, *, transactional_id: str, **options: Any) -> TransactionalProducer: ...

    @overload
    def producer(self, **options: Any) -> Producer: ...

    def producer(self, **options: Any) -> Producer:
        """The options are those of headrace.client.producer_options.ProducerOptions."""
        kind = Producer if options.get("transactional_id") is None else TransactionalProducer
        return kind._of(self, options)

    @overload
    def consumer(self, *topics: Wanted, group: str, **options: Any) -> GroupConsumer: ...

    @overload
    def consumer(self, *topics: str, **options: Any) -> Consumer: ...

    def consumer(self, *topics: Any, **options: Any) -> Consumer:
        """The options are those of headrace.client.consumer.ConsumerOptions; with `group`, those of
        headrace.client.group_options.GroupOptions."""
        if options.get("group") is None:
            return Consumer._of(self, topics, options)
        return GroupConsumer._of(self, topics, options)

    def columns(self, *topics: str, **options: Any) -> ColumnReader:
        """Records as Arrow tables; the options are those of headrace.client.client.Client.columns."""
        return ColumnReader(self, self._core, self._portal, topics, options)

    def column_producer(self, **options: Any) -> ColumnProducer:
        """Arrow tables in; the options are those of headrace.client.client.Client.column_producer."""
        return ColumnProducer(self, self._core, self._portal, options)

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
