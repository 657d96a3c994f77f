"""Restart and kill -9 of a real process: what was answered is there, positions and groups go on."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from headrace.compat import HttpClient
from headrace.compat.http_values import HttpRefused, PublishUncertain
from headrace.errors import ConnectionFailed
from headrace.testing.served import ServedBroker

WHO = {"group_id": "g", "consumer_id": "c"}


def end(broker: ServedBroker, how: str) -> None:
    if how == "stop":
        broker.stop()
    else:
        broker.kill()
    broker.start()


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_records_and_positions_are_there_afterwards(tmp_path: Path, how: str) -> None:
    with ServedBroker(tmp_path) as broker, HttpClient(broker.http) as client:
        client.create_topic("t")
        client.create_topic("several", partitions=3)
        for n in range(20):
            assert client.publish("t", n, key=f"k{n}").offset == n
            client.publish("several", n, partition=n % 3)
        client.commit("t", 11, **WHO)
        client.commit("t", 4, consumer_id="alone")
        client.commit("several", 2, **WHO, partition=1)
        end(broker, how)
        assert [record.value for record in client.records("t")] == list(range(20))
        polled = client.poll("t", **WHO)
        assert (polled.committed, polled.records[0].offset) == (11, 12)
        assert client.poll("t", consumer_id="alone").committed == 4
        assert client.poll("several", **WHO, partition=1).committed == 2
        assert client.poll("several", **WHO, partition=2).committed == -1
        assert client.publish("t", 20).offset == 20


def test_how_far_topics_are_is_told_before_anybody_has_used_them(tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as broker, HttpClient(broker.http) as client:
        client.create_topic("used")
        client.create_topic("empty")
        for n in range(3):
            client.publish("used", n)
        end(broker, "kill")
        told = client.stats()["replication"]
        assert {name: told[name]["latest_offset"] for name in ("used", "empty")} == {"used": 2, "empty": -1}


def test_a_commit_that_names_no_partition_is_not_guessed_at_afterwards(tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as broker, HttpClient(broker.http) as client:
        client.create_topic("several", partitions=2)
        for n in range(4):
            client.publish("several", n, partition=n % 2)
        polled = client.poll("several", **WHO)
        end(broker, "kill")
        with pytest.raises(HttpRefused, match="partition is required"):
            client.commit("several", polled.records[-1].offset, **WHO)
        assert [client.poll("several", **WHO, partition=place).committed for place in (0, 1)] == [-1, -1]
        assert sorted(record.value for record in client.consume("several", **WHO, until_idle=True, timeout_ms=0)) == [
            0,
            1,
            2,
            3,
        ]


def test_a_lease_ends_with_the_node_and_the_first_who_comes_gets_it(tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as broker, HttpClient(broker.http) as client:
        client.create_topic("t")
        client.poll("t", **WHO, timeout_ms=0)
        end(broker, "kill")
        client.poll("t", group_id="g", consumer_id="other", timeout_ms=0)
        with pytest.raises(HttpRefused, match="active consumer"):
            client.poll("t", **WHO, timeout_ms=0)


def test_a_group_that_is_killed_again_and_again_loses_nothing(tmp_path: Path) -> None:
    """At least once: everything that was answered is consumed, in order, with repeats only after a kill."""
    published: list[int] = []
    is_over = threading.Event()
    with ServedBroker(tmp_path) as broker:
        address = broker.http
        with HttpClient(address) as client:
            client.create_topic("t")

        def publish() -> None:
            number = 0
            with HttpClient(address, timeout=5) as client:
                while not is_over.is_set():
                    try:
                        client.publish("t", number)
                        published.append(number)
                    except (PublishUncertain, ConnectionFailed, HttpRefused):
                        time.sleep(0.05)
                    number += 1

        publisher = threading.Thread(target=publish)
        publisher.start()
        seen: list[int] = []
        try:
            for _ in range(4):
                with HttpClient(address) as client:
                    until = time.monotonic() + 1.0
                    for record in client.consume("t", **WHO, max_records=20, timeout_ms=100, until_idle=True):
                        seen.append(record.value)
                        if time.monotonic() > until:
                            break
                end(broker, "kill")
        finally:
            is_over.set()
            publisher.join()
        with HttpClient(address) as client:
            seen += [record.value for record in client.consume("t", **WHO, timeout_ms=200, until_idle=True)]
            stored = [record.value for record in client.records("t")]
    assert set(published) <= set(stored)
    assert set(stored) <= set(seen)
    assert stored == sorted(stored)
    first_seen = list(dict.fromkeys(seen))
    assert first_seen == sorted(first_seen)
    assert len(published) > 50
