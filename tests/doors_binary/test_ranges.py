"""Ranges through the binary door: by offset and by time, in pages, over a socket, with bytes made by hand."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from headrace import connect
from headrace.broker.ranges import RangeRead
from headrace.compat import AsyncBrokerClient, BrokerClient
from headrace.compat.binary_values import Message, Refused
from headrace.records.ids import derived_id
from headrace.testing import Broker
from headrace.wire.ranges import Bounds, Place, Range
from tests.doors_binary import raw
from tests.doors_binary.running import Running, until

BASE_MS = 1_700_000_000_000


class Link:
    """One connection, and what comes over it."""

    def __init__(self, broker: Broker) -> None:
        host, _, port = broker.addresses["binary"].rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=raw.LIMIT_S)
        self._file = self.socket.makefile("rb")

    def close(self) -> None:
        self._file.close()
        self.socket.close()

    def take(self) -> raw.Got:
        length = self._file.read(4)
        return raw.parse(length + self._file.read(struct.unpack(">I", length)[0] - 4))

    def ask(self, properties: dict[str, Any], kind: int = raw.SUBSCRIBE, body: bytes = b"") -> raw.Got:
        given = {name: str(value) for name, value in properties.items()}
        self.socket.sendall(raw.frame(kind, 77, given, body))
        got = self.take()
        assert (got.type, got.sequence) == (raw.ACK, 77)
        return got

    def page(self, **asked: Any) -> tuple[list[raw.Got], str | None]:
        got = self.ask({"topic": "t", **asked})
        said = dict(got.said)
        assert said.pop("status") == "success", said
        messages = inside(got.body)
        assert (said.pop("topic"), said.pop("count")) == (asked.get("topic", "t"), str(len(messages)))
        next_page = said.pop("next_page", None)
        assert not said
        return messages, next_page

    def read(self, **asked: Any) -> list[tuple[int, int]]:
        """All pages of a range: partition and offset of each message."""
        found: list[tuple[int, int]] = []
        more: dict[str, str] = {}
        while True:
            messages, page = self.page(**asked, **more)
            found += [(int(one.properties["partition"]), one.sequence) for one in messages]
            if page is None:
                return found
            more = {"page": page}

    def refused(self, **asked: Any) -> str:
        got = self.ask({"topic": "t", **asked})
        assert got.body == b"" and [name for name, _ in got.said] == ["status", "error"]
        assert got.properties["status"] == "error"
        return got.properties["error"]


def inside(body: bytes) -> list[raw.Got]:
    found = []
    while body:
        (size,) = struct.unpack_from(">I", body)
        found.append(raw.parse(body[:size]))
        assert found[-1].type == raw.DATA
        body = body[size:]
    return found


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as found:
        yield found


@pytest.fixture
def link(broker: Broker) -> Iterator[Link]:
    found = Link(broker)
    yield found
    found.close()


def fill(broker: Broker, count: int, partitions: int = 1, size: int = 0, topic: str = "t") -> None:
    """Message n of each partition is of BASE_MS + n seconds."""
    broker.create_topic(topic, partitions)
    producer = Producer({"bootstrap.servers": broker.kafka})
    for partition in range(partitions):
        for number in range(count):
            value = b"%d" % number + b"x" * size
            producer.produce(topic, value, partition=partition, timestamp=BASE_MS + number * 1000)
        assert producer.flush(raw.LIMIT_S) == 0


def of_one(start: int, end: int) -> list[tuple[int, int]]:
    return [(0, offset) for offset in range(start, end)]


def test_a_range_is_what_lies_in_it(broker: Broker, link: Link) -> None:
    fill(broker, 50)
    for bounds, start, end in (
        ({"limit": 1000}, 0, 50),
        ({"offset": 10, "limit": 1000}, 10, 50),
        ({"to": 10}, 0, 10),
        ({"offset": 10, "to": 20}, 10, 20),
        ({"offset": 49, "to": 1 << 62}, 49, 50),
        ({"offset": 50, "to": 60}, 0, 0),
        ({"offset": 1 << 70, "to": 1 << 71}, 0, 0),
        ({"offset": 20, "to": 10}, 0, 0),
        ({"since": BASE_MS + 10_000}, 10, 50),
        ({"since": BASE_MS + 9_001}, 10, 50),
        ({"since": "2023-11-14T22:13:30Z"}, 10, 50),
        ({"until": BASE_MS + 10_000}, 0, 10),
        ({"since": 0, "until": "2030-01-01"}, 0, 50),
        ({"since": "2030-01-01"}, 0, 0),
        ({"offset": 5, "until": BASE_MS + 10_000}, 5, 10),
        ({"offset": 5, "since": BASE_MS + 10_000, "to": 12, "until": BASE_MS + 40_000}, 10, 12),
    ):
        assert link.read(**bounds) == link.read(**{"limit": 7, **bounds}) == of_one(start, end), bounds


def test_a_page_goes_on_where_the_last_one_ended(broker: Broker, link: Link) -> None:
    fill(broker, 10)
    messages, page = link.page(limit=4)
    assert [(one.sequence, one.body, one.at_ms) for one in messages] == [
        (n, b"%d" % n, BASE_MS + n * 1000) for n in range(4)
    ]
    assert page == "0-4"
    assert link.page(limit=100, page=page)[1] is None
    broker.produce("t", b"news")
    [news], _ = link.page(page="0-10")
    assert (news.sequence, news.body) == (10, b"news")
    assert link.page(page="7-0") == ([], None)


def test_a_page_has_as_many_as_a_megabyte_holds_and_one_at_least(broker: Broker, link: Link) -> None:
    fill(broker, 300, size=10_000)
    messages, page = link.page(limit=10_000)
    assert 90 < len(messages) < 115 and page == f"0-{len(messages)}"
    assert link.read(limit=10_000) == of_one(0, 300)
    broker.create_topic("large", 1, {"max.message.bytes": 8_000_000})
    producer = Producer({"bootstrap.servers": broker.kafka, "message.max.bytes": 8_000_000})
    for _ in range(2):
        producer.produce("large", bytes(5_000_000))
        producer.flush()
    messages, page = link.page(topic="large", limit=10)
    assert [len(one.body) for one in messages] == [5_000_000] and page == "0-1"


def test_a_page_has_a_thousand_messages_unless_it_is_said_and_ten_thousand_at_most(broker: Broker, link: Link) -> None:
    fill(broker, 10_500)
    assert len(link.page(since=0)[0]) == 1000
    messages, page = link.page(limit=1 << 70)
    assert len(messages) <= 10_000 and page == f"0-{len(messages)}"
    assert link.read(limit=10_000) == of_one(0, 10_500)


def test_all_partitions_come_one_after_the_other(broker: Broker, link: Link) -> None:
    fill(broker, 20, partitions=3)
    everything = [(partition, offset) for partition in range(3) for offset in range(20)]
    assert link.read(limit=1000) == link.read(limit=7) == link.read(limit=20, offset=0) == everything
    assert link.read(limit=7, partition=1) == everything[20:40]
    late = [(partition, offset) for partition in range(3) for offset in range(15, 20)]
    assert link.read(since=BASE_MS + 15_000, limit=4) == late
    own = "Missing 'partition' property: topic 't' has 3 partitions, each with its own offsets"
    assert link.refused(offset=3, limit=1) == link.refused(to=3) == own
    assert link.refused(partition=3, limit=1) == "Partition 3 does not exist for topic 't'"
    assert link.read(partition=2, offset=18, to=100) == [(2, 18), (2, 19)]


def test_the_newest_so_many(broker: Broker, link: Link) -> None:
    fill(broker, 20, partitions=3)
    assert link.read(last=4, partition=1) == [(1, offset) for offset in range(16, 20)]
    merged = link.read(last=6)
    assert sorted(merged) == [(partition, offset) for partition in range(3) for offset in (18, 19)]
    assert [offset for _, offset in merged] == [18, 18, 18, 19, 19, 19]
    assert len(link.read(last=1 << 40)) == 60


def test_what_retention_took_is_passed_over(broker: Broker, link: Link) -> None:
    fill(broker, 20)
    _, page = link.page(limit=5)
    with connect(broker.kafka) as client:
        client.admin.delete_records("t", {0: 12})
    assert link.read(page=page) == link.read(offset=3, limit=3) == link.read(since=BASE_MS) == of_one(12, 20)
    assert link.read(to=12) == []


async def test_what_retention_takes_while_a_page_is_read_is_passed_over(binary: Running) -> None:
    client = await binary.client()
    await client.create("t")
    for number in range(20):
        await client.publish("t", b"%d" % number)
    topic = binary.node.broker.topic("t")
    assert topic is not None
    read = RangeRead(binary.node.broker, topic, Range("t", bounds=Bounds(to_offset=18)))
    assert [record.offset for _, record in await read.more(3, 1 << 20)] == [0, 1, 2]
    await binary.node.broker.delete_records(topic.partitions[0], 12)
    assert [record.offset for _, record in await read.more(4, 1 << 20)] == [12, 13, 14, 15]
    assert read.place == Place(0, 16)
    await binary.node.broker.delete_records(topic.partitions[0], 20)
    assert await read.more(4, 1 << 20) == [] and read.place is None


def test_gaps_are_stepped_over_and_nothing_is_seen_that_is_not_committed(broker: Broker, link: Link) -> None:
    broker.create_topic("t", 1)
    producer = Producer({"bootstrap.servers": broker.kafka, "transactional.id": "t"})
    producer.init_transactions()
    for value, ends in ((b"1", producer.commit_transaction), (b"gone", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce("t", value)
        producer.flush()
        ends()
    broker.produce("t", b"2")
    producer.begin_transaction()
    producer.produce("t", b"open")
    producer.flush()
    broker.produce("t", b"behind it")
    assert link.read(limit=10) == link.read(limit=1) == [(0, 0), (0, 4)]
    assert link.read(last=10) == [(0, 0), (0, 4)] and link.read(offset=1, to=4) == []
    producer.commit_transaction()
    assert link.read(limit=1) == [(0, 0), (0, 4), (0, 5), (0, 6)]


def test_a_topic_in_memory_has_ranges(broker: Broker, link: Link) -> None:
    broker.create_topic("t", 1, {"headrace.storage": "memory"})
    producer = Producer({"bootstrap.servers": broker.kafka})
    for number in range(5):
        producer.produce("t", b"%d" % number, timestamp=BASE_MS + number)
    producer.flush()
    assert [one.body for one in link.page(limit=10)[0]] == [b"0", b"1", b"2", b"3", b"4"]
    [third, fourth], _ = link.page(since=BASE_MS + 2, until=BASE_MS + 4)
    assert (third.body, fourth.body) == (b"2", b"3")
    assert link.read(offset=third.sequence, to=fourth.sequence) == [(0, third.sequence)]


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"limit": "x"}, "invalid literal for int() with base 10: 'x'"),
        ({"limit": "0"}, "Invalid limit 0"),
        ({"offset": "-1", "limit": "1"}, "Invalid offset -1"),
        ({"since": "soon"}, "since is milliseconds since 1970 or a time like 2026-01-31T12:00:00Z"),
        ({"page": "x"}, "page is what a reply before gave as next_page"),
        ({"last": "1", "page": "0-1"}, "'last' is asked for without 'page'"),
        ({"limit": "1", "group": "g"}, "A range is read without 'group'"),
        ({"limit": "1", "topic": "none"}, "Topic 'none' does not exist"),
        ({"limit": "1", "topic": ""}, "Missing 'topic' property"),
    ],
)
def test_bad_values_are_told_and_the_connection_goes_on(
    broker: Broker, link: Link, asked: dict[str, str], text: str
) -> None:
    fill(broker, 3)
    assert link.refused(**asked) == text
    assert link.read(limit=2) == of_one(0, 3)


def test_a_range_sees_what_was_published_before_it_on_the_connection_and_subscribes_to_nothing(
    broker: Broker, link: Link
) -> None:
    broker.create_topic("t", 1)
    publish, beat = {"topic": "t", "client_id": "p", "color": "red"}, raw.frame(raw.HEARTBEAT, 9, {})
    sent = [raw.frame(raw.PUBLISH, n, publish, b"%d" % n) for n in range(3)]
    link.socket.sendall(b"".join([*sent, raw.frame(raw.SUBSCRIBE, 3, {"topic": "t", "limit": "9"}), sent[0], beat]))
    got = [link.take() for _ in range(6)]
    assert [one.sequence for one in got] == [0, 1, 2, 3, 0, 9]
    bodies = inside(got[3].body)
    assert [one.body for one in bodies] == [b"0", b"1", b"2"]
    assert [name for name, _ in bodies[0].pairs] == [
        "topic",
        "client_id",
        "color",
        "created_at",
        "version",
        "partition",
        "id",
    ]
    assert got[5].type == raw.HEARTBEAT  # and no message came before it: nobody subscribed


def test_a_message_in_a_page_is_the_one_that_a_subscriber_gets_with_its_partition_and_id(
    broker: Broker, link: Link
) -> None:
    broker.create_topic("t", 2)
    link.ask({"topic": "t", "client_id": "p", "partition": "1", "key": "k", "id": "m-1"}, raw.PUBLISH, b"one")
    link.ask({"topic": "t", "client_id": "p"}, raw.PUBLISH, b"two")
    [two, one], _ = link.page(limit=5)
    for offset, partition, shown in ((0, "1", one), (0, "0", two)):
        other = Link(broker)
        other.ask({"topic": "t", "client_id": "s", "partition": partition, "replay": "true"})
        subscribed = other.take()
        assert subscribed.sequence == shown.sequence == offset
        assert subscribed.body == shown.body and subscribed.at_ms == shown.at_ms
        added = {"partition": partition, "id": "m-1" if shown is one else derived_id("t", 0, 0)}
        assert shown.properties == {**subscribed.properties, **added}
        other.close()
    assert one.raw == subscribed_bytes(broker, "1")


def subscribed_bytes(broker: Broker, partition: str) -> bytes:
    link = Link(broker)
    link.ask({"topic": "t", "client_id": "again", "partition": partition, "replay": "true"})
    found = link.take().raw
    link.close()
    return found


def test_the_brokers_own_topics_are_not_read(broker: Broker, link: Link) -> None:
    broker.create_topic("t", 1)
    assert "the broker's own" in link.refused(topic="__consumer_offsets", limit=1)


async def test_who_asks_for_many_pages_and_takes_none_is_given_few(binary: Running) -> None:
    client, other = await binary.client(), await binary.client()
    await client.create("t")
    await client.send(b"".join(raw.frame(raw.PUBLISH, n, {"topic": "t"}, bytes(1000)) for n in range(1, 1001)))
    for _ in range(1000):
        await client.take()
    await client.send(raw.frame(raw.SUBSCRIBE, 5, {"topic": "t", "limit": "10000"}) * 60)
    await until(lambda: any(one.is_full for one in binary.door.connections()))
    for _ in range(5):  # nobody waits for it
        await other.send(raw.frame(raw.SUBSCRIBE, 6, {"topic": "t", "limit": "10000"}))
        assert len(inside((await other.take()).body)) > 900
    assert max(one.unsent_bytes() for one in binary.door.connections()) < 4 << 20
    for _ in range(60):
        assert len(inside((await client.take()).body)) > 900
    assert not binary.faults


def place(broker: Broker) -> tuple[str, int]:
    host, _, port = broker.addresses["binary"].rpartition(":")
    return host, int(port)


def offsets(messages: list[Message]) -> list[tuple[int, int]]:
    return [(one.partition, one.offset) for one in messages]


def test_the_client_reads_ranges_pages_and_the_last(broker: Broker) -> None:
    fill(broker, 2500, partitions=2)
    with BrokerClient(*place(broker), "me") as client:
        everything = list(client.records("t"))
        assert offsets(everything) == [(partition, offset) for partition in range(2) for offset in range(2500)]
        assert [one.text for one in everything[:3]] == ["0", "1", "2"]
        assert offsets(list(client.records("t", partition=1, offset=5, to=8))) == [(1, 5), (1, 6), (1, 7)]
        assert len(list(client.records("t", limit=1200))) == 1200 and not list(client.records("t", limit=0))
        window = client.records("t", since=BASE_MS + 1000, until="2023-11-14T22:13:22Z")
        assert offsets(list(window)) == [(0, 1), (1, 1)]
        first = client.page("t", limit=2, partition=0)
        assert offsets(first.messages) == [(0, 0), (0, 1)] and first.next_page == "0-2"
        assert offsets(client.page("t", limit=1, partition=0, page=first.next_page).messages) == [(0, 2)]
        assert offsets(client.history("t", 2, partition=1)) == [(1, 2498), (1, 2499)]
        assert len(client.history("t")) == 10
        with pytest.raises(Refused, match="Topic 'none' does not exist"):
            list(client.records("none"))


async def test_the_async_client_does_the_same(broker: Broker) -> None:
    fill(broker, 1500)
    async with AsyncBrokerClient(*place(broker), "me") as client:
        assert offsets([one async for one in client.records("t")]) == of_one(0, 1500)
        assert offsets([one async for one in client.records("t", limit=1001, offset=3)]) == of_one(3, 1004)
        page = await client.page("t", limit=2, offset=7)
        assert offsets(page.messages) == of_one(7, 9) and page.next_page == "0-9"
        assert offsets(await client.history("t", 1)) == [(0, 1499)]
        with pytest.raises(Refused, match="Invalid offset -1"):
            await client.page("t", offset=-1)
