"""The async client: one view of the cluster, and the producers, consumers and administration that share it."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import AsyncIterator, Generator, Iterable, Sequence
from types import TracebackType
from typing import Any, Final, Self, overload

import msgspec

from headrace.client import columns as column_reader
from headrace.client import raw
from headrace.client.addresses import Address, parse
from headrace.client.admin import Admin
from headrace.client.asking import Asking
from headrace.client.column_producer import ColumnProducer
from headrace.client.columns import ColumnReader, Stretches
from headrace.client.connections import Connections
from headrace.client.consumer import Consumer, ConsumerOptions
from headrace.client.group_consumer import GroupConsumer
from headrace.client.group_options import GroupOptions, Wanted
from headrace.client.metadata import Metadata
from headrace.client.positions import START, Position
from headrace.client.producer import Producer, ProducerOptions
from headrace.client.sinks import Member
from headrace.client.transactional_producer import TransactionalProducer
from headrace.errors import ClientClosed
from headrace.ports import Buffer

DEFAULT_TIMEOUT_S: Final = 30.0
CLIENT_ID: Final = "headrace"

_clients: weakref.WeakSet[Client] = weakref.WeakSet()


def connect(servers: str | Iterable[str], client_id: str | None = None, timeout: float = DEFAULT_TIMEOUT_S) -> Client:
    """`async with connect("host:9092") as client:`, or `client = await connect(...)` and `await client.close()`.

    `servers` are addresses to begin with, any of the cluster's; `timeout` is what one question may take in all.
    """
    return Client(servers, client_id, timeout)


class Client:
    def __init__(
        self, servers: str | Iterable[str], client_id: str | None = None, timeout: float = DEFAULT_TIMEOUT_S
    ) -> None:
        if timeout <= 0:
            raise ValueError(f"a timeout is more than 0 seconds, not {timeout}")
        self.servers: tuple[Address, ...] = parse(servers)
        self.timeout = timeout
        self._client_id = client_id or CLIENT_ID
        self._asking: Asking | None = None
        self._why_closed = "the client is not connected: use `async with`, or `await client.start()`"
        self._children: weakref.WeakSet[Producer | Consumer | ColumnProducer] = weakref.WeakSet()
        _clients.add(self)

    async def start(self) -> Self:
        """Connects. One round over the addresses: who starts beside its broker waits for it by itself."""
        if self._asking is None:
            connections = Connections(self.servers, self._client_id, self.timeout)
            metadata = Metadata(connections, self.timeout)
            try:
                await metadata.cluster_now()
            except BaseException:
                connections.close()
                raise
            self._asking = Asking(connections, metadata, self.timeout)
            self._admin = Admin(self._asking)
        return self

    def __await__(self) -> Generator[Any, None, Self]:
        return self.start().__await__()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes its producers and consumers too; a producer flushes first."""
        ends = [
            child.finish() if isinstance(child, ColumnProducer) else child.close() for child in list(self._children)
        ]
        closed = await asyncio.gather(*ends, return_exceptions=True)
        if self._asking is not None:
            self._asking.connections.close()
            self._asking = None
            self._why_closed = "the client is closed"
        await asyncio.sleep(0)  # so that transports that were closed are gone when this returns
        for failure in closed:
            if failure is not None:
                raise failure

    @property
    def admin(self) -> Admin:
        self._open()
        return self._admin

    @overload
    def producer(self, *, transactional_id: str, **options: Any) -> TransactionalProducer: ...

    @overload
    def producer(self, **options: Any) -> Producer: ...

    def producer(self, **options: Any) -> Producer:
        """The options are those of ProducerOptions; with `transactional_id`, what is sent is sent in transactions."""
        chosen = _options(ProducerOptions, options)
        producer: Producer
        if chosen.transactional_id is None:
            producer = Producer(self._own_asking(), chosen, owner=self)
        else:
            producer = TransactionalProducer(self._own_asking(), chosen, self._own_asking(), owner=self)
        self._children.add(producer)
        return producer

    @overload
    def consumer(self, *topics: Wanted, group: str, **options: Any) -> GroupConsumer: ...

    @overload
    def consumer(self, *topics: str, **options: Any) -> Consumer: ...

    def consumer(self, *topics: Any, **options: Any) -> Consumer:
        """The options are those of ConsumerOptions. Without topics, `assign` says what is read.

        With `group`, a member of that group, and the options are those of GroupOptions; then a topic may also be a
        compiled pattern that whole names match.
        """
        consumer: Consumer
        if options.get("group") is None:
            options.pop("group", None)
            consumer = Consumer(self._own_asking(), topics, _options(ConsumerOptions, options), owner=self)
        else:
            chosen = _options(GroupOptions, options)
            askings = self._own_asking(), self._own_asking(), self._own_asking()
            consumer = GroupConsumer(*askings, topics, chosen, owner=self)
        self._children.add(consumer)
        return consumer

    def columns(
        self, *topics: str, columns: Sequence[str] = column_reader.NAMES, rows: int = column_reader.ROWS, **options: Any
    ) -> ColumnReader:
        """Records as Arrow tables of about `rows` rows with these columns; the other options are ConsumerOptions'."""
        source = Stretches(self._own_asking(), topics, _options(ConsumerOptions, options), owner=self)
        self._children.add(source)
        return ColumnReader(source, columns, rows)

    def column_producer(self, member: Member | None = None, **options: Any) -> ColumnProducer:
        """Arrow tables in; the options are those of ProducerOptions. A `member` writes in its open transaction."""
        if options.get("transactional_id") is not None:
            raise ValueError("tables are written in a transaction as a `member` of it, not by a transactional id")
        producer = ColumnProducer(self._own_asking(), _options(ProducerOptions, options), member, owner=self)
        self._children.add(producer)
        return producer

    def batches(
        self, topic: str, partition: int, start: Position = START, end: Position | None = None
    ) -> AsyncIterator[bytes]:
        """Whole batches as the broker keeps them, control batches too, from `start` to `end` or what is the end now.

        The first may begin before `start`: batches are not cut.
        """
        return raw.batches(self._open(), topic, partition, start, end)

    async def produce_batches(self, topic: str, partition: int, batches: Buffer, acks: str | int = "all") -> int:
        """Sends one ready batch as it is; the offset that its first record got."""
        return await raw.produce_batches(self._open(), topic, partition, batches, acks)

    def _open(self) -> Asking:
        if self._asking is None:
            raise ClientClosed(self._why_closed)
        return self._asking

    def _own_asking(self) -> Asking:
        """The same view of the cluster, over connections of their own."""
        shared = self._open()
        return Asking(Connections(self.servers, self._client_id, self.timeout), shared.metadata, self.timeout)

    def _forked(self) -> None:
        for child in self._children:
            child.forked()
        self._asking = None
        self._why_closed = "this client was made before a fork; connect again in the child process"


def _options(kind: type[msgspec.Struct], given: dict[str, Any]) -> Any:
    unknown = set(given) - set(kind.__struct_fields__)
    if unknown:
        known = ", ".join(kind.__struct_fields__)
        raise TypeError(f"no such option: {', '.join(sorted(unknown))}; there are {known}")
    return kind(**given)


def _after_fork() -> None:
    for client in list(_clients):
        client._forked()


os.register_at_fork(after_in_child=_after_fork)
