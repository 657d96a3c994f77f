"""Rows written to topics: each once, whatever runs twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import headrace
import headrace.spark
from tests.spark.data import create, values
from tests.spark.test_stream import stream, until

pytestmark = pytest.mark.timeout(300)  # the first run fetches Kafka


def write(frame: DataFrame, address: str, topic: str, **options: Any) -> None:
    given = {"servers": address, "topic": topic, **options}
    frame.write.format("headrace").mode("append").options(**given).save()


def copy(frame: DataFrame, address: str, topic: str, folder: Path, **options: Any) -> None:
    """A query that runs until it has read everything."""
    writer = frame.writeStream.format("headrace").options(servers=address, topic=topic, **options)
    query = writer.option("checkpointLocation", str(folder)).trigger(availableNow=True).start()
    query.awaitTermination()


def test_every_column_arrives(spark: SparkSession, address: str, topic: str) -> None:
    create(address, topic, 3)
    rows = [(b"a", "eins", [("h", b"1"), ("h", None)], 2), (None, None, None, 1), (b"", "", [], None)]
    schema = "key binary, value string, headers array<struct<key:string,value:binary>>, partition int"
    write(spark.createDataFrame(rows, schema).coalesce(1), address, topic, compression="zstd")
    with headrace.connect(address) as client, client.consumer(topic, follow=False, isolation="read_committed") as found:
        records = {record.value: record for record in found}
    assert len(records) == 3
    assert (records[b"eins"].partition, records[b"eins"].headers) == (2, (("h", b"1"), ("h", None)))
    assert (records[None].partition, records[None].key, records[None].headers) == (1, None, ())
    assert records[b""].key == b""


def test_a_write_with_an_id_is_done_once(spark: SparkSession, headrace_address: str, topic: str) -> None:
    create(headrace_address, topic, 2)
    frame = spark.range(1_000).selectExpr("cast(id as string) value")
    for _ in range(2):
        write(frame, headrace_address, topic, writeId=topic)
    write(frame, headrace_address, topic, writeId=topic, batchId=1)
    write(frame, headrace_address, topic)
    assert sorted(values(headrace_address, topic)) == sorted([str(row).encode() for row in range(1_000)] * 3)


def test_rows_go_to_the_topic_that_each_says(spark: SparkSession, address: str, topic: str) -> None:
    for number in range(2):
        create(address, f"{topic}-{number}", 1)
    frame = spark.range(100).selectExpr(f"concat('{topic}-', id % 2) topic", "cast(id as string) value")
    frame.write.format("headrace").mode("append").option("servers", address).save()
    assert len(values(address, f"{topic}-0")) == len(values(address, f"{topic}-1")) == 50


def test_whole_rows_are_encoded_as_json_or_avro(spark: SparkSession, address: str, topic: str) -> None:
    for name in ("json", "avro"):
        create(address, f"{topic}-{name}", 1)
    frame = spark.sql("select 'k' key, 7L id, 'text' name, array(1.5D) parts, cast(null as string) nothing")
    write(frame, address, f"{topic}-json", **{"value.format": "json"})
    (value,) = values(address, f"{topic}-json")
    assert json.loads(value) == {"id": 7, "name": "text", "parts": [1.5], "nothing": None}
    fields = [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}]
    fields += [
        {"name": "parts", "type": {"type": "array", "items": "double"}},
        {"name": "nothing", "type": ["null", "string"]},
    ]
    schema = {"type": "record", "name": "Row", "fields": fields}
    write(frame, address, f"{topic}-avro", **{"value.format": "avro", "value.schema": json.dumps(schema)})
    (value,) = values(address, f"{topic}-avro")
    read = fastavro.schemaless_reader(pa.BufferReader(value), fastavro.parse_schema(schema), None)
    assert read == {"id": 7, "name": "text", "parts": [1.5], "nothing": None}


def test_an_avro_schema_may_be_a_file(spark: SparkSession, address: str, topic: str, tmp_path: Path) -> None:
    create(address, topic, 1)
    schema = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "long"}]}
    (tmp_path / "row.avsc").write_text(json.dumps(schema))
    given = {"value.format": "avro", "value.schema": str(tmp_path / "row.avsc")}
    write(spark.range(1), address, topic, **given)
    assert values(address, topic) == [b"\x00"]


def test_maps_are_objects_and_numbers_that_json_has_not_are_texts(
    spark: SparkSession, address: str, topic: str
) -> None:
    for name in ("json", "avro"):
        create(address, f"{topic}-{name}", 1)
    maps = "map('a', 1, 'b', null) m, array(map('x', map('y', 0.5D))) deep"
    inside = "named_struct('up', double('inf'), 'down', array(float('-inf'), 1F)) s, map(7, double('NaN')) k"
    frame = spark.sql(f"select {maps}, double('NaN') n, {inside}")
    write(frame, address, f"{topic}-json", **{"value.format": "json"})
    (value,) = values(address, f"{topic}-json")
    assert value is not None and json.loads(value) == {
        "m": {"a": 1, "b": None}, "deep": [{"x": {"y": 0.5}}],
        "n": "NaN", "s": {"up": "Infinity", "down": ["-Infinity", 1.0]}, "k": {"7": "NaN"},
    }  # fmt: skip
    of_spark = frame.selectExpr("to_json(struct(*), map('ignoreNullFields', 'false'))").collect()[0][0]
    assert json.loads(of_spark) == json.loads(value)
    counts = {"name": "m", "type": {"type": "map", "values": ["null", "int"]}}
    nested = {"type": "array", "items": {"type": "map", "values": {"type": "map", "values": "double"}}}
    schema = {"type": "record", "name": "Row", "fields": [counts, {"name": "deep", "type": nested}]}
    given = {"value.format": "avro", "value.schema": json.dumps(schema)}
    write(frame.select("m", "deep"), address, f"{topic}-avro", **given)
    (value,) = values(address, f"{topic}-avro")
    read = fastavro.schemaless_reader(pa.BufferReader(value), fastavro.parse_schema(schema), None)
    assert read == {"m": {"a": 1, "b": None}, "deep": [{"x": {"y": 0.5}}]}
    words = "column 'k': value.format=avro takes maps whose keys are string, not map<int,double>"
    with pytest.raises(PySparkException, match=words):
        write(frame.select("k"), address, f"{topic}-avro", **given)


def test_a_stream_copies_a_topic(spark: SparkSession, address: str, topic: str, tmp_path: Path) -> None:
    for name in (topic, f"{topic}-copy"):
        create(address, name, 2)
    write(spark.range(3_000).selectExpr("cast(id as string) value"), address, topic)
    copy(
        stream(spark, address, topic, maxOffsetsPerTrigger=2_000).select("key", "value"),
        address,
        f"{topic}-copy",
        tmp_path,
    )
    assert sorted(values(address, f"{topic}-copy")) == sorted(str(row).encode() for row in range(3_000))


def test_a_batch_that_was_committed_and_runs_again_in_another_order_changes_nothing(
    spark: SparkSession, headrace_address: str, topic: str, tmp_path: Path
) -> None:
    """As after a driver that died between the commit and its checkpoint."""
    for name in (topic, f"{topic}-copy"):
        create(headrace_address, name, 2)
    shuffled = (
        stream(spark, headrace_address, topic).selectExpr("value", "rand() r").repartition(2, "r").select("value")
    )
    for number in range(2):
        low, high = 1_000 * number, 1_000 * (number + 1)
        write(spark.range(low, high).selectExpr("cast(id as string) value"), headrace_address, topic)
        copy(shuffled, headrace_address, f"{topic}-copy", tmp_path)
        (tmp_path / "commits" / str(number)).unlink()
        (tmp_path / "commits" / f".{number}.crc").unlink()
    copy(shuffled, headrace_address, f"{topic}-copy", tmp_path)
    assert sorted(values(headrace_address, f"{topic}-copy")) == sorted(str(row).encode() for row in range(2_000))
    with headrace.connect(headrace_address) as client:
        written = client.admin.offsets(f"{topic}-copy", "end")
    assert sum(at.offset for at in written.values()) > 4_000  # it did run again


def test_a_task_that_fails_after_it_wrote_leaves_nothing_behind(
    spark: SparkSession, headrace_address: str, topic: str
) -> None:
    create(headrace_address, topic, 2)
    with headrace.connect(headrace_address) as client:  # other tests have theirs here, open ones among them
        known = {one.id for one in client.admin.list_transactions()}

    def failing(tables: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from tables
        context = TaskContext.get()
        if context is not None and context.attemptNumber() == 0:
            raise RuntimeError("the first attempt fails")

    frame = spark.range(200_000).selectExpr("cast(id as string) value").repartition(2)
    write(frame.mapInArrow(failing, "value string"), headrace_address, topic)
    assert len(values(headrace_address, topic)) == 200_000
    with headrace.connect(headrace_address) as client:

        def states() -> set[str]:
            return {one.state for one in client.admin.list_transactions() if one.id not in known}

        until(lambda: "CompleteCommit" in states())  # that it is complete is written after the answer to the commit
        assert "Ongoing" not in states()


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ("id value", {}, "column 'value' is string or binary, not bigint"),
        ("cast(id as string) v", {}, "a column `value` is needed, or value.format=json for whole rows"),
        (
            "cast(id as string) value, id x",
            {},
            "a sink takes the columns key, value, topic, .* not x; select the columns",
        ),
        ("cast(id as string) value", {"guarantee": "perhaps"}, "guarantee is exactly-once or at-least-once"),
        ("cast(id as string) value", {"compression": "rar"}, "compression is one of none, gzip"),
        ("cast(id as string) value", {"kafka.acks": "1"}, "a sink that loses rows is none"),
        ("cast(id as string) value", {"servers": "127.0.0.1:1"}, "connection refused"),
        ("'k' key", {"value.format": "json"}, "value.format=json encodes the columns beside"),
    ],
)
def test_what_cannot_be_written_is_said_in_a_sentence(
    spark: SparkSession, address: str, columns: str, options: dict[str, str], words: str
) -> None:
    with pytest.raises(PySparkException, match=words):
        write(spark.range(1).selectExpr(*columns.split(", ")), address, "t", **options)


def test_a_topic_is_not_overwritten_and_must_be_named(spark: SparkSession, address: str) -> None:
    frame = spark.range(1).selectExpr("cast(id as string) value")
    with pytest.raises(PySparkException, match="a topic can only be added to"):
        frame.write.format("headrace").mode("overwrite").options(servers=address, topic="t").save()
    with pytest.raises(PySparkException, match="name the topic"):
        frame.write.format("headrace").mode("append").option("servers", address).save()


def test_a_foreign_broker_refuses_exactly_once_and_takes_at_least_once(
    spark: SparkSession, kafka_address: str, topic: str
) -> None:
    create(kafka_address, topic, 1)
    frame = spark.range(10).selectExpr("cast(id as string) value")
    with pytest.raises(
        PySparkException, match=r"this broker is not a Headrace.*guarantee=at-least-once writes without"
    ):
        write(frame, kafka_address, topic, guarantee="exactly-once")
    with pytest.raises(Exception, match="and a writeId needs that; without one the rows are written at least once"):
        write(frame, kafka_address, topic, writeId=topic)
    write(frame, kafka_address, topic, guarantee="at-least-once")
    assert len(values(kafka_address, topic)) == 10


def test_a_row_that_the_topic_does_not_take_fails_the_query_and_nothing_of_its_batch_is_there(
    spark: SparkSession, headrace_address: str, topic: str, tmp_path: Path
) -> None:
    with headrace.connect(headrace_address) as client:
        client.admin.create_topic(f"{topic}-copy", partitions=1, config={"max.message.bytes": "1000"})
    create(headrace_address, topic, 1)
    write(spark.range(3).selectExpr("repeat('x', if(id = 2, 5000, 10)) value"), headrace_address, topic)
    with pytest.raises(StreamingQueryException, match=r"over the topic's max\.message\.bytes=1000"):
        copy(stream(spark, headrace_address, topic).select("value"), headrace_address, f"{topic}-copy", tmp_path)
    assert values(headrace_address, f"{topic}-copy") == []
