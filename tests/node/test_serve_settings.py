"""What settings do to a real node: each test starts one with a file, and asks it as a client would."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from headrace.cli import exits
from headrace.testing.served import ServedBroker

LIMIT_S = 30.0
QUIET = {"log_level": 0, "broker.address.family": "v4"}


def test_topics_of_the_settings_are_there_from_the_start_and_stay_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text("""
        [topics]
        default = ["orders:3", { name = "audit", config = { retention.ms = "1d" } }]
        auto-create = false
        [topic.defaults]
        retention.ms = "2d"
        segment.bytes = "1MiB"
    """)
    with ServedBroker(tmp_path, "--config", str(file)) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address} | QUIET)
        topics = admin.list_topics(timeout=LIMIT_S).topics
        assert {name: len(topic.partitions) for name, topic in topics.items()} == {"orders": 3, "audit": 1}
        assert setting(admin, "audit", "retention.ms") == "86400000"
        assert setting(admin, "orders", "retention.ms") == "172800000"
        assert setting(admin, "audit", "segment.bytes") == "1048576"
        broker.stop()
        file.write_text('[topics]\ndefault = ["orders:9"]')
        broker.start()
        topics = admin.list_topics(timeout=LIMIT_S).topics
        assert {name: len(topic.partitions) for name, topic in topics.items()} == {"orders": 3, "audit": 1}
        assert setting(admin, "orders", "retention.ms") == "604800000"
        del admin


def setting(admin: AdminClient, topic: str, name: str) -> str:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    (answer,) = admin.describe_configs([resource], request_timeout=LIMIT_S).values()
    return answer.result()[name].value


def test_a_topic_of_the_settings_that_cannot_be_made_is_told_and_the_node_serves(tmp_path: Path) -> None:
    with ServedBroker(tmp_path, "--default-topics", "first:3") as broker:
        broker.stop()
    flags = ("--default-topics", "second:3", "--max-partitions", "4")
    with ServedBroker(tmp_path, *flags) as broker:
        topics = AdminClient({"bootstrap.servers": broker.address} | QUIET).list_topics(timeout=LIMIT_S).topics
        assert set(topics) == {"first"}
        assert "topic.not-created" in broker.log()


def test_clients_are_told_the_advertised_address(tmp_path: Path) -> None:
    with ServedBroker(tmp_path, "--kafka-advertised", "broker.example:19092") as broker:
        admin = AdminClient({"bootstrap.servers": broker.address} | QUIET)
        (node,) = admin.list_topics(timeout=LIMIT_S).brokers.values()
        assert (node.host, node.port) == ("broker.example", 19092)
        del admin


def test_levels_decide_which_events_are_logged(tmp_path: Path) -> None:
    with ServedBroker(tmp_path, "--log-level", "error", "--log-levels", "node=info,node.stopping=error") as broker:
        broker.stop()
        events = [json.loads(line)["event"] for line in broker.log().splitlines() if line.startswith("{")]
    assert events[0] == "node.serving"
    assert events[-1] == "node.stopped"
    assert "node.stopping" not in events


def test_a_variable_names_the_file_and_what_it_says_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "node.json"
    file.write_text('{"node": {"id": 7}}')
    monkeypatch.setenv("HEADRACE_CONFIG", str(file))
    with ServedBroker(tmp_path):
        assert json.loads((tmp_path / "ready.json").read_text())["node_id"] == 7


def test_everything_that_is_wrong_is_told_at_once_and_nothing_is_made(tmp_path: Path) -> None:
    (tmp_path / "headrace.toml").write_text("[node]\nid = -1\n")
    ended = subprocess.run(
        [sys.executable, "-m", "headrace", "serve", "--data", "d", "--kafak", "x", "--http", "y", "stray", "--idle-ms"],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        cwd=tmp_path,
    )
    assert ended.returncode == exits.USAGE
    lines = ended.stderr.splitlines()
    assert [line.split()[1].rstrip(":") for line in lines[:-1]] == [
        "stray",
        "--idle-ms",
        "--kafak",
        "--http",
        "headrace.toml:2",
    ]
    assert "did you mean --kafka?" in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["headrace.toml"]


def test_the_help_of_serve_names_every_flag_and_its_default() -> None:
    from headrace.cli.flags import WIDTH, help_text
    from headrace.node.settings import SETTINGS

    text = help_text()
    for setting in SETTINGS:
        assert f"--{setting.flag}" in text
    assert "(default: 127.0.0.1:9092)" in text
    assert max(map(len, text.splitlines())) <= WIDTH
