"""`publish`, `subscribe`, `create-topic` and `history` at every door: the words are those of the door's own tools."""

from __future__ import annotations

import ast
import json
import os
import signal
import time
from collections.abc import Iterator

import pytest

from headrace.cli import exits
from headrace.cli.speaking.wishes import DOORS, TAKES, Done, Heard
from headrace.testing import Broker
from tests.cli.running import Ended, Run


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def at(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Commands find each door where `serve` was told to open it."""
    for door, address in broker.addresses.items():
        monkeypatch.setenv(f"HEADRACE_{door.upper()}", address)
    return Run()


def lines(ended: Ended) -> list[str]:
    assert ended.code == 0, ended.err
    return ended.out.splitlines()


def test_lines_answer_as_its_own_publisher_printed_them(at: Run, broker: Broker, name: str) -> None:
    assert lines(at("publish", name, "Hello, distributed world!")) == ["OK published"]
    assert broker.values(name) == [b"Hello, distributed world!"]
    (shown, end) = lines(at("history", name, "5"))
    assert shown.startswith(f"HISTORY {name} msg_") and shown.endswith(" Hello, distributed world!")
    assert end == "OK history end"


def test_a_repeated_id_is_told_as_a_duplicate_where_the_topic_knows_ids(at: Run, broker: Broker, name: str) -> None:
    broker.create_topic(name, 1, {"headrace.dedup.window.ms": 60_000})
    assert lines(at("publish", name, "once", "--id", "i-1")) == ["OK published"]
    assert lines(at("publish", name, "once", "--id", "i-1")) == ["OK duplicate"]
    assert at("publish", name, "a", "b", "--id", "i-2").code == exits.USAGE


def test_lines_subscribers_print_every_line(at: Run, name: str) -> None:
    at("publish", name, "old")
    with Listening(at, "subscribe", name, "--history", "5", "--count", "1") as listening:
        printed = listening.until(f"OK subscribed {name}")
        at("publish", name, "new")
        printed += listening.rest()
    assert printed[:2] == ["OK connected", f"Subscribing to topic '{name}'"]
    assert printed[2].startswith(f"HISTORY {name} ") and printed[2].endswith(" old")
    assert printed[3:5] == ["OK history end", f"OK subscribed {name}"]
    assert printed[5].startswith(f"MSG {name} ") and printed[5].endswith(" new")


def test_members_of_a_lines_group_share_the_messages(at: Run, name: str) -> None:
    at("publish", name, "the topic is there")
    members = [Listening(at, "subscribe", name, "--group", "g", "--count", "2") for _ in range(2)]
    with members[0], members[1]:
        for member in members:
            member.until(f"OK subscribed {name} in group g")
        for number in range(4):
            at("publish", name, str(number))
        heard = [[line.split()[-1] for line in member.rest()] for member in members]
    assert sorted(heard) == [["0", "2"], ["1", "3"]]


def test_binary_prints_what_its_own_client_printed(at: Run, name: str) -> None:
    assert lines(at("create-topic", name, "--partitions", "2")) == [f"Created topic '{name}' with 2 partitions"]
    refused = at("create-topic", name)
    assert (refused.code, refused.out) == (exits.REFUSED, f"Failed to create topic '{name}'\n")
    assert f"Topic '{name}' already exists" in refused.err
    told = [f"Published message to topic '{name}'"]
    assert lines(at("publish", name, "Hello", "--door", "binary", "--partition", "1")) == told
    properties = json.dumps({"priority": "high", "tries": 3})
    assert (
        lines(at("publish", name, "more", "--door", "binary", "--partition", "1", "--properties", properties)) == told
    )
    assert lines(at("subscribe", name, "--door", "binary", "--partition", "1", "--offset", "0", "--count", "2")) == [
        f"Subscribing to {name}:1 from offset 0",
        "Press Ctrl+C to stop...",
        f"[{name}:1@0] Hello",
        f"[{name}:1@1] more",
        "  Properties: {'priority': 'high', 'tries': '3'}",
    ]


def test_a_binary_refusal_is_told_in_its_words(at: Run, name: str) -> None:
    at("create-topic", name)
    refused = at("publish", name, "x", "--door", "binary", "--partition", "9")
    assert (refused.code, refused.out) == (exits.REFUSED, f"Failed to publish message to topic '{name}'\n")
    assert "Invalid partition 9" in refused.err
    missing = at("subscribe", name, "--door", "binary", "--partition", "2", "--count", "1")
    assert missing.code == exits.REFUSED and "Partition 2 does not exist" in missing.err


def test_json_prints_the_documents_that_come_back(at: Run, name: str) -> None:
    stored = {"status": "success", "message": f"Message published to {name}, partition 0"}
    assert json.loads(at("publish", name, '{"a": [1]}', "--door", "json", "--json").out) == stored
    assert json.loads(at("publish", name, "text", "--door", "json").out) == stored
    messages = [json.loads(line) for line in lines(at("subscribe", name, "--door", "json", "--count", "2"))]
    assert [message["message"] for message in messages] == [{"a": [1]}, "text"]
    past = at("history", name, "5", "--door", "json", "-o", "jsonl").lines(Heard)
    assert [heard.value for heard in past] == [{"a": [1]}, "text"]
    bad = at("publish", name, "{", "--door", "json", "--json")
    assert bad.code == exits.USAGE and "is not JSON" in bad.err
    made = at("create-topic", f"{name}-2", "--door", "json", "--partitions", "3")
    assert made.code == 0


def test_http_prints_what_its_own_tools_printed(at: Run, name: str) -> None:
    made = ast.literal_eval(at("create-topic", name, "--door", "http", "--rf", "1").out)
    assert (made["status"], made["topic"]) == ("ok", name)
    exists = at("create-topic", name, "--door", "http", "--rf", "1")
    assert exists.code == exits.REFUSED and "TOPIC_EXISTS" in exists.err
    how = ("--door", "http", "--key", "k1", "--headers", "source=shop")
    assert lines(at("publish", name, "--json", *how, stdin='{"n": 1}\n[2]\n/quit\n')) == [
        "-> published offset 0",
        "-> published offset 1",
    ]
    (first, second) = map(json.loads, lines(at("subscribe", name, "--door", "http", "--offset", "0", "--count", "2")))
    assert (first["offset"], first["key"], first["value"]) == (0, "k1", {"n": 1})
    assert first["headers"] == {"source": "shop"} and second["value"] == [2]
    (last,) = at("history", name, "1", "--door", "http", "-o", "jsonl").lines(Heard)
    assert (last.offset, last.value) == (1, [2])
    missing = at("publish", "nowhere-" + name, "x", "--door", "http", "--partition", "3")
    assert missing.code != 0


def test_a_member_that_ends_leaves_what_it_did_not_show_to_the_group(at: Run, name: str) -> None:
    """Also what was sent to it ahead."""
    at("publish", name, "the topic is there")
    who = ("subscribe", name, "--group", "g", "--ack", "-o", "jsonl", "--count")
    with Listening(at, "subscribe", name, "--group", "g", "--ack", "--count", "1") as member:
        member.until(f"OK subscribed {name} in group g with acknowledgement")
        for number in range(5):
            at("publish", name, str(number))
        assert [line.split()[-1] for line in member.rest()] == ["0"]
    shown = [json.loads(line)["value"] for line in lines(at(*who, "1")) + lines(at(*who, "3"))]
    assert shown == ["1", "2", "3", "4"]


def test_a_group_over_http_goes_on_where_it_committed_and_stays_where_it_did_not(at: Run, name: str) -> None:
    at("create-topic", name, "--door", "http", "--rf", "1")
    at("publish", name, *"abcd", "--door", "http")
    who = ("--door", "http", "--group-id", "g1", "--consumer-id", "c1", "-o", "jsonl", "--timeout", "2s")
    assert [one.value for one in at("subscribe", name, *who, "--count", "2").lines(Heard)] == ["a", "b"]
    for _ in range(2):
        (heard,) = at("subscribe", name, *who, "--count", "1", "--no-commit").lines(Heard)
        assert heard.value == "c"
    alone = at("subscribe", name, "--door", "http", "--group-id", "g1", "--count", "1")
    assert alone.code == exits.USAGE and "--consumer-id" in alone.err
    other = at("subscribe", name, "--door", "http", "--group-id", "g1", "--consumer-id", "c2", "--count", "1")
    assert other.code == exits.REFUSED and "active consumer" in other.err


def test_brokers_that_clients_were_told_of_are_asked_over_http(
    run: Run, broker: Broker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKER_PEERS", f"http://127.0.0.1:1,http://{broker.http}")
    made = run("create-topic", name, "--door", "http", "--rf", "1")
    assert made.code == 0, made.err


def test_kafka_has_the_same_verbs(at: Run, name: str) -> None:
    assert lines(at("create-topic", name, "--door", "kafka", "--partitions", "2", "--retention", "24")) == [
        f"Created topic '{name}' with 2 partitions"
    ]
    published = at(
        "publish", name, "one", "two", "--door", "kafka", "--partition", "1", "--key", "k", "--headers", "a=b"
    )
    assert lines(published) == [f"Published to {name}:1 at offset 0", f"Published to {name}:1 at offset 1"]
    heard = at("subscribe", name, "--door", "kafka", "--offset", "0", "--count", "2", "-o", "jsonl").lines(Heard)
    assert [(one.partition, one.offset, one.key, one.value, one.headers) for one in heard] == [
        (1, 0, "k", "one", {"a": "b"}),
        (1, 1, "k", "two", {"a": "b"}),
    ]
    assert lines(at("history", name, "1", "--door", "kafka")) == [f"[{name}:1@1] two"]


def test_msgpack_subscribers_hear_what_matches_their_pattern(at: Run, name: str) -> None:
    with Listening(at, "subscribe", f"{name}/*", "--door", "msgpack", "--count", "2") as listening:
        deadline = time.monotonic() + 20
        while listening.is_silent and time.monotonic() < deadline:
            at("publish", f"{name}/x", '{"celsius": 21.5}', "--door", "msgpack", "--json")
            time.sleep(0.1)
        at("publish", f"{name}/x", "again", "--door", "msgpack")
        printed = listening.rest()
    assert printed[0] == f'{name}/x - {{"celsius":21.5}}'
    (sent,) = at("publish", name, "x", "--door", "msgpack", "-o", "jsonl").lines(Done)
    assert (sent.door, sent.answer) == ("msgpack", "sent")


def test_messages_are_read_from_standard_input(at: Run, broker: Broker, name: str) -> None:
    ended = at("publish", name, stdin="one\n\ntwo\r\n/quit\nthree\n")
    assert lines(ended) == ["OK published", "OK published"]
    assert broker.values(name) == [b"one", b"two"]


@pytest.mark.parametrize(
    ("command", "option", "door"),
    [
        (command, option, door)
        for command, takes in TAKES.items()
        for option, doors in takes.items()
        for door in DOORS
        if door not in doors
    ],
)
def test_an_option_that_a_door_has_no_use_for_is_refused(at: Run, command: str, option: str, door: str) -> None:
    switches = ("--json", "--ack", "--no-commit", "--show-idle")
    value = (
        []
        if option in switches
        else ['{"a": "b"}']
        if option == "--properties"
        else ["a=b"]
        if option == "--headers"
        else ["1"]
    )
    extra = ["message"] if command == "publish" else []
    ended = at(command, "topic", *extra, "--door", door, option, *value)
    assert ended.code == exits.USAGE
    assert f"the {door} door has no use for {option}" in ended.err


@pytest.mark.parametrize("command", TAKES)
def test_a_door_that_is_none_is_told(at: Run, command: str) -> None:
    extra = ["message"] if command == "publish" else []
    ended = at(command, "topic", *extra, "--door", "carrier-pigeon")
    assert ended.code == exits.USAGE and "kafka, binary, lines" in ended.err


@pytest.mark.parametrize(
    ("command", "door"),
    [("create-topic", "lines"), ("create-topic", "msgpack"), ("history", "msgpack")],
)
def test_what_a_protocol_cannot_do_is_refused_with_the_doors_that_can(at: Run, command: str, door: str) -> None:
    ended = at(command, "topic", "--door", door)
    assert ended.code == exits.USAGE
    assert f"the {door} protocol has no way to" in ended.err and "--door" in ended.err


@pytest.mark.parametrize("door", DOORS)
def test_a_door_that_nobody_opened_is_told(run: Run, door: str) -> None:
    ended = run("-s", "127.0.0.1:1", "publish", "t", "x", "--door", door, "--timeout", "2s")
    assert ended.code in (exits.UNREACHABLE, exits.TIMED_OUT), ended.err
    assert "127.0.0.1:1" in ended.err or "in time" in ended.err


def test_a_server_that_is_named_by_its_kafka_address_tells_where_its_doors_are(
    run: Run, broker: Broker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_SERVER", broker.kafka)
    assert run("publish", name, "found").out == "OK published\n"
    assert run("create-topic", f"{name}-2", "--door", "binary").code == 0
    assert run("publish", name, "too", "--door", "kafka").code == 0


def test_control_c_ends_a_subscription_at_once(at: Run, name: str) -> None:
    at("create-topic", name)
    for door, last in (("lines", f"OK subscribed {name}"), ("binary", "Press Ctrl+C to stop..."), ("kafka", None)):
        with Listening(at, "subscribe", name, "--door", door) as listening:
            while last is None and listening.is_silent:
                at("publish", name, "news")
            listening.until(last)
            listening.process.send_signal(signal.SIGINT)
            assert listening.process.wait(20) == exits.INTERRUPTED
            assert b"Traceback" not in listening.process.stderr.read()


def test_control_c_leaves_to_the_group_what_was_not_shown(at: Run, broker: Broker, name: str) -> None:
    broker.create_topic(name, 1)
    broker.produce(name, *map(str, range(5000)))
    who = ("subscribe", name, "--door", "binary", "--group", "g", "--ack", "-o", "jsonl")
    with Listening(at, *who) as listening:
        first = json.loads(listening.until(None)[0])
        listening.process.send_signal(signal.SIGINT)
        shown = [first, *map(json.loads, listening.process.stdout.read().splitlines())]
        assert listening.process.wait(20) == exits.INTERRUPTED
        assert not listening.process.stderr.read().strip()
    assert [one["offset"] for one in shown] == list(range(len(shown)))
    (after,) = at(*who, "--count", "1").lines(Heard)
    assert after.offset in (len(shown) - 1, len(shown))  # just as it was shown: then it was not acknowledged yet


def test_metrics_of_the_msgpack_door_are_logged(at: Run, broker: Broker) -> None:
    with Listening(at, "log-metrics", "--address", broker.addresses["msgpack"], "--count", "5") as listening:
        deadline = time.monotonic() + 30
        while listening.process.poll() is None and time.monotonic() < deadline:
            broker.clock.advance("2 s")
            time.sleep(0.05)
        printed = listening.rest()
    topics = {line.split(" - ")[0] for line in printed}
    assert topics <= {
        f"!system/metrics/{metric}"
        for metric in ("connections", "commands", "commands-per-second", "messages-sent", "messages-sent-per-second")
    }
    assert len(printed) == 5 and all(float(line.split(" - ")[1]) >= 0 for line in printed)


class Listening:
    """A command in a process of its own that goes on until it is ended."""

    def __init__(self, run: Run, *arguments: str) -> None:
        self.process = run.start(*arguments, env=os.environ.copy())

    def __enter__(self) -> Listening:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    @property
    def is_silent(self) -> bool:
        import select

        return not select.select([self.process.stdout], [], [], 0)[0]

    def until(self, line: str | None) -> list[str]:
        """None: any."""
        printed: list[str] = []
        while not printed or line not in (None, printed[-1]):
            read = self.process.stdout.readline()
            assert read, (printed, self.process.stderr.read())
            printed.append(read.decode().rstrip("\n"))
        return printed

    def rest(self) -> list[str]:
        out, err = self.process.communicate(timeout=30)
        assert self.process.returncode == 0, err
        return out.decode().splitlines()
