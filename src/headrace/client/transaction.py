"""One transaction, as a block of a program."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Self

from headrace.client.contents import Content
from headrace.client.group_consumer import GroupConsumer
from headrace.client.sinks import Member
from headrace.client.transactional_producer import TransactionalProducer
from headrace.client.values import Delivery
from headrace.errors import HeadraceError, ProducerFenced


class Transaction:
    """One transaction: commits at the end of its `async with`, and aborts on an exception."""

    def __init__(self, producer: TransactionalProducer) -> None:
        self._producer = producer

    async def __aenter__(self) -> Self:
        await self._producer.begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            try:
                await self._producer.commit()
                return
            except HeadraceError as failure:
                error = failure
                if self._producer.is_spoilt:
                    await self._abort(error)
                raise
        await self._abort(error)

    async def send(self, topic: str, value: Content = None, key: Content = None, **more: Any) -> Delivery:
        """As the producer's. That it was written says nothing of the transaction yet."""
        return await self._producer.send(topic, value, key, **more)

    async def put(
        self, topic: str, value: Content = None, key: Content = None, **more: Any
    ) -> asyncio.Future[Delivery]:
        return await self._producer.put(topic, value, key, **more)

    @property
    def member(self) -> Member:
        """For `client.column_producer(member=...)`: tables that are written in the transaction."""
        return self._producer.member

    async def send_positions(self, consumer: GroupConsumer) -> None:
        """The consumer's positions after what it handed out: they are committed with the transaction."""
        await self._producer.send_positions(consumer)

    async def _abort(self, error: BaseException) -> None:
        try:
            await self._producer.abort()
        except HeadraceError as failure:
            if isinstance(failure, ProducerFenced) and isinstance(error, HeadraceError):
                raise failure from error  # that is why, and it is final
            error.add_note(f"the transaction could not be aborted: {failure}")  # the first error is the one to tell
