"""Whatever door a record came through, and whether its publisher named it: everybody who shows ids shows the same."""

from __future__ import annotations

import json
import struct
from contextlib import closing
from itertools import islice
from typing import Any

import pytest

import headrace
from headrace.compat import BrokerClient, HttpClient, SyncConsumer
from tests.doors_binary import raw as binary
from tests.doors_json import kit as json_kit
from tests.doors_lines import kit as lines
from tests.matrix.ports import DOORS, connect
from tests.matrix.test_matrix import own
from tests.support import ServedBroker


def place(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def of_lines(node: ServedBroker, topic: str, count: int) -> list[str]:
    with lines.Peer(node.addresses["lines"]) as peer, peer.socket.makefile("rb") as file:
        peer.socket.sendall(f"HISTORY {topic} {count}\n".encode())
        return [lines.shown(file.readline().removesuffix(b"\n")).id.decode() for _ in range(count)]


def of_json(node: ServedBroker, topic: str) -> list[str]:
    asked = json.dumps({"type": "consume", "topic_name": topic, "limit": 100}).encode()
    return [one["id"] for one in json.loads(json_kit.reply(node.addresses["json"], asked))["message"]]


def of_binary(node: ServedBroker, topic: str) -> list[str]:
    with connect(node.addresses["binary"]) as to, to.makefile("rb") as file:
        to.sendall(binary.frame(binary.SUBSCRIBE, 1, {"topic": topic, "limit": "100"}))
        length = file.read(4)
        body = binary.parse(length + file.read(struct.unpack(">I", length)[0] - 4)).body
    found = []
    while body:
        (size,) = struct.unpack_from(">I", body)
        found.append(binary.parse(body[:size]).properties["id"])
        body = body[size:]
    return found


def of_http(node: ServedBroker, doors: dict[str, Any], topic: str) -> list[list[str]]:
    """Of a range, a poll and a stream."""
    _, page = doors["http"].ask("GET", f"/topics/{topic}/records")
    told = [one["id"] for one in page["records"]]
    with HttpClient(node.addresses["http"]) as client:
        polled = [record.id or "" for record in client.poll(topic, from_offset=0, timeout_ms=0).records]
        with closing(client.stream(topic, from_offset=0)) as stream:
            return [told, polled, [record.id or "" for record in islice(stream, len(told))]]


def of_python(node: ServedBroker, topic: str) -> list[str]:
    with headrace.Consumer(node.addresses["kafka"], topic, follow=False) as consumer:
        return [record.id for record in consumer]


def of_compatible_clients(node: ServedBroker, topic: str) -> list[list[str]]:
    with BrokerClient(*place(node.addresses["binary"])) as client:
        ours = [message.id for message in client.records(topic)]
    return [ours, [record.id for record in SyncConsumer(*place(node.addresses["json"])).records(topic)]]


@pytest.mark.parametrize("into", DOORS)
def test_every_record_has_an_id_and_everybody_shows_the_same(
    into: str, node: ServedBroker, doors: dict[str, Any]
) -> None:
    topic = f"ids-{into}"
    assert doors["http"].ask("POST", f"/admin/topics?name={topic}&rf=1")[0] == 200
    values = own(into, 100)[:2]
    for value in values:
        doors[into].publish(topic, value)
    with headrace.Producer(node.addresses["kafka"]) as producer:
        producer.send(topic, "named", headers=[("id", b"order-7")])
    found = of_lines(node, topic, 3)
    assert len(set(found)) == 3 and found[2] == "order-7"
    assert of_json(node, topic) == of_binary(node, topic) == of_python(node, topic) == found
    assert of_compatible_clients(node, topic) == [found, found]
    assert of_http(node, doors, topic) == [found, found, found]


def test_an_id_that_a_door_cannot_carry_is_shown_there_as_the_one_of_its_place(
    node: ServedBroker, doors: dict[str, Any]
) -> None:
    with headrace.Producer(node.addresses["kafka"]) as producer:
        for number, name in enumerate((b"two words", b"a\0b", b"\xff", b"")):
            producer.send("odd-ids", str(number), headers=[("id", name)])
    derived = of_lines(node, "odd-ids", 4)
    assert len(set(derived)) == 4 and all(one.startswith("msg_0-") for one in derived)
    assert of_json(node, "odd-ids") == of_python(node, "odd-ids") == ["two words", "a\0b", *derived[2:]]
    assert of_binary(node, "odd-ids") == ["two words", *derived[1:]]
