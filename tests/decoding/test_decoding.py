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
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.decoding import avro, json, msgpack, protobuf, text
from headrace.decoding.decoded import Decoded, SchemaUnusable, by_rows, cast
from headrace.decoding.fitting import fitter

PERSON = pa.struct([("id", pa.int64()), ("name", pa.string()), ("tags", pa.list_(pa.string()))])
WIDE = pa.struct([("id", pa.int64()), ("name", pa.string()), ("parts", pa.list_(pa.int64()))])
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
        b'{"\xff": 1}',
        b'{"other": "\xc0\x80"}',
        b'{"name": "\xed\xa0\x80"}',
        b'{"other": NaN}',
        b'{"other": [1, -Infinity]}',
        b'{"other": \n-Inf}',
    ],
)
@pytest.mark.parametrize("last", [b'{"id": 3}', b' {"id": 3} '], ids=["all at once", "one by one"])
def test_one_bad_value_costs_no_other(bad: bytes, last: bytes) -> None:
    """Also where nothing but the bad value itself is a reason to look at each: a space before another is one."""
    decoded = json.decoder(PERSON)(column(b'{"id": 1}', bad, last))
    decoded.values.validate(full=True)
    found = seen(decoded)
    assert [row[0]["id"] if row[0] else None for row in found] == [1, None, 3]
    assert found[1][1] and not found[0][1] and not found[2][1]


@pytest.mark.parametrize("last", [b'{"real": 3}', b' {"real": 3} '], ids=["all at once", "one by one"])
@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "-Infinity", "Inf", "1e400", "1.7976931348623159e308", "9" * 400]
)
@pytest.mark.parametrize("form", ['{"real": %s}', '{"in": {"parts": [0.5, %s]}}'])
def test_a_number_that_json_or_its_column_has_not_is_a_bad_value(form: str, number: str, last: bytes) -> None:
    kind = pa.struct([("real", pa.float64()), ("in", pa.struct([("parts", pa.list_(pa.float64()))]))])
    found = seen(json.decoder(kind)(column(b'{"real": 1}', (form % number).encode(), last)))
    assert [row and row["real"] for row, _ in found] == [1.0, None, 3.0]
    assert [error is None for _, error in found] == [True, False, True]


def test_texts_that_look_like_odd_numbers_are_texts_and_cost_little() -> None:
    raw = column(b'{"id": 1, "name": "Info: NaN"}', b'{"tags": ["NaN", "Infinity"], "name": "-Inf, NaN"}')
    found = json.decoder(PERSON)(raw)
    assert [row["name"] for row, _ in seen(found)] == ["Info: NaN", "-Inf, NaN"] and found.errors.null_count == 2
    assert json._at_once(column(b'{"level": "Info", "id": 1, "name": "note: Infant, NaNa"}'), PERSON) is not None


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


PIECES = [
    b"0", b"-1", b"01", b"1.5", b"1e5", b"1.0", b".5", b"5.", b"+1", b"0x1", b"NaN", b"nan", b"Infinity", b"-Infinity",
    b"Inf", b"1e400", b"1e-400", b"9223372036854775807", b"9223372036854775808", b"32768", b"true", b"True", b"null",
    b"nul", b'""', b'"a"', b'"\\u0000"', b'"\\ud800"', b'"\\ud83d\\ude00"', b'"\\x"', b'"\n"', b'"\x00"', b'"\x7f"',
    b'"\xff"', b'"\xc3\xa4"', b'"\xc0\x80"', b'"\xed\xa0\x80"', b'"Info"', b'"a, NaN"', b"[]", b"[1]", b'["a"]',
    b'["a",]', b'["a" "b"]', b"[null]", b"[NaN]", b"{}", b'{"x": [1.5]}', b'{"x": -Inf}', b"'a'", b"/**/1", b"",
]  # fmt: skip
NAMES = [b'"id"', b'"name"', b'"tags"', b'"small"', b'"real"', b'"is"', b'"other"', b'"\xff"', b'"i\\u0064"', b"id"]
FIELDS = st.tuples(st.sampled_from(NAMES), st.sampled_from([b":", b" : ", b":\n", b""]), st.sampled_from(PIECES))
JOINTS = st.sampled_from([b",", b",", b", ", b",\r\n", b",,", b"", b"}{", b"}\n{"])


@st.composite
def nearly_json(draw: st.DrawFn) -> bytes:
    """Objects, and what is just not one; now and then a byte is too much."""
    value = b"{" + draw(JOINTS).join(map(b"".join, draw(st.lists(FIELDS, max_size=3)))) + b"}"
    place = draw(st.none() | st.integers(0, len(value)))
    return value if place is None else value[:place] + draw(st.binary(min_size=1, max_size=1)) + value[place:]


