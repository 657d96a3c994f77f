"""The doors of a node: each can be moved, switched off, bounded; a port that is taken is named with the flag that moves
it; what is published at one is counted there."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, cast

import httpx
import pytest
import uvloop

from headrace.cli import exits
from headrace.errors import HeadraceError
from headrace.log.files import OsFiles
from headrace.log.store import LogStore
from headrace.node import doors
from headrace.node.doors import TCP
from headrace.node.node import Node
from headrace.node.real import RealClock, Threads
from headrace.node.settings import Address, load, read, settings_of
from headrace.node.settings.doors import TCP_DOORS
from headrace.node.settings.table import LISTEN
from headrace.testing import Broker
from headrace.testing.served import DOORS
from tests.support import ANYWHERE, serving, wait_until

LIMIT_S = 30.0
linux_binds_twice = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the second cannot even bind")


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


QUICKER = """
import socket, sys
from headrace.cli.main import main
from headrace.node import doors

door, listening, serve = sys.argv.pop(), [], doors.serve

async def too_late(name, of_node, at):
    if name == door:
        listening.append(socket.create_server((at.host, at.port)))
    await serve(name, of_node, at)

doors.serve = too_late
sys.exit(main())
"""  # a node; but somebody listens at that door's port after the node has bound it, and before it listens itself


@linux_binds_twice
@pytest.mark.parametrize("door", ["kafka", "http", "msgpack"])
def test_who_is_too_late_to_listen_is_told_as_of_any_taken_port(tmp_path: Path, door: str) -> None:
    data, ready = tmp_path / "data", tmp_path / "ready"
    node = ["--data", str(data), *ANYWHERE, "--ready-file", str(ready)]
    ended = subprocess.run(
        [sys.executable, "-c", QUICKER, "serve", *node, door], capture_output=True, text=True, timeout=LIMIT_S
    )
    assert ended.returncode == exits.REFUSED, ended.stderr
    *before, told = ended.stderr.splitlines()
    assert re.match(rf"headrace: cannot listen on \S+ for {door}: Address already in use; --{door} HOST:PORT", told)
    assert not any("Traceback" in line or "node.fault" in line or "node.serving" in line for line in before)
    assert not ready.exists()


class Started(NamedTuple):
    node: Node
    error: BaseException | None


async def started_at_once(tmp_path: Path, door: str, port: int) -> list[Started]:
    """Two nodes with one port: both have bound it before either listens at it."""
    loop, both, serve = asyncio.get_running_loop(), asyncio.Barrier(2), doors.serve

    async def together(name: str, of_node: doors.Door, at: Address) -> None:
        if name == door:
            await both.wait()
        await serve(name, of_node, at)

    nodes = []
    for name in ("one", "other"):
        threads = Threads(loop)
        given = dict.fromkeys(DOORS, "127.0.0.1:0") | {"data": str(tmp_path / name), door: f"127.0.0.1:{port}"}
        node = Node(
            settings_of(load(given, {})),
            files=OsFiles(),
            clock=RealClock(),
            background=threads,
            chance=random.Random(),
            on_event=lambda name, fields: None,
            end_background=threads.close,
        )
        nodes.append(node)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(doors, "serve", together)
        errors = await asyncio.gather(*(node.start() for node in nodes), return_exceptions=True)
    return [Started(*pair) for pair in zip(nodes, errors, strict=True)]


@linux_binds_twice
@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("door", ["kafka", "json"])
def test_of_two_nodes_that_start_at_once_one_serves_and_nothing_of_the_other_is_left(
    tmp_path: Path, door: str, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def main() -> None:
        faults: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
        with socket.socket() as kept:  # for the two of them: nobody else is given this port
            kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            kept.bind(("127.0.0.1", 0))
            started = await started_at_once(tmp_path, door, kept.getsockname()[1])
        (serving,) = (each.node for each in started if each.error is None)
        ((refused, error),) = (each for each in started if each.error is not None)
        assert isinstance(error, HeadraceError)
        assert str(error).startswith(f"cannot listen on {serving.addresses[door]} for {door}: Address already in use; ")
        assert not any(each.is_listening for each in refused.doors.values())
        assert not any(cast(Any, each)._server.sockets for each in refused.doors.values())
        assert all(each.is_listening for each in serving.doors.values())
        assert all([await asyncio.to_thread(is_open, str(address)) for address in serving.addresses.values()])
        threads = Threads(asyncio.get_running_loop())
        LogStore.open(refused.settings.data, OsFiles(), RealClock(), threads).close()  # its lock has been let go
        threads.close()
        await serving.stop()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert not faults

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


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
