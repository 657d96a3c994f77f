"""`config/broker.json` of the binary protocol's own broker: known by its shape, with its limits and topics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.compat.binary_values import Refused
from headrace.compat.broker_client import BrokerClient
from headrace.doors.binary.limits import BinaryLimits
from headrace.node.settings import Address, Settings, Tree, load, read, settings_of
from tests.support import Wire, batch_of, serving

WHOLE = {
    "server": {
        "host": "0.0.0.0",
        "port": 10000,
        "max_connections": 50,
        "connection_timeout": 120,
        "heartbeat_interval": 0.5,
    },
    "storage": {
        "data_dir": "./storage/data",
        "snapshot_dir": "./storage/snapshots",
        "snapshot_interval": 60,
        "max_log_size": 104857600,
        "sync_interval": 1,
    },
    "topics": {"default_partitions": 2, "max_partitions": 8, "retention_hours": 12, "max_message_size": 4096},
    "client": {"max_retries": 3, "retry_delay": 1, "request_timeout": 30, "auto_ack": True},
    "logging": {"level": "DEBUG", "format": "%(message)s", "file": None},
}


def tree(tmp_path: Path, content: object) -> Tree:
    file = tmp_path / "broker.json"
    file.write_text(json.dumps(content, indent=2))
    return load({"config": str(file)}, {}, ())


def settings(tmp_path: Path, content: object) -> Settings:
    return settings_of(tree(tmp_path, content))


def limits(settings: Settings) -> BinaryLimits:
    found = settings.door_limits["binary"]
    assert isinstance(found, BinaryLimits)
    return found


def test_every_key_has_the_effect_that_its_name_says(tmp_path: Path) -> None:
    got = settings(tmp_path, WHOLE)
    assert got.binary == Address("0.0.0.0", 10000)
    assert got.data == "./storage/data"
    assert got.log_level == "debug"
    assert got.broker.default_partitions == 2
    assert got.broker.topic_defaults == {"segment.bytes": "104857600", "flush.ms": "1000"}
    bounds = limits(got)
    assert (bounds.max_connections, bounds.idle_ms, bounds.heartbeat_ms) == (50, 120_000, 500)
    assert (bounds.max_partitions, bounds.retention_ms, bounds.max_message_bytes) == (8, 12 * 3_600_000, 4096)


def test_what_such_a_file_leaves_out_is_as_that_broker_had_it(tmp_path: Path) -> None:
    got = settings(tmp_path, {"server": {"port": 9999}})
    bounds = limits(got)
    assert (bounds.max_partitions, bounds.retention_ms, bounds.max_message_bytes) == (16, 86_400_000, 1 << 20)
    assert (bounds.max_connections, bounds.idle_ms, bounds.heartbeat_ms) == (100, 300_000, 30_000)
    assert got.data == "headrace-data"


def test_its_start_topics_are_made_with_its_retention(tmp_path: Path) -> None:
    topics = settings(tmp_path, {"topics": {"retention_hours": 1}}).default_topics
    assert [(topic.name, topic.partitions) for topic in topics] == [("events", 2), ("logs", 1), ("notifications", 3)]
    assert {topic.configs["retention.ms"] for topic in topics} == {"3600000"}


def test_without_such_a_file_none_of_its_limits_and_topics_hold() -> None:
    got = read({}, {})
    assert got.default_topics == ()
    assert limits(got) == BinaryLimits()


def test_keys_without_effect_are_told_with_their_lines(tmp_path: Path) -> None:
    content = WHOLE | {"storage": WHOLE["storage"] | {"compress": True}}
    got = tree(tmp_path, content)
    assert got.problems == []
    told = [str(warning).removeprefix(str(tmp_path)) for warning in got.warnings]
    assert "/broker.json:11 storage.snapshot_dir has no effect: snapshots are kept beside the logs" in told[0]
    named = {warning.text.split()[0] for warning in got.warnings}
    assert {"client.max_retries", "client.auto_ack", "logging.file", "storage.snapshot_interval"} < named
    assert any("storage.compress is not a key of such a file and has no effect" in line for line in told)


@pytest.mark.parametrize(
    ("content", "place", "words"),
    [
        ({"server": {"port": "x"}}, ":3", "takes HOST:PORT"),
        ({"server": {"heartbeat_interval": "soon"}}, ":3", "server.heartbeat_interval takes a number of seconds"),
        ({"topics": {"retention_hours": []}}, ":3", "topics.retention_hours takes a number of hours"),
        ({"server": {}, "topics": {"max_partitions": -1}}, ":4", "binary.max-partitions"),
        ({"server": 5}, ":2", "server is a section"),
        ({"logging": {"level": "LOUD"}}, ":3", "log.level"),
    ],
)
def test_a_wrong_value_is_told_with_its_line(tmp_path: Path, content: object, place: str, words: str) -> None:
    (problem,) = tree(tmp_path, content).problems
    assert problem.where.endswith(f"broker.json{place}")
    assert words in problem.text


def test_a_file_in_our_own_shape_is_read_as_ours(tmp_path: Path) -> None:
    got = settings(tmp_path, {"node": {"id": 3}, "topics": {"default_partitions": 2}})
    assert (got.node_id, got.broker.default_partitions, got.default_topics) == (3, 2, ())
    assert limits(got) == BinaryLimits()
    mixed = tree(tmp_path, {"server": {"port": 1}, "kafka": {"listen": "off"}})
    assert any("[server] is not a section" in problem.text for problem in mixed.problems)


def test_it_is_found_where_that_broker_looked_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "broker.json").write_text('{"server": {"port": 10001}}')
    found = settings_of(load({}, {}))
    assert found.binary == Address("127.0.0.1", 10001)


def test_a_node_with_such_a_file_has_its_topics_and_keeps_its_limits_at_the_binary_door(tmp_path: Path) -> None:
    file = tmp_path / "broker.json"
    file.write_text(json.dumps({"server": {"max_connections": 5}, "topics": {"max_message_size": 2000}}))
    with serving(tmp_path / "node", "--config", str(file)) as broker:
        host, _, port = broker.addresses["binary"].rpartition(":")
        with BrokerClient(host, int(port)) as client:
            for topic, partitions in (("events", 2), ("logs", 1), ("notifications", 3)):
                client.publish(topic, "x", partitions - 1)
                with pytest.raises(Refused, match=f"Invalid partition {partitions}"):
                    client.publish(topic, "x", partitions)
            with pytest.raises(Refused, match="Partition count 17 exceeds maximum 16"):
                client.create_topic("wide", 17)
            client.create_topic("wide", 16)
            with pytest.raises(Refused, match=r"Message size \d+ exceeds maximum 2000"):
                client.publish("wide", b"x" * 2000)
        with Wire(broker.address) as wire:
            assert wire.produce("events", batch_of([b"x" * 5000])).error == 0, "other doors have their own limits"
