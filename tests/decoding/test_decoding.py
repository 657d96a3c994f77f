"""Values decoded to columns: what is good comes out, what is not stands beside it with its reason; nothing is lost."""

from __future__ import annotations

import datetime
import io
import json as plain_json
from decimal import Decimal
from typing import Any

import fastavro
import msgspec
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from hypothesis import given
from hypothesis import strategies as st

from headrace.decoding import avro, json, msgpack, protobuf, text
from headrace.decoding.decoded import Decoded, SchemaUnusable, by_rows
from headrace.decoding.fitting import fitter

PERSON = pa.struct([("id", pa.int64()), ("name", pa.string()), ("tags", pa.list_(pa.string()))])
MORE = pa.struct([*PERSON, ("small", pa.int16()), ("real", pa.float64()), ("is", pa.bool_())])


def column(*values: bytes | None) -> pa.Array:
    return pa.array(values, pa.binary())


def seen(decoded: Decoded) -> list[tuple[Any, str | None]]:
    return list(zip(decoded.values.to_pylist(), decoded.errors.to_pylist(), strict=True))


def test_text_that_is_no_utf8_is_told_apart() -> None:
    assert seen(text.decode(column(b"gr\xc3\xbc\xc3\x9f", None, b""))) == [("grüß", None), (None, None), ("", None)]
    found = seen(text.decode(column(b"good", b"\xff")))
    assert found[0] == ("good", None)
    assert found[1][0] is None and "0xff" in (found[1][1] or "")


def test_json_comes_out_as_its_type_and_null_is_no_error() -> None:
    decode = json.decoder(PERSON)
    found = decode(column(b'{"id": 1, "name": "a", "extra": {"x": []}}', None, b'{"tags": ["u", null]}'))
    assert found.values.type == PERSON
    assert seen(found) == [
        ({"id": 1, "name": "a", "tags": None}, None),
        (None, None),
        ({"id": None, "name": None, "tags": ["u", None]}, None),
    ]


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b'{"id": 1}{"id": 2}',
        b'{"id": "one"}',
        b'{"id": 1.5}',
        b'{"name": 5}',
        b'{"tags": {}}',
        b'{"id": true}',
        b'{"id": 99999999999999999999}',
        b'{"id": 1}\n{"id": 2}',
        b'{"name": "\xff"}',
        b'{"name": "a\nb"}',
        b'{"a": "}',
    ],
)
def test_one_bad_value_costs_no_other(bad: bytes) -> None:
    found = seen(json.decoder(PERSON)(column(b'{"id": 1}', bad, b' {"id": 3} ')))
    assert [row[0]["id"] if row[0] else None for row in found] == [1, None, 3]
    assert found[1][1] and not found[0][1] and not found[2][1]


def test_a_value_of_two_objects_beside_an_empty_one_shifts_nothing() -> None:
    found = seen(json.decoder(PERSON)(column(b'{"id": 1}{"id": 2}', b"", b'{"id": 3}')))
    assert [row[0] and row[0]["id"] for row in found] == [None, None, 3]


@given(
    st.lists(
        st.none()
        | st.fixed_dictionaries(
            {},
            optional={
                "id": st.none() | st.integers(-(2**63), 2**63 - 1),
                "name": st.none() | st.text(max_size=20),
                "tags": st.none() | st.lists(st.text(max_size=5), max_size=3),
                "other": st.integers(0, 9),
                "small": st.integers(-(2**16), 2**16),
                "real": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**70), 2**70),
                "is": st.booleans(),
            },
        ),
        max_size=20,
    )
)
def test_both_ways_of_reading_json_agree(rows: list[dict[str, Any] | None]) -> None:
    raw = column(*(None if row is None else plain_json.dumps(row).encode() for row in rows))
    decode = json.decoder(MORE)
    fit = fitter(MORE)
    slow = by_rows(raw, lambda value: fit(msgspec.json.decode(value)), MORE)
    assert seen(decode(raw)) == seen(slow)


def test_times_decimals_and_bytes_of_json_have_their_forms() -> None:
    kind = pa.struct(
        [("at", pa.timestamp("us", "UTC")), ("on", pa.date32()), ("price", pa.decimal128(9, 2)), ("raw", pa.binary())]
    )
    value = b'{"at": "2026-01-02T03:04:05Z", "on": "2026-01-02", "price": "1.50", "raw": "AP8="}'
    ((row, error),) = seen(json.decoder(kind)(column(value)))
    assert error is None
    assert row == {
        "at": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
        "on": datetime.date(2026, 1, 2),
        "price": Decimal("1.50"),
        "raw": b"\x00\xff",
    }


def test_the_type_of_json_is_sampled() -> None:
    raw = column(
        b'{"id": 1, "at": "2026-01-02T03:04:05Z"}', b"nonsense", None, b'{"id": 2.5, "in": {"x": [true]}, "n": null}'
    )
    kind = json.sampled(raw)
    names = {field.name: field.type for field in kind}
    assert names["id"] == pa.float64() and names["at"] == pa.string() and names["n"] == pa.string()
    assert names["in"] == pa.struct([("x", pa.list_(pa.bool_()))])
    assert [error is None for _, error in seen(json.decoder(kind)(raw))] == [True, False, True, True]
    with pytest.raises(SchemaUnusable, match="none of the first values is a JSON object"):
        json.sampled(column(b"7", None))


