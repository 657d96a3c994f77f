"""Whole rows encoded as values: what is written is what the row has, or there is a sentence. No Spark runs here."""

from __future__ import annotations

import datetime
import io
import json
import time
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headrace.spark.errors import InvalidOption
from headrace.spark.rows import check, shaped
from headrace.spark.sink_options import SinkOptions

MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
LOCAL = {"type": "long", "logicalType": "local-timestamp-micros"}
CENTS = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
LATE = NOON.replace(microsecond=123_456)

Columns = dict[str, tuple[DataType, list[Any]]]


def record(name: str = "R", **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": kind} for key, kind in fields.items()]}


def written(columns: Columns, schema: Any = None) -> list[bytes]:
    """As JSON, or as Avro by a schema."""
    row_format, row_schema = ("json", None) if schema is None else ("avro", json.dumps(schema))
    options = SinkOptions(servers="h:1", timeout=1.0, topic="t", row_format=row_format, row_schema=row_schema)
    row = StructType([StructField(name, kind) for name, (kind, _) in columns.items()])
    check(row, options)
    target = to_arrow_schema(row, timezone="Europe/Berlin")  # of a session, which need not be the machine's
    arrays = [pa.array(values, field.type) for (_, values), field in zip(columns.values(), target, strict=True)]
    ((_, table),) = shaped(iter([pa.RecordBatch.from_arrays(arrays, schema=target)]), options)
    found: list[bytes] = table.column("value").to_pylist()
    return found


def read(schema: Any, values: list[bytes]) -> list[Any]:
    return [fastavro.schemaless_reader(io.BytesIO(value), fastavro.parse_schema(schema), None) for value in values]


def test_what_avro_has_is_what_the_rows_had() -> None:
    point = StructType([StructField("y", IntegerType()), StructField("x", LongType())])
    columns: Columns = {
        "i": (ByteType(), [-128, 127, 0]),
        "l": (ShortType(), [-(2**15), None, 5]),
        "f": (FloatType(), [0.5, float("inf"), -0.0]),
        "d": (FloatType(), [0.5, 1.5, 2.5]),
        "b": (BooleanType(), [True, False, None]),
        "t": (StringType(), ["", "grüß", None]),
        "k": (StringType(), ["A", "B", "A"]),
        "r": (BinaryType(), [b"", b"\xff", None]),
        "x": (BinaryType(), [b"ab", b"cd", b"ef"]),
        "n": (NullType(), [None] * 3),
        "c": (DecimalType(10, 3), [Decimal("1.500"), Decimal("-99.99"), None]),
        "on": (DateType(), [datetime.date(1960, 2, 29), datetime.date(2026, 1, 1), None]),
        "p": (point, [{"x": 2**40, "y": None}, None, {"x": 1, "y": 2}]),
        "s": (ArrayType(point), [[{"x": 1, "y": 2}], [], None]),
        "m": (MapType(StringType(), DoubleType()), [[("a", 0.5), ("b", None)], [], None]),
    }
    shape = record("P", x="long", y=["null", "int"], z=["null", "string"])
    schema = record(
        i="int", l=["null", "long"], f="float", d="double", b=["boolean", "null"], t=["null", "string"],
        k={"type": "enum", "name": "K", "symbols": ["A", "B"]}, r=["null", "bytes"],
        x={"type": "fixed", "name": "X", "size": 2}, n=["null", "long"], c=["null", CENTS],
        on=["null", {"type": "int", "logicalType": "date"}], p=["null", shape],
        s=["null", {"type": "array", "items": "P"}], m=["null", {"type": "map", "values": ["null", "double"]}],
    )  # fmt: skip
    found = read(schema, written(columns, schema))
    for row, one in enumerate(found):
        expected = {name: values[row] for name, (_, values) in columns.items()}
        if expected["p"] is not None:
            expected["p"] |= {"z": None}
        expected["s"] = expected["s"] and [{**expected["s"][0], "z": None}]
        expected["m"] = None if expected["m"] is None else dict(expected["m"])
        assert one == expected


def test_times_are_the_moments_that_they_were_wherever_the_machine_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A timestamp_ntz is taken as UTC, as where values are read."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        naive = LATE.replace(tzinfo=None)
        columns: Columns = {
            "a": (TimestampType(), [LATE, None]),
            "b": (TimestampNTZType(), [naive, None]),
            "c": (TimestampNTZType(), [naive, datetime.datetime(1960, 1, 1)]),
            "d": (TimestampType(), [LATE, NOON]),
            "e": (TimestampType(), [NOON.replace(microsecond=5_000), NOON]),
            "f": (ArrayType(TimestampNTZType()), [[naive], []]),
        }
        many = {"type": "array", "items": MICROS}
        schema = record(a=["null", MICROS], b=["null", MICROS], c=LOCAL, d=LOCAL, e=MILLIS, f=many)
        first, second = read(schema, written(columns, schema))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert first == {
        "a": LATE, "b": LATE, "c": naive, "d": naive, "e": NOON.replace(microsecond=5_000), "f": [LATE],
    }  # fmt: skip
    assert (second["a"], second["b"], second["c"]) == (None, None, datetime.datetime(1960, 1, 1))


@pytest.mark.parametrize(
    ("kind", "field", "shown"),
    [
        (LongType(), "int", "bigint, and its field in value.schema int"),
        (DoubleType(), "long", "double, and its field in value.schema long"),
        (DoubleType(), "float", "double, and its field in value.schema float"),
        (LongType(), ["null", "double"], "bigint, and its field in value.schema double"),
        (StringType(), "boolean", "string, and its field in value.schema boolean"),
        (StringType(), "bytes", "string, and its field in value.schema bytes"),
        (BinaryType(), "string", "binary, and its field in value.schema string"),
        (TimestampType(), "long", "timestamp, and its field in value.schema long"),
        (LongType(), MICROS, "bigint, and its field in value.schema timestamp-micros"),
        (DoubleType(), CENTS, "double, and its field in value.schema decimal"),
        (NullType(), "long", "void, and its field in value.schema long"),
        (StringType(), {"type": "array", "items": "string"}, "string, and its field in value.schema array"),
        (StructType().add("x", LongType()), "string", "struct<x:bigint>, and its field in value.schema string"),
    ],
)
def test_a_type_that_its_field_does_not_hold_is_refused_before_anything_is_written(
    kind: DataType, field: Any, shown: str
) -> None:
    with pytest.raises(InvalidOption, match=f"^column 'x' is {shown}: cast the column, or change the schema$"):
        written({"x": (kind, [])}, record(x=field))
    many = {"type": "array", "items": field}
    with pytest.raises(InvalidOption, match=f"^column 'x.element' is {shown}"):
        written({"x": (ArrayType(kind), [])}, record(x=many))
    with pytest.raises(InvalidOption, match=f"^column 'x.y' is {shown}"):
        written({"x": (StructType().add("y", kind), [])}, record(x=record("Y", y=field)))


@pytest.mark.parametrize(
    ("name", "field", "words"),
    [
        (
            "Amount",
            {"type": ["null", "long"], "default": None},
            "column 'Amount' has no field .* there are amount: rename",
        ),
        (
            "Amount",
            {"type": "long", "default": 0},
            "column 'Amount' has no field in value.schema, where there are amount",
        ),
        ("other", {"type": "long"}, "column 'other' has no field in value.schema, where there are id, amount"),
    ],
)
def test_a_column_that_the_schema_does_not_have_by_its_very_name_is_refused(
    name: str, field: dict[str, Any], words: str
) -> None:
    fields = [{"name": "id", "type": "long"}, {"name": "amount", **field}]
    schema = {"type": "record", "name": "R", "fields": fields}
    with pytest.raises(InvalidOption, match=words):
        written({"id": (LongType(), [1]), name: (LongType(), [5])}, schema)
    inner = StructType().add("id", LongType()).add(name, LongType())
    with pytest.raises(InvalidOption, match=words.replace("column '", "column 's.")):
        written({"s": (inner, [])}, record("Outer", s=schema))


def test_a_field_without_a_column_is_null_where_it_may_be_and_refused_where_not() -> None:
    """As with Spark's to_avro: a default is for readers."""
    column: Columns = {"id": (LongType(), [1, 2])}
    schema = record(id="long", note=["null", "string"])
    schema["fields"][1]["default"] = None
    assert read(schema, written(column, schema)) == [{"id": 1, "note": None}, {"id": 2, "note": None}]
    schema["fields"][1] = {"name": "note", "type": ["string", "null"], "default": "none"}
    assert [row["note"] for row in read(schema, written(column, schema))] == [None, None]
    schema["fields"][1] = {"name": "note", "type": "string", "default": "none"}
    with pytest.raises(InvalidOption, match=r"there is no column 'note', and its field in value\.schema takes no null"):
        written(column, schema)
    inner: Columns = {"s": (StructType().add("id", LongType()), [])}
    with pytest.raises(InvalidOption, match=r"there is no column 's\.note', and its field"):
        written(inner, record("Outer", s=schema))


@pytest.mark.parametrize(
    ("kind", "field", "value", "words"),
    [
        (LongType(), "long", None, "column 'x' is null in a row, and its field in value.schema takes no null"),
        (BooleanType(), "boolean", None, "column 'x' is null in a row"),
        (ArrayType(LongType()), {"type": "array", "items": "long"}, [1, None], "column 'x.element' is null in a row"),
        (
            MapType(StringType(), LongType()),
            {"type": "map", "values": "long"},
            [("a", None)],
            "column 'x.value' is null",
        ),
        (StructType().add("y", LongType()), record("Y", y="long"), {"y": None}, "column 'x.y' is null in a row"),
        (TimestampType(), MILLIS, LATE, "column 'x' does not fit value.schema: .* would lose data: 1767268800123456"),
        (DecimalType(10, 2), CENTS, Decimal("123.45"), "column 'x' does not fit .* does not fit in precision 4"),
        (DecimalType(10, 3), CENTS, Decimal("1.234"), "column 'x' does not fit value.schema: .*would cause data loss"),
        (StringType(), {"type": "enum", "name": "E", "symbols": ["A"]}, "B", "a row does not fit value.schema: 'B' is"),
        (
            BinaryType(),
            {"type": "fixed", "name": "F", "size": 2},
            b"abc",
            "a row does not fit value.schema: .*length 3",
        ),
    ],
)
def test_a_value_that_its_field_does_not_hold_is_told_and_not_changed(
    kind: DataType, field: Any, value: Any, words: str
) -> None:
    with pytest.raises(InvalidOption, match=words):
        written({"x": (kind, [value])}, record(x=field))


def test_what_is_null_around_a_value_takes_its_nulls_along() -> None:
    kind = StructType().add("y", LongType())
    schema = record(x=["null", record("Y", y="long")], m=["null", {"type": "map", "values": "long"}])
    columns: Columns = {
        "x": (kind, [None, {"y": 1}]),
        "m": (MapType(StringType(), LongType()), [None, [("a", 1)]]),
    }
    assert read(schema, written(columns, schema)) == [{"x": None, "m": None}, {"x": {"y": 1}, "m": {"a": 1}}]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("long", "value.schema is no record, and a row is one"),
        (record(x=["int", "string"]), "value.schema: a union of several types has no column"),
        (
            {"type": "record", "name": "T", "fields": [{"name": "x", "type": ["null", "T"]}]},
            "value.schema: 'T' holds itself",
        ),
    ],
)
def test_a_schema_that_no_row_can_have_is_refused(schema: Any, words: str) -> None:
    with pytest.raises(InvalidOption, match=words):
        written({"x": (LongType(), [1])}, schema)


