"""`SyncProducer` and `SyncConsumer`: those of json_client.py without `await`.

producer = SyncProducer("127.0.0.1", 9000)
producer.publish("test_topic", 0, "Hello")
for message in SyncConsumer("127.0.0.1", 9000).messages("test_topic"):
    print(message)
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Unpack

from headrace.compat import json_values as values
from headrace.compat.json_values import Acks, Bounds, JsonPage, JsonRecord, NoMessage, Place
from headrace.wire.json.values import Json

READ_BYTES = 256 << 10


class SyncProducer:
    def __init__(
        self, broker_host: str = values.HOST, broker_port: int = values.PORT, *, timeout: float = values.TIMEOUT_S
    ) -> None:
        self._at = Place(broker_host, broker_port, timeout)

    def publish(self, topic_name: str, partition: int, message: Json, *, acks: Acks = None) -> str:
        """The server's words, when the message is stored: at the topic's level, or at the one of `acks`."""
        return values.accepted(_exchange(self._at, values.publish(topic_name, partition, message, acks)))

    def publish_all(self, topic_name: str, partition: int, messages: Iterable[Json], *, acks: Acks = None) -> int:
        """Many over one connection, without waiting for each; how many there were."""
        asked, count = (values.publish(topic_name, partition, message, acks) for message in messages), 0
        with _kept(self._at) as ask:
            while chunk := list(islice(asked, values.PIPELINED)):
                for reply in ask(chunk):
                    values.accepted(reply)
                count += len(chunk)
        return count

    def create_topic(self, topic_name: str, partitions: int = 1) -> str:
        """The server's words. The original has no such request."""
        return values.accepted(_exchange(self._at, values.create_topic(topic_name, partitions)))


class SyncConsumer:
    def __init__(
        self, broker_host: str = values.HOST, broker_port: int = values.PORT, *, timeout: float = values.TIMEOUT_S
    ) -> None:
        self._at = Place(broker_host, broker_port, timeout)

    def consume(self, topic_name: str, partition: int, offset: int = 0) -> Json:
        """The message at that offset, less than 0 from the end; NoMessage: there is none."""
        return values.message_of(_exchange(self._at, values.consume(topic_name, partition, offset)))

    def consume_with_offset(self, topic_name: str, partition: int, offset: int = 0) -> tuple[Json, int]:
        """The same, and where it was: behind a gap, or where the log begins by now."""
        asked = values.consume_with_offset(topic_name, partition, offset)
        message, at = values.message_and_offset(_exchange(self._at, asked))
        return message, offset if at is None else at  # a server that tells none gives what was asked for

    def messages(self, topic_name: str, partition: int = 0, offset: int = 0) -> Iterator[Json]:
        """Those from the offset on that are there, each once, over one connection."""
        found = values.Messages(offset)
        with _kept(self._at) as ask:
            while True:
                replied = ask(values.consume_run(topic_name, partition, found.offset))
                try:
                    yield from found.new(replied)
                except NoMessage:
                    return

    def page(
        self, topic_name: str, *, limit: int | None = None, page: str | None = None, **bounds: Unpack[Bounds]
    ) -> JsonPage:
        """A page of a range, of `limit` messages at most; with the `next_page` of the one before, the next."""
        asked = values.page(topic_name, bounds, limit, page)
        return values.page_of(topic_name, _exchange(self._at, asked))

    def records(self, topic_name: str, *, limit: int | None = None, **bounds: Unpack[Bounds]) -> Iterator[JsonRecord]:
        """A range, page by page over one connection; `limit` is of all of it. NoMessage: there is no such topic."""
        page: str | None = None
        with _kept(self._at) as ask:
            while limit is None or limit > 0:
                [reply] = ask([values.page(topic_name, bounds, limit, page)])
                found = values.page_of(topic_name, reply)
                yield from found.records
                page = found.next_page
                if page is None:
                    return
                limit = None if limit is None else limit - len(found.records)

    def history(self, topic_name: str, count: int = 10, partition: int | None = None) -> list[JsonRecord]:
        """The last so many, oldest first."""
        asked = values.history(topic_name, count, partition)
        return values.page_of(topic_name, _exchange(self._at, asked)).records


def _exchange(at: Place, request: bytes) -> bytes:
    """One request, one reply, one connection."""
    parts = []
    try:
        with socket.create_connection((at.host, at.port), at.timeout) as link:
            link.sendall(request)
            while piece := link.recv(READ_BYTES):
                parts.append(piece)
    except OSError as error:
        raise at.failed(error) from error
    return at.check(b"".join(parts))


@contextmanager
def _kept(at: Place) -> Iterator[Callable[[Sequence[bytes]], list[bytes]]]:
    """Asks several at once, over one connection."""
    try:
        link = socket.create_connection((at.host, at.port), at.timeout)
    except OSError as error:
        raise at.failed(error) from error
    lines = link.makefile("rb")

    def ask(asked: Sequence[bytes]) -> list[bytes]:
        try:
            link.sendall(b"".join(request + b"\n" for request in asked))
            return [at.check(lines.readline(values.MAX_REPLY_BYTES)) for _ in asked]
        except OSError as error:
            raise at.failed(error) from error

    try:
        link.sendall(b"\n")
        yield ask
    finally:
        lines.close()
        link.close()