@given(st.lists(nearly_json(), min_size=1, max_size=3))
@settings(max_examples=1500, deadline=None)
def test_both_ways_of_reading_json_agree_about_what_is_none(values: list[bytes]) -> None:
    raw = column(*values)
    found = json.decoder(MORE)(raw)
    found.values.validate(full=True)
    fit = fitter(MORE)
    assert seen(found) == seen(by_rows(raw, lambda value: fit(msgspec.json.decode(value)), MORE))


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


def test_a_decimal_that_is_written_as_a_number_keeps_its_digits_or_is_a_bad_value() -> None:
    kind = pa.struct([("price", pa.decimal128(38, 18)), ("parts", pa.list_(pa.decimal128(5, 2))), ("id", pa.int64())])
    numbers = ["12345678901234567.123456789012345678", "-0.000000000000000001", "1.5e3", "7"]
    values = [b'{"price": %s, "parts": [1.50, 2]}' % number.encode() for number in numbers]
    found = seen(json.decoder(kind)(column(*values)))
    assert [row["price"] for row, _ in found] == [Decimal(number) for number in numbers]
    assert found[0] == ({"price": Decimal(numbers[0]), "parts": [Decimal("1.50"), Decimal(2)], "id": None}, None)
    bad = [b'{"price": 0.1234567890123456789}', b'{"parts": [1.239]}', b'{"price": 1e99}', b'{"price": "NaN"}']
    bad += [b'{"price": 1e9999999999999999999999}', b'{"price": "abc"}', b'{"id": 1.0}']
    errors = [error or "" for _, error in seen(json.decoder(kind)(column(*bad)))]
    assert all(errors)
    assert errors[-2:] == ["price: 'abc' is no decimal number", "id: a whole number is wanted, not 1.0"]


FLOAT = pa.struct([("real", pa.float32()), ("in", pa.struct([("parts", pa.list_(pa.float32()))]))])
FLOAT_AND_DECIMAL = pa.struct([*FLOAT, ("price", pa.decimal128(9, 2)), ("wide", pa.float64())])


@pytest.mark.parametrize("kind", [FLOAT, FLOAT_AND_DECIMAL], ids=["alone", "beside a decimal"])
@pytest.mark.parametrize("number", [1e39, -1e300, 3.5e38])
def test_a_number_that_is_too_large_for_a_float_is_a_bad_value_and_no_infinity(
    kind: pa.DataType, number: float
) -> None:
    rows: list[dict[str, Any]] = [{"real": number}, {"in": {"parts": [1.5, number]}}, {"real": 0.5}, {"real": 2**127}]
    for format_, encode in ((json, msgspec.json.encode), (msgpack, msgspec.msgpack.encode)):
        given = rows if format_ is json else rows[:-1]  # msgpack has no whole number that large
        found = seen(format_.decoder(kind)(column(*map(encode, given))))
        assert [row and row["real"] for row, _ in found] == [None, None, 0.5, float(2**127)][: len(given)]
        assert all("is too large for float" in (error or "") for _, error in found[:2])
    assert seen(json.decoder(kind)(column(b'{"real": 3.4028235e38}')))[0][1] is None  # the largest that there is


def test_numbers_above_all_doubles_are_bad_values_beside_decimals_too() -> None:
    ((row, error),) = seen(json.decoder(FLOAT_AND_DECIMAL)(column(b'{"wide": 1e400}')))
    assert row is None and error == "wide: 1E+400 is too large for double"


def test_a_double_that_is_read_as_float_becomes_no_infinity() -> None:
    double = pa.struct([("a", pa.float64()), ("l", pa.list_(pa.float64())), ("m", pa.map_(pa.string(), pa.float64()))])
    single = pa.struct([("m", pa.map_(pa.string(), pa.float32())), ("l", pa.list_(pa.float32())), ("a", pa.float32())])
    rows = [{"a": 0.5, "l": [1.5, None], "m": [("x", 2.5)]}, {"a": 1e300}, {"l": [1e39]}, {"m": [("x", -1e300)]}]
    odd = [{"a": float("inf"), "l": [float("-inf")]}, None]
    values, errors = cast(Decoded(pa.array([*rows, *odd], double), pa.nulls(6, pa.string())), single)
    none = {"m": None, "l": None, "a": None}
    assert values.to_pylist() == [rows[0], None, None, None, {**none, **(odd[0] or {})}, None]
    assert [bool(error) for error in errors.to_pylist()] == [False, True, True, True, False, False]
    assert "a number is too large" in errors[1].as_py()


