"""`headrace import lines DIR`: JSON lines become records that the lines door shows as they were."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from headrace.cli import exits
from headrace.cli.importing.command import ImportedPartition
from headrace.testing import Broker
from tests.cli.running import Run
from tests.importing.planted import lines_entry, lines_folder


def history(broker: Broker, topic: str, count: int) -> list[str]:
    host, _, port = broker.addresses["lines"].rpartition(":")
    with socket.create_connection((host, int(port)), 10) as wire, wire.makefile("rb") as answers:
        wire.sendall(f"HISTORY {topic} {count}\n".encode())
        assert answers.readline() == b"OK connected\n"
        lines = list(iter(answers.readline, b"OK history end\n"))
    return [line.decode().rstrip("\n") for line in lines]


def test_ids_offsets_times_and_texts_are_as_they_were(broker: Broker, cli: Run, tmp_path: Path) -> None:
    texts = ["Hello, distributed world!", "zwei  Leerzeichen", "日本語", "x" * 60_000]
    folder = lines_folder(tmp_path, {"chat": texts, "news": ["one"]})
    rows = cli("import", "lines", str(folder), "-o", "json").rows(ImportedPartition)
    assert [(row.topic, row.records, row.sent, row.result) for row in rows] == [
        ("chat", 4, 4, "verified"),
        ("news", 1, 1, "verified"),
    ]
    shown = [line.split(" ", 5) for line in history(broker, "chat", 10)]
    for number, (text, words) in enumerate(zip(texts, shown, strict=True), 1):
        entry = lines_entry(number, text)
        assert words[:4] == ["HISTORY", "chat", entry["id"], str(number)]
        assert float(words[4]) == pytest.approx(float(str(entry["ts"])), abs=0.001)
        assert words[5] == text


def test_a_second_import_finds_everything_and_sends_nothing(cli: Run, tmp_path: Path) -> None:
    folder = lines_folder(tmp_path, {"twice": map(str, range(2500))})
    assert cli("import", "lines", str(folder)).code == 0
    (again,) = cli("import", "lines", str(folder), "-o", "json").rows(ImportedPartition)
    assert (again.records, again.found, again.sent, again.result) == (2500, 2500, 0, "verified")


def test_what_was_added_to_the_folder_since_is_all_that_is_sent(broker: Broker, cli: Run, tmp_path: Path) -> None:
    lines_folder(tmp_path, {"grown": map(str, range(100))})
    assert cli("import", "lines", str(tmp_path)).code == 0
    lines_folder(tmp_path, {"grown": map(str, range(150))})
    (row,) = cli("import", "lines", str(tmp_path), "-o", "json").rows(ImportedPartition)
    assert (row.found, row.sent) == (100, 50)
    assert broker.values("grown") == [str(number).encode() for number in range(150)]


def test_a_dry_run_counts_and_sends_nothing(broker: Broker, cli: Run, tmp_path: Path) -> None:
    lines_folder(tmp_path, {"untouched": ["a", "b"]})
    (row,) = cli("import", "lines", str(tmp_path), "--dry-run", "-o", "json").rows(ImportedPartition)
    assert (row.records, row.sent, row.result) == (2, 0, "not sent")
    assert "untouched" not in broker.topics()


def test_a_line_that_a_crash_tore_is_left_out_and_told(broker: Broker, cli: Run, tmp_path: Path) -> None:
    file = lines_folder(tmp_path, {"torn": ["a", "b"]}) / "torn.log"
    with file.open("a") as end:
        end.write('{"id": "msg_1", "offset": 3, "ts": 17')
    ended = cli("import", "lines", str(tmp_path))
    assert ended.code == 0
    assert f"torn at the end, left out: {file}:3" in ended.err
    assert broker.values("torn") == [b"a", b"b"]


def test_a_whole_last_line_that_does_not_read_is_damage(cli: Run, tmp_path: Path) -> None:
    log = lines_folder(tmp_path, {"ended": ["a"]}) / "ended.log"
    log.write_bytes(log.read_bytes() + b"XXXX\n")
    ended = cli("import", "lines", str(tmp_path))
    assert ended.code != 0
    assert f"{log}:2" in ended.err
    assert "torn" not in ended.err


def test_damage_in_the_middle_is_named_and_nothing_is_sent_unless_it_may_be_left_out(
    broker: Broker, cli: Run, tmp_path: Path
) -> None:
    file = lines_folder(tmp_path, {"hurt": ["a", "b", "c"]}) / "hurt.log"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], "not JSON", lines[2]]) + "\n")
    ended = cli("import", "lines", str(tmp_path))
    assert ended.code == exits.REFUSED
    assert f"does not read: {file}:2" in ended.err and "--skip-damaged" in ended.err
    assert "hurt" not in broker.topics()
    (row,) = cli("import", "lines", str(tmp_path), "--skip-damaged", "-o", "json").rows(ImportedPartition)
    assert (row.records, row.damaged) == (2, 1)
    assert broker.values("hurt") == [b"a", b"c"]


def test_a_topic_with_records_of_somebody_else_is_not_appended_to(broker: Broker, cli: Run, tmp_path: Path) -> None:
    broker.produce("shared", "theirs")
    lines_folder(tmp_path, {"shared": ["ours", "more"]})
    ended = cli("import", "lines", str(tmp_path))
    assert ended.code == exits.REFUSED
    assert "it holds other records than the source begins with" in ended.err and "--prefix" in ended.err
    assert broker.values("shared") == [b"theirs"]
    assert cli("import", "lines", str(tmp_path), "--prefix", "old-").code == 0
    assert broker.values("old-shared") == [b"ours", b"more"]


def test_a_topic_that_has_more_than_the_source_is_not_called_verified(broker: Broker, cli: Run, tmp_path: Path) -> None:
    lines_folder(tmp_path, {"longer": ["a", "b"]})
    assert cli("import", "lines", str(tmp_path)).code == 0
    broker.produce("longer", "another")
    ended = cli("import", "lines", str(tmp_path))
    assert ended.code == exits.REFUSED
    assert "it holds 3 records, and the source 2" in ended.err


def test_old_records_are_not_gone_by_the_next_retention(broker: Broker, cli: Run, tmp_path: Path) -> None:
    lines_folder(tmp_path, {"old": ["from last year"]})
    assert cli("import", "lines", str(tmp_path)).code == 0
    broker.clock.advance("30 d")
    assert broker.values("old") == [b"from last year"]


def test_only_the_topics_that_were_named_are_imported(broker: Broker, cli: Run, tmp_path: Path) -> None:
    lines_folder(tmp_path, {"wanted": ["a"], "unwanted": ["b"]})
    assert cli("import", "lines", str(tmp_path), "--only", "wanted").code == 0
    assert "unwanted" not in broker.topics()
    missing = cli("import", "lines", str(tmp_path), "--only", "nowhere")
    assert missing.code == exits.NOT_FOUND and "no topic 'nowhere'" in missing.err


def test_names_that_kafka_could_not_have_are_imported_too(broker: Broker, cli: Run, tmp_path: Path) -> None:
    lines_folder(tmp_path, {"Straße:1": ["grüß"]})
    assert cli("import", "lines", str(tmp_path)).code == 0
    assert history(broker, "Straße:1", 1)[0].endswith(" grüß")


def test_a_folder_without_such_files_is_told(cli: Run, tmp_path: Path) -> None:
    ended = cli("import", "lines", str(tmp_path))
    assert ended.code == exits.NOT_FOUND
    assert "holds no <topic>.log files" in ended.err


def test_a_topic_that_is_called_like_a_store_still_takes_a_file(broker: Broker, cli: Run, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"value": "plain"}) + "\n")
    assert cli("import", "lines", str(file), "--create", "1").code == 0
    assert broker.values("lines") == [b"plain"]
    for words in (("--prefix", "x"), ("--skip-damaged",), ("--only", "x")):
        refused = cli("import", "lines", str(file), *words)
        assert refused.code == exits.USAGE and "options of a STORE" in refused.err
    folder = lines_folder(tmp_path / "store", {"t": ["a"]})
    assert cli("import", "lines", str(folder), "--create", "3").code == exits.USAGE
