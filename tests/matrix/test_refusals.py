"""What a door cannot carry gets that door's own error, as its page says, and changes nothing; what has no value is read
through each door as docs/records.md says."""

from __future__ import annotations

import http.client
import json
import socket
import struct
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.compat import LineClient
from headrace.compat.line_values import LineRefused
from tests.doors_binary import raw as binary
from tests.doors_json import kit as json_kit
from tests.doors_lines import kit as lines
from tests.doors_msgpack import kit as msgpack
from tests.matrix import ports
from tests.matrix.ports import DOORS
from tests.support import ServedBroker

TOPIC_BYTES = 20_000  # the largest message of a topic here
OVER = "x" * TOPIC_BYTES  # with what is put around it, just over that
MIB = 1 << 20


def topic(node: ServedBroker, name: str, **config: str) -> str:
    admin = AdminClient({"bootstrap.servers": node.addresses["kafka"]})
    for made in admin.create_topics([NewTopic(name, 1, 1, config=config)]).values():
        made.result(ports.LIMIT_S)
    return name


# Over what the topic takes: the connection goes on


def kafka_is_over(node: ServedBroker, name: str) -> None:
    failed: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": node.addresses["kafka"]})
    producer.produce(name, OVER.encode(), on_delivery=lambda error, _: failed.append(error))
    producer.flush(ports.LIMIT_S)
    assert [error and error.code() for error in failed] == [KafkaError.MSG_SIZE_TOO_LARGE]


def binary_is_over(node: ServedBroker, name: str) -> None:
    with ports.connect(node.addresses["binary"]) as to:
        for body in (OVER.encode(), b"fits"):
            to.sendall(binary.frame(binary.PUBLISH, 1, {"topic": name, "client_id": "m", "partition": "0"}, body))
        frames = ports._frames(to)
        refused, taken = next(frames).properties, next(frames).properties
    assert refused["status"] == "error" and refused["error"].startswith("Message size ")
    assert refused["error"].endswith(f" exceeds maximum {TOPIC_BYTES}")
    assert taken["status"] == "success"


def lines_is_over(node: ServedBroker, name: str) -> None:
    with lines.Peer(node.addresses["lines"]) as peer:
        assert peer.ask(f"PUB {name} {OVER}".encode()).startswith(b"ERR MessageTooLarge: ")
        assert peer.ask(f"PUB {name} fits".encode()) == b"OK published"


def json_is_over(node: ServedBroker, name: str) -> None:
    refused = json_kit.publish(node.addresses["json"], name, OVER)
    assert refused["status"] == "failure" and f"max.message.bytes={TOPIC_BYTES}" in refused["message"]
    assert json_kit.publish(node.addresses["json"], name, "fits")["status"] == "success"


def http_is_over(node: ServedBroker, name: str) -> None:
    port = ports.HttpPort(node.addresses["http"])
    status, answer = port.ask("POST", f"/topics/{name}/publish", {"value": OVER})
    assert status == 413 and f"max.message.bytes={TOPIC_BYTES}" in answer["detail"]
    port.publish(name, "fits")


def msgpack_is_over(node: ServedBroker, name: str) -> None:
    """It has no errors: what is refused is delivered to nobody, and counted."""
    before = refused(node)
    with msgpack.Raw(node.addresses["msgpack"]) as raw:
        raw.send(msgpack.subscribe(name), msgpack.publish(name, ports.packed_text(OVER.encode())))
        raw.send(msgpack.publish(name, b"\xa4fits"))
        raw.expect(msgpack.delivery(name, b"\xa4fits"))
    assert refused(node) == before + 1


def refused(node: ServedBroker) -> float:
    connection = http.client.HTTPConnection(node.addresses["http"], timeout=ports.LIMIT_S)
    connection.request("GET", "/metrics/prometheus")
    shown = connection.getresponse().read().decode()
    connection.close()
    counted = [line for line in shown.splitlines() if line.startswith('headrace_door_errors_total{door="msgpack"}')]
    return float(counted[0].split()[-1])


OVER_THE_TOPIC: dict[str, Callable[[ServedBroker, str], None]] = {
    "kafka": kafka_is_over,
    "binary": binary_is_over,
    "lines": lines_is_over,
    "json": json_is_over,
    "http": http_is_over,
    "msgpack": msgpack_is_over,
}


@pytest.mark.parametrize("door", DOORS)
def test_a_message_over_the_topics_largest_is_refused_in_the_doors_own_words(
    door: str, node: ServedBroker, doors: dict[str, Any]
) -> None:
    name = topic(node, f"small-{door}", **{"max.message.bytes": str(TOPIC_BYTES)})
    OVER_THE_TOPIC[door](node, name)
    doors["kafka"].publish(name, b"last")
    with doors["kafka"].reader(name) as reader:  # and nothing of it was kept
        stored = reader.values(1 if door == "kafka" else 2)
    assert stored[-1] == b"last" and all(len(value) < 10 for value in stored)


