"""What the two clients of the binary protocol share: their requests, and what they make of what comes back."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple, TypedDict

from headrace.errors import ClientError
from headrace.records.ids import ID, derived_id
from headrace.wire.binary.decoder import Decoder
from headrace.wire.binary.frame import Frame, Type, build
from headrace.wire.binary.ranges import properties_of
from headrace.wire.ranges import PAGE_RECORDS

HOST, PORT = "127.0.0.1", 9999
REQUEST_TIMEOUT_S = 30.0
HEARTBEAT_S = 30.0  # between two of ours when nothing else is sent
SILENT_BEATS = 3  # without a byte from the server, who sends heartbeats too: then the connection is dead
MAX_RETRIES, RETRY_DELAY_S = 3, 1.0  # of connecting
MAX_RETRY_DELAY_S = 30.0  # of a subscription that was lost: it tries on, less and less often
LEAVE_S = 2.0  # for a broker to see that a subscription has ended; one that is there needs milliseconds
MAX_FRAME_BYTES = 256 << 20  # that comes: the largest message of any topic, in a page, with all its properties
ANSWERS = frozenset((Type.ACK, Type.HEARTBEAT))  # what can be a reply; a message never is, whatever its number


class Refused(ClientError):
    """The broker's refusal, in its own words."""


class NotHandled(Exception):
    """Raised by a handler that leaves a message as it came: neither acknowledged nor given back, which would cost it an
    attempt. The group's others get it as soon as the subscription ends."""


class PublishedAt(NamedTuple):
    topic: str
    partition: int
    offset: int
    duplicate: bool = False  # its id was known: this is the place of the first one


class Message(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    properties: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def id(self) -> str:
        """Its property `id`; else a name made of its topic, partition and offset, the same for everybody."""
        return self.properties.get(ID) or derived_id(self.topic, self.partition, self.offset)


class Page(NamedTuple):
    messages: list[Message]
    next_page: str | None  # to go on with; None: this is the end


class Bounds(TypedDict, total=False):
    """A range; the ends are left out: before `to`, before the first message at or after `until`. Times are milliseconds
    since 1970, or like `2026-01-31T12:00:00Z`."""

    partition: int | None  # else all of them, one after the other
    offset: int | None
    to: int | None
    since: int | str | None
    until: int | str | None


class Request(NamedTuple):
    type: int
    properties: dict[str, str]
    body: bytes = b""

    def encode(self, sequence: int) -> bytes:
        return build(self.type, sequence, int(time.time() * 1000), dict(self.properties), self.body)


class Wanted(NamedTuple):
    """A subscription: what is asked for, again after every reconnect, from where it had come to."""

    topic: str
    partition: int
    client_id: str
    offset: int
    replay: bool
    group: str | None
    auto_ack: bool

    def request(self) -> Request:
        properties = {
            "topic": self.topic,
            "client_id": self.client_id,
            "partition": str(self.partition),
            "offset": str(self.offset),
            "auto_ack": "true" if self.auto_ack else "false",
        }
        if self.replay:
            properties["replay"] = "true"
        if self.group is not None:
            properties["group"] = self.group
        return Request(Type.SUBSCRIBE, properties)

    def after(self, message: Message) -> Wanted:
        return self if self.group is not None else self._replace(offset=message.offset + 1, replay=True)

    def message(self, frame: Frame) -> Message:
        partition = int(frame.properties["partition"]) if self.group is not None else self.partition
        return Message(self.topic, partition, frame.sequence, frame.timestamp_ms, frame.properties, frame.body)

    @property
    def settles(self) -> bool:
        """Each message is acknowledged when its handler is done with it."""
        return self.group is not None and not self.auto_ack

    def settlement(self, message: Message, settle: str) -> bytes:
        properties = {"topic": self.topic, "partition": str(message.partition), "group": self.group or ""}
        if settle != "ack":
            properties["settle"] = settle
        return Request(Type.ACK, properties).encode(message.offset)


def default_client_id() -> str:
    return f"client_{int(time.time())}"


def create_topic(topic: str, partitions: int, retention_hours: int | None) -> Request:
    properties = {"topic": topic, "partitions": str(partitions)}
    if retention_hours is not None:
        properties["retention_hours"] = str(retention_hours)
    return Request(Type.CREATE_TOPIC, properties)


def publish(
    topic: str, body: bytes | str, client_id: str, partition: int | None, properties: Mapping[str, str] | None
) -> Request:
    asked = {"topic": topic, "client_id": client_id}
    if partition is not None:
        asked["partition"] = str(partition)
    asked |= {name: str(value) for name, value in (properties or {}).items()}
    return Request(Type.PUBLISH, asked, body.encode() if isinstance(body, str) else body)


def page(topic: str, client_id: str, bounds: Bounds, limit: int | None, page: str | None) -> Request:
    wanted = {**bounds, "limit": PAGE_RECORDS if limit is None else limit, "page": page}
    return Request(Type.SUBSCRIBE, {"topic": topic, "client_id": client_id, **properties_of(wanted)})


def history(topic: str, client_id: str, count: int, partition: int | None) -> Request:
    wanted = properties_of({"last": count, "partition": partition})
    return Request(Type.SUBSCRIBE, {"topic": topic, "client_id": client_id, **wanted})


def unsubscribe(wanted: Wanted) -> Request:
    properties = {"topic": wanted.topic, "client_id": wanted.client_id, "partition": str(wanted.partition)}
    return Request(Type.UNSUBSCRIBE, properties)


def accepted(reply: Frame) -> dict[str, str]:
    if reply.properties.get("status") == "error":
        raise Refused(reply.properties.get("error", "the broker refused, and does not say why"))
    return reply.properties


def created(topic: str, reply: Frame) -> bool:
    """False: it was there before, with as many partitions as it had."""
    if reply.properties.get("error") == f"Topic '{topic}' already exists":
        return False
    accepted(reply)
    return True


def published(reply: Frame) -> PublishedAt:
    said = accepted(reply)
    return PublishedAt(said["topic"], int(said["partition"]), int(said["offset"]), said.get("duplicate") == "true")


def paged(topic: str, reply: Frame) -> Page:
    said = accepted(reply)
    messages = [
        Message(topic, int(one.properties["partition"]), one.sequence, one.timestamp_ms, one.properties, one.body)
        for one in Decoder(MAX_FRAME_BYTES).feed(reply.body)
    ]
    return Page(messages, said.get("next_page"))
