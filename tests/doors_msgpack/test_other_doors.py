"""One log behind all doors: what enters here is read elsewhere, and what enters elsewhere is delivered here."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from headrace.testing.broker import Broker
from tests.doors_msgpack.kit import LIMIT_S, Raw, delivery, publish, subscribe, text
from tests.support import serving, wait_until

HEADERS = (("content-type", b"application/msgpack"),)


def produced(broker: Broker, topic: str, *records: tuple[bytes | None, tuple[tuple[str, bytes], ...]]) -> None:
    from headrace.client.blocking import Client

    with Client(broker.kafka) as client, client.producer() as producer:
        for value, headers in records:
            producer.put(topic, value, headers=headers)
        producer.flush()


def test_a_publish_makes_a_memory_topic_that_kafka_clients_read(broker: Broker, msgpack: str) -> None:
    with Raw(msgpack) as client:
        client.send(publish("readable", b"\x93\x01\xd0\x02\xc3"))
        client.in_order()
    (record,) = broker.wait_for("readable", 1)
    assert (record.value, record.headers, record.key) == (b"\x93\x01\x02\xc3", HEADERS, None)
    assert broker.topics()["readable"] == 1


def test_a_topic_on_disk_is_appended_to_and_survives(tmp_path: Path) -> None:
    with serving(tmp_path) as node:
        host, _, port = node.addresses["lines"].rpartition(":")
        with socket.create_connection((host, int(port))) as link:  # which makes it, on disk
            link.sendall(b"PUB kept first\n")
            link.settimeout(LIMIT_S)
            found = b""
            while not found.endswith(b"OK published\n"):
                found += link.recv(1000)
        with Raw(node.addresses["msgpack"]) as client:
            client.send(subscribe("kept"), publish("kept", text("second")))
            client.expect(delivery("kept", text("second")))
        node.kill()
        node.start()
        with socket.create_connection((host, int(port))) as link:
            link.sendall(b"HISTORY kept 10\n")
            link.settimeout(LIMIT_S)
            found = b""
            while not found.endswith(b"OK history end\n"):
                found += link.recv(1000)
            assert b" first\n" in found
            assert b" second\n" in found


@pytest.mark.parametrize(
    ("value", "headers", "delivered"),
    [
        (b"text", (), b"\xa4text"),
        ("né".encode(), (), b"\xa3n\xc3\xa9"),
        (b"", (), b"\xa0"),
        (b'{"a":1}', (), b'\xa7{"a":1}'),
        (b"\xff\x00", (), b"\xc4\x02\xff\x00"),
        (b"x" * 300, (), b"\xda\x01\x2c" + b"x" * 300),
        (b"\xff" * 70_000, (), b"\xc6\x00\x01\x11\x70" + b"\xff" * 70_000),
        (None, (), b"\xc0"),
        (b"\xcf" + b"\x00" * 7 + b"\x05", HEADERS, b"\x05"),
        (b"\x81\xa1k\xc3", HEADERS, b"\x81\xa1k\xc3"),
        (b"\xc1\xff", HEADERS, b"\xc4\x02\xc1\xff"),
        (b"\x01\x02", HEADERS, b"\xa2\x01\x02"),
        (b"text", (("content-type", b"text/plain"),), b"\xa4text"),
    ],
)
def test_a_record_of_another_door_is_text_if_it_can_be_else_bytes(
    broker: Broker, msgpack: str, value: bytes | None, headers: tuple[tuple[str, bytes], ...], delivered: bytes
) -> None:
    with Raw(msgpack) as client:
        client.send(subscribe("from-kafka"))
        client.in_order()
        produced(broker, "from-kafka", (value, headers), (b"end", ()))
        client.expect(delivery("from-kafka", delivered), delivery("from-kafka", b"\xa3end"))


def test_a_memory_topic_takes_records_of_other_doors_between_its_own(broker: Broker, msgpack: str) -> None:
    with Raw(msgpack) as client:
        client.send(subscribe("mixed"), publish("mixed", b"\x01"))
        client.expect(delivery("mixed", b"\x01"))
        produced(broker, "mixed", (b"two", ()))
        client.expect(delivery("mixed", b"\xa3two"))
        client.send(publish("mixed", b"\x03"))
        client.expect(delivery("mixed", b"\x03"))
    assert [record.value for record in broker.wait_for("mixed", 3)] == [b"\x01", b"two", b"\x03"]


def test_a_topic_with_several_partitions_is_written_in_turn_and_read_whole(broker: Broker, msgpack: str) -> None:
    broker.create_topic("wide", 3)
    with Raw(msgpack) as client:
        client.send(subscribe("wide"))
        for number in range(30):
            client.send(publish("wide", bytes([number])))
        found = sorted(client.exactly(len(delivery("wide", b"\x00"))) for _ in range(30))
        assert found == [delivery("wide", bytes([number])) for number in range(30)]
    counts = [len(broker.records("wide", partition)) for partition in range(3)]
    assert counts == [10, 10, 10]


def test_what_a_topic_does_not_take_is_counted_and_told_and_the_client_stays(broker: Broker, msgpack: str) -> None:
    broker.create_topic("keyed", 1, {"cleanup.policy": "compact"})
    broker.create_topic("tiny", 1, {"max.message.bytes": "500"})
    with Raw(msgpack) as client:
        client.send(subscribe("keyed"), subscribe("tiny"))
        client.send(publish("keyed", b"\x01"), publish("tiny", b"\xda\x03\xe8" + b"x" * 1000))
        client.send(publish("tiny", b"\x01"), *(publish("tiny", b"\xd9\x64" + b"x" * 100) for _ in range(20)))
        client.expect(delivery("tiny", b"\x01"), *(delivery("tiny", b"\xd9\x64" + b"x" * 100) for _ in range(20)))
        client.expect_nothing()
        wait_until(lambda: any(event.name == "msgpack.refused" for event in broker.events))
    assert broker.values("keyed") == []
    assert len(broker.values("tiny")) == 21


def test_a_full_disk_refuses_what_is_for_the_disk_and_nothing_of_it_is_delivered() -> None:
    with Broker("disk", topics=["kept"]) as broker, Raw(broker.addresses["msgpack"]) as client:
        client.send(subscribe("*"), publish("kept", b"\x01"))
        client.expect(delivery("kept", b"\x01"))
        broker.fill_disk()
        client.send(publish("kept", b"\x02"), publish("kept", b"\x03"), publish("ring", b"\x04"))
        client.expect(delivery("ring", b"\x04"))
        client.expect_nothing()
        broker.free_disk()
        client.send(publish("kept", b"\x05"))
        client.expect(delivery("kept", b"\x05"))
        assert broker.values("kept") == [b"\x01", b"\x05"]
        wait_until(lambda: any(event.name == "msgpack.refused" for event in broker.events))
        (event,) = [event for event in broker.events if event.name == "msgpack.refused"]
        assert event.fields["records"] == 2


def test_the_brokers_own_topics_are_not_made_by_a_publish(broker: Broker, msgpack: str) -> None:
    with Raw(msgpack) as client:
        client.send(publish("__consumer_offsets", b"\x01"))
        client.in_order()
    assert "__consumer_offsets" not in broker.topics()
