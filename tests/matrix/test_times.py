"""A time between two milliseconds is the later one wherever a range or a position is asked for by time: no record at or
after it can be of the earlier one."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Producer

import headrace
from headrace.cli import parsing
from headrace.compat import BrokerClient, SyncConsumer
from tests.doors_lines import kit as lines
from tests.matrix.ports import LIMIT_S
from tests.support import ServedBroker

FIRST_MS = 1_769_860_800_000  # 2026-01-31T12:00:00Z
BETWEEN = "2026-01-31T12:00:00.000500Z"


@pytest.fixture(scope="module")
def filled(node: ServedBroker) -> str:
    """A record of each of two milliseconds."""
    producer = Producer({"bootstrap.servers": node.addresses["kafka"]})
    for number in range(2):
        producer.produce("times", b"%d" % number, timestamp=FIRST_MS + number)
    assert producer.flush(LIMIT_S) == 0
    return "times"


def since(door: str, node: ServedBroker, doors: dict[str, Any], topic: str) -> list[int]:
    host, _, port = node.addresses["kafka" if door.startswith("kafka") else door.split()[0]].rpartition(":")
    match door:
        case "kafka client":
            with headrace.Consumer(
                node.addresses["kafka"], topic, start=datetime.fromisoformat(BETWEEN), follow=False
            ) as consumer:
                return [record.offset for record in consumer]
        case "binary":
            with BrokerClient(host, int(port)) as client:
                return [message.offset for message in client.records(topic, since=BETWEEN)]
        case "json":
            return [record.offset for record in SyncConsumer(host, int(port)).records(topic, since=BETWEEN)]
        case "http":
            _, page = doors["http"].ask("GET", f"/topics/{topic}/records?since={quote(BETWEEN)}")
            return [record["offset"] for record in page["records"]]
        case _:
            word = BETWEEN if door == "lines" else f"{FIRST_MS // 1000}.0005"
            with lines.Peer(node.addresses["lines"]) as peer:
                return [int(message.offset) - 1 for message in peer.history(f"SINCE {topic} {word}".encode())]


@pytest.mark.parametrize("door", ["kafka client", "binary", "json", "http", "lines", "lines in seconds"])
def test_between_two_milliseconds_it_begins_with_the_later_one(
    door: str, node: ServedBroker, doors: dict[str, Any], filled: str
) -> None:
    assert since(door, node, doors, filled) == [1]


def test_the_command_line_says_the_same() -> None:
    assert parsing.time_ms(BETWEEN, 0) == FIRST_MS + 1
    assert parsing.time_ms(f"{FIRST_MS // 1000}.0005", 0) == FIRST_MS + 1
    assert parsing.time_ms(f"{FIRST_MS // 1000}.001", 0) == FIRST_MS + 1
    assert parsing.time_ms("2026-01-31T12:00:00Z", 0) == FIRST_MS


def test_a_range_that_ends_before_an_empty_partition_is_at_its_end(node: ServedBroker, doors: dict[str, Any]) -> None:
    assert doors["http"].ask("POST", "/admin/topics?name=half-empty&rf=1&partitions=2")[0] == 200
    assert (
        doors["http"].ask("POST", "/topics/half-empty/records", {"records": [{"value": 1, "partition": 0}]})[0] == 200
    )
    _, page = doors["http"].ask("GET", "/topics/half-empty/records")
    assert (len(page["records"]), page["next_page"]) == (1, None), json.dumps(page)
