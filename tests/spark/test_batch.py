"""A topic read as a DataFrame is what was written into it, to the byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import headrace
import headrace.spark
from headrace.records.compression import NAMES as COMPRESSIONS
from tests.client.test_isolation import transact
from tests.spark.data import BASE_MS, create, fill, records, rows

pytestmark = pytest.mark.timeout(300)  # the first run fetches Kafka


def load(spark: SparkSession, address: str, topic: str, **options: Any) -> DataFrame:
    return spark.read.format("headrace").options(servers=address, subscribe=topic, **options).load()


def test_every_compression_null_and_header_comes_out_as_it_went_in(
    spark: SparkSession, address: str, topic: str
) -> None:
    create(address, topic)
    for number, compression in enumerate(COMPRESSIONS):
        fill(address, topic, 300, compression=compression, first=300 * number)
    found = load(spark, address, topic, includeHeaders="true")
    assert rows(found) == records(address, topic)
    assert load(spark, address, topic).columns == [
        "key", "value", "topic", "partition", "offset", "timestamp", "timestampType",
    ]  # fmt: skip


def test_only_what_was_committed_is_read_unless_asked_otherwise(spark: SparkSession, address: str, topic: str) -> None:
    create(address, topic, 1)
    transact(address, topic)
    assert rows(load(spark, address, topic, includeHeaders="true")) == records(address, topic)
    assert load(spark, address, topic).count() == 100
    assert load(spark, address, topic, **{"kafka.isolation.level": "read_uncommitted"}).count() == 300


def test_fifty_partitions_share_a_task_unless_more_are_asked_for(spark: SparkSession, address: str, topic: str) -> None:
    create(address, topic, 50)
    assert load(spark, address, topic).count() == 0
    fill(address, topic, 1_000, 45)
    found = load(spark, address, topic, includeHeaders="true")
    assert rows(found) == records(address, topic)
    assert found.rdd.getNumPartitions() == 1
    assert load(spark, address, topic, minPartitions="4").rdd.getNumPartitions() == 4


def test_one_partition_is_split_on_request_and_nothing_is_read_twice(
    spark: SparkSession, address: str, topic: str
) -> None:
    create(address, topic, 1)
    fill(address, topic, 1_000, 1)
    found = load(spark, address, topic, minPartitions="3", includeHeaders="true")
    assert found.rdd.getNumPartitions() == 3
    assert rows(found) == records(address, topic)


def test_a_range_of_offsets_is_read_to_the_row(spark: SparkSession, address: str, topic: str) -> None:
    create(address, topic, 2)
    fill(address, topic, 400, 2)
    options = {
        "startingOffsets": json.dumps({topic: {"0": 17, "1": -2}}),
        "endingOffsets": json.dumps({topic: {"0": 18, "1": -1}}),
    }
    found = load(spark, address, topic, **options, includeHeaders="true")
    expected = [row for row in records(address, topic) if row[3] == 1 or row[4] == 17]
    assert rows(found) == expected


def test_a_range_of_times_is_read(spark: SparkSession, address: str, topic: str) -> None:
    create(address, topic, 2)
    fill(address, topic, 400, 2)
    start, end = BASE_MS + 100, BASE_MS + 300
    found = load(spark, address, topic, startingTimestamp=start, endingTimestamp=end, includeHeaders="true")
    assert rows(found) == [row for row in records(address, topic) if start <= row[5] < end]


def test_a_range_of_times_of_each_partition_is_read(spark: SparkSession, address: str, topic: str) -> None:
    create(address, topic, 2)
    fill(address, topic, 400, 2)
    starts, ends = {0: BASE_MS + 100, 1: BASE_MS + 200}, {0: BASE_MS + 300, 1: BASE_MS + 10**9}
    options = {
        "startingOffsetsByTimestamp": json.dumps({topic: starts}),
        "endingOffsetsByTimestamp": json.dumps({topic: ends}),
    }
    found = load(spark, address, topic, **options, includeHeaders="true")
    expected = [row for row in records(address, topic) if starts[row[3]] <= row[5] < ends[row[3]]]
    assert rows(found) == expected
    assert {row[3] for row in expected} == {0, 1}


def test_topics_are_found_by_pattern_and_partitions_by_assignment(
    spark: SparkSession, address: str, topic: str
) -> None:
    for number in range(2):
        create(address, f"{topic}-{number}", 2)
        fill(address, f"{topic}-{number}", 10, 2)
    create(address, f"other-{topic}-0", 1)
    source = spark.read.format("headrace").option("kafka.bootstrap.servers", address)
    assert source.option("subscribePattern", f"{topic}-.").load().count() == 20
    source = spark.read.format("headrace").option("servers", address)
    assert source.option("assign", json.dumps({f"{topic}-1": [1]})).load().count() == 5
    assert spark.read.format("headrace").option("servers", address).load(f"{topic}-0").count() == 10


def test_a_schema_is_a_projection(spark: SparkSession, address: str, topic: str) -> None:
    create(address, topic, 1)
    fill(address, topic, 10, 1)
    source = spark.read.format("headrace").options(servers=address, subscribe=topic)
    found = source.schema("offset long, value binary").load()
    assert found.columns == ["offset", "value"]
    assert [row.value for row in found.orderBy("offset").collect()] == [row[1] for row in records(address, topic)]
    with pytest.raises(PySparkException, match="column 'value' is binary and cannot be read as int"):
        source.schema("value int").load().count()
    with pytest.raises(PySparkException, match="there is no column 'val'; there are key, value"):
        source.schema("val binary").load().count()


def test_what_retention_took_is_an_error_or_a_warning_never_silence(
    spark: SparkSession, address: str, topic: str
) -> None:
    create(address, topic, 1)
    fill(address, topic, 100, 1)
    with headrace.connect(address) as client:
        client.admin.delete_records(topic, {0: 40})
    start = json.dumps({topic: {"0": 10}})
    with pytest.raises(PySparkException, match="took 10 to 39 before it was read; failOnDataLoss=false"):
        load(spark, address, topic, startingOffsets=start).count()
    assert load(spark, address, topic, startingOffsets=start, failOnDataLoss="false").count() == 60
    assert load(spark, address, topic).count() == 60


@pytest.mark.parametrize("end", [None, 2000])
def test_a_start_behind_the_end_is_an_error_or_a_warning_never_silence(
    spark: SparkSession, address: str, topic: str, end: int | None
) -> None:
    create(address, topic, 1)
    fill(address, topic, 10, 1)
    options = {"startingOffsets": json.dumps({topic: {"0": 1000}})}
    if end is not None:
        options["endingOffsets"] = json.dumps({topic: {"0": end}})
    words = f"partition 0 ends at 10, and was read or planned up to {end or 1000}: .*; failOnDataLoss=false"
    with pytest.raises(PySparkException, match=words):
        load(spark, address, topic, **options).count()
    assert load(spark, address, topic, **options, failOnDataLoss="false").count() == 0
    assert load(spark, address, topic, startingOffsets=json.dumps({topic: {"0": 10}})).count() == 0  # is no loss


def test_an_end_before_the_start_is_refused_and_one_that_retention_passed_is_a_loss(
    spark: SparkSession, address: str, topic: str
) -> None:
    create(address, topic, 1)
    fill(address, topic, 100, 1)
    end = json.dumps({topic: {"0": 30}})
    words = "partition 0: the batch would start at 40 and end before that, at 30"
    for start in ({"startingOffsets": json.dumps({topic: {"0": 40}})}, {"startingTimestamp": BASE_MS + 40}):
        with pytest.raises(PySparkException, match=words):
            load(spark, address, topic, endingOffsets=end, **start).count()
    assert load(spark, address, topic, endingOffsets=end).count() == 30
    with headrace.connect(address) as client:
        client.admin.delete_records(topic, {0: 50})
    with pytest.raises(PySparkException, match="took 0 to 29 before it was read; failOnDataLoss=false"):
        load(spark, address, topic, endingOffsets=end).count()
    assert load(spark, address, topic, endingOffsets=end, failOnDataLoss="false").count() == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribe": "no-such-topic"}, "no-such-topic"),
        ({"subscribe": "t", "servers": "127.0.0.1:1"}, "connection refused; is a broker running there"),
        (
            {"subscribe": "t", "startingOffset": "earliest"},
            "there is no option startingoffset; did you mean startingOffsets",
        ),
    ],
)
def test_what_cannot_be_read_is_said_in_a_sentence(
    spark: SparkSession, address: str, options: dict[str, str], words: str
) -> None:
    with pytest.raises(PySparkException, match=words):
        spark.read.format("headrace").options(**{"servers": address, **options}).load().count()


def test_the_typed_helpers_read_the_same(spark: SparkSession, address: str, topic: str) -> None:
    create(address, topic, 1)
    fill(address, topic, 10, 1)
    assert headrace.spark.read(spark, address, topic, minPartitions=2).count() == 10
