"""What the binary door answers: the properties of each reply in their order, and the texts of refusals, to the letter.

A reply is an ACK with its request's sequence number and no body, but for a page of a range, whose messages are the
body. `created_at` and `version` come last, as in every frame.
"""

from __future__ import annotations

from headrace.broker.publishing import Published
from headrace.doors.tcp.paging import Paged
from headrace.errors import HeadraceError
from headrace.wire.binary.frame import HEAD, HEAD_BYTES, VERSION, Type, build

MAX_TEXT = 2048  # characters of a refusal: a topic's name in it may be as long as a frame

MISSING_TOPIC = "Missing 'topic' property"
MISSING_TOPIC_OR_CLIENT = "Missing 'topic' or 'client_id' property"
UNKNOWN_TYPE = "Unknown message type"


class Refused(HeadraceError):
    """A request that gets `status=error` with this text."""


def number(text: str) -> int:
    """Refused in Python's own words, which clients know."""
    try:
        return int(text)
    except ValueError as error:
        raise Refused(str(error)) from error


def success(sequence: int, now_ms: int, **properties: str) -> bytes:
    return build(Type.ACK, sequence, now_ms, {"status": "success", **properties})


def published(sequence: int, now_ms: int, topic: str, at: Published, acks: str | None) -> bytes:
    """The reply of all: by hand, for it comes with every message. What is ours comes behind what the protocol has."""
    ours = "" if acks is None else f"acks={acks}\0"
    if at.duplicate:
        ours += "duplicate=true\0"
    block = (
        f"status=success\0topic={topic}\0partition={at.partition}\0offset={at.offset}\0{ours}"
        f"created_at={now_ms / 1000!r}\0version={VERSION}\0"
    ).encode()
    return HEAD.pack(HEAD_BYTES + len(block), Type.ACK, sequence, now_ms, len(block), 0) + block


def page(sequence: int, now_ms: int, topic: str, paged: Paged) -> bytes:
    properties = {"status": "success", "topic": topic, "count": str(len(paged.pieces))}
    if paged.next_place is not None:
        properties["next_page"] = str(paged.next_place)
    return build(Type.ACK, sequence, now_ms, properties, b"".join(paged.pieces))


def refusal(sequence: int, now_ms: int, text: str, **properties: str) -> bytes:
    return build(Type.ACK, sequence, now_ms, {"status": "error", "error": _safe(text), **properties})


def unknown_type(sequence: int, now_ms: int) -> bytes:
    """This one alone has its properties the other way around."""
    return build(Type.ACK, sequence, now_ms, {"error": UNKNOWN_TYPE, "status": "error"})


def heartbeat(sequence: int, now_ms: int) -> bytes:
    return build(Type.HEARTBEAT, sequence, now_ms, {})


def _safe(text: str) -> str:
    return text[:MAX_TEXT].replace("\0", " ")


# Texts


def topic_exists(topic: str) -> str:
    return f"Topic '{topic}' already exists"


def no_topic(topic: str) -> str:
    return f"Topic '{topic}' does not exist"


def too_many_partitions(count: int, most: int) -> str:
    return f"Partition count {count} exceeds maximum {most}"


def invalid_retention(hours: int) -> str:
    return f"Invalid retention_hours {hours}: 1 or more, or -1 to keep messages for ever"


def invalid_partition(partition: int) -> str:
    return f"Invalid partition {partition}"


def no_partition(topic: str, partition: int) -> str:
    return f"Partition {partition} does not exist for topic '{topic}'"


def already_subscribed(client: str, topic: str, partition: int) -> str:
    return f"Client {client} already subscribed to {topic}[{partition}]"


def not_subscribed(client: str, topic: str, partition: int) -> str:
    return f"Client {client} not subscribed to {topic}[{partition}]"


def too_large(size: int, most: int) -> str:
    return f"Message size {size} exceeds maximum {most}"


# Texts of what is ours alone


def outside(offset: int, topic: str, partition: int, start: int, end: int) -> str:
    return f"Offset {offset} is outside of {topic}[{partition}], which holds {start} to {end}"


def missing_partition(topic: str, count: int) -> str:
    return f"Missing 'partition' property: topic '{topic}' has {count} partitions, each with its own offsets"


def too_many_subscriptions(most: int) -> str:
    return f"Too many subscriptions on one connection: the limit is {most}"


def not_held(offset: int, topic: str, partition: int, group: str) -> str:
    return f"Message {offset} of {topic}[{partition}] is not held in group {group}"


def some_not_held(count: int, of: int, last: int, topic: str, partition: int, group: str) -> str:
    return f"{count} of {of} messages up to {last} of {topic}[{partition}] are not held in group {group}"
