"""What the server says: one JSON object, in the bytes of the original."""

from __future__ import annotations

from headrace.wire.json.requests import Publish
from headrace.wire.json.values import Json, dumps, loads, shown

SUCCESS, FAILURE = "success", "failure"
NO_MESSAGE_WORDS = "No message available"
NO_MESSAGE = dumps({"status": FAILURE, "message": NO_MESSAGE_WORDS})


def published(request: Publish, offset: int) -> bytes:
    """Offset and level are told only to who named a level: the original knows neither."""
    done = "replicated" if request.is_replica else "published"
    words = f"Message {done} to {request.topic}, partition {request.shown}"
    reply: dict[str, Json] = {"status": SUCCESS, "message": words}
    if request.acks is not None:
        reply |= {"acks": request.acks, "offset": offset}
    return dumps(reply)


def consumed(value: bytes | None, offset: int | None = None) -> bytes:
    """The offset is told only to who asks for it."""
    if offset is None:
        return b'{"status": "success", "message": %b}' % shown(value)
    return b'{"status": "success", "message": %b, "offset": %d}' % (shown(value), offset)


def created(topic: str, partitions: int) -> bytes:
    noun = "partition" if partitions == 1 else "partitions"
    return dumps({"status": SUCCESS, "message": f"Topic {topic} created with {partitions} {noun}"})


def failed(why: str) -> bytes:
    return dumps({"status": FAILURE, "message": why})


def parse(document: bytes) -> tuple[bool, Json]:
    """Whether it went well, and the message; ValueError: it is no reply."""
    is_success, message, _ = parse_with_offset(document)
    return is_success, message


def parse_with_offset(document: bytes) -> tuple[bool, Json, int | None]:
    """As `parse`, and the message's offset; None when the reply does not say."""
    found = loads(document)
    if not isinstance(found, dict) or "message" not in found:
        raise ValueError("a reply is a JSON object with a status and a message")
    offset = found.get("offset")
    return found.get("status") == SUCCESS, found["message"], offset if isinstance(offset, int) else None
