"""The doors of a node: each can be moved, switched off, bounded; a port that is taken is named with the flag that moves
it; what is published at one is counted there."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from headrace.cli import exits
from headrace.node.doors import TCP
from headrace.node.settings import Address, load, read, settings_of
from headrace.node.settings.doors import TCP_DOORS
from headrace.node.settings.table import LISTEN
from headrace.testing import Broker
from headrace.testing.served import DOORS
from tests.support import ANYWHERE, serving, wait_until

LIMIT_S = 30.0


def connected(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), LIMIT_S)


def is_open(address: str) -> bool:
    try:
        connected(address).close()
    except OSError:
        return False
    return True


def test_every_door_has_settings_and_every_door_on_plain_tcp_a_class() -> None:
    assert set(LISTEN) == set(DOORS)
    assert set(TCP) == set(TCP_DOORS) == set(DOORS) - {"kafka", "http"}


def test_the_usual_ports_are_those_that_clients_expect() -> None:
    ports = {name: str(address) for name, address in read({}, {}).listen().items()}
    assert ports == {
        "kafka": "127.0.0.1:9092",
        "binary": "127.0.0.1:9999",
        "lines": "127.0.0.1:8888",
        "json": "127.0.0.1:9000",
        "http": "127.0.0.1:8081",
        "msgpack": "127.0.0.1:36912",
    }


def test_the_json_door_counts_its_port_from_the_nodes_id_unless_it_is_told() -> None:
    assert read({"node-id": "3"}, {}).json == Address("127.0.0.1", 9003)
    assert read({"node-id": "3", "json": "127.0.0.1:9000"}, {}).json == Address("127.0.0.1", 9000)
    (problem,) = load({"node-id": "60000"}, {}).problems
    assert "--json HOST:PORT moves it" in problem.text


def test_two_doors_at_one_address_are_refused_before_anything_starts() -> None:
    (problem,) = load({"lines": "127.0.0.1:9092"}, {}).problems
    assert "127.0.0.1:9092 cannot be the address of two doors" in problem.text
    assert settings_of(load({"lines": "127.0.0.1:0", "json": "127.0.0.1:0"}, {})).lines == Address("127.0.0.1", 0)


@pytest.mark.parametrize("door", DOORS)
def test_a_taken_port_is_named_with_the_flag_that_moves_it(tmp_path: Path, door: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [sys.executable, "-m", "headrace", "--data", str(tmp_path / "data"), *ANYWHERE, f"--{door}", address]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert ended.returncode == exits.REFUSED
    assert f"cannot listen on {address} for {door}: Address already in use; --{door} HOST:PORT moves it" in ended.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("my..host", "'my..host' can be no host's name"),
        (f"{'x' * 64}.local", "can be no host's name"),
        ("no.such.host.invalid", "'no.such.host.invalid' is not known ("),
    ],
)
@pytest.mark.parametrize("door", ["kafka", "lines"])
def test_a_host_that_cannot_be_is_named_with_the_flag_that_moves_it(
    tmp_path: Path, door: str, host: str, why: str
) -> None:
    address = f"{host}:9092"
    command = [sys.executable, "-m", "headrace", "--data", str(tmp_path / "data"), *ANYWHERE, f"--{door}", address]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert ended.returncode == exits.REFUSED, ended.stderr
    assert f"cannot listen on {address} for {door}: " in ended.stderr
    assert why in ended.stderr
    assert f"--{door} HOST:PORT moves it" in ended.stderr
    assert "Traceback" not in ended.stderr and "Unknown error" not in ended.stderr


def test_a_variable_opens_a_door_elsewhere_and_off_does_not_open_it(tmp_path: Path) -> None:
    flags = [word for door in DOORS if door not in ("lines", "msgpack") for word in (f"--{door}", "off")]
    ready = tmp_path / "ready"
    command = [sys.executable, "-m", "headrace", "--data", str(tmp_path / "data"), *flags, "--ready-file", str(ready)]
    given = {"HEADRACE_LINES": "127.0.0.1:0", "HEADRACE_MSGPACK": "off"}
    with subprocess.Popen(command, env=os.environ | given, stderr=subprocess.DEVNULL) as node:
        try:
            wait_until(ready.exists, LIMIT_S)
            addresses = json.loads(ready.read_text())["addresses"]
            assert list(addresses) == ["lines"]
            with connected(addresses["lines"]) as wire:
                assert wire.recv(100) == b"OK connected\n"
        finally:
            node.terminate()
            assert node.wait(LIMIT_S) == 0


def test_all_doors_close_when_the_node_stops_and_are_there_again_after_a_crash() -> None:
    with Broker() as broker:
        addresses = broker.addresses
        assert set(addresses) == set(DOORS) and all(map(is_open, addresses.values()))
        broker.crash()
        assert not any(map(is_open, addresses.values()))
        broker.restart()
        assert broker.addresses == addresses and all(map(is_open, addresses.values()))
        broker.stop()
        assert not any(map(is_open, addresses.values()))


def test_a_door_that_a_test_does_not_want_is_not_there() -> None:
    with Broker(lines="off", msgpack="off") as broker:
        assert set(broker.addresses) == set(DOORS) - {"lines", "msgpack"}


def test_a_door_has_its_own_limit_of_connections() -> None:
    with Broker(lines_max_connections=2) as broker, ExitStack() as stack:
        wires = [stack.enter_context(connected(broker.addresses["lines"])) for _ in range(3)]
        assert [wire.recv(100) for wire in wires[:2]] == [b"OK connected\n"] * 2
        assert b"connected" not in wires[2].recv(100)
        with connected(broker.addresses["binary"]) as other:
            other.settimeout(0.2)
            with pytest.raises(TimeoutError):  # nobody closed it
                other.recv(1)


def test_connections_of_all_doors_together_leave_the_log_its_files(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    flags = f"--data {tmp_path}/data --ready-file {ready} {' '.join(ANYWHERE)}"
    log = (tmp_path / "log").open("w+")
    node = subprocess.Popen(["sh", "-c", f"ulimit -n 500; exec {sys.executable} -m headrace {flags}"], stderr=log)
    with ExitStack() as stack:
        try:
            wait_until(ready.exists, LIMIT_S)
            addresses = json.loads(ready.read_text())["addresses"]
            for door in ("lines", "binary", "json", "msgpack"):
                for _ in range(60):
                    stack.enter_context(connected(addresses[door]))
            wait_until(lambda: "door.connections-full" in (tmp_path / "log").read_text(), LIMIT_S)
            open_files = len(os.listdir(f"/proc/{node.pid}/fd"))
            assert open_files < 250, "half of 244 files are for connections, and some are the node's own"
        finally:
            node.terminate()
            assert node.wait(LIMIT_S) == 0
            log.close()


def test_every_door_counts_for_itself(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        with connected(broker.addresses["lines"]) as wire, wire.makefile("rb") as answers:
            wire.sendall(b"PUB t one\nPUB t two\nQUIT\n")
            assert answers.read().endswith(b"OK bye\n")
        page = f"http://{broker.http}/metrics/prometheus"
        wait_until(lambda: 'headrace_door_connections{door="lines"} 0.0' in httpx.get(page).text, LIMIT_S)
        told = httpx.get(page).text.splitlines()
    assert 'headrace_door_connections_opened_total{door="lines"} 1.0' in told
    assert 'headrace_door_published_records_total{door="lines"} 2.0' in told
    assert 'headrace_door_connections_opened_total{door="binary"} 0.0' in told
    assert 'headrace_door_connections_limit{door="msgpack"} 10000.0' in told
