"""`subscribe --group` beside other members of the group: those that the protocol's own tools are."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest

from headrace.cli import exits
from headrace.compat import BrokerClient
from headrace.testing import Broker
from tests.cli.running import Run
from tests.cli.test_publish import Listening
from tests.doors_lines.kit import Peer


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def at(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Run:
    for door, address in broker.addresses.items():
        monkeypatch.setenv(f"HEADRACE_{door.upper()}", address)
    return Run()


def test_a_lines_group_is_shared_with_a_member_that_only_knows_sub(at: Run, broker: Broker, name: str) -> None:
    with Peer(broker.addresses["lines"]) as peer:
        assert peer.ask(f"SUB {name} processors".encode()) == f"OK subscribed {name} in group processors".encode()
        with Listening(at, "subscribe", name, "--group", "processors", "--count", "2") as member:
            printed = member.until(f"OK subscribed {name} in group processors")
            assert printed[:2] == ["OK connected", f"Subscribing to topic '{name}' in group 'processors'"]
            at("publish", name, *"abcd")
            assert [line.split()[-1] for line in member.rest()] == ["b", "d"]
        assert peer.texts(2) == [b"a", b"c"]


def test_a_member_that_only_knows_sub_is_let_in_after_the_command(at: Run, broker: Broker, name: str) -> None:
    with Listening(at, "subscribe", name, "--group", "g") as member:
        member.until(f"OK subscribed {name} in group g")
        with Peer(broker.addresses["lines"]) as peer:
            assert peer.ask(f"SUB {name} g".encode()) == f"OK subscribed {name} in group g".encode()


def test_members_that_acknowledge_are_a_group_of_another_kind_and_are_told_so(
    at: Run, broker: Broker, name: str
) -> None:
    with Peer(broker.addresses["lines"]) as peer:
        peer.ask(f"SUBACK {name} g".encode())
        refused = at("subscribe", name, "--group", "g", "--count", "1")
        assert refused.code == exits.REFUSED and "QueueModeConflict" in refused.err
        with Listening(at, "subscribe", name, "--group", "g", "--ack", "--count", "1") as member:
            member.until(f"OK subscribed {name} in group g with acknowledgement")
            at("publish", name, "a", "b")
            assert [line.split()[-1] for line in member.rest()] == ["b"]


def test_a_binary_group_is_shared_with_a_client_that_says_nothing_of_acknowledging(
    at: Run, broker: Broker, name: str
) -> None:
    broker.create_topic(name, 1)
    host, _, port = broker.addresses["binary"].rpartition(":")
    heard: list[bytes] = []
    came = threading.Event()

    def take(message: object) -> None:
        heard.append(message.body)  # type: ignore[attr-defined]
        came.set()

    with BrokerClient(host, int(port), "other") as client:
        client.subscribe(name, handler=take, group="g")
        who = ("subscribe", name, "--door", "binary", "--group", "g", "--count", "1", "-o", "jsonl")
        with Listening(at, *who) as member:
            while member.is_silent and member.process.poll() is None:
                broker.produce(name, "x")
                came.wait(0.05)
            (shown,) = map(json.loads, member.rest())
        assert shown["value"] == "x" and came.wait(20) and set(heard) == {b"x"}


@pytest.mark.parametrize("door", ["lines", "binary"])
def test_acknowledging_is_for_members(at: Run, door: str, name: str) -> None:
    refused = at("subscribe", name, "--door", door, "--ack")
    assert refused.code == exits.USAGE and "--group NAME --ack" in refused.err


def test_commands_that_begin_in_one_second_have_ids_of_their_own(
    at: Run, broker: Broker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: 1_790_000_000.0)
    broker.create_topic(name, 1)
    broker.produce(name, "x")
    made: list[str] = []
    start = BrokerClient.__init__

    def noted(self: BrokerClient, host: str, port: int, client_id: str, **how: float) -> None:
        made.append(client_id)
        start(self, host, port, client_id, **how)

    monkeypatch.setattr(BrokerClient, "__init__", noted)
    for _ in range(2):
        assert at("subscribe", name, "--door", "binary", "--count", "1").code == 0
    assert len(set(made)) == 2 and all(one.startswith("client_1790000000_") for one in made)
    at("subscribe", name, "--door", "binary", "--count", "1", "--client-id", "mine")
    assert made[-1] == "mine"