# Over what the door takes: its connection ends


def frame_of(door: str, name: str) -> bytes:
    """A message over the door's largest, or as much of it as shows that."""
    match door:
        case "kafka":
            return struct.pack(">I", 100 * MIB + 1) + bytes(100)
        case "binary":
            return struct.pack(">IIQQII", 64 * MIB + 1, binary.PUBLISH, 1, 0, 0, 64 * MIB - 31) + bytes(100)
        case "lines":
            return b"PUB %s %s\n" % (name.encode(), b"x" * (64 << 10))
        case "json":
            return json_kit.request("publish", name, 0, "x" * 16 * MIB)
        case "http":
            head = f"POST /topics/{name}/publish HTTP/1.1\r\nhost: h\r\ncontent-length: {8 * MIB + 1}\r\n\r\n"
            return head.encode() + bytes(100)
        case _:
            return msgpack.publish(name, ports.packed_text(b"x" * 1_000_000))


def answered(door: str, to: socket.socket) -> Any:
    match door:
        case "http":
            answer = http.client.HTTPResponse(to)
            answer.begin()
            return answer.status, json.loads(answer.read())["detail"]
        case "lines":
            return json_kit.rest(to).removeprefix(b"OK connected\n")
        case _:
            return json_kit.rest(to)


SAID: dict[str, Any] = {
    "kafka": b"",
    "binary": b"",
    "lines": b"",
    "json": b'{"status": "failure", "message": "the request is over the limit of 16777216 bytes"}',
    "http": (413, "a request's body has at most 8388608 bytes"),
    "msgpack": b"",
}


@pytest.mark.parametrize("door", DOORS)
def test_a_message_over_the_doors_largest_ends_the_connection_and_nobody_elses(
    door: str, node: ServedBroker, doors: dict[str, Any]
) -> None:
    name = topic(node, f"frame-{door}")
    with ports.connect(node.addresses[door]) as to:
        to.sendall(frame_of(door, name))
        assert answered(door, to) == SAID[door]
    doors["kafka"].publish(name, b"last")
    with doors["kafka"].reader(name) as reader:
        assert reader.values(1) == [b"last"]


# What a line cannot hold


@pytest.mark.parametrize(
    ("sent", "replies", "kept"),
    [
        (b"PUB %s\n", [b"ERR usage: PUB <topic> <message>"], []),
        (b"PUB %s \n", [b"ERR usage: PUB <topic> <message>"], []),
        (b"PUB %s  \r\n", [b"ERR usage: PUB <topic> <message>"], []),
        (b"PUB %s one\ntwo\n", [b"OK published", b"ERR unknown command: two"], [b"one"]),
    ],
)
def test_a_line_end_ends_the_message_and_no_message_is_empty(
    sent: bytes, replies: list[bytes], kept: list[bytes], node: ServedBroker, doors: dict[str, Any]
) -> None:
    name = topic(node, f"line-{len(sent)}-{len(kept)}")
    with lines.Peer(node.addresses["lines"]) as peer:
        peer.send(sent % name.encode())
        assert peer.lines(len(replies)) == replies
    doors["kafka"].publish(name, b"last")
    with doors["kafka"].reader(name) as reader:
        assert reader.values(len(kept) + 1) == [*kept, b"last"]


@pytest.mark.parametrize("text", ["", " ", "one\ntwo", "one\n", "one\r"])
def test_our_client_of_lines_refuses_what_would_not_arrive_as_it_is(text: str, node: ServedBroker) -> None:
    with LineClient(*_place(node.addresses["lines"])) as client, pytest.raises(LineRefused):
        client.publish("line-client", text)


def _place(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


# No value at all, and an empty one

NOTHING: dict[str, list[Any]] = {
    "kafka": [None, b""],
    "binary": [b"", b""],
    "lines": [b"", b""],
    "json": [None, ""],
    "http": [None, ""],
    "msgpack": [b"\xc0", b"\xa0"],
}


def test_a_record_without_a_value_is_read_through_each_door_as_its_page_says(
    node: ServedBroker, doors: dict[str, Any]
) -> None:
    name = topic(node, "tombstones")
    with ExitStack() as open_:
        readers = {door: open_.enter_context(port.reader(name)) for door, port in doors.items()}
        for value in NOTHING["kafka"]:
            doors["kafka"].publish(name, value)
        for door, reader in readers.items():
            expected = NOTHING[door]
            found = reader.expected(expected) if door == "msgpack" else reader.values(len(expected))
            assert found == expected, door
