"""Ranges through the json door: by offset and by time, in pages; without a socket, and over one with bytes by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from headrace import connect
from headrace.compat import Consumer, SyncConsumer
from headrace.compat.json_values import JsonRecord, JsonRefused, NoMessage
from headrace.records.ids import derived_id
from headrace.testing import Broker
from headrace.wire.json import ranges, requests
from headrace.wire.json.framing import Document, Requests
from headrace.wire.json.requests import Consume, Publish, Refused
from headrace.wire.ranges import Bounds, Place, Range
from tests.doors_json.kit import LIMIT_S, Kept, publish, reply, request

BASE_MS = 1_700_000_000_000
WHOLE: dict[str, Any] = {
    "type": "consume",
    "topic_name": "t",
    "partition": "1",
    "payload": None,
    "from": 5,
    "to": 9,
    "since": BASE_MS,
    "until": "2023-11-14T22:13:21Z",
    "limit": 7,
    "page": "1-6",
}


# Without a socket


@pytest.mark.parametrize("size", [1, 3, 10_000])
@pytest.mark.parametrize("begin", [b"", b"\n"])
def test_a_request_says_the_same_in_whatever_pieces_it_comes(size: int, begin: bytes) -> None:
    data, reader, found = begin + json.dumps(WHOLE).encode() + begin, Requests(1 << 20), []
    for at in range(0, len(data), size):
        found += reader.take(data[at : at + size])
    [document] = found
    assert isinstance(document, Document)
    bounds = Bounds(5, 9, BASE_MS, BASE_MS + 1000)
    assert requests.parse(document.data) == Range("t", 1, bounds, 7, Place(1, 6))


def test_a_large_request_says_the_same_and_so_do_others_whatever_keys_they_have() -> None:
    large = "x" * 200_000
    bounds = Bounds(5, 9, BASE_MS, BASE_MS + 1000)
    assert requests.parse(json.dumps(WHOLE | {"payload": large}).encode()) == Range("t", 1, bounds, 7, Place(1, 6))
    words = json.dumps(WHOLE | {"since": "9" * 5000, "payload": large}).encode()
    assert requests.parse(words) == Refused("the request is not JSON: since has 5002 bytes")
    odd = {"limit": "x" * 5000, "from": [1], "page": {}, "last": -1}
    for payload in ("small", large):
        document = json.dumps({"type": "publish", "topic_name": "t", "payload": payload, **odd}).encode()
        assert requests.parse(document) == Publish("t", 0, "0", json.dumps(payload).encode())


def test_nothing_that_clients_of_the_protocol_send_is_a_range() -> None:
    for more in ({}, {"offset": 3}, {"payload": None}, {"offset": -1, "with_offset": True}, {"before": 1, "key": "k"}):
        document = json.dumps({"type": "consume", "topic_name": "t", "partition": 0, **more}).encode()
        assert isinstance(requests.parse(document), Consume)


def test_null_says_no_more_than_a_key_that_is_missing() -> None:
    nulls = {"type": "consume", "topic_name": "t", **dict.fromkeys(ranges.NAMES)}
    bounds: list[tuple[dict[str, Any], Range]] = [
        ({"limit": 1000}, Range("t")),
        ({"from": 0}, Range("t", None, Bounds(0))),
        ({"since": 0}, Range("t", None, Bounds(since_ms=0))),
        ({"page": "0-8"}, Range("t", page=Place(0, 8))),
        ({"last": 3}, Range("t", last=3)),
    ]
    for more, meant in bounds:
        assert requests.parse(json.dumps(nulls | more).encode()) == meant
    assert requests.parse(requests.encode_range("t")) == Range("t")
    assert requests.parse(requests.encode_range("t", page=None, partition=1)) == Range("t", 1)
    assert requests.parse(requests.encode_range("t", from_=3, partition=1)) == Range("t", 1, Bounds(3))


@pytest.mark.parametrize("names", [*((name,) for name in ranges.NAMES), ranges.NAMES], ids="+".join)
def test_a_consume_with_nothing_but_nulls_is_for_one_message_as_it_always_was(
    names: tuple[str, ...], door: str
) -> None:
    spare: dict[str, Any] = dict.fromkeys(names)
    for payload in (None, "x" * 200_000):
        document = request("consume", "t", 1, payload, offset=-1, with_offset=True, **spare)
        assert requests.parse(document) == Consume("t", 1, -1, True)
    topic = "-".join(names)
    publish(door, topic, "one")
    assert reply(door, request("consume", topic, offset=0, **spare)) == b'{"status": "success", "message": "one"}'


TIME = "is milliseconds since 1970 or a time like 2026-01-31T12:00:00Z"
BAD: list[tuple[dict[str, Any], str]] = [
    ({"limit": 0}, "limit is a whole number from 1 on"),
    ({"limit": "7"}, "limit is a whole number from 1 on"),
    ({"limit": True}, "limit is a whole number from 1 on"),
    ({"last": 0}, "last is a whole number from 1 on"),
    ({"from": -1}, "from is a whole number from 0 on"),
    ({"to": 1.5}, "to is a whole number from 0 on"),
    ({"since": "soon"}, f"since {TIME}"),
    ({"since": -1}, f"since {TIME}"),
    ({"until": [1]}, f"until {TIME}"),
    ({"until": False}, f"until {TIME}"),
    ({"until": 1 << 63}, f"until {TIME}"),
    ({"page": 3}, "page is what a reply before gave as next_page"),
    ({"page": "x"}, "page is what a reply before gave as next_page"),
    ({"last": 1, "since": 0}, "last is asked for without since"),
    ({"limit": 1, "offset": 3}, "offset asks for one message; a range begins at from, or since"),
    ({"limit": 1, "partition": -1}, "partition is a whole number from 0 on"),
    ({"limit": 1, "topic_name": 3}, "topic_name is the name of a topic"),
]


@pytest.mark.parametrize(("asked", "why"), BAD)
def test_what_cannot_be_meant_is_told(asked: dict[str, Any], why: str, door: str) -> None:
    document = json.dumps({"type": "consume", "topic_name": "t", **asked}).encode()
    assert requests.parse(document) == Refused(why)
    told = json.dumps({"status": "failure", "message": why}).encode()
    assert reply(door, document) == told
    with Kept(door) as kept:
        assert kept.ask(document) == told + b"\n"
        assert kept.ask(request("consume", "nowhere")) == b'{"status": "failure", "message": "No message available"}\n'


@pytest.mark.parametrize(
    "answer",
    [
        b"[]",
        b'{"status": "success", "message": []}',
        b'{"status": "success", "message": "x", "next_page": null}',
        b'{"status": "success", "message": [1], "next_page": null}',
        b'{"status": "success", "message": [{"partition": 0, "offset": 1, "payload": 1}], "next_page": null}',
    ],
)
def test_a_reply_that_is_no_page_is_told(answer: bytes) -> None:
    with pytest.raises(ValueError, match=r"has its partition|is a JSON object"):
        ranges.parse_page(answer)


# Over a socket


class Reader:
    def __init__(self, door: str) -> None:
        self.door = door

    def page(self, **asked: Any) -> tuple[list[dict[str, Any]], str | None]:
        found = json.loads(reply(self.door, json.dumps({"type": "consume", "topic_name": "t", **asked}).encode()))
        assert list(found) == ["status", "message", "next_page"] and found["status"] == "success", found
        return found["message"], found["next_page"]

    def read(self, **asked: Any) -> list[tuple[int, int]]:
        """All pages of a range: partition and offset of each message."""
        found: list[tuple[int, int]] = []
        while True:
            messages, page = self.page(**asked)
            found += [(one["partition"], one["offset"]) for one in messages]
            if page is None:
                return found
            asked["page"] = page


@pytest.fixture
def fresh() -> Iterator[Broker]:
    with Broker() as found:
        yield found


@pytest.fixture
def reader(fresh: Broker) -> Reader:
    return Reader(fresh.addresses["json"])


def fill(broker: Broker, count: int, partitions: int = 1, size: int = 0) -> None:
    """Message n of each partition is of BASE_MS + n seconds."""
    broker.create_topic("t", partitions)
    producer = Producer({"bootstrap.servers": broker.kafka})
    for partition in range(partitions):
        for number in range(count):
            value = json.dumps([number, "x" * size])
            producer.produce("t", value, partition=partition, timestamp=BASE_MS + number * 1000)
        assert producer.flush(LIMIT_S) == 0


def of_one(start: int, end: int) -> list[tuple[int, int]]:
    return [(0, offset) for offset in range(start, end)]


def test_a_range_is_what_lies_in_it(fresh: Broker, reader: Reader) -> None:
    fill(fresh, 50)
    cases: list[tuple[dict[str, Any], int, int]] = [
        ({"limit": 1000}, 0, 50),
        ({"page": None, "since": 0}, 0, 50),
        ({"from": 10}, 10, 50),
        ({"to": 10}, 0, 10),
        ({"from": 10, "to": 20, "partition": 0}, 10, 20),
        ({"from": 49}, 49, 50),
        ({"from": 1 << 70, "to": 1 << 71}, 0, 0),
        ({"from": 20, "to": 10}, 0, 0),
        ({"since": BASE_MS + 10_000}, 10, 50),
        ({"since": str(BASE_MS + 9_001)}, 10, 50),
        ({"since": "2023-11-14T22:13:30Z"}, 10, 50),
        ({"until": BASE_MS + 10_000}, 0, 10),
        ({"since": 0, "until": "2030-01-01"}, 0, 50),
        ({"since": "2030-01-01"}, 0, 0),
        ({"from": 5, "until": BASE_MS + 10_000}, 5, 10),
    ]
    for bounds, start, end in cases:
        assert reader.read(**bounds) == reader.read(**{**bounds, "limit": 7}) == of_one(start, end), bounds


def test_the_bytes_of_a_page(fresh: Broker, reader: Reader) -> None:
    fresh.create_topic("t", 1)
    producer = Producer({"bootstrap.servers": fresh.kafka})
    for number, value in enumerate((b'{"a":1}', "ü".encode(), b"\x00\xff", None)):
        producer.produce("t", value, timestamp=BASE_MS + number)
    producer.flush()
    first = (
        b'{"status": "success", "message": ['
        b'{"partition": 0, "offset": 0, "id": "msg_0-0_e47f9043", "ts_ms": 1700000000000, "payload": {"a": 1}}, '
        b'{"partition": 0, "offset": 1, "id": "msg_0-1_e47f9043", "ts_ms": 1700000000001, "payload": "\\u00fc"}], '
        b'"next_page": "0-2"}'
    )
    last = (
        b'{"status": "success", "message": ['
        b'{"partition": 0, "offset": 2, "id": "msg_0-2_e47f9043", "ts_ms": 1700000000002, '
        b'"payload": {"base64": "AP8="}}, '
        b'{"partition": 0, "offset": 3, "id": "msg_0-3_e47f9043", "ts_ms": 1700000000003, "payload": null}], '
        b'"next_page": null}'
    )
    assert reply(reader.door, b'{"type": "consume", "topic_name": "t", "limit": 2}') == first
    with Kept(reader.door) as kept:
        kept.send(
            *(b'{"type": "consume", "topic_name": "t", "limit": 2, "page": %b}' % at for at in (b"null", b'"0-2"'))
        )
        assert [kept.line(), kept.line()] == [first + b"\n", last + b"\n"]
        empty = b'{"status": "success", "message": [], "next_page": null}\n'
        assert kept.ask(b'{"type": "consume", "topic_name": "t", "from": 4}') == empty


def test_a_page_is_cut_at_a_megabyte_and_has_one_at_least(fresh: Broker, reader: Reader) -> None:
    fill(fresh, 300, size=10_000)
    messages, page = reader.page(limit=10_000)
    assert 90 < len(messages) < 115 and page == f"0-{len(messages)}"
    assert reader.read(limit=10_000) == of_one(0, 300)
    assert len(reader.page(since=0, limit=5)[0]) == 5
    for value in ("ü" * 500_000, "x" * 900_000):  # six times as long when it is escaped
        fresh.produce("wide", value)
    (wide,), page = reader.page(topic_name="wide", limit=10)
    assert wide["payload"] == "ü" * 500_000 and page == "0-1"


def test_a_page_has_a_thousand_messages_unless_it_is_said_and_ten_thousand_at_most(
    fresh: Broker, reader: Reader
) -> None:
    fill(fresh, 10_500)
    assert len(reader.page(since=0)[0]) == 1000
    messages, page = reader.page(limit=1 << 70)
    assert len(messages) <= 10_000 and page == f"0-{len(messages)}"
    assert reader.read(limit=10_000) == of_one(0, 10_500)


def test_all_partitions_come_one_after_the_other(fresh: Broker, reader: Reader) -> None:
    fill(fresh, 20, partitions=3)
    everything = [(partition, offset) for partition in range(3) for offset in range(20)]
    assert reader.read(limit=1000) == reader.read(limit=7) == everything
    assert reader.read(partition=1, limit=7) == everything[20:40]
    late = [(partition, offset) for partition in range(3) for offset in range(15, 20)]
    assert reader.read(since=BASE_MS + 15_000, limit=4) == late
    needed = "partition is needed with from and to: topic 't' has 3 partitions"
    for bounds in ({"from": 0}, {"to": 5}):
        told = json.loads(reply(reader.door, json.dumps({"type": "consume", "topic_name": "t", **bounds}).encode()))
        assert told == {"status": "failure", "message": needed}
    assert reader.read(partition="2", to=2) == [(2, 0), (2, 1)]


def test_the_newest_so_many(fresh: Broker, reader: Reader) -> None:
    fill(fresh, 20, partitions=3)
    assert reader.read(last=4, partition=1) == [(1, offset) for offset in range(16, 20)]
    assert [offset for _, offset in reader.read(last=6)] == [18, 18, 18, 19, 19, 19]
    assert len(reader.read(last=1 << 40)) == 60


def test_what_retention_took_is_passed_over(fresh: Broker, reader: Reader) -> None:
    fill(fresh, 20)
    _, page = reader.page(limit=5)
    with connect(fresh.kafka) as client:
        client.admin.delete_records("t", {0: 12})
    assert reader.read(page=page) == reader.read(**{"from": 3, "limit": 3}) == reader.read(since=0) == of_one(12, 20)


def test_gaps_are_stepped_over_and_nothing_is_seen_that_is_not_committed(fresh: Broker, reader: Reader) -> None:
    fresh.create_topic("t", 1)
    producer = Producer({"bootstrap.servers": fresh.kafka, "transactional.id": "t"})
    producer.init_transactions()
    for value, ends in ((b"1", producer.commit_transaction), (b"3", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce("t", value)
        producer.flush()
        ends()
    fresh.produce("t", b"2")
    producer.begin_transaction()
    producer.produce("t", b"4")
    producer.flush()
    assert reader.read(limit=10) == reader.read(limit=1) == reader.read(last=10) == [(0, 0), (0, 4)]
    producer.commit_transaction()
    assert reader.read(limit=1) == [(0, 0), (0, 4), (0, 5)]


def test_a_topic_in_memory_has_ranges(fresh: Broker, reader: Reader) -> None:
    fresh.create_topic("t", 1, {"headrace.storage": "memory"})
    for number in range(5):
        publish(reader.door, "t", number)
    messages, _ = reader.page(limit=10)
    assert [one["payload"] for one in messages] == [0, 1, 2, 3, 4]
    at = messages[1]["offset"]
    assert reader.read(**{"from": at, "to": at + 2}) == [(0, at), (0, at + 1)]


def test_what_is_not_there_is_no_message_and_state_topics_are_refused(fresh: Broker, reader: Reader) -> None:
    fresh.create_topic("t", 1)
    nothing = {"status": "failure", "message": "No message available"}
    for asked in ({"topic_name": "nowhere", "limit": 1}, {"topic_name": "t", "partition": 1, "last": 1}):
        assert json.loads(reply(reader.door, json.dumps({"type": "consume", **asked}).encode())) == nothing
    own = json.loads(reply(reader.door, b'{"type": "consume", "topic_name": "__consumer_offsets", "last": 1}'))
    assert own["status"] == "failure" and "the broker's own" in own["message"]


def test_a_large_value_with_line_ends_between_its_parts_stays_on_its_line(fresh: Broker, reader: Reader) -> None:
    value = json.dumps(list(range(40_000)), indent=1)
    fresh.produce("t", value)
    assert "\n" in value and len(value) > 200_000
    with Kept(reader.door) as kept:
        kept.send(request("consume", "t"), b'{"type": "consume", "topic_name": "t", "limit": 1}', b"{}")
        assert json.loads(kept.line())["message"] == list(range(40_000))
        assert json.loads(kept.line())["message"][0]["payload"] == list(range(40_000))
        assert json.loads(kept.line()) == {"status": "failure", "message": "Unknown request type"}


# The clients


def place(broker: Broker) -> tuple[str, int]:
    host, _, port = broker.addresses["json"].rpartition(":")
    return host, int(port)


async def test_the_clients_read_ranges_pages_and_the_last(fresh: Broker) -> None:
    fill(fresh, 1500, partitions=2)
    aio, sync = Consumer(*place(fresh)), SyncConsumer(*place(fresh))

    def places(records: list[JsonRecord]) -> list[tuple[int, int]]:
        return [(one.partition, one.offset) for one in records]

    everything = [(partition, offset) for partition in range(2) for offset in range(1500)]
    assert places(list(sync.records("t"))) == places([one async for one in aio.records("t")]) == everything
    assert places([one async for one in aio.records("t", limit=1600)]) == everything[:1600]
    assert places(list(sync.records("t", limit=1600))) == everything[:1600]
    assert places(list(sync.records("t", partition=1, from_=3, to=5))) == [(1, 3), (1, 4)]
    window = {"since": BASE_MS + 1000, "until": "2023-11-14T22:13:22Z"}
    assert places([one async for one in aio.records("t", **window)]) == [(0, 1), (1, 1)]
    first = sync.page("t", limit=1)
    assert first == ([JsonRecord("t", 0, 0, BASE_MS, [0, ""], derived_id("t", 0, 0))], "0-1")
    assert places((await aio.page("t", limit=2, page=first.next_page)).records) == [(0, 1), (0, 2)]
    assert places(sync.history("t", 1, partition=1)) == places(await aio.history("t", 1, 1)) == [(1, 1499)]
    assert len(sync.history("t")) == 10
    with pytest.raises(NoMessage, match="no topic 'none'"):
        list(sync.records("none"))
    with pytest.raises(JsonRefused, match="limit is a whole number"):
        await aio.page("t", limit=-1)
