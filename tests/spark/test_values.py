"""Values decoded on the way into Spark; what cannot be decoded stands beside, with its bytes and the reason."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import msgspec
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructType

import headrace
import headrace.decoding.json
from headrace.client.columns import STRETCH_BYTES
from headrace.spark import values
from headrace.spark.options import source_options
from tests.decoding.test_decoding import descriptors
from tests.spark.data import create
from tests.spark.test_stream import run, stream

pytestmark = pytest.mark.timeout(300)


def put(address: str, topic: str, *values: bytes | None) -> None:
    create(address, topic, 1)
    with headrace.connect(address) as client, client.producer() as producer:
        for value in values:
            producer.put(topic, value)


def load(spark: SparkSession, address: str, topic: str, schema: str | None = None, **options: Any) -> DataFrame:
    given = {name.replace("_", "."): value for name, value in options.items()}
    reader = spark.read.format("headrace").options(servers=address, subscribe=topic, **given)
    return (reader.schema(schema) if schema else reader).load()


def test_json_has_the_schema_that_is_asked_for_or_seen(spark: SparkSession, address: str, topic: str) -> None:
    put(address, topic, b'{"id": 1, "name": "a"}', b"{broken", None, b'{"id": 2}')
    schema = "offset long, value struct<id:int,name:string>, value_error string, value_raw binary"
    found = load(spark, address, topic, schema, value_format="json").orderBy("offset").collect()
    assert [row.value and row.value.asDict() for row in found] == [
        {"id": 1, "name": "a"}, None, None, {"id": 2, "name": None},
    ]  # fmt: skip
    assert [(bool(row.value_error), row.value_raw) for row in found] == [
        (False, None), (True, b"{broken"), (False, None), (False, None),
    ]  # fmt: skip
    seen = load(spark, address, topic, value_format="json")
    assert seen.schema["value"].dataType.simpleString() == "struct<id:bigint,name:string>"
    assert seen.columns[-2:] == ["value_raw", "value_error"]
    assert seen.where("value_error is null").selectExpr("sum(value.id)").collect()[0][0] == 3
    given = load(spark, address, topic, value_format="json", value_schema=StructType().add("id", LongType()).json())
    assert given.where("value.id = 2").count() == 1
    only = load(spark, address, topic, "value_error string", value_format="json")
    assert only.where("value_error is not null").count() == 1


def test_a_schema_is_seen_in_as_many_values_as_fit_into_memory(
    headrace_address: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(headrace_address, topic, *(b'{"id": %d, "text": "%s"}' % (number, b"x" * 500_000) for number in range(150)))
    seen = []

    def sampled(raw: pa.Array) -> pa.DataType:
        seen.append(raw.nbytes)
        return plain(raw)

    plain = headrace.decoding.json.sampled
    monkeypatch.setattr(headrace.decoding.json, "sampled", sampled)
    given = {"servers": headrace_address, "subscribe": topic, "value.format": "json"}
    kind = values.value_type(source_options(given, is_stream=False))
    assert kind.simpleString() == "struct<id:bigint,text:string>"
    assert 0 < seen[0] < values.SAMPLE_BYTES + STRETCH_BYTES


def test_avro_protobuf_msgpack_and_text_are_decoded(
    spark: SparkSession, address: str, topic: str, tmp_path: Path
) -> None:
    avro = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(avro), {"id": 7})
    files, order = descriptors()
    (tmp_path / "order.desc").write_bytes(files)
    cases: dict[str, tuple[bytes, dict[str, str], str, Any]] = {
        "avro": (out.getvalue(), {"value_schema": json.dumps(avro)}, "value.id", 7),
        "protobuf": (
            order(names=["x"]).SerializeToString(),
            {"value_schema": str(tmp_path / "order.desc"), "value_message": "t.Order"},
            "value.names[0]",
            "x",
        ),
        "msgpack": (msgspec.msgpack.encode({"id": 7}), {}, "value.id", 7),
        "text": ("grüß".encode(), {}, "value", "grüß"),
    }
    for name, (good, options, expression, expected) in cases.items():
        put(address, f"{topic}-{name}", good, b"\xc1\xff\xff")
        found = load(spark, address, f"{topic}-{name}", value_format=name, **options).orderBy("offset")
        first, second = found.selectExpr(f"{expression} found", "value_raw", "value_error").collect()
        assert (first.found, first.value_raw, first.value_error) == (expected, None, None), name
        assert second.value_raw == b"\xc1\xff\xff" and second.value_error, name


AVRO = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": "string"},
        {"name": "at", "type": {"type": "record", "name": "P", "fields": [{"name": "x", "type": "double"}]}},
    ],
}


def avro(number: int) -> bytes:
    out = io.BytesIO()
    row = {"id": number, "name": "n", "at": {"x": number / 2}}
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), row)
    return out.getvalue()


def test_a_schema_is_a_projection_of_decoded_values_too(spark: SparkSession, address: str, topic: str) -> None:
    """What does not fit it is a bad value, and stops no query."""
    put(address, topic, avro(1), avro(2**40), b"\xff", avro(3))
    schema = "offset long, value struct<at:struct<x:float>,id:int>, value_error string, value_raw binary"
    given = {"value_format": "avro", "value_schema": json.dumps(AVRO)}
    found = load(spark, address, topic, schema, **given).orderBy("offset").collect()
    assert [row.value and (row.value.at.x, row.value.id) for row in found] == [(0.5, 1), None, None, (1.5, 3)]
    assert [row.value_raw for row in found] == [None, avro(2**40), b"\xff", None]
    assert "it does not fit struct<at" in found[1].value_error and "1099511627776" in found[1].value_error


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("value struct<id:bigint,nam:string>", "'value' has no field 'nam' by its format; there are id, name, at"),
        ("value struct<at:struct<y:double>>", "'value.at' has no field 'y' by its format; there are x"),
        ("value string", "'value' is struct<.*> by its format and cannot be read as string"),
        ("value struct<at:string>", "'value.at' is struct<x:double> by its format and cannot be read as string"),
        ("value struct<name:int>", "'value.name' is string by its format and cannot be read as int"),
        ("value struct<id:decimal(10,0)>", "'value.id' is bigint by its format and cannot be read as decimal"),
        ("value struct<id:array<bigint>>", "'value.id' is bigint by its format and cannot be read as array<bigint>"),
    ],
)
def test_a_schema_that_decoded_values_cannot_have_is_refused_in_a_sentence(
    spark: SparkSession, address: str, topic: str, schema: str, words: str
) -> None:
    """Not read as null, and not by a task that dies of it."""
    put(address, topic, avro(1))
    given = {"value_format": "avro", "value_schema": json.dumps(AVRO)}
    with pytest.raises(PySparkException, match=words):
        load(spark, address, topic, schema, **given).collect()


def test_messages_and_texts_are_not_read_as_what_they_are_not(
    spark: SparkSession, address: str, topic: str, tmp_path: Path
) -> None:
    files, order = descriptors()
    (tmp_path / "order.desc").write_bytes(files)
    big, small = order(id=2**64 - 1), order(id=7, tags={"x": 3})
    put(address, topic, small.SerializeToString(), big.SerializeToString())
    given = {
        "value_format": "protobuf",
        "value_schema": str(tmp_path / "order.desc"),
        "value_message": "t.Order",
    }
    schema = "offset long, value struct<id:bigint,tags:map<string,bigint>>, value_error string"
    found = load(spark, address, topic, schema, **given).orderBy("offset").collect()
    assert [row.value and (row.value.id, row.value.tags) for row in found] == [(7, {"x": 3}), None]
    assert "it does not fit" in found[1].value_error
    as_bytes = load(spark, address, topic, "offset long, value binary", value_format="text").orderBy("offset")
    assert as_bytes.collect()[0].value == small.SerializeToString()
    with pytest.raises(PySparkException, match="column 'value' has no field 'price' by its format; there are id, name"):
        load(spark, address, topic, "value struct<price:double>", **given).collect()
    with pytest.raises(PySparkException, match="column 'value' is string by its format and cannot be read as int"):
        load(spark, address, topic, "value int", value_format="text").collect()


def test_a_stream_decodes_too(spark: SparkSession, address: str, topic: str, tmp_path: Path) -> None:
    put(address, topic, b'{"id": 1}', b"nonsense", b'{"id": 2}')
    run(stream(spark, address, topic, **{"value.format": "json"}), tmp_path)
    found = spark.read.parquet(str(tmp_path / "out")).orderBy("offset").collect()
    assert [row.value and row.value.id for row in found] == [1, None, 2]
    assert found[1].value_raw == b"nonsense"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"value_format": "xml"}, "value.format is one of json, avro"),
        ({"value_format": "avro"}, "value.format=avro needs value.schema"),
        ({"value_format": "avro", "value_schema": "{}"}, "this is not an Avro schema"),
        ({"value_format": "protobuf", "value_schema": "AAAA"}, "needs value.message"),
        ({"value_format": "json", "value_schema": "id int"}, "value.schema is not the JSON of a Spark schema"),
        ({"value_format": "json"}, "is empty, so that no schema can be seen in it"),
    ],
)
def test_a_format_without_its_schema_is_said_in_a_sentence(
    spark: SparkSession, address: str, topic: str, options: dict[str, str], words: str
) -> None:
    create(address, topic, 1)
    with pytest.raises(PySparkException, match=words):
        load(spark, address, topic, **options).count()
