"""`headrace serve` as a person starts it: what it says when it cannot, and what it leaves behind."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.cli import exits
from headrace.node.settings.table import LISTEN
from headrace.testing.served import ServedBroker
from tests.support import ANYWHERE, Wire, batch_of

LIMIT_S = 30.0


def headrace(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself."""
    return subprocess.run(
        [sys.executable, "-m", "headrace", *arguments],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env=os.environ | environment,
    )


def refused(*arguments: str, **environment: str) -> str:
    ended = headrace(*arguments, **environment)
    assert ended.returncode in (exits.USAGE, exits.REFUSED, exits.STORAGE)
    assert "Traceback" not in ended.stderr
    return ended.stderr


def test_help_that_nobody_reads_to_its_end_is_no_fault() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as nobody:
        command = [sys.executable, "-m", "headrace", "serve", "--help"]
        ended = subprocess.run(command, stdout=nobody, stderr=subprocess.PIPE, timeout=LIMIT_S)
    assert (ended.returncode, ended.stderr) == (exits.OK, b"")


def test_the_version_is_told() -> None:
    assert headrace("--version").stdout.startswith("headrace 0.")


def test_a_taken_port_is_named_with_the_flag_that_moves_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        words = refused("--data", str(tmp_path / "data"), *ANYWHERE, "--kafka", address)
    assert f"cannot listen on {address} for kafka: Address already in use; --kafka HOST:PORT moves it" in words


@pytest.mark.parametrize("kind", ["a file", "below a file"])
def test_a_path_that_cannot_be_a_data_directory_is_no_failed_disk(tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").write_text("x")
    data = tmp_path / "file" if kind == "a file" else tmp_path / "file" / "data"
    words = refused("serve", "--data", str(data), *ANYWHERE)
    assert f"{data} cannot be a data directory" in words
    assert "--data DIR" in words


def test_a_data_directory_that_is_in_use_is_named(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ServedBroker(tmp_path) as broker:
        words = refused("--data", str(data), *ANYWHERE)
        assert f"; it is held by pid {broker.pid} (" in words
    assert f"another process works in {data}" in words


def test_a_ready_file_is_there_while_the_node_serves_and_an_old_one_is_not_believed(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    ready.write_text(json.dumps({"pid": 1, "node_id": 0, "addresses": {}}))  # of a life that ended without a word
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        refused("--data", str(tmp_path / "d"), *ANYWHERE, "--kafka", address, "--ready-file", str(ready))
    assert not ready.exists()
    command = [sys.executable, "-m", "headrace", "--data", str(tmp_path / "d"), *ANYWHERE]
    node = subprocess.Popen([*command, "--ready-file", str(ready)], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + LIMIT_S
        while not ready.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        told = json.loads(ready.read_text())
        assert (told["pid"], told["node_id"]) == (node.pid, 0)
        host, _, port = told["addresses"]["kafka"].rpartition(":")
        socket.create_connection((host, int(port)), LIMIT_S).close()
    finally:
        node.terminate()
        assert node.wait(LIMIT_S) == 0
    assert not ready.exists()


def test_a_file_that_no_node_wrote_is_not_taken_for_a_ready_file(tmp_path: Path) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("precious")
    words = refused("--data", str(tmp_path / "d"), *ANYWHERE, "--ready-file", str(precious))
    assert f"--ready-file {precious} is there and no node wrote it" in words
    assert precious.read_text() == "precious"
    assert not (tmp_path / "d").exists()


def test_a_second_start_leaves_the_ready_file_to_the_node_that_serves(tmp_path: Path) -> None:
    with ServedBroker(tmp_path):
        (ready,) = tmp_path.glob("ready*")
        told = ready.read_text()
        words = refused("--data", str(tmp_path / "data"), *ANYWHERE, "--ready-file", str(ready))
        assert "another process works in" in words
        assert ready.read_text() == told


def test_a_node_that_stops_leaves_the_ready_file_of_another(tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as broker:
        (ready,) = tmp_path.glob("ready*")
        another = json.dumps(json.loads(ready.read_text()) | {"pid": broker.pid + 1})
        ready.write_text(another)
    assert ready.read_text() == another


def test_a_ready_file_that_cannot_be_written_is_told_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    ended = headrace("--data", str(tmp_path / "d"), *ANYWHERE, "--ready-file", str(tmp_path / "folder"))
    assert ended.returncode == exits.STORAGE
    assert "cannot write --ready-file" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "folder"]


def test_that_nobody_can_connect_is_told(tmp_path: Path) -> None:
    off = [word for door in LISTEN for word in (f"--{door}", "off")]
    command = [sys.executable, "-m", "headrace", "--data", str(tmp_path / "d"), *off]
    node = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert node.stderr is not None
        told: dict[str, object] = {}
        while "node.serving" not in told:
            entry = json.loads(node.stderr.readline())
            told[entry["event"]] = entry.get("why")
        assert told["node.settings"] == "every door is off: nobody can connect"
    finally:
        node.terminate()
        node.communicate(timeout=LIMIT_S)
    assert node.returncode == 0


def test_a_slip_in_a_variable_is_told(tmp_path: Path) -> None:
    words = refused("--data", str(tmp_path / "d"), "--node-id", "x", HEADRACE_DAAT="x")
    assert "--node-id" in words
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        slip = refused("--data", str(tmp_path / "d"), *ANYWHERE, "--kafka", at, HEADRACE_DAAT="x")
    (first, *_) = (json.loads(line) for line in slip.splitlines() if line.startswith("{"))
    assert (first["event"], first["level"]) == ("node.settings", "warning")
    assert "HEADRACE_DAAT is not a setting" in first["why"]


def test_log_lines_are_for_people_on_a_terminal_and_json_elsewhere(tmp_path: Path) -> None:
    terminal, end = os.openpty()
    with os.fdopen(terminal, "rb", buffering=0) as shown:
        command = [sys.executable, "-m", "headrace", "--data", str(tmp_path / "d"), *ANYWHERE]
        node = subprocess.Popen(command, stderr=end)
        os.close(end)
        lines = b""
        while b"node.serving" not in lines:
            lines += shown.read(4096)
        node.terminate()
        assert node.wait(LIMIT_S) == 0
    assert b" node.serving node_id=0 data=" in lines
    with ServedBroker(tmp_path / "elsewhere") as broker:
        assert {json.loads(line)["level"] for line in broker.log().splitlines()} <= {"info", "warning"}


def test_connections_never_take_the_log_its_open_files(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    command = (
        f"ulimit -n 500; exec {sys.executable} -m headrace --data {tmp_path}/d --ready-file {ready}"
        f" {' '.join(ANYWHERE)}"
    )
    log = (tmp_path / "log").open("w+")
    node = subprocess.Popen(["sh", "-c", command], stderr=log)
    connections = []
    try:
        deadline = time.monotonic() + LIMIT_S
        while not ready.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        address = json.loads(ready.read_text())["addresses"]["kafka"]
        with Wire(address) as wire:
            wire.create_topic("t", partitions=40)
            host, _, port = address.rpartition(":")
            connections = [socket.create_connection((host, int(port)), LIMIT_S) for _ in range(600)]
            for partition in range(40):
                wire.produce("t", batch_of([b"x"]), partition=partition, acks=-1)
    finally:
        for connection in connections:
            connection.close()
        node.terminate()
        assert node.wait(LIMIT_S) == 0
    log.seek(0)
    told = log.read()
    log.close()
    assert "node.fewer-connections" in told
    assert "kafka.connections-full" in told
    assert "log.failed" not in told
