"""The sync face of the producer. What is called once per record leaves it in a box that the loop empties."""

from __future__ import annotations

import concurrent.futures
import weakref
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, cast

from headrace.client import client as core
from headrace.client.blocking_consumer import GroupConsumer
from headrace.client.closing import Closing
from headrace.client.contents import Content, GivenHeaders, raw_bytes, raw_headers
from headrace.client.mailbox import Mailbox
from headrace.client.portal import Portal
from headrace.client.producer import Producer as AsyncProducer
from headrace.client.producer import missing
from headrace.client.sinks import Member
from headrace.client.transactional_producer import TransactionalProducer as AsyncTransactionalProducer
from headrace.client.values import Delivery
from headrace.errors import HeadraceError, ProducerFenced

if TYPE_CHECKING:
    from headrace.client.blocking import Client

LAST_WORDS_S: Final = 10.0  # for what is not acknowledged when a program ends without `close`


class Producer(Closing):
    """`client.producer(...)`, or `Producer("host:9092", **options)` with a connection of its own."""

    _owned: Client | None = None

    def __new__(cls, *args: object, **options: object) -> Self:
        """With a transactional id it is one of transactions."""
        is_plain = options.get("transactional_id") is None
        return cast(Self, super().__new__(cls if is_plain or cls is not Producer else TransactionalProducer))

    def __init__(self, servers: str | Iterable[str], *, client_id: str | None = None, **options: Any) -> None:
        from headrace.client.blocking import connect

        client = connect(servers, client_id, options.pop("timeout", core.DEFAULT_TIMEOUT_S))
        try:
            self._begin(client, options)
        except BaseException:
            client.close()
            raise
        self._owned = client

    @classmethod
    def _of(cls, client: Client, options: dict[str, Any]) -> Self:
        producer = cls.__new__(cls)
        producer._begin(client, options)
        return producer

    def _begin(self, client: Client, options: dict[str, Any]) -> None:
        self._client, self._portal = client, client._portal
        self._core: AsyncProducer = self._portal.run(client._core.producer, **options)
        self._mailbox = Mailbox(self._portal, self._core)
        client._producers.add(self)
        # A program that ends without `close` must not lose what it put.
        self._last = weakref.finalize(self, _close_producer, self._mailbox, self._portal, self._core, LAST_WORDS_S)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            raise missing(self, name)

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
        """Waits for room only; the future has the delivery, or why there is none. What cannot be sent is refused here,
        and what is put may be changed by its owner after that."""
        if value.__class__ is not bytes and value is not None:
            value = raw_bytes(value)
        if key.__class__ is not bytes and key is not None:
            key = raw_bytes(key)
        if headers:
            headers, _ = raw_headers(headers)
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


class TransactionalProducer(Producer):
    """`client.producer(transactional_id="name")`: `with producer.transaction() as transaction:`, or `begin`, then
    `commit` or `abort`."""

    _core: AsyncTransactionalProducer

    def _begin(self, client: Client, options: dict[str, Any]) -> None:
        super()._begin(client, options)
        try:
            self._portal.call(self._core.start())
        except BaseException:
            self.close()
            raise

    def transaction(self) -> Transaction:
        """Commits at the end of its `with`, and aborts on an exception."""
        return Transaction(self)

    def begin(self) -> None:
        self._mailbox.wait_until_empty()
        self._portal.call(self._core.begin())

    def commit(self) -> None:
        """All that was put is delivered and committed, or this raises, and the transaction can be aborted."""
        self._mailbox.wait_until_empty()
        self._portal.call(self._core.commit())

    def abort(self) -> None:
        """Nothing of it is ever seen by readers of committed records."""
        self._mailbox.wait_until_empty()
        self._portal.call(self._core.abort())

    def send_positions(self, consumer: GroupConsumer) -> None:
        """The consumer's positions after what it handed out, as part of the transaction."""
        core, handed = consumer.handed_out()

        async def send() -> None:
            await self._core.send_positions(core, handed)

        self._portal.call(send())

    @property
    def member(self) -> Member:
        """For `client.column_producer(member=...)`: tables that are written in the open transaction."""
        return self._portal.run(lambda: self._core.member)

    @property
    def is_spoilt(self) -> bool:
        return self._portal.run(lambda: self._core.is_spoilt)


class Transaction:
    """One transaction of a sync producer."""

    def __init__(self, producer: TransactionalProducer) -> None:
        self._producer = producer

    def __enter__(self) -> Self:
        self._producer.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            try:
                self._producer.commit()
                return
            except HeadraceError as failure:
                if self._producer.is_spoilt:
                    self._abort(failure)
                raise
        self._abort(error)

    def send(self, topic: str, value: Content = None, key: Content = None, **more: Any) -> Delivery:
        """As the producer's. That it was written says nothing of the transaction yet."""
        return self._producer.send(topic, value, key, **more)

    def put(
        self, topic: str, value: Content = None, key: Content = None, **more: Any
    ) -> concurrent.futures.Future[Delivery]:
        return self._producer.put(topic, value, key, **more)

    @property
    def member(self) -> Member:
        """For `client.column_producer(member=...)`: tables that are written in the transaction."""
        return self._producer.member

    def send_positions(self, consumer: GroupConsumer) -> None:
        """The consumer's positions after what it handed out: they are committed with the transaction."""
        self._producer.send_positions(consumer)

    def _abort(self, error: BaseException) -> None:
        try:
            self._producer.abort()
        except HeadraceError as failure:
            if isinstance(failure, ProducerFenced) and isinstance(error, HeadraceError):
                raise failure from error  # that is why, and it is final
            error.add_note(f"the transaction could not be aborted: {failure}")  # the first error is the one to tell
