"""The page about Spark: its example runs, and its tables name every option."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headrace.spark
from headrace.spark.options import COMMON, SINK, SOURCE, SourceOptions
from headrace.spark.sink_options import SinkOptions

pytestmark = pytest.mark.timeout(300)

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "spark.md").read_text()
SAID_ELSEWHERE = {"kafka.bootstrap.servers", "path", "checkpointLocation", "queryName"}
WITHOUT_MEANING = {
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
}


def test_the_examples_run(spark: SparkSession, headrace_address: str, tmp_path: Path) -> None:
    examples = "".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    code = examples.replace("127.0.0.1:9092", headrace_address).replace("checkpoints/likes", str(tmp_path / "likes"))
    for _ in range(2):  # the second time nothing is written
        found: dict[str, object] = {}
        exec(code, found)
    likes = found["likes"]
    assert likes.count() == 2  # type: ignore[attr-defined]
    assert headrace.spark.read(spark, headrace_address, "likes.copy").count() == 2


def test_every_option_is_in_a_table() -> None:
    rows = re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([\w.]+)`", row)}
    missing = {*COMMON, *SOURCE, *SINK} - named - SAID_ELSEWHERE - WITHOUT_MEANING
    assert not missing


def test_the_defaults_are_those_of_the_page() -> None:
    source, sink = SourceOptions(servers="h:1"), SinkOptions(servers="h:1", timeout=30.0)
    assert (source.rows_per_task, source.prefetch_bytes, source.isolation) == (500_000, 33_554_432, "read_committed")
    assert (source.timeout, source.max_delay_s, sink.sink_timeout_s, sink.batch_id) == (30.0, 900.0, 60.0, 0)
