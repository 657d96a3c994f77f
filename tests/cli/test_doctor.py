"""`headrace doctor` on this machine: every fault is really planted, and its cause must be named, alone."""

from __future__ import annotations

import json
import os
import re
import resource
import socket
import tempfile
from itertools import takewhile
from pathlib import Path

import pytest

from headrace.log.format import VERSION
from headrace.records import kernel
from headrace.testing.served import ServedBroker
from tests.cli.planting import environment, failures, findings, mounted_doctor
from tests.cli.running import Run
from tests.support import ANYWHERE

NOBODY = 65534


def doors(broker: ServedBroker) -> tuple[str, ...]:
    return tuple(word for door, address in broker.addresses.items() for word in (f"--{door}", address))


def test_a_healthy_machine_has_nothing_that_fails(run: Run, tmp_path: Path) -> None:
    ended = run("doctor", "--data", str(tmp_path / "data"), *ANYWHERE)
    assert ended.code == 0, ended.out
    lines = ended.out.splitlines()
    assert lines[0].split() == ["CONDITION", "REQUIRED", "FOUND", "RESULT"]
    assert "FAILED" not in ended.out
    assert " ok" in ended.err
    assert os.listdir(tmp_path) == [], "it left something behind"


def test_a_node_and_its_machine_are_looked_at_together(run: Run, tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as broker:
        ended = run(
            "doctor", "--data", str(tmp_path / "data"), "--server", broker.address,
            *doors(broker), "-o", "json",
        )  # fmt: skip
        found = {one.condition: one for one in findings(ended)}
        assert not failures(ended)
        assert found["data lock"].found.startswith(f"held by pid {broker.pid} (")
        assert found[f"kafka port {broker.address}"].found.startswith(f"this node's (pid {broker.pid}")
        assert f"pid {broker.pid}" in found["open files"].found
        assert found["data format"].found == f"format {VERSION}"
        assert found["disk sync"].result in ("ok", "warning")
        assert found["node ready"].result == "ok"
        assert found[f"node 0 advertises {broker.address}"].result == "ok"
    assert not [name for name in os.listdir(tmp_path / "data") if "probe" in name]


def test_without_a_node_and_without_a_server_named_nothing_is_asked_of_one(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = {one.condition: one for one in findings(run("doctor", *ANYWHERE, "-o", "json"))}
    assert found["server"].result == "unknown"
    assert "headrace serve" in found["server"].advice


def test_a_node_that_runs_here_is_asked_where_its_settings_say(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ServedBroker(tmp_path) as broker:
        monkeypatch.setenv("HEADRACE_DATA", str(tmp_path / "data"))
        monkeypatch.setenv("HEADRACE_KAFKA", broker.address)
        monkeypatch.setenv("HEADRACE_HTTP", broker.http)
        found = {one.condition: one for one in findings(run("doctor", "-o", "json"))}
    assert found[f"{broker.address} is reached"].result == "ok"
    assert found["node ready"].result == "ok"


# Planted


def test_a_port_that_is_taken_is_named_with_who_takes_it(run: Run, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        data = str(tmp_path / "data")
        failed = failures(run("doctor", "--data", data, *ANYWHERE, "--kafka", at, "-o", "json"))
    assert list(failed) == [f"kafka port {at}"]
    assert failed[f"kafka port {at}"].found.startswith(f"taken by pid {os.getpid()} (")
    assert "--kafka HOST:PORT" in failed[f"kafka port {at}"].advice


def test_a_node_with_another_data_folder_is_known_as_one(run: Run, tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as broker:
        given = ("--data", str(tmp_path / "mine"), *ANYWHERE, "--kafka", broker.address)
        failed = failures(run("doctor", *given, "-o", "json"))
        (finding,) = failed.values()
        assert finding.condition == f"kafka port {broker.address}"
        assert finding.found.startswith(f"taken by pid {broker.pid} (headrace")
        assert "a node with another data folder: name its own with --data" in finding.advice


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    fill = 'mount -t tmpfs -o size=2m none "$1"; dd if=/dev/zero of="$1/all" bs=1M count=9 2>/dev/null || true'
    ended = mounted_doctor(tmp_path, fill, *ANYWHERE)
    failed = failures(ended)
    assert list(failed) == ["disk space", "data directory writable"]
    assert failed["disk space"].found == "0 B of 2.0 MiB free"
    assert "is full" in failed["disk space"].advice
    assert failed["data directory writable"].found.startswith("No space left on device")
    assert ended.err.endswith("LEFT all\n"), "a probe was left behind"


def test_a_disk_without_inodes_is_named_though_it_has_bytes(tmp_path: Path) -> None:
    few = 'mount -t tmpfs -o size=2g,nr_inodes=5 none "$1"'
    failed = failures(mounted_doctor(tmp_path, few, *ANYWHERE))
    assert list(failed) == ["disk space"]
    assert "inodes" in failed["disk space"].advice


def test_a_read_only_directory_is_named(tmp_path: Path) -> None:
    read_only = 'mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"'
    failed = failures(mounted_doctor(tmp_path, read_only, *ANYWHERE))
    assert list(failed) == ["data directory writable"]
    assert "mounted read-only" in failed["data directory writable"].advice


def test_a_directory_of_another_user_is_named(run: Run, tmp_path: Path) -> None:
    """Root may write everywhere, so root becomes nobody while it looks; a user is kept out by the mode alone."""
    data, user = tmp_path / "data", os.geteuid()
    arguments = ("doctor", "--data", str(data), *ANYWHERE, "-o", "json")
    run(*arguments)  # nobody may not read our modules: now they are all imported
    data.mkdir(mode=0o500)
    for folder in takewhile(lambda folder: folder != Path(tempfile.gettempdir()), (tmp_path, *tmp_path.parents)):
        if user == 0:
            folder.chmod(folder.stat().st_mode | 0o011)
    os.seteuid(user or NOBODY)
    try:
        failed = failures(run(*arguments))
    finally:
        os.seteuid(user)
    assert failed["data directory writable"].found.startswith("Permission denied")
    assert f"this is user id {user or NOBODY}" in failed["data directory writable"].advice


def test_memory_that_looks_like_a_disk_is_a_warning(tmp_path: Path) -> None:
    found = findings(mounted_doctor(tmp_path, 'mount -t tmpfs -o size=4g none "$1"', *ANYWHERE))
    warnings = [one.condition for one in found if one.result == "warning"]
    assert warnings == ([] if kernel.NATIVE else ["native kernels"]) + ["file system"]


@pytest.mark.parametrize(("version", "words"), [(0, "too old"), (VERSION + 1, "a newer headrace wrote it")])
def test_a_format_that_is_not_read_is_named(run: Run, tmp_path: Path, version: int, words: str) -> None:
    (tmp_path / "format").write_text(json.dumps({"format": version, "created_ms": 0}))
    failed = failures(run("doctor", "--data", str(tmp_path), *ANYWHERE, "-o", "json"))
    assert list(failed) == ["data format"]
    assert failed["data format"].found == f"format {version}"
    assert words in failed["data format"].advice
    assert os.listdir(tmp_path) == ["format"]


def test_a_node_refuses_the_old_format_with_the_same_cause(run: Run, tmp_path: Path) -> None:
    (tmp_path / "format").write_text('{"format": 0, "created_ms": 0}')
    ended = run.apart("serve", "--data", str(tmp_path), *ANYWHERE)
    assert ended.code == 7
    assert "has format 0, and this program reads from 1 on" in ended.err


def test_a_format_file_that_does_not_read_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "format").write_text("once upon a time")
    failed = failures(run("doctor", "--data", str(tmp_path), *ANYWHERE, "-o", "json"))
    assert "does not read" in failed["data format"].found


def test_the_directory_of_another_broker_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\n")
    failed = failures(run("doctor", "--data", str(tmp_path), *ANYWHERE, "-o", "json"))
    assert "belongs to Apache Kafka" in failed["data directory"].found


def test_a_file_in_place_of_the_directory_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    failed = failures(run("doctor", "--data", str(tmp_path / "data"), *ANYWHERE, "-o", "json"))
    assert failed["data directory"].found.endswith("is a file")


def test_a_low_limit_of_open_files_is_that_of_the_node_not_of_this_shell(run: Run, tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as broker:
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (256, 256))
        at = doors(broker)
        failed = failures(run("doctor", "--data", str(tmp_path / "data"), *at, "-o", "json"))
        assert list(failed) == ["open files"]
        assert failed["open files"].found.startswith(f"256 for the node (pid {broker.pid} ")
    assert "LimitNOFILE=" in failed["open files"].advice


def test_kernels_of_another_version_are_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "headrace_native.py").write_text("API_VERSION = 1\n__version__ = '0.0.1'\n")
    env = environment(PYTHONPATH=str(tmp_path / "path"))
    failed = failures(run.apart("doctor", "--data", str(tmp_path / "data"), *ANYWHERE, "-o", "json", env=env))
    assert list(failed) == ["native kernels"]
    assert failed["native kernels"].found == "version 1 (headrace-native 0.0.1)"
    assert "install the two together" in failed["native kernels"].advice


def test_settings_that_serve_would_refuse_are_named(run: Run, tmp_path: Path) -> None:
    failed = failures(run("doctor", "--data", str(tmp_path), "--kafka", "nowhere", "-o", "json"))
    assert list(failed) == ["settings"]
    assert "--kafka" in failed["settings"].found


def test_a_name_to_listen_at_that_nobody_knows_is_named(run: Run, tmp_path: Path) -> None:
    failed = failures(run("doctor", "--data", str(tmp_path), *ANYWHERE, "--kafka", "broker.invalid:9092", "-o", "json"))
    assert list(failed) == ["kafka port broker.invalid:9092"]
    assert "DNS" in failed["kafka port broker.invalid:9092"].advice


def test_an_address_of_another_machine_is_named(run: Run, tmp_path: Path) -> None:
    failed = failures(run("doctor", "--data", str(tmp_path), *ANYWHERE, "--kafka", "192.0.2.1:9092", "-o", "json"))
    assert "is not an address of this machine" in failed["kafka port 192.0.2.1:9092"].found


def test_every_condition_stands_in_the_documents(run: Run, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text()
    with ServedBroker(tmp_path) as broker:
        places = ("--data", str(tmp_path / "data"), "--server", broker.address)
        ended = run("doctor", *places, *doors(broker), "-o", "json")
    for one in findings(ended):
        pattern = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", one.condition)
        pattern = re.sub(r"^node \d+ ", "node N ", pattern).replace(str(tmp_path / "data"), "PATH")
        assert f"`{pattern}`" in page, "docs/doctor.md does not know it"


def test_help_says_what_it_does_and_shows_examples(run: Run) -> None:
    ended = run("doctor", "--help")
    assert ended.code == 0
    assert "headrace doctor --data" in ended.out
    assert "exit code is 8" in " ".join(ended.out.split())


def test_the_advice_stands_under_the_table(run: Run, tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("")
    ended = run("doctor", "--data", str(tmp_path), *ANYWHERE)
    assert ended.code == 8
    assert "  try: name an empty folder" in ended.out
    assert "1 failed" in ended.err


def test_a_node_on_other_ports_is_not_judged_by_who_has_the_ports_it_was_not_given(run: Run, tmp_path: Path) -> None:
    with ServedBroker(tmp_path / "one") as one, ServedBroker(tmp_path / "other") as other:
        others = doors(other)
        ended = run("doctor", "--data", str(tmp_path / "one" / "data"), *others, "-o", "json")
        found = {finding.condition: finding for finding in findings(ended)}
        port = found[f"kafka port {other.address}"]
        assert not failures(ended)
        assert port.result == "unknown"
        assert f"pid {one.pid} " in port.found
        assert one.address in port.found
        assert one.http in port.found
    assert "node ready" not in found, "another node was asked"
