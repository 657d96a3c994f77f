"""The largest message that each door takes, to the byte, as somebody sends it who knows only the protocol; and one byte
more. What a door counts, and what it says to more, are in the table of docs/records.md.

Values are text: what frames them is all that differs.
"""

from __future__ import annotations

import http.client
import json
import socket
import struct
import time
from typing import Any, NamedTuple

import crc32c

from tests.doors_binary import raw as binary
from tests.doors_msgpack import kit as msgpack
from tests.matrix import ports

KIB, MIB = 1 << 10, 1 << 20
LARGEST = {
    "kafka": 100 * MIB,  # a request, without the four bytes of its length
    "binary": 64 * MIB,  # a frame
    "lines": 64 * KIB,  # a line, without its end
    "json": 16 * MIB,  # a request
    "http": 8 * MIB,  # a body
    "msgpack": 1_000_000,  # a command
}
TOPIC_BYTES = 128 * MIB  # what a topic takes at most
SHOWN_BYTES = 64 * KIB  # of a message whose length in front is too large already


class Sent(NamedTuple):
    data: bytes
    stored: bytes  # what stands in the log then
    content: int  # as a topic measures it: key, value and headers; of Kafka's the batch


def message(door: str, topic: str, more: int = 0) -> Sent:
    """Of exactly the door's largest size, and so many bytes more."""
    wanted = LARGEST[door] + more
    length = wanted // 4  # the lengths in front of a value have as many bytes for it
    framing = counted(door, _MADE[door](topic, length).data) - length
    sent: Sent = _MADE[door](topic, wanted - framing)
    assert counted(door, sent.data) == wanted
    return sent


def of_content(door: str, topic: str, wanted: int) -> Sent:
    """One that the topic measures as so many bytes."""
    framing = _MADE[door](topic, wanted).content - wanted
    sent: Sent = _MADE[door](topic, wanted - framing)
    assert sent.content == wanted
    return sent


def counted(door: str, data: bytes) -> int:
    match door:
        case "kafka":
            return len(data) - 4
        case "lines":
            return len(data) - 1
        case "http":
            return len(data) - len(data.partition(b"\r\n\r\n")[0]) - 4
        case _:
            return len(data)


def _kafka(topic: str, length: int) -> Sent:
    """Produce, version 3, with a batch of one record."""
    value = b"x" * length
    inner = b"\0\0\0\x01" + _varint(length) + value + b"\0"
    record = _varint(len(inner)) + inner
    now_ms = int(time.time() * 1000)  # retention looks at it
    body = struct.pack(">hiqqqhii", 0, 0, now_ms, now_ms, -1, -1, -1, 1) + record
    batch = struct.pack(">qiibI", 0, 9 + len(body), -1, 2, crc32c.crc32c(body)) + body
    head = struct.pack(">hhih1s", 0, 3, 7, 1, b"m")
    rest = struct.pack(">hhiih", -1, -1, 30_000, 1, len(topic)) + topic.encode() + struct.pack(">iii", 1, 0, len(batch))
    return Sent(b"".join((struct.pack(">i", len(head) + len(rest) + len(batch)), head, rest, batch)), value, len(batch))


def _varint(number: int) -> bytes:
    left, found = number << 1, bytearray()  # zigzag of what is not negative
    while left > 127:
        found.append(left & 127 | 128)
        left >>= 7
    return bytes((*found, left))


def _binary(topic: str, length: int) -> Sent:
    value = b"x" * length
    data = binary.frame(binary.PUBLISH, 1, {"topic": topic, "client_id": "m", "partition": "0"}, value)
    (properties,) = struct.unpack_from(">I", data, 24)
    marks = 2 * data[32 : 32 + properties].count(b"\0")  # "=" and the zero of each
    return Sent(data, value, length + properties - marks)


def _lines(topic: str, length: int) -> Sent:
    value = b"x" * length
    return Sent(b"PUB %b %b\n" % (topic.encode(), value), value, length + len("id" + "msg_1794767866696_0a947f7d"))