def unchecked(text: bytes) -> pa.Array:
    """As a text comes from Spark, whatever is in it."""
    return pa.Array.from_buffers(pa.string(), 1, pa.array([text]).buffers())


def test_a_topic_that_is_no_utf8_is_a_sentence() -> None:
    table = pa.record_batch({"topic": unchecked(b"\xff"), "value": pa.array([b"x"])})
    with pytest.raises(InvalidOption, match="column 'topic' is no UTF-8 in a row"):
        list(shaped(iter([table]), SinkOptions(servers="h:1", timeout=1.0)))


@pytest.mark.parametrize("schema", [None, record(s="string", t={"type": "array", "items": "string"})])
@pytest.mark.parametrize("column", ["s", "t"])
def test_a_text_that_is_no_utf8_is_a_sentence_with_its_column(schema: Any, column: str) -> None:
    texts = {"s": b"good", "t": b"good", column: b"\xff"}
    options = SinkOptions(
        servers="h:1", timeout=1.0, topic="t", row_format="avro" if schema else "json", row_schema=json.dumps(schema)
    )
    bad = {name: unchecked(text) for name, text in texts.items()}
    bad["t"] = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), bad["t"])
    with pytest.raises(InvalidOption, match=f"column '{column}' is no UTF-8 in a row: cast it to binary, or mend it"):
        list(shaped(iter([pa.record_batch(bad)]), options))


def test_a_column_that_is_there_twice_is_refused() -> None:
    """An object has each name once: one of the two would be lost."""
    options = SinkOptions(servers="h:1", timeout=1.0, topic="t", row_format="json")
    twice = StructType([StructField("a", LongType()), StructField("a", LongType())])
    with pytest.raises(InvalidOption, match="the schema has the column 'a' twice: name each column once"):
        check(twice, options)
    with pytest.raises(InvalidOption, match="column 's' has the column 'a' twice"):
        check(StructType([StructField("s", ArrayType(twice))]), options)
