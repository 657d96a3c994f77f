"""doctor, top, bench, export and import on a server that is not ours: Apache Kafka, where java and mvn are."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.servers import Kafka, ServerError
from headrace.cli.bench.figures import Measured
from headrace.cli.export import Exported
from headrace.cli.record_values import RecordRow
from headrace.cli.top.view import View
from tests.cli.planting import findings
from tests.cli.running import Run
from tests.clients.conftest import REQUIRE, program


@pytest.fixture(scope="module")
def kafka() -> Iterator[Run]:
    program("java")
    with tempfile.TemporaryDirectory(prefix="headrace-kafka-") as folder:
        server = Kafka(Path(folder))
        try:
            server.prepare()
            server.start()
        except ServerError as error:
            if os.environ.get(REQUIRE) == "1":
                pytest.fail(str(error))
            pytest.skip(str(error))
        try:
            yield Run(server.address)
        finally:
            server.stop()


def test_the_doctor_knows_its_versions_its_clock_and_its_disk(kafka: Run) -> None:
    found = {one.condition: one for one in findings(kafka("doctor", "-o", "json"))}
    assert {one.result for one in found.values()} == {"ok"}, found
    assert "s ahead" in found["node 0 clock"].found or "s behind" in found["node 0 clock"].found
    assert any(condition.startswith("node 0 disk ") for condition in found)


def test_it_is_measured_by_the_same_command(kafka: Run) -> None:
    (produced,) = kafka("bench", "produce", "-n", "2000", "-o", "json").rows(Measured)
    (consumed,) = kafka("bench", "consume", "-n", "2000", "-o", "json").rows(Measured)
    to_ack, to_consumer = kafka("bench", "latency", "-n", "100", "-o", "json").rows(Measured)
    assert (produced.records, consumed.records, to_ack.records, to_consumer.records) == (2000, 2000, 100, 100)


def test_a_topic_goes_out_and_comes_back_and_top_sees_it(kafka: Run, tmp_path: Path) -> None:
    row = {"key": "k", "value": {"base64": "/w=="}, "headers": {"h": None}, "timestamp_ms": time.time_ns() // 1_000_000}
    keep = ("--keep-timestamps", "--keep-partitions")
    stdin = (json.dumps(row) + "\n") * 3
    assert kafka("import", "there", "--create", "1", "--keep-timestamps", stdin=stdin).code == 0
    file = str(tmp_path / "there.parquet")
    assert kafka("export", "there", file, "-o", "json").row(Exported).records == 3
    assert kafka("import", "back", file, "--create", "1", *keep).code == 0
    there, back = (kafka("export", topic).lines(RecordRow) for topic in ("there", "back"))
    assert [(r.partition, r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in there] == [
        (r.partition, r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in back
    ]
    (seen,) = kafka("top", "--once", "--interval", "300ms", "-o", "json").rows(View)
    assert seen.source == "kafka"
    assert {"there", "back"} <= {topic.topic for topic in seen.topics}
