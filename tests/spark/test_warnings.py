"""What goes on without some rows, or with less than was hoped for, is said on the terminal: once, with what it is."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from tests.clients.conftest import program
from tests.spark.data import create, fill, values
from tests.spark.stage import ROOT

pytestmark = pytest.mark.timeout(600)

LIMIT_S = 500.0  # of all of them together, on a busy machine
GONE = "retention or a deletion took"
GOES_ON = "before it was read; reading goes on, as failOnDataLoss=false asks"
SAID = {
    "a batch that lost records": f"{GONE} 1 to 2 {GOES_ON}",
    "a stream that lost a record": f"{GONE} offset 2 {GOES_ON}",
    "a broker without a ledger": "cannot commit a query's transactions as one, so rows are written at least once",
    "a write that was there": "batch 4 of writeId 'twice' was written before, as 'spark-write:twice/",
    "the rows that were left out": "the 7 rows of this repetition were left out",
}


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory, headrace_address: str, kafka_address: str) -> Iterator[str]:
    program("java")
    topic = f"mishaps-{time.time_ns()}"
    for address, name in ((headrace_address, topic), (headrace_address, f"{topic}-repeated"), (kafka_address, topic)):
        create(address, name, 1)
    fill(headrace_address, topic, 5, partitions=1)
    with headrace.connect(headrace_address) as client:
        client.admin.delete_records(topic, {0: 3})
    folder = str(tmp_path_factory.mktemp("checkpoint"))
    command = [sys.executable, "-m", "tests.spark.mishaps", headrace_address, kafka_address, topic, folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr[-5000:]
    assert len(values(headrace_address, f"{topic}-repeated")) == len(values(kafka_address, topic)) == 7
    yield done.stderr


@pytest.mark.parametrize("mishap", SAID)
def test_a_mishap_that_stops_nothing_is_told_once(terminal: str, mishap: str) -> None:
    assert terminal.count(SAID[mishap]) == 1, terminal


SHORT = """
import sys
import headrace.spark

servers, topic, checkpoint = sys.argv[1:]
spark = headrace.spark.session("short", "local[1]")
rows = headrace.spark.read_stream(spark, servers, topic, group=f"{topic}-group", startingOffsets="earliest")
query = headrace.spark.write_stream(rows.select("value"), servers, f"{topic}-copy", checkpoint)
query.trigger(availableNow=True).start().awaitTermination()
"""


def test_a_program_that_ends_with_its_query_ends_without_a_word(headrace_address: str, tmp_path: Path) -> None:
    program("java")
    topic = f"short-{time.time_ns()}"
    create(headrace_address, topic, 1)
    fill(headrace_address, topic, 5, partitions=1)
    command = [sys.executable, "-c", SHORT, headrace_address, topic, str(tmp_path / "checkpoint")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr[-5000:]
    assert "ERROR" not in done.stderr and "Exception" not in done.stderr, done.stderr
    with headrace.connect(headrace_address) as client:
        positions = client.admin.group_offsets(f"{topic}-group")
    assert [position.offset for position in positions.values()] == [5], "the last batch was heard of, too"
    assert len(values(headrace_address, f"{topic}-copy")) == 5
