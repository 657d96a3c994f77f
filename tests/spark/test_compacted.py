"""A topic that was compacted: its offsets have gaps, and a task may have nothing else."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headrace
from tests.spark.data import records, rows
from tests.spark.test_batch import load
from tests.spark.test_stream import run, stream
from tests.support import wait_until

pytestmark = pytest.mark.timeout(600)

# Kafka takes no smaller segments than 1 MiB, but such that end after a while.
COMPACT = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0"}
KEPT, SAME = 500, 4_000  # of keys that come once, at the beginning and at the end; of one that comes again and again
TASKS = 10
LIMIT_S = 180.0  # brokers look for something to compact every ten or fifteen seconds


def test_a_compacted_topic_is_read_whole_also_where_it_is_split_within_a_gap(
    spark: SparkSession, address: str, topic: str, tmp_path: Path
) -> None:
    keys = [b"first-%d" % number for number in range(KEPT)]
    keys += [b"same"] * SAME
    keys += [b"last-%d" % number for number in range(KEPT)]
    with headrace.connect(address) as client:
        client.admin.create_topic(topic, partitions=1, config=COMPACT)
        with client.producer(batch_bytes=2_000) as producer:
            for number, key in enumerate(keys):
                if number == KEPT + SAME:  # what is last begins a segment: the one that is written to stays as it is
                    producer.flush()
                    time.sleep(0.2)
                producer.put(topic, b"%d" % number, key, [("h", b"%d" % number)] if number % 2 else [])
    left = [*range(KEPT), KEPT + SAME - 1, *range(KEPT + SAME, len(keys))]
    # All that can go is gone: no pass of compaction changes it any more between one reading and the next.
    wait_until(lambda: [row[4] for row in records(address, topic)] == left, LIMIT_S)
    found = rows(load(spark, address, topic, includeHeaders="true", minPartitions=str(TASKS)))
    at = [row[4] for row in found]
    share = len(keys) // TASKS
    assert max(after - before for before, after in pairwise(at)) > 2 * share, "a task has nothing but a gap"
    assert at == left
    assert [(row[0], row[1]) for row in found] == [(keys[offset], b"%d" % offset) for offset in at]
    assert found == records(address, topic)
    assert load(spark, address, topic, minPartitions=str(TASKS)).rdd.getNumPartitions() == TASKS
    run(stream(spark, address, topic, maxOffsetsPerTrigger=share, minPartitions=3), tmp_path)
    assert rows(spark.read.parquet(str(tmp_path / "out"))) == found
