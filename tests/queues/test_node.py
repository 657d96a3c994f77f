"""Queues of a real node, through its doors and the command line, over kill -9."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from headrace.broker.config import SETTINGS as SETTINGS_TABLE
from headrace.broker.queues.overview import QueueView
from headrace.broker.queues.settings import MAX_MEMBERS, MAX_QUEUES, QUEUE_BYTES, QUEUE_RECORDS
from headrace.cli import exits
from headrace.cli.queue_values import DeadRow, RedeliveredRow
from headrace.cli.topic_values import TopicDetail
from headrace.node.logs import LEVEL_OF
from headrace.node.metrics.catalogue import BY_NAME
from headrace.testing.served import ServedBroker
from tests.cli.running import Run
from tests.doors_lines.kit import Peer

LIMIT_S = 30.0
SETTINGS = ("headrace.queue.max.attempts=2", "headrace.queue.backoff.ms=0", "headrace.queue.lock.ms=60000")


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedBroker]:
    for name in ("HEADRACE_SERVER", "HEADRACE_CONTEXT", "HEADRACE_HTTP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with ServedBroker(tmp_path) as served:
        yield served


def made(broker: ServedBroker, topic: str) -> Run:
    cli = Run(broker.address)
    options = [word for setting in SETTINGS for word in ("--config", setting)]
    ended = cli("topic", "create", topic, "-p", "1", *options)
    assert ended.code == 0, ended.err
    return cli


def joined(broker: ServedBroker, topic: str, group: str = "g") -> Peer:
    peer = Peer(broker.addresses["lines"])
    assert peer.ask(f"SUBACK {topic} {group}".encode()).startswith(b"OK subscribed")
    return peer


def published(broker: ServedBroker, topic: str, *values: str) -> None:
    with Peer(broker.addresses["lines"]) as peer:
        for value in values:
            assert peer.ask(f"PUB {topic} {value}".encode()) == b"OK published"


def kept(cli: Run) -> int:
    """How often state was written: whoever left a queue is not answered."""
    found = cli("topic", "describe", "__queue_state", "-o", "json").row(TopicDetail)
    return sum(partition.end or 0 for partition in found.partitions)


def test_attempts_and_dead_letters_go_on_after_kills_and_people_see_and_redeliver_them(broker):
    cli = made(broker, "orders")
    member = joined(broker, "orders")
    published(broker, "orders", "good", "poison")
    good, poison = member.message(), member.message()
    assert (good.text, poison.text) == (b"good", b"poison")
    assert member.ask(b"ACK " + good.id) == b"OK acknowledged " + good.id
    before = kept(cli)
    member.socket.close()  # the first attempt came to nothing, and that is kept
    found = _until(
        lambda: cli("queue", "describe", "orders", "g", "-o", "json").row(QueueView), lambda q: not q.members
    )
    assert (found.mode, found.lag, found.policy.max_attempts) == ("at-least-once", 1, 2)
    _until(lambda: kept(cli), lambda now: now > before)
    broker.kill()
    broker.start()
    cli = Run(broker.address)
    with joined(broker, "orders") as again:
        assert again.message().text == b"poison"
    _until(lambda: cli("queue", "dead", "orders", "g", "-o", "json").rows(DeadRow), bool)
    published(broker, "orders", "after")
    with joined(broker, "orders") as member:  # what is answered now is kept, and with it that the dead one is settled
        after = member.message()
        assert member.ask(b"ACK " + after.id) == b"OK acknowledged " + after.id
    broker.kill()
    broker.start()
    cli = Run(broker.address)
    (dead,) = cli("queue", "dead", "orders", "g", "-o", "json").rows(DeadRow)
    assert dead.value == "poison" and (dead.letter.partition, dead.letter.offset, dead.letter.attempts) == (0, 1, 2)
    assert "the member left" in cli("queue", "dead", "orders", "g").out
    assert cli("consume", "orders.dead", "-n", "1").out == "poison\n"
    with joined(broker, "orders") as member:
        told = cli("queue", "redeliver", "orders", "g", "--dry-run")
        assert "1 record again" in told.err
        assert cli("queue", "redeliver", "orders", "g", "-o", "json").row(RedeliveredRow) == RedeliveredRow(1, 0, 0)
        again = member.message()
        assert again.text == b"poison"
        assert member.ask(b"ACK " + again.id) == b"OK acknowledged " + again.id
    assert cli("queue", "dead", "orders", "g", "-o", "json").rows(DeadRow) == []
    assert len(cli("queue", "dead", "orders", "g", "--all", "-o", "json").rows(DeadRow)) == 1
    assert cli("queue", "redeliver", "orders", "g", "--record", "0:0", "-o", "json").row(RedeliveredRow).records == 1
    with joined(broker, "orders") as member:
        assert member.message().text == b"good"


def test_queues_are_listed_with_their_lag_and_deleted(broker):
    cli = Run(broker.address)
    assert cli("queue", "list").out == "" and "No queues yet" in cli("queue", "list").err
    with joined(broker, "plain", "g1"):
        published(broker, "plain", "1", "2", "3")
        (row,) = cli("queue", "list", "-o", "json").rows(QueueView)
        assert (row.topic, row.group, row.door, len(row.members)) == ("plain", "g1", "lines", 1)
        refused = cli("queue", "delete", "plain", "g1", "--yes")
        assert refused.code == exits.REFUSED and "1 member" in refused.err
    _until(lambda: cli("queue", "list", "-o", "json").rows(QueueView), lambda rows: not rows[0].members)
    assert "plain" in cli("queue", "list").out and "g1" in cli("queue", "describe", "plain", "g1").out
    assert cli("queue", "delete", "plain", "g1", "--yes").code == 0
    gone = cli("queue", "describe", "plain", "g1")
    assert gone.code == exits.NOT_FOUND and "no queue g1" in gone.err
    assert cli("queue", "redeliver", "plain", "g1", "--record", "x").code == exits.USAGE
    assert cli("queue", "list", "other.*").code == exits.NOT_FOUND


def test_a_commit_of_the_http_door_is_there_after_a_kill_and_the_lease_is_free(broker):
    made(broker, "t")
    published(broker, "t", "1", "2", "3")
    taken = _http(broker, "/subscribe", {"topic": "t", "consumer_id": "c1", "group_id": "g"})
    assert taken["committed"] == -1
    assert _http(broker, "/commit", {"topic": "t", "offset": 1, "consumer_id": "c1", "group_id": "g"})["committed"] == 1
    broker.kill()
    broker.start()
    again = _http(broker, "/subscribe", {"topic": "t", "consumer_id": "c2", "group_id": "g"})
    assert (again["committed"], again["start_offset"]) == (1, 2)


def test_every_command_of_the_page_works_on_the_queue_that_it_names(broker):
    page = (Path(__file__).resolve().parents[2] / "docs" / "queues.md").read_text()
    commands = [
        line.removeprefix("$ headrace ").split() for line in page.splitlines() if line.startswith("$ headrace ")
    ]
    assert len(commands) >= 4
    cli = made(broker, "orders")
    joined(broker, "orders", "workers").socket.close()
    for words in commands:
        ended = cli(*words)
        assert ended.code == 0, ended.err


def test_what_the_page_says_of_settings_and_bounds_is_so():
    page = (Path(__file__).resolve().parents[2] / "docs" / "queues.md").read_text()
    for name, setting in SETTINGS_TABLE.items():
        if name.startswith("headrace.queue."):
            assert re.search(rf"\| `{re.escape(name)}` \| `?{re.escape(str(setting.default))}`? \|", page), name
    for bound in (f"{MAX_MEMBERS:,}", f"{MAX_QUEUES:,}", f"{QUEUE_RECORDS:,}", f"{QUEUE_BYTES >> 20} MiB"):
        assert bound in page
    for name in re.findall(r"headrace_queue_[a-z_]+", page):
        assert name in BY_NAME
    for name in re.findall(r"`(queue\.[a-z-]+)`", page):
        assert name in LEVEL_OF


def _http(broker: ServedBroker, path: str, body: object) -> dict[str, object]:
    request = urllib.request.Request(
        f"http://{broker.http}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
        return dict(msgspec.json.decode(answer.read()))


def _until(look, is_so):
    deadline = time.monotonic() + LIMIT_S
    while True:
        found = look()
        if is_so(found):
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
