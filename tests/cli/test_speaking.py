"""What `publish`, `subscribe` and `history` have in common over all doors: the same words for the same facts, lists and
lines of JSON, and the table of where a subscription begins (docs/cli.md)."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from headrace.cli import exits
from headrace.cli.speaking.wishes import Done, Heard
from headrace.testing import Broker
from tests.cli.running import Run
from tests.cli.test_publish import Listening

FROM_THE_START = ("binary", "json", "http")
WITH_NEWS = ("lines", "kafka", "msgpack")
MAKE_NO_TOPIC = ("binary", "http")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def at(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Run:
    for door, address in broker.addresses.items():
        monkeypatch.setenv(f"HEADRACE_{door.upper()}", address)
    return Run()


@pytest.mark.parametrize(
    ("command", "door"),
    [
        *(("subscribe", door) for door in ("kafka", "binary", "http")),
        *(("history", door) for door in ("kafka", "http", "binary")),
        *(("publish", door) for door in MAKE_NO_TOPIC),
    ],
)
def test_a_topic_that_is_not_there_is_told_in_the_same_words(at: Run, command: str, door: str, name: str) -> None:
    ended = at(command, name, *(["x"] if command == "publish" else []), "--door", door)
    assert ended.code == exits.NOT_FOUND
    if command != "publish":
        assert ended.out == ""
    assert ended.err.splitlines() == [
        f"headrace: topic '{name}': there is no such topic",
        "  try: `headrace topic list` shows what there is",
    ]


@pytest.mark.parametrize("door", ["lines", "json"])
def test_doors_that_need_no_topic_have_nothing_of_it_and_make_it(at: Run, door: str, name: str) -> None:
    assert at("history", name, "--door", door, "-o", "json").rows(Heard) == []
    assert at("publish", name, "x", "--door", door).code == 0


@pytest.mark.parametrize("door", ["binary", "json", "http"])
def test_the_past_is_read_by_offset_or_time_and_so_many(at: Run, broker: Broker, door: str, name: str) -> None:
    broker.create_topic(name, 2, config={"retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": broker.kafka})
    for number in range(2500):
        producer.produce(name, str(number), partition=number % 2, timestamp=1_700_000_000_000 + number * 1000)
    producer.flush()

    def values(*asked: str) -> list[int]:
        heard = at("history", name, *asked, "--door", door, "-o", "json").rows(Heard)
        return [int(one.value) for one in heard]

    assert values("3") == [2497, 2498, 2499]
    assert values("3", "--partition", "0") == [2494, 2496, 2498]
    assert values("--partition", "1", "--from", "5", "--to", "8") == [11, 13, 15]
    assert values("2", "--partition", "1", "--from", "5") == [11, 13]
    assert values("--from", "@1700000010000", "--to", "@1700000014000") == [10, 12, 11, 13]
    assert values("--to", "@2023-11-14T22:13:22+00:00") == [0, 1]
    assert len(values("--from", "@1700000000000")) == 2500
    assert at("history", name, "--door", door, "--from", "5").code == exits.REFUSED
    for odd in (["--from", "end"], ["--to", "-5"], ["0", "--from", "@-10m"]):
        assert at("history", name, "--door", door, *odd).code == exits.USAGE


@pytest.mark.parametrize("door", FROM_THE_START)
def test_a_subscription_that_begins_with_the_first_message(at: Run, broker: Broker, door: str, name: str) -> None:
    broker.create_topic(name, 1)
    for text in ("one", "two"):
        broker.produce(name, text)
    heard = at("subscribe", name, "--door", door, "--count", "2", "-o", "json").rows(Heard)
    assert [(one.value, one.offset) for one in heard] == [("one", 0), ("two", 1)]


@pytest.mark.parametrize("door", WITH_NEWS)
def test_a_subscription_that_begins_with_news(at: Run, broker: Broker, door: str, name: str) -> None:
    broker.create_topic(name, 1)
    broker.produce(name, "old")
    with Listening(at, "subscribe", name, "--door", door, "--count", "1", "-o", "jsonl") as listening:
        while listening.is_silent and listening.process.poll() is None:
            broker.produce(name, "new")
        (heard,) = map(json.loads, listening.rest())
    assert heard["value"] == "new"


def test_json_is_a_list_and_jsonl_an_object_a_line(at: Run, name: str) -> None:
    published = at("publish", name, "a", "b", "-o", "json").rows(Done)
    assert [one.answer for one in published] == ["published", "published"]
    assert [one.value for one in at("history", name, "-o", "json").rows(Heard)] == ["a", "b"]
    assert [one.value for one in at("history", name, "-o", "jsonl").lines(Heard)] == ["a", "b"]
    assert at("create-topic", f"{name}-2", "-o", "json").row(Done).answer == "success"


def test_a_list_that_control_c_ends_is_whole(at: Run, name: str) -> None:
    at("publish", name, "a", "b")
    with Listening(at, "subscribe", name, "--door", "json", "-o", "json") as listening:
        begun = listening.until("[") + listening.until(None)  # the first has its comma: the second was heard
        listening.process.send_signal(signal.SIGINT)
        rest = listening.process.stdout.read().decode()
        assert listening.process.wait(30) == exits.INTERRUPTED
    assert [one["value"] for one in json.loads("\n".join(begun) + rest)] == ["a", "b"]


def test_what_is_refused_before_its_first_message_prints_no_list(at: Run, name: str) -> None:
    assert at("subscribe", name, "--door", "http", "-o", "json").out == ""


def test_json_reads_a_memory_topic_from_its_first_message(at: Run, broker: Broker, name: str) -> None:
    broker.create_topic(name, 1, {"headrace.storage": "memory"})
    for text in ("one", "two", "three"):
        at("publish", name, text, "--door", "json")
    heard = at("subscribe", name, "--door", "json", "--count", "3", "-o", "json").rows(Heard)
    assert [one.value for one in heard] == ["one", "two", "three"]
    offsets = [one.offset for one in heard]
    assert offsets == list(range(offsets[0] or 0, (offsets[0] or 0) + 3)) and offsets[0]


def test_json_shows_each_message_once_where_a_gap_is(at: Run, broker: Broker, name: str) -> None:
    broker.create_topic(name, 1)
    producer = Producer({"bootstrap.servers": broker.kafka, "transactional.id": name})
    producer.init_transactions(30)
    for text in ("one", "two"):
        producer.begin_transaction()
        producer.produce(name, text)
        producer.commit_transaction(30)
    heard = at("subscribe", name, "--door", "json", "--count", "2", "-o", "json").rows(Heard)
    assert [(one.value, one.offset) for one in heard] == [("one", 0), ("two", 2)]


@pytest.mark.parametrize("command", ["history", "subscribe"])
@pytest.mark.parametrize("door", ["kafka", "http", "json", "binary"])
def test_every_message_has_the_id_that_consume_shows(
    at: Run, broker: Broker, door: str, command: str, name: str
) -> None:
    """Its own, else the one made of its place."""
    broker.create_topic(name, 1)
    producer = Producer({"bootstrap.servers": broker.kafka})
    for own in ("i-1", None, "i-3"):
        producer.produce(name, "x", headers=[] if own is None else [("id", own)])
    producer.flush()
    consumed = Run(broker.kafka)("consume", name, "-o", "jsonl").out.splitlines()
    known = [json.loads(line)["id"] for line in consumed]
    how = ("--offset", "0", "--count", "3") if command == "subscribe" else ()
    heard = at(command, name, "--door", door, *how, "-o", "jsonl").lines(Heard)
    assert [one.id for one in heard] == known == ["i-1", f"msg_0-1_{known[1][-8:]}", "i-3"]


def test_the_lines_door_shows_that_id_too(at: Run, broker: Broker, name: str) -> None:
    at("publish", name, "x", "--id", "i-1")
    at("publish", name, "y")
    shown = [one.id for one in at("history", name, "-o", "jsonl").lines(Heard)]
    assert shown == [
        json.loads(line)["id"] for line in Run(broker.kafka)("consume", name, "-o", "jsonl").out.splitlines()
    ]
    assert shown[0] == "i-1"


def test_the_last_messages_of_every_door_are_messages_and_no_marks_of_transactions(
    at: Run, broker: Broker, name: str
) -> None:
    broker.create_topic(name, 1)
    producer = Producer({"bootstrap.servers": broker.kafka, "transactional.id": name})
    producer.init_transactions(30)
    for value in "abc":
        producer.begin_transaction()
        producer.produce(name, value)
        producer.commit_transaction()
    for door in ("kafka", "lines", "binary", "json", "http"):
        heard = at("history", name, "2", "--door", door, "-o", "json").rows(Heard)
        assert [one.value for one in heard] == ["b", "c"], door
