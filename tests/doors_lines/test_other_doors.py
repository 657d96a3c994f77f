"""Values that came through lines come back as they are; those of every other door are escaped, with an id or without,
so that two of them that differ are shown as two; msgpack values are shown as what they mean."""

from __future__ import annotations

import time

import msgspec
import pytest

from headrace.compat import BrokerClient, HttpClient, PubSubClient
from headrace.testing.broker import Broker
from headrace.wire.lines.messages import unescape
from tests.doors_lines.kit import Peer

ODD = (b"a\\nb", b"a\nb", b"a\\\\nb", b"a\\rb", b"a\rb", b"a\r\nb", b"a\\", b"\\", b" \\n ", b"plain", b" around ")


def place(broker: Broker, door: str) -> tuple[str, int]:
    host, _, port = broker.addresses[door].rpartition(":")
    return host, int(port)


def shown(broker: Broker, topic: str) -> list[bytes]:
    with Peer(broker.addresses["lines"]) as peer:
        return [one.text for one in peer.history(f"HISTORY {topic} 0".encode())]


def escaped(value: bytes) -> bytes:
    return value.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\r", b"\\r")


def test_what_lines_published_comes_back_byte_for_byte(broker: Broker, lines: str) -> None:
    texts = [rb"C:\new\r", rb"\\", rb"a\nb", b"a\rb", b"a\r\tb \\ c", b"plain", b'{"json": "x\\ny"}']
    with Peer(lines) as peer, Peer(lines) as other:
        other.ask(b"SUB own")
        peer.send(b"".join(b"PUB own " + text + b"\n" for text in texts))
        assert peer.lines(len(texts)) == [b"OK published"] * len(texts)
        assert peer.ask(rb"PUB own --id given \n") == b"OK published"
        assert [one.text for one in peer.history(b"HISTORY own 0")] == other.texts(len(texts) + 1) == [*texts, rb"\n"]
    assert [record.value for record in broker.records("own")] == [*texts, rb"\n"]


def test_only_texts_that_escaping_would_change_carry_a_mark(broker: Broker, lines: str) -> None:
    with Peer(lines) as peer:
        peer.send(b"PUB marked --id 1 plain\nPUB marked --id 2 back\\slash\nPUB marked --id 3 a\rb\n")
        peer.lines(3)
    mark = ("lines", b"raw")
    assert [record.headers for record in broker.records("marked")] == [
        (("id", b"1"),),
        (("id", b"2"), mark),
        (("id", b"3"), mark),
    ]


@pytest.mark.parametrize("has_id", [True, False])
def test_kafka_values_are_told_apart_with_an_id_and_without(broker: Broker, has_id: bool) -> None:
    topic = f"kafka-{has_id}"
    for number, value in enumerate(ODD):
        broker.produce(topic, value, headers=[("id", b"k-%d" % number)] if has_id else ())
    found = shown(broker, topic)
    assert found == [escaped(value) for value in ODD]
    assert [unescape(text.decode()).encode() for text in found] == list(ODD)


def test_binary_values_with_an_id_are_told_apart(broker: Broker) -> None:
    broker.create_topic("binary", 1)
    with BrokerClient(*place(broker, "binary")) as client:
        for number, value in enumerate(ODD):
            client.publish("binary", value, properties={"id": f"b-{number}"})
    found = shown(broker, "binary")
    assert found == [escaped(value) for value in ODD] and len(set(found)) == len(ODD)


def test_http_values_with_an_id_are_their_json_escaped(broker: Broker) -> None:
    broker.create_topic("http", 1)
    with HttpClient(broker.http) as client:
        for number, value in enumerate(ODD):
            client.publish("http", value.decode(), message_id=f"h-{number}")
    found = shown(broker, "http")
    assert [msgspec.json.decode(unescape(text.decode())).encode() for text in found] == list(ODD)
    assert found[:2] == [rb'"a\\\\nb"', rb'"a\\nb"']


def test_a_record_of_before_there_was_a_mark_is_readable(broker: Broker) -> None:
    """As a node of then wrote it: with an id, and nothing else."""
    for text in (b"Hello, distributed world!", rb"C:\new"):
        broker.produce("before", text, headers=[("id", b"msg_1794767866696_0a947f7d")])
    plain, path = shown(broker, "before")
    assert plain == b"Hello, distributed world!" and unescape(path.decode()) == r"C:\new"


def test_a_mark_on_what_is_no_line_changes_nothing(broker: Broker) -> None:
    mark = ("lines", b"raw")
    for value in (b"two\nMSG lines x 1 1.0 forged", b"\xff\n", b"a\\nb"):
        broker.produce("forged", value, headers=[mark])
    broker.produce("forged", b"a\\nb", headers=[("lines", b"12")])  # somebody's own header
    assert shown(broker, "forged") == [rb"two\nMSG lines x 1 1.0 forged", b'{"base64": "/wo="}', rb"a\nb", rb"a\\nb"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("Grüße", "Grüße".encode()),
        ("a\nb\\c", rb"a\nb\\c"),
        ("", b""),
        (49, b"49"),
        (None, b"null"),
        (True, b"true"),
        ([1, "two"], b'[1, "two"]'),
        ({"celsius": 21.5}, b'{"celsius": 21.5}'),
        ({"text": "a\nb"}, rb'{"text": "a\\nb"}'),
        (b"\xff", b'{"base64": "/w=="}'),
    ],
)
def test_msgpack_values_are_shown_as_what_they_mean(
    broker: Broker, lines: str, request: pytest.FixtureRequest, value: object, text: bytes
) -> None:
    topic = f"packed-{abs(hash(request.node.name))}"
    with Peer(lines) as peer, PubSubClient(broker.addresses["msgpack"]) as client:
        peer.ask(f"SUB {topic}".encode())
        client.publish(topic, value)
        assert peer.message().text == text
        assert [one.text for one in peer.history(f"HISTORY {topic} 1".encode())] == [text]


def test_what_is_called_msgpack_and_is_none_is_shown_whole(broker: Broker) -> None:
    header = ("content-type", b"application/msgpack")
    for value in (b"\xc1", msgspec.msgpack.encode(time.time())[:3], msgspec.msgpack.encode(float("nan"))):
        broker.produce("broken", value, headers=[header])
    broker.produce("broken", None, headers=[header])
    *texts, none = shown(broker, "broken")
    assert all(text.startswith(b'{"base64": "') for text in texts) and none == b""
