"""Pipelines on a broker that is not ours: it keeps no ledger, so what they write there is written at least once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.spark import pipelines
from headrace.spark.pipelines.causes import cause_of
from tests.pipelines.conftest import SCHEMA, order_at, send
from tests.pipelines.test_archive import ids
from tests.pipelines.test_topics import read
from tests.spark.data import create

pytestmark = pytest.mark.timeout(600)  # the first run fetches Kafka

IN_A_BATCH = """[FOREACH_BATCH_USER_FUNCTION_ERROR] Reason: Return Message: Traceback (most recent call last):
  File "archive.py", line 62, in _set_aside
    writer.save()
pyspark.errors.exceptions.captured.AnalysisException: [PYTHON_DATA_SOURCE_ERROR] Failed to initialize Python data\
 source writer: headrace.spark.errors.InvalidOption: name the topic: a column
 SQLSTATE: 38000
\tat py4j.Protocol.getReturnValue(Protocol.java:476)
"""


def test_an_archive_sets_bad_rows_aside_there_too(
    piping: SparkSession, kafka_address: str, topic: str, tmp_path: Path
) -> None:
    create(kafka_address, topic, 1)
    sections = {
        "source": {"topic": topic, "format": "json", "schema": SCHEMA},
        "deadletter": {"topic": f"{topic}.bad"},
        "archive": {"path": str(tmp_path / "out"), "time": "at"},
    }
    tree = {"name": "p", "servers": kafka_address, "folder": str(tmp_path / "p"), **sections}
    for number in range(2):
        send(kafka_address, topic, [order_at(0, number), b"nonsense %d" % number])
        pipelines.run(piping, pipelines.settings_of(tree), lambda _: None)
    assert ids(piping, tmp_path / "out") == [0, 1]
    assert [record.value for record in read(kafka_address, f"{topic}.bad", 2)] == [b"nonsense 0", b"nonsense 1"]


def test_what_is_wrong_with_a_write_inside_of_a_batch_is_one_sentence() -> None:
    assert cause_of(RuntimeError(IN_A_BATCH)) == "name the topic: a column"
