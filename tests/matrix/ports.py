"""The six doors, each as somebody uses it who knows only its protocol: sockets, bytes and foreign clients.

`publish` gives a value as the door's own users have it; `stored` is what stands in the log then, by the rules of
docs/records.md; `shown` is what the door shows of such bytes. A reader is opened before anything is published, because
msgpack has no history.
"""

from __future__ import annotations

import base64
import http.client
import json
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from typing import Any, BinaryIO, Protocol

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from tests.doors_binary import raw as binary
from tests.doors_json import kit as json_kit
from tests.doors_lines import kit as lines
from tests.doors_msgpack import kit as msgpack

LIMIT_S = 30.0
MOST_BYTES = 200_000_000  # that a client of Kafka's is ready for: over the largest message of any door
READ_BYTES = 1 << 20


class Reader(Protocol):
    def values(self, count: int) -> list[Any]:
        """The next so many, as the door shows them."""
        ...


class Port(Protocol):
    name: str

    def publish(self, topic: str, value: Any) -> None: ...
    def stored(self, value: Any) -> bytes: ...
    def shown(self, stored: bytes, origin: str) -> Any: ...
    def reader(self, topic: str) -> AbstractContextManager[Reader]: ...


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=LIMIT_S)


def as_json(stored: bytes, origin: str = "") -> Any:
    """What json and http show: JSON if it is, else text, else base64; of msgpack's own, the value itself."""
    if origin == "msgpack":
        found = msgspec.msgpack.decode(stored)
        return {"base64": base64.b64encode(found).decode()} if isinstance(found, bytes) else found
    try:
        return json.loads(stored)
    except ValueError:
        pass
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(stored).decode()}


class KafkaPort:
    name = "kafka"

    def __init__(self, address: str) -> None:
        self._address = address

    def publish(self, topic: str, value: bytes) -> None:
        failed: list[KafkaError] = []
        producer = Producer({"bootstrap.servers": self._address, "message.max.bytes": 10_000_000})
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error) if error else None)
        assert producer.flush(LIMIT_S) == 0
        assert not failed, failed

    def stored(self, value: bytes) -> bytes:
        return value

    def shown(self, stored: bytes, origin: str) -> bytes:
        return stored

    @contextmanager
    def reader(self, topic: str) -> Iterator[Reader]:
        settings = {"group.id": "matrix", "enable.auto.commit": False, "receive.message.max.bytes": MOST_BYTES}
        consumer = Consumer({"bootstrap.servers": self._address, **settings})
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        try:
            yield _KafkaReader(consumer)
        finally:
            consumer.close()


class _KafkaReader:
    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def values(self, count: int) -> list[Any]:
        found: list[Any] = []
        deadline = time.monotonic() + LIMIT_S
        while len(found) < count and time.monotonic() < deadline:
            message = self._consumer.poll(0.2)
            if message is not None and message.error() is None:
                found.append(message.value())
        return found


class BinaryPort:
    name = "binary"

    def __init__(self, address: str) -> None:
        self._address = address

    def publish(self, topic: str, value: bytes) -> None:
        with connect(self._address) as to:
            to.sendall(binary.frame(binary.PUBLISH, 1, {"topic": topic, "client_id": "m", "partition": "0"}, value))
            answer = next(_frames(to))
            assert answer.properties["status"] == "success", answer

    def stored(self, value: bytes) -> bytes:
        return value

    def shown(self, stored: bytes, origin: str) -> bytes:
        return stored

    @contextmanager
    def reader(self, topic: str) -> Iterator[Reader]:
        with connect(self._address) as to:
            wish = {"topic": topic, "client_id": "r", "partition": "0", "offset": "0", "replay": "true"}
            to.sendall(binary.frame(binary.SUBSCRIBE, 1 << 40, wish))
            frames = _frames(to)
            assert next(frames).properties["status"] == "success"
            yield _BinaryReader(frames)


def _frames(of: socket.socket) -> Iterator[binary.Got]:
    kept = bytearray()
    while True:
        while len(kept) < 4 or len(kept) < struct.unpack_from(">I", kept)[0]:
            got = of.recv(READ_BYTES)
            assert got, "the door closed the connection"
            kept += got
        size = struct.unpack_from(">I", kept)[0]
        one = bytes(kept[:size])
        del kept[:size]
        yield binary.parse(one)


class _BinaryReader:
    def __init__(self, frames: Iterator[binary.Got]) -> None:
        self._frames = frames

    def values(self, count: int) -> list[Any]:
        """A heartbeat may come at any time."""
        return [one.body for one in islice((one for one in self._frames if one.type == binary.DATA), count)]


class LinesPort:
    name = "lines"

    def __init__(self, address: str) -> None:
        self._address = address

    def publish(self, topic: str, value: str) -> None:
        with lines.Peer(self._address) as peer:
            assert peer.ask(f"PUB {topic} {value}".encode()) == b"OK published"

    def stored(self, value: str) -> bytes:
        return value.encode()

    def shown(self, stored: bytes, origin: str) -> bytes:
        """Its own as it came; else text with what would break a line escaped, and what is no text as base64; of
        msgpack's own the text, else the JSON, that it means."""
        if origin == self.name:
            return stored
        found: Any = as_json(stored, origin) if origin == "msgpack" else stored
        if isinstance(found, bytes):
            try:
                found = found.decode()
            except UnicodeDecodeError:
                return b'{"base64": "%s"}' % base64.b64encode(stored)
        text = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
        return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").encode()

    @contextmanager
    def reader(self, topic: str) -> Iterator[Reader]:
        with lines.Peer(self._address) as peer:
            assert peer.ask(f"SUB {topic}".encode()) == f"OK subscribed {topic}".encode()
            with peer.socket.makefile("rb", READ_BYTES) as file:
                yield _LinesReader(file)


