"""Values decoded on the way into Spark; what cannot be decoded stands beside, with its bytes and the reason."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import msgspec
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructType

import headrace
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
