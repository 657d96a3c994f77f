"""`headrace doctor` on a server: every fault is really planted, and its cause must be named, alone."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cli.doctor.cluster import only_there
from headrace.testing.served import ServedBroker
from tests.cli.planting import (
    answering,
    broker_that_advertises,
    closed_port,
    failures,
    findings,
    full_backlog,
    listening,
    mounted,
    old_broker,
    skewed_path,
)
from tests.cli.running import Ended, Run

AHEAD_S = 7200


def ask(run: Run, *servers: str) -> Ended:
    return run("doctor", "--server", ",".join(servers), "--timeout", "1s", "-o", "json")


@pytest.fixture
def other(tmp_path: Path) -> Iterator[ServedBroker]:
    with ServedBroker(tmp_path / "other") as broker:
        yield broker


def test_a_server_that_is_well_has_nothing_that_fails(cli: Run, server: str) -> None:
    ended = cli("doctor")
    assert ended.code == 0, ended.out
    assert ended.out.splitlines()[0].split() == ["CONDITION", "REQUIRED", "FOUND", "RESULT"]
    assert f"node 0 advertises {server}" in ended.out
    assert "python" not in ended.out, "this machine was not asked about"


def test_the_clock_of_a_server_is_known_without_writing_to_it(run: Run, server: str) -> None:
    found = {one.condition: one for one in findings(ask(run, server))}
    assert found["node 0 clock"].result == "ok"
    assert float(found["node 0 clock"].found.split()[0]) < 1.0


def test_the_disk_of_a_server_is_known_from_afar(run: Run, server: str) -> None:
    disks = [one for one in findings(ask(run, server)) if one.condition.startswith("node 0 disk")]
    assert [one.result for one in disks] == ["ok"]
    assert "free" in disks[0].found


# Planted


def test_an_advertised_address_where_nothing_listens_is_named(run: Run, tmp_path: Path) -> None:
    wrong = f"127.0.0.1:{closed_port()}"
    with ServedBroker(tmp_path, "--kafka-advertised", wrong) as broker:
        failed = failures(ask(run, broker.address))
    assert list(failed) == [f"node 0 advertises {wrong}"]
    assert failed[f"node 0 advertises {wrong}"].found == "connection refused"
    assert "--kafka-advertised" in failed[f"node 0 advertises {wrong}"].advice


def test_an_advertised_name_that_nobody_knows_is_named(run: Run, tmp_path: Path) -> None:
    with ServedBroker(tmp_path, "--kafka-advertised", "broker.invalid:9092") as broker:
        failed = failures(ask(run, broker.address))
    (found,) = failed.values()
    assert found.condition == "node 0 advertises broker.invalid:9092"
    assert "does not resolve" in found.found
    assert "--kafka-advertised" in found.advice


def test_an_advertised_address_of_another_cluster_is_named(run: Run, tmp_path: Path, other: ServedBroker) -> None:
    with ServedBroker(tmp_path / "this", "--kafka-advertised", other.address) as broker:
        (found,) = failures(ask(run, broker.address)).values()
    assert found.condition == f"node 0 advertises {other.address}"
    assert "another cluster answers" in found.advice


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_an_advertised_address_that_is_none_is_named(run: Run, host: str) -> None:
    with answering(broker_that_advertises(host)) as at:
        (found,) = failures(ask(run, at)).values()
    assert found.condition.startswith("node 1 advertises ")
    assert "no address to connect to" in found.found
    assert "advertised.listeners" in found.advice


def test_a_loopback_address_is_wrong_for_who_came_from_afar() -> None:
    assert only_there("localhost", "192.0.2.7") == "localhost is loopback, and the server was reached at 192.0.2.7"
    assert only_there("127.0.0.1", "127.0.0.1") is None
    assert only_there("broker.example", "192.0.2.7") is None


def test_a_name_that_dns_does_not_know_is_named(run: Run) -> None:
    (found,) = failures(ask(run, "broker.invalid:9092")).values()
    assert found.condition == "broker.invalid:9092 resolves"
    assert "DNS" in found.advice


def test_a_dns_server_that_does_not_answer_is_named(tmp_path: Path) -> None:
    silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with contextlib.closing(silent):
        try:
            silent.bind(("127.9.9.9", 53))
        except PermissionError:
            pytest.skip("this user may not stand in for a DNS server")
        (tmp_path / "resolv.conf").write_text("nameserver 127.9.9.9\n")
        ended = mounted(
            tmp_path, 'mount --bind "$1/resolv.conf" /etc/resolv.conf',
            "doctor", "--server", "broker.example:9092", "--timeout", "1s", "-o", "json",
        )  # fmt: skip
    (found,) = failures(ended).values()
    assert found.found == "no answer from DNS for broker.example in 1 s"
    assert "/etc/resolv.conf" in found.advice


def test_a_server_that_drips_its_answer_is_not_waited_for(run: Run) -> None:
    def drip(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            for byte in b"\0\1\0\0" + bytes(40):
                connection.sendall(bytes([byte]))
                time.sleep(0.1)

    with listening(drip) as at:
        begin = time.monotonic()
        (found,) = failures(ask(run, at)).values()
    assert time.monotonic() - begin < 3
    assert "gave no answer in 1 s" in found.found


def test_a_server_that_does_not_run_is_named(run: Run) -> None:
    at = f"127.0.0.1:{closed_port()}"
    (found,) = failures(ask(run, at)).values()
    assert (found.condition, found.found) == (f"{at} is reached", "connection refused")
    assert "nothing listens" in found.advice


def test_one_dead_server_among_live_ones_is_named(run: Run, server: str) -> None:
    at = f"127.0.0.1:{closed_port()}"
    ended = ask(run, at, server)
    assert list(failures(ended)) == [f"{at} is reached"]
    assert any(one.condition == f"node 0 advertises {server}" for one in findings(ended))


def test_a_node_that_no_packet_reaches_is_named(run: Run) -> None:
    with full_backlog() as at:
        (found,) = failures(ask(run, at)).values()
    assert (found.condition, found.found) == (f"{at} is reached", "no connection in 1 s")
    assert "firewall" in found.advice


def test_a_node_that_hangs_is_named(run: Run, tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as broker:
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            (found,) = failures(ask(run, broker.address)).values()
        finally:
            os.kill(broker.pid, signal.SIGCONT)
    assert found.condition == f"{broker.address} speaks Kafka"
    assert found.found == "takes connections, but gave no answer in 1 s"


def test_a_broker_of_a_version_that_does_not_fit_is_named(run: Run) -> None:
    with answering(old_broker) as at:
        (found,) = failures(ask(run, at)).values()
    assert found.condition == f"{at} has the versions"
    assert found.found == "Produce 0-2, Fetch 0-2, no ListOffsets, Metadata 0-2"
    assert "version does not fit" in found.advice


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "speaks HTTP"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "speaks TLS"),
        (b"SSH-2.0-OpenSSH\r\n", "not as Kafka does"),
        (b"\0\0\0\x04\0\0\0\x09", "not as Kafka does"),
        (b"\0\0\0\x06\0\0\0\x01\0\0", "not as Kafka does"),
        (b"", "closed the connection without an answer"),
    ],
)
def test_a_port_of_something_else_is_named(run: Run, answer: bytes, words: str) -> None:
    with answering(lambda _: answer) as at:
        (found,) = failures(ask(run, at)).values()
    assert words in found.found


def test_the_http_door_taken_for_the_kafka_door_is_named(run: Run, tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as broker:
        (found,) = failures(ask(run, broker.http)).values()
    assert found.condition == f"{broker.http} speaks Kafka"


def test_a_clock_that_is_wrong_is_named(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", skewed_path(tmp_path / "path", AHEAD_S))
    with ServedBroker(tmp_path / "broker") as broker:
        (found,) = failures(ask(run, broker.address)).values()
    assert found.condition == "node 0 clock"
    assert abs(float(found.found.split()[0]) - AHEAD_S) < 5
    assert "ahead" in found.found
    assert "chrony" in found.advice


def test_servers_of_different_clusters_are_named(run: Run, server: str, other: ServedBroker) -> None:
    failed = failures(ask(run, server, other.address))
    assert list(failed) == ["cluster"]
    assert "different clusters" in failed["cluster"].advice


def test_what_is_no_address_is_named(run: Run) -> None:
    (found,) = failures(ask(run, "127.0.0.1:port")).values()
    assert "HOST:PORT" in found.advice
