"""`headrace export` and `headrace import` on a real server: there and back, equal to the byte."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.cli.export import Exported, Imported
from headrace.cli.record_values import RecordRow
from headrace.records import codec
from headrace.records.record import Record
from tests.cli.planting import closed_port, environment, mounted
from tests.cli.running import Run
from tests.support import MIB, Wire, batch_of, wait_until

NOW_MS = time.time_ns() // 1_000_000  # older records would be retention's, newer ones are refused
AWKWARD = [
    Record(None, None, (), NOW_MS),
    Record(b"", b"", (("", b""), ("h", None)), NOW_MS + 1),
    Record(b"\xff\x00", b'a,"b"\r\nc', (("h", b"\xfe"), ("h", b"again")), NOW_MS + 2),
    Record("ключ".encode(), b'{"json": true}', (), NOW_MS + 3),
]
FORMATS = ("jsonl", "csv", "parquet", "jsonl.gz", "csv.gz")


def fill(server: str, topic: str, partitions: int = 3) -> None:
    """Every partition its own order of the awkward records."""
    with Wire(server) as wire:
        wire.create_topic(topic, partitions)
        for partition in range(partitions):
            records = AWKWARD[partition:] + AWKWARD[:partition]
            for compression in ("none", "gzip"):
                batch = codec.encode(records, codec.BatchOptions(compression=compression))
                assert wire.produce(topic, batch, partition, acks=-1).error == 0


def content(server: str, topic: str, partitions: int = 3) -> list[list[Record]]:
    with Wire(server) as wire:
        return [wire.read_all(topic, partition) for partition in range(partitions)]


@pytest.mark.parametrize("ending", FORMATS)
def test_there_and_back_is_equal_to_the_byte(cli: Run, server: str, tmp_path: Path, ending: str) -> None:
    source, copy, file = f"from-{ending}", f"to-{ending}", str(tmp_path / f"records.{ending}")
    fill(server, source)
    exported = cli("export", source, file, "-o", "json").row(Exported)
    assert (exported.records, exported.topic, exported.bytes) == (24, source, os.path.getsize(file))
    with Wire(server) as wire:
        wire.create_topic(copy, 3)
    imported = cli("import", copy, file, "--keep-partitions", "--keep-timestamps", "-o", "json").row(Imported)
    assert imported.records == 24
    assert content(server, copy) == content(server, source), "key, value, headers, time, partition and offset"


def test_the_same_topic_gives_the_same_file(cli: Run, server: str, tmp_path: Path) -> None:
    fill(server, "same")
    for name in ("a.jsonl", "b.jsonl"):
        assert cli("export", "same", str(tmp_path / name)).code == 0
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


def test_standard_output_is_json_lines_and_nothing_else(cli: Run, server: str) -> None:
    fill(server, "stream", 1)
    ended = cli("export", "stream")
    rows = ended.lines(RecordRow)
    assert [row.offset for row in rows] == list(range(8))
    assert "Exported 8 records" in ended.err


def test_standard_input_is_json_lines_unless_told_otherwise(cli: Run, server: str) -> None:
    assert cli("import", "piped", "--create", "1", stdin='{"value": "one", "key": "k"}\n{"value": null}\n').code == 0
    assert cli("import", "piped", "--format", "csv", stdin="value\ntwo\n").code == 0
    (records,) = content(server, "piped", 1)
    assert [(record.key, record.value) for record in records] == [(b"k", b"one"), (None, None), (None, b"two")]


def test_what_consume_prints_can_be_imported(cli: Run, server: str) -> None:
    fill(server, "printed", 1)
    printed = cli("consume", "printed", "-o", "jsonl", "--count", "8")
    assert cli("import", "again", "--create", "1", stdin=printed.out).code == 0
    assert [(r.key, r.value, r.headers) for r in content(server, "again", 1)[0]] == [
        (r.key, r.value, r.headers) for r in content(server, "printed", 1)[0]
    ]


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        (("--start", "3"), [3, 4, 5, 6, 7]),
        (("--end", "2"), [0, 1]),
        (("--start", "-2"), [6, 7]),
        (("--start", "1", "--end", "-6"), [1]),
        (("--end", "0"), []),
        (("--start", "end"), []),
        (("--start", f"@{NOW_MS + 3}"), [3, 4, 5, 6, 7]),
    ],
)
def test_a_range_is_exported_alone(cli: Run, server: str, options: tuple[str, ...], offsets: list[int]) -> None:
    topic = "range-" + "-".join(options).replace("@", "at-")
    fill(server, topic, 1)
    ended = cli("export", topic, "-", *options)
    assert [row.offset for row in ended.lines(RecordRow)] == offsets


def test_partitions_are_chosen(cli: Run, server: str) -> None:
    fill(server, "chosen")
    ended = cli("export", "chosen", "-", "--partition", "0,2")
    assert sorted({row.partition for row in ended.lines(RecordRow)}) == [0, 2]
    missed = cli("export", "chosen", "-", "--partition", "7")
    assert missed.code == 4
    assert "no partition 7" in missed.err


def test_without_being_told_to_keep_them_times_are_new_and_keys_choose(cli: Run, server: str, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("key,value,timestamp_ms,partition\n" + "k,v,5,2\n" * 3)
    assert cli("import", "fresh", str(tmp_path / "in.csv"), "--create", "3").code == 0
    (records,) = [found for found in content(server, "fresh") if found]
    assert len(records) == 3
    assert min(record.timestamp_ms for record in records) > 1_700_000_000_000


# What it says no to


def test_a_file_that_is_there_is_replaced_only_on_purpose(cli: Run, server: str, tmp_path: Path) -> None:
    fill(server, "twice", 1)
    file = tmp_path / "out.jsonl"
    file.write_text("precious")
    refused = cli("export", "twice", str(file))
    assert refused.code == 5
    assert "--yes" in refused.err
    assert "--dry-run" not in refused.err, "export has none"
    assert file.read_text() == "precious"
    assert cli("export", "twice", str(file), "--yes").code == 0
    assert len(file.read_text().splitlines()) == 8


def test_a_folder_that_is_not_there_is_told_with_the_file_that_was_asked_for(
    cli: Run, server: str, tmp_path: Path
) -> None:
    fill(server, "homeless", 1)
    file = tmp_path / "nowhere" / "out.csv"
    ended = cli("export", "homeless", str(file))
    assert (ended.code, ended.err) == (7, f"headrace: {file}: No such file or directory\n")


def test_a_topic_that_is_not_there_is_named_with_what_to_do(cli: Run, tmp_path: Path) -> None:
    assert cli("export", "nowhere", str(tmp_path / "out.csv")).code == 4
    assert os.listdir(tmp_path) == [], "no file, not even half of one"
    ended = cli("import", "nowhere", stdin='{"value": "v"}')
    assert ended.code == 4
    assert "--create N" in ended.err


def test_a_row_for_a_partition_that_is_not_there_is_named(cli: Run) -> None:
    cli("topic", "create", "narrow", "--partitions", "2")
    ended = cli("import", "narrow", "--keep-partitions", stdin='{"value": "v", "partition": 5}')
    assert ended.code == 5
    assert "a row is for partition 5, and topic narrow has 2" in ended.err
    ended = cli("import", "narrow", "--keep-partitions", stdin='{"value": "v"}')
    assert ended.code == 2


def test_a_bad_line_is_named_with_its_file(cli: Run, tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text('{"value": "v"}\nnonsense\n')
    ended = cli("import", "bad", str(file), "--create", "1")
    assert ended.code == 5
    assert f"{file}: line 2 is not JSON" in ended.err
    assert "0 records had been sent by then" in ended.err


@pytest.mark.parametrize("spoil", [lambda raw: raw[:-20], lambda raw: raw[:40] + b"spoilt" + raw[46:], lambda _: b"no"])
def test_a_file_that_does_not_unfold_is_named(run: Run, tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    file = tmp_path / "cut.jsonl.gz"
    rows = "".join(json.dumps({"value": os.urandom(50).hex()}) + "\n" for _ in range(100))
    file.write_bytes(spoil(gzip.compress(rows.encode())))
    ended = run("import", "t", str(file), "--dry-run")
    assert ended.code == 5
    assert f"{file} does not unfold as gzip" in ended.err


def test_how_far_an_import_came_is_told(cli: Run, server: str) -> None:
    rows = '{"value": "v"}\n' * 2500
    ended = cli("import", "partly", "--create", "1", stdin=rows + "nonsense")
    assert ended.code == 5
    assert "2,000 records had been sent by then" in ended.err
    assert len(content(server, "partly", 1)[0]) == 2000


def test_a_file_that_is_not_there_and_a_format_that_is_not_known_are_named(cli: Run, tmp_path: Path) -> None:
    assert cli("import", "any", str(tmp_path / "none.csv")).code == 4
    assert cli("export", "any", str(tmp_path / "out.xml")).code == 2
    assert cli("import", "any", "x.csv", "--acks", "7").code == 2


def test_a_dry_run_reads_the_file_and_sends_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("value\none\ntwo\n")
    at = ("-s", f"127.0.0.1:{closed_port()}")
    assert run(*at, "import", "t", str(tmp_path / "in.csv"), "--dry-run", "-o", "json").row(Imported).records == 2


def test_a_record_that_the_server_refuses_is_told(cli: Run) -> None:
    cli("topic", "create", "small", "--config", "max.message.bytes=1000")
    ended = cli("import", "small", stdin=json.dumps({"value": "x" * 5000}))
    assert ended.code == 5
    assert "Imported" not in ended.out


def test_whoever_stops_reading_ends_an_export_quietly(cli: Run, server: str) -> None:
    with Wire(server) as wire:
        wire.create_topic("piped-away")
        wire.produce("piped-away", batch_of([b"v" * 1000] * 900), acks=1)
    running = cli.start("export", "piped-away", "-q")
    assert running.stdout is not None
    running.stdout.readline()
    running.stdout.close()
    running.stdout = None
    _, error = running.communicate()
    assert (running.returncode, error) == (0, b"")


def test_a_pipe_that_is_slow_does_not_hold_up_what_was_sent(cli: Run, server: str) -> None:
    running = cli.start("import", "slowly", "--create", "1")
    assert running.stdin is not None
    running.stdin.write(b'{"value": "v"}\n' * 1000)
    running.stdin.flush()
    with Wire(server) as wire:
        wait_until(lambda: wire.topic_id("slowly") is not None)
        wait_until(lambda: len(wire.read_all("slowly")) == 1000)
    out, error = running.communicate(b'{"value": "last"}')
    assert running.returncode == 0, error
    assert out == b"Imported 1,001 records into slowly.\n"


def test_an_import_that_waits_for_its_pipe_can_be_interrupted(cli: Run) -> None:
    running = cli.start("import", "waiting", "--create", "1")
    wait_until(lambda: "waiting" in cli("topic", "list", "-o", "csv").out)
    running.send_signal(signal.SIGINT)
    assert running.wait(10) == 130
    running.communicate()


def test_without_pyarrow_parquet_names_the_extra(cli: Run, server: str, tmp_path: Path) -> None:
    fill(server, "no-arrow", 1)
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "pyarrow.py").write_text("raise ImportError\n")
    env = environment(PYTHONPATH=str(tmp_path / "path"))
    ended = cli.apart("export", "no-arrow", str(tmp_path / "out.parquet"), env=env)
    assert ended.code == 5
    assert "headrace[columns]" in ended.err
    assert os.listdir(tmp_path) == ["path"]


def test_a_full_disk_is_told_and_leaves_no_file(cli: Run, server: str, tmp_path: Path) -> None:
    with Wire(server) as wire:
        wire.create_topic("large")
        wire.produce("large", batch_of([os.urandom(1000)] * 900), acks=1)
    ended = mounted(
        tmp_path, 'mount -t tmpfs -o size=200k none "$1"', *cli.line("export", "large", f"{tmp_path}/out.jsonl")
    )
    assert ended.code == 7
    assert "No space left on device" in ended.err
    assert ended.err.endswith("LEFT\n"), "a part of it was left behind"


def test_memory_stays_bounded_however_large_the_topic(cli: Run, server: str, tmp_path: Path) -> None:
    """300 MB of values go out and in again through processes that may not have as much memory."""
    with Wire(server) as wire:
        wire.create_topic("huge")
        batch = batch_of([b"v" * 10_000] * 100)
        for _ in range(300):
            assert wire.produce("huge", batch, acks=1).error == 0
    file = str(tmp_path / "huge.jsonl")
    assert peak_bytes(cli, "export", "huge", file) < 128 * MIB
    assert peak_bytes(cli, "import", "huge-again", file, "--create", "1") < 128 * MIB
    with Wire(server) as wire:
        assert wire.fetch("huge-again", 29_999).high_watermark == 30_000


def peak_bytes(cli: Run, *arguments: str) -> int:
    """The largest that the process was, by its own word: what the kernel counts for its parent begins with the parent's
    own size."""
    script = "import sys; from headrace.cli.main import main; code = main(sys.argv[1:]); "
    script += "print(open('/proc/self/status').read(), file=sys.stderr); sys.exit(code)"
    done = subprocess.run([sys.executable, "-c", script, *cli.line(*arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


@pytest.mark.parametrize("command", ["export", "import"])
def test_help_shows_examples(run: Run, command: str) -> None:
    ended = run(command, "--help")
    assert ended.code == 0
    assert f"headrace {command} orders" in ended.out