def test_msgpack_is_read_by_a_type_that_is_given_or_sampled() -> None:
    raw = column(msgspec.msgpack.encode({"id": 1, "name": "a"}), b"\xc1", msgspec.msgpack.encode({"id": "x"}), None)
    found = seen(msgpack.decoder(pa.struct([("id", pa.int64()), ("name", pa.string())]))(raw))
    assert found[0] == ({"id": 1, "name": "a"}, None)
    assert found[1][0] is None and found[1][1]
    assert found[2][0] is None and "a whole number is wanted, not 'x'" in (found[2][1] or "")
    assert found[3] == (None, None)
    assert msgpack.sampled(raw[:1]) == pa.struct([("id", pa.int64()), ("name", pa.string())])


AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
            {"name": "sku", "type": "string"}, {"name": "price", "type": {"type": "bytes", "logicalType": "decimal",
             "precision": 9, "scale": 2}}]}}},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
    ],
}  # fmt: skip
ORDER = {
    "id": 7,
    "note": None,
    "at": datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
    "lines": [{"sku": "x", "price": Decimal("1.50")}],
    "tags": {"a": 1},
    "kind": "B",
}


def test_avro_is_read_by_its_schema() -> None:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), ORDER)
    good = out.getvalue()
    kind, decode = avro.decoder(plain_json.dumps(AVRO))
    assert kind.field("lines").type == pa.list_(pa.struct([("sku", pa.string()), ("price", pa.decimal128(9, 2))]))
    found = seen(decode(column(good, None, good[:-3], good + b"x", b"")))
    assert found[0] == ({**ORDER, "tags": [("a", 1)]}, None)
    assert found[1] == (None, None)
    assert all(row is None and error for row, error in found[2:])
    assert "1 bytes are left over" in (found[3][1] or "")
    _, prefixed = avro.decoder(plain_json.dumps(AVRO), prefix_bytes=5)
    assert seen(prefixed(column(b"\0\0\0\0\x07" + good)))[0][1] is None


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("nonsense", "this is not an Avro schema"),
        ('{"type": "strange"}', "this is not an Avro schema"),
        ('["int", "string"]', "a union of several types has no column"),
        ('{"type": "record", "name": "T", "fields": [{"name": "next", "type": ["null", "T"]}]}', "'T' holds itself"),
    ],
)
def test_avro_schemas_that_have_no_column_are_refused(schema: str, words: str) -> None:
    with pytest.raises(SchemaUnusable, match=words):
        avro.decoder(schema)


def descriptors() -> tuple[bytes, Any]:
    """A message with what there is of kinds, and a class that writes it."""
    file = descriptor_pb2.FileDescriptorProto(name="t.proto", package="t", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    enum = file.enum_type.add(name="Kind")
    for number, name in enumerate(("NONE", "SOME")):
        enum.value.add(name=name, number=number)
    message = file.message_type.add(name="Order")
    entry = message.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    one = descriptor_pb2.FieldDescriptorProto
    entry.field.add(name="key", number=1, type=one.TYPE_STRING, label=1)
    entry.field.add(name="value", number=2, type=one.TYPE_INT32, label=1)
    message.field.add(name="id", number=1, type=one.TYPE_UINT64, label=1)
    message.field.add(name="names", number=2, type=one.TYPE_STRING, label=3)
    message.field.add(name="kind", number=3, type=one.TYPE_ENUM, type_name=".t.Kind", label=1)
    message.field.add(name="at", number=4, type=one.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp", label=1)
    message.field.add(name="tags", number=5, type=one.TYPE_MESSAGE, type_name=".t.Order.TagsEntry", label=3)
    times = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(times)
    files = descriptor_pb2.FileDescriptorSet(file=[times, file])
    pool = descriptor_pool.DescriptorPool()
    for each in files.file:
        pool.Add(each)
    return files.SerializeToString(), message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Order"))


def test_protobuf_is_read_by_its_descriptors() -> None:
    files, order = descriptors()
    good = order(id=2**64 - 1, names=["a", "b"], kind=1, tags={"x": 3}).SerializeToString()
    kind, decode = protobuf.decoder(files, "t.Order")
    found = seen(decode(column(good, b"", None, b"\xff\xff", good[:-1])))
    assert found[0][0] == {
        "id": Decimal(2**64 - 1), "names": ["a", "b"], "kind": "SOME", "at": None, "tags": [("x", 3)],
    }  # fmt: skip
    assert found[1] == ({"id": Decimal(0), "names": [], "kind": "NONE", "at": None, "tags": []}, None)
    assert found[2] == (None, None)
    assert all(row is None and error for row, error in found[3:])
    assert kind.field("at").type == pa.struct([("seconds", pa.int64()), ("nanos", pa.int32())])
    with pytest.raises(SchemaUnusable, match=r"there is no message 't\.Other'"):
        protobuf.decoder(files, "t.Other")
    with pytest.raises(SchemaUnusable, match="these are no descriptors"):
        protobuf.decoder(b"\xff\xff\xff", "t.Order")
