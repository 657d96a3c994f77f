"""Flags as the clients of other brokers have them."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cli import exits
from headrace.cli.other_clients import translated
from headrace.cli.speaking.wishes import Heard
from headrace.testing import Broker
from tests.cli.running import Run
from tests.cli.test_coming_over import DOORS, FREE


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("--host h --port 1 publish t m", "--server h:1 publish t m"),
        ("--host=h --port=1 --client-id me publish t m", "--server h:1 publish --client-id me t m"),
        ("-o json --port 1 subscribe t", "-o json --server 127.0.0.1:1 subscribe t"),
        ("-q --host ::1 history t 5", "-q --server [::1] history t 5"),
        ("create-topic t --host ::1 --port 1 --rf 2", "--server [::1]:1 create-topic t --rf 2"),
        ("publish t --broker http://a:1", "--server http://a:1 publish t"),
        ("subscribe t --broker a:1 --brokers b:2,c:3 --count 1", "--server a:1,b:2,c:3 subscribe t --count 1"),
        ("create-topic t --peers a:1 b:2 --rf 2", "--server a:1,b:2 create-topic t --rf 2"),
        ("create-topic --peers a:1 b:2 t", "--server a:1,b:2 create-topic t"),
        ("--client-id me subscribe t", "subscribe --client-id me t"),
        ("--client-id me create-topic t", "create-topic t"),
    ],
)
def test_they_become_ours(theirs: str, ours: str) -> None:
    assert " ".join(translated(theirs.split())) == ours


@pytest.mark.parametrize(
    "line",
    [
        "publish t m --client-id me",
        "publish t -- --host h",
        "publish t m --host",
        "publish t m -s a:1 --host h",
        "topic create publish --host h",
        "consume t --host h",
        "--broker-id 1 --host h --port 1",
        "--host h --port 1",
        "-s a:1 publish t m",
    ],
)
def test_what_is_not_theirs_is_left_as_it_is(line: str) -> None:
    assert translated(line.split()) == line.split()


def test_a_binary_client_finds_its_broker_as_before(run: Run, broker: Broker, name: str) -> None:
    host, _, port = broker.addresses["binary"].rpartition(":")
    first = ("--host", host, "--port", port, "--client-id", "me")
    made = run(*first, "create-topic", name, "--partitions", "2")
    assert made.out == f"Created topic '{name}' with 2 partitions\n", made.err
    assert run(*first, "publish", name, "Hello", "--door", "binary").code == exits.OK
    heard = run(*first, "subscribe", name, "--door", "binary", "--count", "1", "-o", "jsonl").lines(Heard)
    assert [(one.value, one.headers["client_id"]) for one in heard] == [("Hello", "me")]
    assert [one.value for one in run("history", name, "--door", "binary", *first[:4], "-o", "jsonl").lines(Heard)] == [
        "Hello"
    ]


def test_http_tools_find_their_brokers_as_before(run: Run, broker: Broker, name: str) -> None:
    url, dead = f"http://{broker.http}", "http://127.0.0.1:1"
    made = run("create-topic", name, "--door", "http", "--rf", "1", "--broker", url, "--peers", dead, url)
    assert made.code == exits.OK, made.err
    assert run("publish", name, "one", "--door", "http", "--broker", url).code == exits.OK
    found = run("subscribe", name, "--door", "http", "--brokers", f"{dead},{url}", "--count", "1", "-o", "jsonl")
    assert [one.value for one in found.lines(Heard)] == ["one"]


def test_other_commands_have_no_such_flags(run: Run) -> None:
    refused = run("topic", "list", "--host", "127.0.0.1")
    assert refused.code == exits.USAGE and "no option --host" in refused.err


def test_a_node_is_told_its_number_and_its_json_door_as_a_json_broker_is(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    others = [word for door in DOORS if door != "json" for word in (f"--{door}", FREE)]
    ready = tmp_path / "ready"
    flags = ["--broker-id", "3", "--host", "127.0.0.1", "--port", str(port), "--ready-file", str(ready)]
    node = Run().start("serve", *others, *flags, env=os.environ.copy(), cwd=tmp_path)
    try:
        deadline = time.monotonic() + 60
        while not ready.exists() and time.monotonic() < deadline and node.poll() is None:
            time.sleep(0.05)
        told = json.loads(ready.read_text())
    finally:
        node.terminate()
        node.communicate(timeout=60)
    assert (told["node_id"], told["addresses"]["json"]) == (3, f"127.0.0.1:{port}")


def test_a_host_or_a_port_alone_says_nothing_of_its_door(run: Run) -> None:
    refused = run("serve", "--host", "0.0.0.0")
    assert refused.code == exits.USAGE and "did you mean --kafka 0.0.0.0:9092?" in refused.err
    refused = run("serve", "--broker-id", "1", "--port")
    assert refused.code == exits.USAGE and "--port: needs a value" in refused.err
