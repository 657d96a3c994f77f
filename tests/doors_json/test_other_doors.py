"""Records of other protocols through the json door, and its own through others; gaps; rules of topics."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import Producer

from headrace import connect
from headrace.compat import Consumer, SyncConsumer
from headrace.testing.broker import Broker
from tests.doors_json.kit import Kept, consume, publish, reply, request
from tests.doors_lines.kit import Peer
from tests.support import Wire


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b'{"a": [1, "\xc3\xbc"]}', {"a": [1, "ü"]}),
        (b"12", 12),
        (b"plain text", "plain text"),
        (b"NaN", "NaN"),
        (b"\x00\xff", {"base64": "AP8="}),
        (b"", ""),
        (None, None),
        (b"[" * 5000, "[" * 5000),
    ],
)
def test_a_value_is_json_or_text_or_base64(broker: Broker, door: str, value: bytes | None, message: Any) -> None:
    topic = f"other-{abs(hash(value))}"
    broker.produce(topic, value)
    assert reply(door, request("consume", topic)) == json.dumps({"status": "success", "message": message}).encode()


def test_a_payload_is_kept_as_its_json_text(broker: Broker, door: str) -> None:
    for payload in ("Hello", {"b": "é", "a": None}, 1.5, None):
        publish(door, "texts", payload)
    assert broker.values("texts") == [b'"Hello"', '{"b": "é", "a": null}'.encode(), b"1.5", b"null"]
    with Peer(broker.addresses["lines"]) as peer:
        assert [one.text for one in peer.history(b"HISTORY texts 2")] == [b"1.5", b"null"]
        assert peer.ask(b"PUB texts from lines") == b"OK published"
    assert consume(door, "texts", -1)["message"] == "from lines"


def test_pipelined_publishes_of_one_read_are_one_batch(broker: Broker, door: str) -> None:
    with Kept(door) as kept:
        kept.ask(request("publish", "batched", 0, -1))
        kept.send(*(request("publish", "batched", 0, number) for number in range(300)))
        for _ in range(300):
            kept.line()
    with Wire(broker.kafka) as wire:
        data, at, sizes = b"".join(wire.fetch("batched", 0).pieces or []), 0, []
        while at < len(data):
            sizes.append(int.from_bytes(data[at + 57 : at + 61]))
            at += 12 + int.from_bytes(data[at + 8 : at + 12])
    assert sum(sizes) == 301 and len(sizes) <= 3


def test_an_offset_that_holds_no_record_gives_the_next_one(broker: Broker, door: str) -> None:
    broker.create_topic("gaps", 1)
    producer = Producer({"bootstrap.servers": broker.kafka, "transactional.id": "t"})
    producer.init_transactions()
    for value, ends in (("1", producer.commit_transaction), ('"aborted"', producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce("gaps", value)
        producer.flush()
        ends()
    broker.produce("gaps", "2")
    assert [record.offset for record in broker.records("gaps")][-1] == 4
    assert [consume(door, "gaps", offset)["message"] for offset in (0, 1, 2, 3, 4, -1, -2)] == [1, 2, 2, 2, 2, 2, 1]
    assert consume(door, "gaps", 5)["status"] == consume(door, "gaps", -3)["status"] == "failure"


async def test_messages_come_once_each_past_gaps_and_from_what_retention_left(broker: Broker, door: str) -> None:
    host, _, port = door.rpartition(":")
    aio, sync = Consumer(host, int(port)), SyncConsumer(host, int(port))
    producer = Producer({"bootstrap.servers": broker.kafka, "transactional.id": "once"})
    producer.init_transactions()
    for value in "abc":
        producer.begin_transaction()
        producer.produce("once", value)
        producer.commit_transaction()
    assert [message async for message in aio.messages("once")] == list(sync.messages("once")) == ["a", "b", "c"]
    assert list(sync.messages("once", offset=1)) == list(sync.messages("once", offset=-2)) == ["b", "c"]
    with connect(broker.kafka) as client:
        client.admin.delete_records("once", {0: 1})
    assert [message async for message in aio.messages("once")] == list(sync.messages("once")) == ["b", "c"]
    asked = request("consume", "once", offset=0, with_offset=True)
    assert reply(door, asked) == b'{"status": "success", "message": "b", "offset": 2}'
    assert list(sync.messages("once", offset=6)) == list(sync.messages("nowhere")) == []


def test_what_retention_took_is_no_message(broker: Broker, door: str) -> None:
    for number in range(10):
        publish(door, "trimmed", number)
    with connect(broker.kafka) as client:
        client.admin.delete_records("trimmed", {0: 6})
    assert consume(door, "trimmed", 5)["message"] == "No message available"
    assert consume(door, "trimmed", 6)["message"] == 6
    assert consume(door, "trimmed", -4)["message"] == 6
    assert consume(door, "trimmed", -5)["message"] == "No message available"


def test_a_memory_topic_counts_from_its_first_message_as_a_list_does(broker: Broker, door: str) -> None:
    broker.create_topic("ring", 1, {"headrace.storage": "memory"})
    for number in range(3):
        publish(door, "ring", number)
    assert [consume(door, "ring", at)["message"] for at in range(3)] == [0, 1, 2]
    assert consume(door, "ring", 3)["message"] == "No message available"
    assert consume(door, "ring", -1)["message"] == 2
    first = json.loads(reply(door, request("consume", "ring", offset=0, with_offset=True)))
    assert first["message"] == 0 and first["offset"] > 3
    assert consume(door, "ring", first["offset"] + 1)["message"] == 1


def test_a_topic_s_rules_are_told_in_words(broker: Broker, door: str) -> None:
    broker.create_topic("small", 1, {"max.message.bytes": 100})
    broker.create_topic("compacted", 1, {"cleanup.policy": "compact"})
    assert "max.message.bytes=100" in publish(door, "small", "x" * 200)["message"]
    assert publish(door, "compacted", 1)["message"] == "every record of a compacted topic has a key"
    assert publish(door, "!system/x", 1)["status"] == "failure"
    assert publish(door, "..", 1, 3)["message"] == "a topic cannot be called '..'"


def test_a_missing_topic_is_refused_where_topics_do_not_make_themselves() -> None:
    with Broker(auto_create_topics=False) as broker:
        door = broker.addresses["json"]
        assert publish(door, "nosuch", 1) == {"status": "failure", "message": "no topic 'nosuch'"}
        assert publish(door, "nosuch", 1, 2)["status"] == "failure"
        assert json.loads(reply(door, request("create_topic", "nosuch", 1)))["status"] == "success"
        assert publish(door, "nosuch", 1)["status"] == "success"
        assert publish(door, "nosuch", 1, 2)["status"] == "failure"
