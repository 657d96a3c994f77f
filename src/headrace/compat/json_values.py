"""What the json clients share: requests as bytes, replies as what they say, errors, limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypedDict

from headrace.errors import ClientError, ConnectionFailed, RequestTimedOut
from headrace.records.ids import derived_id
from headrace.wire.json import ranges, replies, requests
from headrace.wire.json.values import Json

HOST, PORT = "127.0.0.1", 9000
TIMEOUT_S = 10.0
PIPELINED = 500  # requests that are sent before their replies are read: below what a server lets be under way
MAX_REPLY_BYTES = 256 << 20  # of a record of another protocol, with all its escapes
Acks = int | str | None


class JsonRefused(ClientError):
    """The server's failure, in its words."""


class NoMessage(JsonRefused):
    """No message is at that offset."""


class JsonRecord(NamedTuple):
    """A message of a range, where it is, and what it is called."""

    topic: str
    partition: int
    offset: int
    ts_ms: int
    payload: Json
    id: str


class JsonPage(NamedTuple):
    records: list[JsonRecord]
    next_page: str | None  # to go on with; None: this is the end


class Bounds(TypedDict, total=False):
    """A range; the ends are left out: before `to`, before the first message at or after `until`. Times are milliseconds
    since 1970, or like `2026-01-31T12:00:00Z`."""

    partition: int | None  # else all of them, one after the other
    from_: int | None
    to: int | None
    since: int | str | None
    until: int | str | None


class Place(NamedTuple):
    """Where a server is, and how long it may take for a reply."""

    host: str = HOST
    port: int = PORT
    timeout: float = TIMEOUT_S

    def failed(self, error: OSError) -> ClientError:
        if isinstance(error, TimeoutError):
            return RequestTimedOut(f"no reply within {self.timeout} s; whether it was done is not known")
        return ConnectionFailed(f"{self.host}:{self.port} cannot be reached: {error}; does a json door listen there?")

    def check(self, reply: bytes) -> bytes:
        if not reply:
            raise ConnectionFailed(f"{self.host}:{self.port} closed the connection without a reply")
        return reply


def publish(topic: str, partition: int, message: Json, acks: Acks) -> bytes:
    if acks is None:
        return requests.encode("publish", topic, partition, message)
    return requests.encode("publish", topic, partition, message, acks=acks)


def consume(topic: str, partition: int, offset: int) -> bytes:
    return requests.encode("consume", topic, partition, None, offset)


def consume_with_offset(topic: str, partition: int, offset: int) -> bytes:
    return requests.encode("consume", topic, partition, None, offset, with_offset=True)


def consume_run(topic: str, partition: int, offset: int) -> list[bytes]:
    """Requests for the messages from the offset on. Where an offset from the end is, its reply has to tell first."""
    places = range(offset, offset + (PIPELINED if offset >= 0 else 1))
    return [consume_with_offset(topic, partition, at) for at in places]


def page(topic: str, bounds: Bounds, limit: int | None, page: str | None) -> bytes:
    return requests.encode_range(topic, **bounds, limit=limit, page=page)


def history(topic: str, count: int, partition: int | None) -> bytes:
    return requests.encode_range(topic, partition=partition, last=count)


def create_topic(topic: str, partitions: int) -> bytes:
    return requests.encode("create_topic", topic, partitions)


def accepted(reply: bytes) -> str:
    is_success, message = replies.parse(reply)
    if not is_success:
        raise JsonRefused(str(message))
    return str(message)


class Messages:
    """Replies to runs of requests as messages, each once: an offset in a gap gives the record behind the gap, as the
    offsets after it do. `offset` is where the next run begins."""

    def __init__(self, offset: int) -> None:
        self.offset = offset

    def new(self, replied: Iterable[bytes]) -> Iterator[Json]:
        """NoMessage at the end of what is there."""
        for reply in replied:
            message, at = message_and_offset(reply)
            at = self.offset if at is None else at  # a server that tells none gives what was asked for
            if at >= self.offset:
                self.offset = at + 1
                yield message


def message_of(reply: bytes) -> Json:
    return message_and_offset(reply)[0]


def message_and_offset(reply: bytes) -> tuple[Json, int | None]:
    is_success, message, offset = replies.parse_with_offset(reply)
    if not is_success:
        if message == replies.NO_MESSAGE_WORDS:
            raise NoMessage("no message is at that offset")
        raise JsonRefused(str(message))
    return message, offset


def page_of(topic: str, reply: bytes) -> JsonPage:
    is_success, message = replies.parse(reply)
    if not is_success:
        if message == replies.NO_MESSAGE_WORDS:
            raise NoMessage(f"there is no topic {topic!r}, or not that partition of it")
        raise JsonRefused(str(message))
    found, next_page = ranges.parse_page(reply)
    return JsonPage([_record(topic, *one) for one in found], next_page)


def _record(topic: str, partition: int, offset: int, ts_ms: int, payload: Json, told: str | None) -> JsonRecord:
    return JsonRecord(topic, partition, offset, ts_ms, payload, told or derived_id(topic, partition, offset))