class _LinesReader:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def values(self, count: int) -> list[Any]:
        return [lines.shown(self._file.readline().removesuffix(b"\n")).text for _ in range(count)]


class JsonPort:
    name = "json"

    def __init__(self, address: str) -> None:
        self._address = address

    def publish(self, topic: str, value: Any) -> None:
        with json_kit.connect(self._address) as to:
            to.sendall(json_kit.request("publish", topic, 0, value))
            answer = json.loads(json_kit.rest(to))
        assert answer == {"status": "success", "message": f"Message published to {topic}, partition 0"}

    def stored(self, value: Any) -> bytes:
        return json.dumps(value, ensure_ascii=False).encode()

    def shown(self, stored: bytes, origin: str) -> Any:
        return as_json(stored, origin)

    @contextmanager
    def reader(self, topic: str) -> Iterator[Reader]:
        yield _JsonReader(self._address, topic)


class _JsonReader:
    def __init__(self, address: str, topic: str) -> None:
        self._address, self._topic, self._offset = address, topic, 0

    def values(self, count: int) -> list[Any]:
        found = []
        for _ in range(count):
            with connect(self._address) as to, to.makefile("rb", READ_BYTES) as file:
                to.sendall(json_kit.request("consume", self._topic, offset=self._offset))
                answer = json.loads(file.read())
            assert answer["status"] == "success", answer
            found.append(answer["message"])
            self._offset += 1
        return found


class HttpPort:
    name = "http"

    def __init__(self, address: str) -> None:
        self._address = address

    def publish(self, topic: str, value: Any) -> None:
        status, answer = self.ask("POST", f"/topics/{topic}/publish", {"value": value})
        assert status == 200, answer

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(self._address, timeout=LIMIT_S)
        try:
            payload = None if body is None else json.dumps(body).encode()
            connection.request(method, path, payload, {"content-type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def stored(self, value: Any) -> bytes:
        return json.dumps(value, separators=(",", ":")).encode()

    def shown(self, stored: bytes, origin: str) -> Any:
        return as_json(stored, origin)

    @contextmanager
    def reader(self, topic: str) -> Iterator[Reader]:
        yield _HttpReader(self, topic)


class _HttpReader:
    def __init__(self, port: HttpPort, topic: str) -> None:
        self._port, self._topic, self._offset = port, topic, 0

    def values(self, count: int) -> list[Any]:
        found: list[Any] = []
        deadline = time.monotonic() + LIMIT_S
        while len(found) < count and time.monotonic() < deadline:
            path = (
                f"/poll?topic={self._topic}&from_offset={self._offset}&max_records={count - len(found)}&timeout_ms=1000"
            )
            status, answer = self._port.ask("GET", path)
            assert status == 200, answer
            found += [record["value"] for record in answer["records"]]
            self._offset = answer["next_offset"]
        return found


class MsgpackPort:
    name = "msgpack"

    def __init__(self, address: str) -> None:
        self._address = address

    def publish(self, topic: str, value: bytes) -> None:
        """The value is msgpack already. There is no answer: the door is asked for what it had before."""
        with msgpack.Raw(self._address) as raw:
            raw.send(msgpack.publish(topic, value))
            raw.in_order()

    def stored(self, value: bytes) -> bytes:
        return value

    def shown(self, stored: bytes, origin: str) -> bytes:
        if origin == self.name:
            return stored
        try:
            stored.decode()
        except UnicodeDecodeError:
            return packed_bytes(stored)
        return packed_text(stored)

    @contextmanager
    def reader(self, topic: str) -> Iterator[Reader]:
        with msgpack.Raw(self._address) as raw:
            raw.send(msgpack.subscribe(topic))
            raw.in_order()
            yield _MsgpackReader(raw, topic)


def packed_text(data: bytes) -> bytes:
    size = len(data)
    if size < 32:
        return bytes([0xA0 | size]) + data
    if size < 256:
        return b"\xd9" + bytes([size]) + data
    return (b"\xda" + struct.pack(">H", size) if size < 1 << 16 else b"\xdb" + struct.pack(">I", size)) + data


def packed_bytes(data: bytes) -> bytes:
    size = len(data)
    if size < 256:
        return b"\xc4" + bytes([size]) + data
    return (b"\xc5" + struct.pack(">H", size) if size < 1 << 16 else b"\xc6" + struct.pack(">I", size)) + data


class _MsgpackReader:
    def __init__(self, raw: msgpack.Raw, topic: str) -> None:
        self._raw, self._head = raw, msgpack.delivery(topic, b"")

    def expected(self, values: list[bytes]) -> list[bytes]:
        """Values have no length of their own: the bytes that should come are compared with those that do."""
        return [self._exactly(len(self._head + value)).removeprefix(self._head) for value in values]

    def _exactly(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size and (piece := self._raw.exactly(min(size - len(found), READ_BYTES))):
            found += piece
        return bytes(found)

    def values(self, count: int) -> list[Any]:
        raise NotImplementedError("use expected")


KINDS: dict[str, Any] = {
    "kafka": KafkaPort,
    "binary": BinaryPort,
    "lines": LinesPort,
    "json": JsonPort,
    "http": HttpPort,
    "msgpack": MsgpackPort,
}
DOORS = [*KINDS]