def test_a_value_that_does_not_fit_another_type_costs_no_other() -> None:
    """Fields may be fewer and in another order; lists beside a bad one are looked at by themselves."""
    rows: list[dict[str, Any]] = [{"id": row, "parts": [row, row + 1], "name": f"n{row}"} for row in range(40)]
    rows[7]["parts"], rows[23]["id"] = [1, 2**40], -(2**40)
    found = by_rows(column(*(msgspec.json.encode(row) for row in rows), b"{", None), msgspec.json.decode, WIDE)
    narrow = pa.struct([("parts", pa.list_(pa.field("element", pa.int32()))), ("id", pa.int32())])
    values, errors = cast(found, narrow)
    assert values.type == narrow
    bad = [row for row, error in enumerate(errors.to_pylist()) if error]
    assert bad == [7, 23, 40] and "it does not fit struct<parts" in errors[7].as_py()
    expected = [None if row in bad else {"parts": [row, row + 1], "id": row} for row in range(40)]
    assert values.to_pylist() == [*expected, None, None]


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


def test_values_that_are_nested_too_deeply_are_left_out_of_a_sample() -> None:
    deep = [b'{"a": ' * 100_000, b"\x91" * 100_000]
    assert json.sampled(column(deep[0], b'{"id": 1}')) == pa.struct([("id", pa.int64())])
    good = msgspec.msgpack.encode({"id": 1})
    assert msgpack.sampled(column(deep[1], good)) == pa.struct([("id", pa.int64())])


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


def written(schema: Any, row: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
    return out.getvalue()


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def test_times_of_a_day_in_avro_are_numbers_since_midnight() -> None:
    millis, micros = {"type": "int", "logicalType": "time-millis"}, {"type": "long", "logicalType": "time-micros"}
    schema = record(a=millis, b=["null", micros], c={"type": "array", "items": millis})
    at = datetime.time(1, 0, 0, 5000)
    kind, decode = avro.decoder(plain_json.dumps(schema))
    assert kind == pa.struct([("a", pa.int32()), ("b", pa.int64()), ("c", pa.list_(pa.int32()))])
    found = seen(decode(column(written(schema, {"a": at, "b": at, "c": [at]}))))
    assert found == [({"a": 3_600_005, "b": 3_600_005_000, "c": [3_600_005]}, None)]


def test_a_named_type_of_avro_may_stand_in_several_places_also_as_a_decimal() -> None:
    money = {"type": "fixed", "name": "Money", "size": 8, "logicalType": "decimal", "precision": 18, "scale": 2}
    schema = record(a=money, b=["null", "Money"])
    kind, decode = avro.decoder(plain_json.dumps(schema))
    assert kind == pa.struct([("a", pa.decimal128(18, 2)), ("b", pa.decimal128(18, 2))])
    row = {"a": Decimal("1.50"), "b": Decimal("-2.00")}
    assert seen(decode(column(written(schema, row)))) == [(row, None)]


def test_a_logical_type_of_another_type_than_its_own_means_nothing() -> None:
    """As Avro's specification has it; those that write such a schema write what the type says."""
    schema = record(a={"type": "string", "logicalType": "timestamp-millis"}, b={"type": "int", "logicalType": "uuid"})
    kind, decode = avro.decoder(plain_json.dumps(schema))
    assert kind == pa.struct([("a", pa.string()), ("b", pa.int32())])
    assert seen(decode(column(written(schema, {"a": "x", "b": 5})))) == [({"a": "x", "b": 5}, None)]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("nonsense", "this is not an Avro schema"),
        ('{"type": "strange"}', "this is not an Avro schema"),
        ('["int", "string"]', "a union of several types has no column"),
        (
            '{"type": "bytes", "logicalType": "decimal", "precision": 50}',
            "a precision from 1 to 38; the schema gives 50",
        ),
        ('{"type": "bytes", "logicalType": "decimal", "precision": 0}', "a precision from 1 to 38; the schema gives 0"),
        ('{"type": "bytes", "logicalType": "decimal"}', "a precision from 1 to 38; the schema gives none"),
        ('{"type": "record", "name": "T", "fields": [{"name": "next", "type": ["null", "T"]}]}', "'T' holds itself"),
        ("[" * 100_000, "this is not an Avro schema: it is nested too deeply"),
        ('{"type": "array", "items": "null"}', "an array of what takes no bytes is not read"),
        (
            '{"type": "array", "items": {"type": "record", "name": "N", "fields": [{"name": "n", "type": "null"}]}}',
            "an array of what takes no bytes is not read: a few bytes could announce any number",
        ),
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
