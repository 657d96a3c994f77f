"""What goes wrong is said in one clear sentence, soon, by batches and streams, reading and writing: the first line of
the error has it, no stack of Python's or Java's stands around it, and none is on the terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from headrace.spark.errors import InvalidOption
from headrace.spark.plain import HIDE, plain
from tests.clients.conftest import program
from tests.spark.data import create
from tests.support import serving

pytestmark = pytest.mark.timeout(600)

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 500.0  # of all of them together
SOON_S = 30.0  # a start of Spark's processes, on a machine that may be busy; none waits for a time-out
NOBODY = "127.0.0.1:1: connection refused; is a broker running there, and is that its Kafka port?"
UNKNOWN = "topic 'no-such-topic': there is no such topic"
SENTENCES = {
    "batch, bad option": "there is no option startingoffset; did you mean startingOffsets?",
    "batch, bad value": "startingOffsets is earliest, latest or JSON such as {",
    "batch, not for batches": "a batch cannot start at the latest offsets: there would be nothing in it",
    "batch, unreachable": NOBODY,
    "batch, unknown topic": UNKNOWN,
    "batch, wrong schema": "column 'value' is binary and cannot be read as int",
    "batch, unknown column": "there is no column 'val'; there are key, value, topic",
    "batch, no address": "servers: 'http://x:1': leave out http://, and name the port of the Kafka door (9092)",
    "batch, no port": "servers: 'x:99999' is not an address: give HOST:PORT, as in 127.0.0.1:9092",
    "batch, a time too far": "startingTimestamp is milliseconds since 1970, up to 9223372036854775807, not '1180591",
    "batch, a time too long": "timeout is a time of 24 days at the most, not '99999999999999999999d'",
    "batch, too much": "prefetchBytes is at most 2147483647, not 1180591620717411303424",
    "batch, nested too deeply": "startingOffsets is earliest, latest or JSON such as {",
    "batch, a column twice": "the schema has the column 'value' twice: name each column once",
    "batch, behind the end": "topic 't' partition 0 ends at 0, and was read or planned up to 1000: the log was cut,",
    "batch, backwards": "topic 't' partition 0: the batch would start at 2 and end before that, at 1",
    "batch, no such file": "value.schema 'none.avsc' is not an Avro schema in JSON, and there is no such file",
    "batch, a file that is no text": "latin.avsc' is not an Avro schema in JSON: the file is not UTF-8",
    "batch, a decimal too wide": "a decimal needs a precision from 1 to 38; the schema gives 50",
    "batch, a decimal of no width": "a decimal needs a precision from 1 to 38; the schema gives none",
    "stream, no address": "servers: '[::1' is not an address: give HOST:PORT, as in 127.0.0.1:9092",
    "stream, bad option": "there is no option maxoffsetpertrigger; did you mean maxOffsetsPerTrigger?",
    "stream, not for streams": "a stream has no end: endingOffsets and endingTimestamp belong to batches",
    "stream, unreachable": NOBODY,
    "stream, unknown topic": UNKNOWN,
    "stream, wrong type of decoded values": "column 'value' is string by its format and cannot be read as int",
    "write, bad option": "there is no option topik; did you mean topic?",
    "write, unreachable": NOBODY,
    "write, impossible topic": "topic 'a/b c': no topic can have that name",
    "write, wrong schema": "column 'value' is string or binary, not bigint",
    "write, no Avro schema": "value.schema: this is not an Avro schema: a part of it has no 'type'",
    "write, no such partition": "a row goes to partition 7, and the topic has partitions 0 to 0",
    "write, no address": "servers: ':9092' is not an address: give HOST:PORT, as in 127.0.0.1:9092",
    "write, no such file": "value.schema 'none.avsc' is not an Avro schema in JSON, and there is no such file",
    "write, a header without a key": "a header without a key: in the column `headers` each has one; leave out what",
    "write, months": "column 'm' is interval month, which value.format=json cannot write: cast it to string or int",
    "write, no text": "column 's' is no UTF-8 in a row: cast it to binary, or mend it",
    "write, other than Avro's name": "column 'Amount' has no field in value.schema, where there are amount: rename",
    "write, other than Avro's type": "column 'amount' is double, and its field in value.schema long: cast the column,",
    "write, null where Avro has none": "column 'amount' is null in a row, and its field in value.schema takes no null",
    "write, a number without an id": "batchId does nothing without writeId: give both, or neither",
    "query, an id of its own": "writeId is of batch writes: a stream's id and numbers are those of its checkpoint",
    "query, bad value": "compression is one of none, gzip, snappy, lz4, zstd, not 'rar'",
    "query, unreachable": NOBODY,
}


class Stumbled(NamedTuple):
    told: dict[str, tuple[str, float]]
    terminal: str


@pytest.fixture(scope="module")
def stumbled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stumbled]:
    program("java")
    with serving(tmp_path_factory.mktemp("node")) as node:
        create(node.address, "t", 1)
        command = [sys.executable, "-m", "tests.spark.stumbles", node.address, "t", str(tmp_path_factory.mktemp("at"))]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)
        assert done.returncode == 0, done.stderr[-5000:]
        yield Stumbled(json.loads(done.stdout.splitlines()[-1]), done.stderr)


@pytest.mark.parametrize("mistake", SENTENCES)
def test_a_mistake_is_one_sentence_and_comes_soon(stumbled: Stumbled, mistake: str) -> None:
    text, seconds = stumbled.told[mistake]
    # What Spark adds to a query's error, its plan and its offsets, comes after.
    said = text.partition("=== Streaming Query ===")[0].removeprefix(
        "An exception was thrown from the Python worker:\n"
    )
    assert SENTENCES[mistake] in said.splitlines()[0]
    assert len([line for line in said.splitlines() if line.strip() and "SQLSTATE" not in line]) == 1
    assert "Traceback" not in text and "\tat " not in text
    assert seconds < SOON_S


def test_the_terminal_shows_no_stacks(stumbled: Stumbled) -> None:
    assert set(stumbled.told) == set(SENTENCES)
    assert "\tat " not in stumbled.terminal and "Traceback" not in stumbled.terminal
    assert len(stumbled.terminal.splitlines()) < 3 * len(SENTENCES), stumbled.terminal


def test_a_missing_java_is_one_sentence_at_the_end_and_comes_soon(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": str(tmp_path)}
    begin = time.monotonic()
    code = "import headrace.spark; headrace.spark.session()"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(
        "headrace.spark.errors.JavaMissing: Spark needs Java 17 or newer, and there is no `java` on the PATH; install"
    )
    assert time.monotonic() - begin < SOON_S


def test_errors_that_are_not_ours_keep_their_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HIDE, raising=False)

    @plain
    class Broken:
        def read(self, error: Exception) -> Iterator[int]:
            yield 1
            raise error

    for error, is_hidden in ((ValueError("a fault"), False), (InvalidOption("a mistake"), True)):
        with pytest.raises(type(error)):
            list(Broken().read(error))
        assert (HIDE in os.environ) == is_hidden
    monkeypatch.delenv(HIDE)
