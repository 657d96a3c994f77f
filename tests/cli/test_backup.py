"""`headrace backup` and `headrace restore` as a person uses them, on a real server and its real data folder."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.backup.manifest import NAME
from headrace.cli.backup_values import (
    BackupRow,
    Made,
    PartitionRow,
    RestoredDirectory,
    RestoredTopics,
    Verified,
)
from headrace.testing.served import ServedBroker
from tests.backup.kit import SMALL_SEGMENTS, fetched, served
from tests.cli.running import Run
from tests.support import ANYWHERE, Wire, batch_of, wait_until


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    with ServedBroker(tmp_path_factory.mktemp("broker")) as broker:
        with Wire(broker.address) as wire:
            wire.create_topic("orders", 2, SMALL_SEGMENTS)
            for number in range(40):
                wire.produce("orders", batch_of([b"%d" % number * 8000]), number % 2, acks=-1)
            wire.create_topic("small", 1, {"retention.ms": "-1"})
            wire.produce("small", batch_of([b"one", b"two", b"three"], "zstd"))
        yield broker


@pytest.fixture
def cli(broker: ServedBroker) -> Run:
    return Run(broker.address)


@pytest.fixture
def data(broker: ServedBroker) -> str:
    return str(broker.folder / "data")


def test_a_data_folder_goes_there_and_back(broker: ServedBroker, cli: Run, data: str, tmp_path: Path) -> None:
    target, new = tmp_path / "monday", tmp_path / "new"
    made = cli("backup", "create", str(target), "--data", data, "-o", "json").row(Made)
    assert (made.kind, made.source, made.topics, made.partitions, made.damage) == ("data", data, 2, 3, [])
    assert made.bytes > 40 * 8000 and made.reused_bytes == 0 and not made.resumed
    restored = cli("restore", str(target), "--data", str(new / "data"), "-o", "json").row(RestoredDirectory)
    assert (restored.topics, restored.partitions, restored.bytes) == (2, 3, made.bytes)
    with Wire(broker.address) as wire, served(new) as (_, elsewhere):
        for partition in range(2):
            assert fetched(wire, "orders", partition, 0, 20) == fetched(elsewhere, "orders", partition, 0, 20)


def test_what_was_done_is_said_in_words(cli: Run, data: str, tmp_path: Path) -> None:
    ended = cli("backup", "create", str(tmp_path / "monday"), "--data", data)
    assert ended.code == 0 and ended.out.startswith(f"Backed up the data folder of {data} to {tmp_path / 'monday'}: 2 ")
    ended = cli("backup", "verify", str(tmp_path / "monday"))
    assert ended.code == 0 and "is whole: " in ended.out
    ended = cli("restore", str(tmp_path / "monday"), "--data", str(tmp_path / "new"))
    assert ended.code == 0 and ended.out.startswith("Restored 2 topics, ")


def test_backups_are_listed_with_their_state(cli: Run, data: str, tmp_path: Path) -> None:
    assert cli("backup", "list", str(tmp_path)).err.startswith(f"No backups in {tmp_path}")
    cli("backup", "create", str(tmp_path / "monday"), "--data", data)
    cli("backup", "create", str(tmp_path / "tuesday"), "--data", data, "--incremental", str(tmp_path / "monday"))
    (tmp_path / "wednesday").mkdir()
    (tmp_path / "wednesday" / "progress.jsonl").touch()
    (tmp_path / "else").mkdir()
    rows = cli("backup", "list", str(tmp_path), "-o", "json").rows(BackupRow)
    assert [(row.name, row.state) for row in rows] == [
        ("monday", "complete"), ("tuesday", "complete"), ("wednesday", "unfinished"),
    ]  # fmt: skip
    assert rows[1].based_on == str(tmp_path / "monday")
    table = cli("backup", "list", str(tmp_path)).out.splitlines()
    assert table[0].split() == ["NAME", "STATE", "KIND", "MADE", "TOPICS", "PARTITIONS", "SIZE"]
    assert table[1].split()[:3] == ["monday", "complete", "data"]


def test_a_backup_tells_what_it_holds(cli: Run, data: str, tmp_path: Path) -> None:
    cli("backup", "create", str(tmp_path / "monday"), "--data", data)
    rows = cli("backup", "describe", str(tmp_path / "monday"), "-o", "json").rows(PartitionRow)
    assert [(r.topic, r.partition, r.start_offset, r.end_offset) for r in rows] == [
        ("orders", 0, 0, 20), ("orders", 1, 0, 20), ("small", 0, 0, 3),
    ]  # fmt: skip
    assert cli("backup", "describe", str(tmp_path / "monday")).out.splitlines()[0].split() == [
        "TOPIC", "PARTITION", "START", "END", "SIZE",
    ]  # fmt: skip


def test_topics_go_there_and_back_through_servers(broker: ServedBroker, cli: Run, tmp_path: Path) -> None:
    target = tmp_path / "topics"
    made = cli("backup", "create", str(target), "--topic", "orders", "--topic", "small", "-o", "json").row(Made)
    assert (made.kind, made.source, made.topics, made.partitions) == ("topics", broker.address, 2, 3)
    assert cli("backup", "verify", str(target), "-o", "json").row(Verified).ok
    with served(tmp_path / "there") as (other, elsewhere), Wire(broker.address) as wire:
        restored = Run(other.address)("restore", str(target), "-o", "json").row(RestoredTopics)
        assert {(p.topic, p.partition, p.shift, p.records) for p in restored.partitions} == {
            ("orders", 0, 0, 20), ("orders", 1, 0, 20), ("small", 0, 0, 3),
        }  # fmt: skip
        for partition in range(2):
            assert fetched(wire, "orders", partition, 0, 20) == fetched(elsewhere, "orders", partition, 0, 20)
        config = Run(other.address)("topic", "describe", "small", "-o", "json")
        assert "retention.ms" in config.out


def test_one_topic_of_a_data_backup_comes_back_under_another_name(cli: Run, data: str, tmp_path: Path) -> None:
    cli("backup", "create", str(tmp_path / "monday"), "--data", data)
    with served(tmp_path / "there") as (other, elsewhere):
        run = Run(other.address)
        ended = run("restore", str(tmp_path / "monday"), "--topic", "small", "--as", "smaller")
        assert ended.code == 0 and ended.out.splitlines()[1].split() == ["smaller", "0", "0", "3", "0", "3", "kept"]
        again = run("restore", str(tmp_path / "monday"), "--topic", "small", "--as", "smaller")
        assert again.code == 5 and "exists" in again.err
        unsure = run("restore", str(tmp_path / "monday"), "--topic", "small", "--as", "smaller", "--append")
        assert unsure.code == 5 and "--yes" in unsure.err
        more = ("restore", str(tmp_path / "monday"), "--topic", "small", "--as", "smaller", "--append", "--yes")
        assert run(*more).out.splitlines()[1].split()[-1] == "+3"
        values = [record.value for record in elsewhere.read_all("smaller")]
        assert values == [b"one", b"two", b"three"] * 2


def test_an_incremental_backup_of_a_topic_reads_only_what_is_new(
    cli: Run, broker: ServedBroker, tmp_path: Path
) -> None:
    with Wire(broker.address) as wire:
        wire.create_topic("growing")
        wire.produce("growing", batch_of([b"old" * 5000]))
        cli("backup", "create", str(tmp_path / "first"), "--topic", "growing")
        wire.produce("growing", batch_of([b"new" * 50]))
    again = (
        "backup",
        "create",
        str(tmp_path / "second"),
        "--topic",
        "growing",
        "--incremental",
        str(tmp_path / "first"),
    )
    made = cli(*again, "-o", "json").row(Made)
    assert made.reused_bytes > 15_000 and made.bytes - made.reused_bytes < 1000
    with served(tmp_path / "there") as (other, elsewhere):
        Run(other.address)("restore", str(tmp_path / "second"))
        assert [record.value for record in elsewhere.read_all("growing")] == [b"old" * 5000, b"new" * 50]


def test_a_flipped_bit_is_found_by_verify_and_by_restore(cli: Run, data: str, tmp_path: Path) -> None:
    cli("backup", "create", str(tmp_path / "monday"), "--data", data)
    victim = max((tmp_path / "monday").rglob("*.log"), key=lambda path: path.stat().st_size)
    bytes_ = bytearray(victim.read_bytes())
    bytes_[1000] ^= 4
    victim.write_bytes(bytes_)
    ended = cli("backup", "verify", str(tmp_path / "monday"), "-o", "json")
    assert ended.code == 8
    found = json.loads(ended.out)
    assert not found["ok"] and found["problems"][0]["path"] == str(victim.relative_to(tmp_path / "monday"))
    ended = cli("restore", str(tmp_path / "monday"), "--data", str(tmp_path / "new"))
    assert ended.code == 7 and victim.name in ended.err
    ended = Run()("serve", "--data", str(tmp_path / "new"), *ANYWHERE)
    assert ended.code == 7 and "restore" in ended.err, "half a restore is not served"
    ended = cli("restore", str(tmp_path / "monday"), "--topic", "orders", "--as", "damaged")
    assert ended.code == 7 and "nothing was sent" in ended.err


def test_a_changed_or_newer_manifest_is_refused(cli: Run, data: str, tmp_path: Path) -> None:
    cli("backup", "create", str(tmp_path / "monday"), "--data", data)
    path = tmp_path / "monday" / NAME
    text = path.read_text()
    path.write_text(text.replace('"start_offset": 0', '"start_offset": 1', 1))
    assert cli("backup", "verify", str(tmp_path / "monday")).code == 7
    assert cli("backup", "list", str(tmp_path), "-o", "json").rows(BackupRow)[0].state == "damaged"
    path.write_text(text.replace('{"format": 1', '{"format": 2', 1))
    ended = cli("restore", str(tmp_path / "monday"), "--data", str(tmp_path / "new"))
    assert ended.code == 7 and "format 2" in ended.err and not (tmp_path / "new").exists()


def test_a_backup_never_overwrites_and_a_restore_never_mixes(cli: Run, data: str, tmp_path: Path) -> None:
    target = str(tmp_path / "monday")
    assert cli("backup", "create", target, "--data", data).code == 0
    ended = cli("backup", "create", target, "--data", data)
    assert ended.code == 5 and "holds a backup already" in ended.err
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    assert cli("backup", "create", str(tmp_path / "full"), "--data", data).code == 5
    ended = cli("restore", target, "--data", str(tmp_path / "full"))
    assert ended.code == 5 and "not empty" in ended.err
    assert cli("restore", target, "--data", data).code == 5


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (("backup", "verify", "nowhere"), 4, "no folder"),
        (("backup", "list", "nowhere"), 4, "no folder"),
        (("backup", "create", "new", "--data", "nowhere"), 7, "no data directory"),
        (("backup", "create", "new", "--topic", "nothing"), 4, "nothing"),
        (("backup", "create", "new", "--data", "a", "--topic", "b"), 2, "do not go together"),
        (("backup", "create", "new", "--rate", "quick"), 2, "is not a size"),
        (("restore", "nowhere", "--data", "new"), 4, "no folder"),
    ],
)
def test_what_cannot_be_done_is_said_with_its_code(
    cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: tuple[str, ...], code: int, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = cli(*line)
    assert (ended.code, ended.out) == (code, "") and words in ended.err


def test_a_restore_needs_to_be_told_where(cli: Run, data: str, tmp_path: Path) -> None:
    cli("backup", "create", str(tmp_path / "monday"), "--data", data)
    ended = Run()("restore", str(tmp_path / "monday"))
    assert ended.code == 2 and "--data" in ended.err and "--server" in ended.err
    ended = cli("restore", str(tmp_path / "monday"), "--topic", "nothing")
    assert ended.code == 4 and "orders" in ended.err


def test_a_dry_run_writes_nothing(cli: Run, data: str, tmp_path: Path) -> None:
    ended = cli("backup", "create", str(tmp_path / "monday"), "--data", data, "--dry-run")
    assert ended.code == 0 and "Nothing was done" in ended.err and not (tmp_path / "monday").exists()
    cli("backup", "create", str(tmp_path / "monday"), "--data", data)
    ended = cli("restore", str(tmp_path / "monday"), "--data", str(tmp_path / "new"), "--dry-run")
    assert ended.code == 0 and "Nothing was done" in ended.err and not (tmp_path / "new").exists()


def test_a_backup_that_is_killed_is_none_and_the_next_goes_on(cli: Run, data: str, tmp_path: Path) -> None:
    target = tmp_path / "monday"
    line = ("backup", "create", str(target), "--data", data)
    started = cli.start(*line, "--rate", "500KiB")
    deadline = time.monotonic() + 30
    while not (target / "progress.jsonl").exists() or not (target / "progress.jsonl").stat().st_size:
        assert time.monotonic() < deadline and started.poll() is None
        time.sleep(0.005)
    second = cli(*line)
    assert second.code == 7 and "another process" in second.err
    started.kill()
    started.communicate()
    assert cli("backup", "verify", str(target)).code == 4
    assert cli("restore", str(target), "--data", str(tmp_path / "new")).code == 4
    made = cli(*line, "-o", "json").row(Made)
    assert made.resumed and made.reused_bytes > 0
    assert cli("backup", "verify", str(target)).code == 0
    assert sorted(path.name for path in target.iterdir()) == ["data", NAME]


def test_an_interrupted_backup_says_that_it_can_go_on(cli: Run, data: str, tmp_path: Path) -> None:
    target = tmp_path / "monday"
    started = cli.start("backup", "create", str(target), "--data", data, "--rate", "200KiB")
    wait_until(lambda: (target / "data" / "topics").exists() or started.poll() is not None)
    started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=30)
    assert started.returncode == 130 and b"the same command goes on with it" in err and b"Traceback" not in err
    assert cli("backup", "list", str(tmp_path), "-o", "json").rows(BackupRow)[0].state == "unfinished"


def test_the_data_folder_is_the_one_that_serve_would_take(
    cli: Run, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_DATA", data)
    assert cli("backup", "create", str(tmp_path / "monday"), "-o", "json").row(Made).source == data


def test_a_backup_does_not_go_into_the_folder_that_it_is_of(cli: Run, data: str) -> None:
    ended = cli("backup", "create", f"{data}/topics/backup", "--data", data)
    assert ended.code == 2 and "inside" in ended.err and not Path(f"{data}/topics/backup").exists()


def test_help_says_how(cli: Run) -> None:
    assert "Commands:" in cli("backup", "--help").out
    for verb in ("create", "verify", "list", "describe"):
        ended = cli("backup", verb, "--help")
        assert ended.code == 0 and "Examples:" in ended.out
    assert "headrace restore /backups/monday --data" in cli("restore", "--help").out
