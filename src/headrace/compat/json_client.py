"""`Producer` and `Consumer`: the json protocol, with the names, arguments and coroutines that its programs know.

    producer = Producer("127.0.0.1", 9000)
    await producer.publish("test_topic", 0, "Hello")
    consumer = Consumer("127.0.0.1", 9000)
    print(await consumer.consume("test_topic", 0, offset=0))

Unlike the original's they give what came back. Each request has a connection of its own, as the protocol has it;
`publish_all` and `messages` keep one, in the way that is ours: a newline first, then a document a line.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from typing import Unpack

from headrace.compat import json_values as values
from headrace.compat.json_values import Acks, Bounds, JsonPage, JsonRecord, NoMessage, Place
from headrace.wire.json.values import Json


class Producer:
    def __init__(
        self, broker_host: str = values.HOST, broker_port: int = values.PORT, *, timeout: float = values.TIMEOUT_S
    ) -> None:
        self._at = Place(broker_host, broker_port, timeout)

    async def publish(self, topic_name: str, partition: int, message: Json, *, acks: Acks = None) -> str:
        """The server's words, when the message is stored: at the topic's level, or at the one of `acks`."""
        return values.accepted(await _exchange(self._at, values.publish(topic_name, partition, message, acks)))

    async def publish_all(self, topic_name: str, partition: int, messages: Iterable[Json], *, acks: Acks = None) -> int:
        """Many over one connection, without waiting for each; how many there were."""
        asked, count = (values.publish(topic_name, partition, message, acks) for message in messages), 0
        async with _kept(self._at) as ask:
            while chunk := list(islice(asked, values.PIPELINED)):
                for reply in await ask(chunk):
                    values.accepted(reply)
                count += len(chunk)
        return count

    async def create_topic(self, topic_name: str, partitions: int = 1) -> str:
        """The server's words. The original has no such request."""
        return values.accepted(await _exchange(self._at, values.create_topic(topic_name, partitions)))


class Consumer:
    def __init__(
        self, broker_host: str = values.HOST, broker_port: int = values.PORT, *, timeout: float = values.TIMEOUT_S
    ) -> None:
        self._at = Place(broker_host, broker_port, timeout)

    async def consume(self, topic_name: str, partition: int, offset: int = 0) -> Json:
        """The message at that offset, less than 0 from the end; NoMessage: there is none."""
        return values.message_of(await _exchange(self._at, values.consume(topic_name, partition, offset)))

    async def consume_with_offset(self, topic_name: str, partition: int, offset: int = 0) -> tuple[Json, int]:
        """The same, and where it was: behind a gap, or where the log begins by now."""
        asked = values.consume_with_offset(topic_name, partition, offset)
        message, at = values.message_and_offset(await _exchange(self._at, asked))
        return message, offset if at is None else at  # a server that tells none gives what was asked for

    async def messages(self, topic_name: str, partition: int = 0, offset: int = 0) -> AsyncIterator[Json]:
        """Those from the offset on that are there, each once, over one connection."""
        found = values.Messages(offset)
        async with _kept(self._at) as ask:
            while True:
                replied = await ask(values.consume_run(topic_name, partition, found.offset))
                try:
                    for message in found.new(replied):
                        yield message
                except NoMessage:
                    return

    async def page(
        self, topic_name: str, *, limit: int | None = None, page: str | None = None, **bounds: Unpack[Bounds]
    ) -> JsonPage:
        """A page of a range, of `limit` messages at most; with the `next_page` of the one before, the next."""
        asked = values.page(topic_name, bounds, limit, page)
        return values.page_of(topic_name, await _exchange(self._at, asked))

    async def records(
        self, topic_name: str, *, limit: int | None = None, **bounds: Unpack[Bounds]
    ) -> AsyncIterator[JsonRecord]:
        """A range, page by page over one connection; `limit` is of all of it. NoMessage: there is no such topic."""
        page: str | None = None
        async with _kept(self._at) as ask:
            while limit is None or limit > 0:
                [reply] = await ask([values.page(topic_name, bounds, limit, page)])
                found = values.page_of(topic_name, reply)
                for record in found.records:
                    yield record
                page = found.next_page
                if page is None:
                    return
                limit = None if limit is None else limit - len(found.records)

    async def history(self, topic_name: str, count: int = 10, partition: int | None = None) -> list[JsonRecord]:
        """The last so many, oldest first."""
        asked = values.history(topic_name, count, partition)
        return values.page_of(topic_name, await _exchange(self._at, asked)).records


async def _exchange(at: Place, request: bytes) -> bytes:
    """One request, one reply, one connection."""
    try:
        async with asyncio.timeout(at.timeout):
            reader, writer = await asyncio.open_connection(at.host, at.port)
            try:
                writer.write(request)
                return at.check(await reader.read(-1))
            finally:
                writer.close()
    except OSError as error:
        raise at.failed(error) from error


@asynccontextmanager
async def _kept(at: Place) -> AsyncIterator[Callable[[Sequence[bytes]], Awaitable[list[bytes]]]]:
    """Asks several at once, over one connection."""
    try:
        async with asyncio.timeout(at.timeout):
            reader, writer = await asyncio.open_connection(at.host, at.port, limit=values.MAX_REPLY_BYTES)
    except OSError as error:
        raise at.failed(error) from error

    async def ask(asked: Sequence[bytes]) -> list[bytes]:
        try:
            writer.write(b"".join(request + b"\n" for request in asked))
            found = []
            for _ in asked:
                async with asyncio.timeout(at.timeout):
                    found.append(at.check(await reader.readline()))
            return found
        except OSError as error:
            raise at.failed(error) from error

    try:
        writer.write(b"\n")
        yield ask
    finally:
        writer.close()