def _json(topic: str, length: int) -> Sent:
    value = b'"%b"' % (b"x" * length)
    document = b'{"type": "publish", "topic_name": "%b", "partition": 0, "payload": %b}' % (topic.encode(), value)
    return Sent(document, value, len(value))


def _http(topic: str, length: int) -> Sent:
    value = b'"%b"' % (b"x" * length)
    body = b'{"value":%b}' % value
    head = f"POST /topics/{topic}/publish HTTP/1.1\r\nhost: h\r\ncontent-length: {len(body)}\r\n\r\n"
    return Sent(head.encode() + body, value, len(value))


def _msgpack(topic: str, length: int) -> Sent:
    value = ports.packed_text(b"x" * length)
    header = len("content-type" + "application/msgpack")
    return Sent(msgpack.publish(topic, value), value, len(value) + header)


_MADE: dict[str, Any] = {
    "kafka": _kafka,
    "binary": _binary,
    "lines": _lines,
    "json": _json,
    "http": _http,
    "msgpack": _msgpack,
}


def answer(door: str, link: socket.socket) -> Any:
    """To one message; None where there is none."""
    match door:
        case "kafka":
            file = link.makefile("rb")
            frame = file.read(struct.unpack(">i", file.read(4))[0])
            (size,) = struct.unpack_from(">h", frame, 8)
            return struct.unpack_from(">ihq", frame, 10 + size + 4)  # partition, error, offset
        case "binary":
            got = next(ports._frames(link)).properties
            return got["status"], got.get("offset", got.get("error"))
        case "lines":
            file = link.makefile("rb")
            line = file.readline()
            return file.readline() if line == b"OK connected\n" else line
        case "json":
            return json.loads(link.makefile("rb").read())
        case "http":
            response = http.client.HTTPResponse(link)
            response.begin()
            told = json.loads(response.read())
            return response.status, told.get("offset", told.get("detail"))
        case _:
            return None


def stored(door: str, topic: str) -> Any:
    """The answer to the first message of a topic."""
    return {
        "kafka": (0, 0, 0),
        "binary": ("success", "0"),
        "lines": b"OK published\n",
        "json": {"status": "success", "message": f"Message published to {topic}, partition 0"},
        "http": (200, 0),
        "msgpack": None,
    }[door]


def refused(door: str, sent: Sent, most: int) -> Any:
    """The answer to a message that the topic does not take."""
    why = f"{sent.content} bytes are over the topic's max.message.bytes={most}"
    return {
        "kafka": (0, 10, -1),  # MESSAGE_TOO_LARGE
        "binary": ("error", f"Message size {len(sent.data)} exceeds maximum {most}"),
        "lines": f"ERR MessageTooLarge: {why}\n".encode(),
        "json": {"status": "failure", "message": why},
        "http": (413, why),
        "msgpack": None,
    }[door]


OVER: dict[str, Any] = {
    "kafka": b"",
    "binary": b"",
    "lines": b"OK connected\n",
    "json": b'{"status": "failure", "message": "the request is over the limit of 16777216 bytes"}',
    "http": (413, "a request's body has at most 8388608 bytes"),
    "msgpack": b"",
}


def said_to_more(door: str, topic: str, sent: Sent, link: socket.socket) -> Any:
    """All that a door says to one byte more, until it ends the connection. A door that is told the length in front
    knows after the beginning."""
    match door:
        case "kafka":
            link.sendall(struct.pack(">i", LARGEST[door] + 1) + sent.data[4:SHOWN_BYTES])
        case "binary":
            _, kind, sequence, at_ms, properties, body = struct.unpack_from(">IIQQII", sent.data)
            head = struct.pack(">IIQQII", LARGEST[door] + 1, kind, sequence, at_ms, properties, body + 1)
            link.sendall(head + sent.data[len(head) : SHOWN_BYTES])
        case "http":
            link.sendall(message(door, topic, more=1).data[:SHOWN_BYTES])
            return answer(door, link)
        case _:
            link.sendall(message(door, topic, more=1).data)
    try:
        return link.makefile("rb").read()
    except ConnectionResetError:  # of its end with bytes of ours that nobody read; it had said nothing
        return b""
