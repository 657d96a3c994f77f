"""Every format that the source has, in a pipeline: typed columns, and aside what does not decode or fails a check, with
the bytes that came."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession

from headrace.decoding.decoded import SchemaUnusable
from headrace.errors import HeadraceError
from headrace.spark import pipelines
from headrace.spark.errors import InvalidOption
from headrace.spark.pipelines.ends import are_records
from tests.decoding.test_decoding import descriptors
from tests.pipelines.conftest import Run, send
from tests.pipelines.test_topics import read

pytestmark = pytest.mark.timeout(600)  # several runs of Spark, on a busy machine

AVRO = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "id", "type": "long"}, {"name": "amount", "type": "double"}],
}
NONSENSE = b"\xc1\xff\xff"


class Case(NamedTuple):
    source: dict[str, str]
    good: bytes
    poor: bytes  # decodes, and fails the check
    check: str
    value: Any  # of the good one, as the target's JSON says it


def avro(amount: float) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), {"id": 7, "amount": amount})
    return out.getvalue()


def cases(folder: Path) -> dict[str, Case]:
    files, order = descriptors()
    (folder / "order.desc").write_bytes(files)
    (folder / "order.avsc").write_text(json.dumps(AVRO))
    packed, paid = msgspec.msgpack.encode, {"id": 7, "amount": 1.5}
    free = paid | {"amount": 0.0}
    return {
        "avro": Case({"schema": str(folder / "order.avsc")}, avro(1.5), avro(0), "amount > 0", paid),
        "protobuf": Case(
            {"schema": str(folder / "order.desc"), "message": "t.Order"},
            order(names=["x"]).SerializeToString(),
            order(names=["y"]).SerializeToString(),
            "names[0] = 'x'",
            ["x"],
        ),
        "msgpack": Case({"schema": "id bigint, amount double"}, packed(paid), packed(free), "amount > 0", paid),
        "json": Case({}, json.dumps(paid).encode(), json.dumps(free).encode(), "amount > 0", paid),
        "text": Case({}, "grüß".encode(), b"", "text <> ''", {"text": "grüß"}),
    }


@pytest.mark.parametrize("kind", ["avro", "protobuf", "msgpack", "json", "text"])
def test_values_become_columns_and_what_is_bad_is_kept_as_it_came(
    kind: str, headrace_address: str, topic: str, run: Run, tmp_path: Path
) -> None:
    case = cases(tmp_path)[kind]
    send(headrace_address, topic, [case.good, NONSENSE, case.poor])
    run(
        source={"format": kind, "schema": "", **case.source},
        deadletter={"topic": f"{topic}.bad", "checks": {"it fails": case.check}},
        target={"topic": f"{topic}.good"},
    )
    (good,) = read(headrace_address, f"{topic}.good", 1)
    value = json.loads(good.value or b"")
    assert (value["names"] if kind == "protobuf" else value) == case.value
    bad = {
        record.value: dict(record.headers)["headrace.reason"] for record in read(headrace_address, f"{topic}.bad", 2)
    }
    assert set(bad) == {NONSENSE, case.poor}
    assert bad[case.poor] == b"it fails"
    assert bad[NONSENSE] not in (b"", b"it fails", None)


def test_json_goes_aside_unless_it_is_one_object_that_every_check_can_be_computed_from(
    headrace_address: str, topic: str, run: Run
) -> None:
    """Its columns have the names of a record's, and are none."""

    def row(**fields: Any) -> bytes:
        return json.dumps({"key": "k", "value": 7, "id": "1", "n": "5"} | fields).encode()

    good = [row(), row(id="2") + b" \n"]
    more = [row() + rest for rest in (b" rubbish", b"\n" + row(), b"," + row(), b"]", b"}", b'], "_parts": [' + row())]
    poor = {row(n="five"): b"n is no number", row(value=0): b"too dear", b"null": b"the value is null"}
    send(headrace_address, topic, [*good, *more, *poor])
    run(
        source={"schema": "key string, value bigint, id string, n string"},
        deadletter={
            "topic": f"{topic}.bad",
            "checks": {"n is no number": "cast(n as int) > 0 and cast(n as int) < 9", "too dear": "100 / value < 50"},
        },
        target={"topic": f"{topic}.good", "key": "key"},
    )
    kept = read(headrace_address, f"{topic}.good", 2)
    assert [(record.key, json.loads(record.value or b"")) for record in kept] == [
        (b"k", json.loads(value)) for value in good
    ]
    bad = {
        record.value: dict(record.headers)["headrace.reason"] for record in read(headrace_address, f"{topic}.bad", 9)
    }
    assert set(bad) == {*more, *poor}
    assert {value: bad[value] for value in poor} == poor
    assert all(b" is not " in (bad[value] or b"") for value in more)


def test_no_value_of_json_becomes_another_than_it_was(headrace_address: str, topic: str, run: Run) -> None:
    """What a column cannot hold goes aside, as it came; what it can is the same in the target."""
    schema = "b tinyint, s smallint, i int not null, l bigint, f float, d decimal(5,2), t string, at timestamp, n date"
    good: list[dict[str, Any]] = [
        {"b": -128, "s": 32767, "i": 1, "l": 2**63 - 1, "f": 0.5, "d": 1.25, "t": "5", "n": "2026-01-31"},
        {"d": 999.99, "at": "2026-01-31T00:00:00.000001Z"},
        {"i": -1},
    ]
    bad = [
        b'{"b": 200}', b'{"s": 40000}', b'{"i": 3000000000}', b'{"l": 1.5}', b'{"l": "5"}', b'{"f": 1e39}',
        b'{"d": 1.239}', b'{"d": 1234.5}', b'{"t": 5}', b'{"at": 5}', b'{"at": "2026-02-30T00:00:00Z"}',
        b'{"n": "2026-02-30"}', b"{'b': 1}", b'{"l": 01}', b"null", b"[]",
    ]  # fmt: skip
    send(headrace_address, topic, [*(json.dumps(one).encode() for one in good), *bad])
    run(source={"schema": schema}, deadletter={"topic": f"{topic}.bad"}, target={"topic": f"{topic}.good"})
    kept = [json.loads(record.value or b"") for record in read(headrace_address, f"{topic}.good", len(good))]
    assert kept == good
    assert {record.value for record in read(headrace_address, f"{topic}.bad", len(bad))} == {*bad}


@pytest.mark.parametrize(
    ("source", "values", "words"),
    [
        ({"format": "avro", "schema": "none.avsc"}, [b"x"], "[source] schema 'none.avsc': there is no such file"),
        ({"format": "avro", "schema": "{}"}, [b"x"], "this is not an Avro schema"),
        ({"format": "msgpack", "schema": "id strng"}, [b"x"], "[source] schema 'id strng' is none"),
        ({"schema": "id int, of struct<a: array<variant>>"}, [b"x"], "'of.a' is variant, which no value becomes"),
        ({"format": "json", "schema": ""}, [b"x"], "none of the first values is a JSON object: give a schema"),
        ({"format": "json", "schema": ""}, [b'{"_id": 1}'], "'_id' begins with _"),
    ],
)
def test_a_schema_that_is_none_is_one_sentence(
    source: dict[str, str], values: list[bytes], words: str, headrace_address: str, topic: str, run: Run
) -> None:
    send(headrace_address, topic, values)
    with pytest.raises(HeadraceError) as refused:
        run(source=source, target={"topic": f"{topic}.out"})
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
    assert isinstance(refused.value, InvalidOption | SchemaUnusable) or "Avro" in words


def test_rows_are_records_by_where_they_come_from_and_not_by_two_names(piping: SparkSession) -> None:
    columns = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, date date"
    read_again = piping.createDataFrame([], columns)
    alike = piping.createDataFrame([], "key string, value bigint, _topic string")
    rollup = {"window": "1 minute", "values": {"value": "count"}, "by": ["key"]}
    cases: list[tuple[dict[str, Any], DataFrame, bool]] = [
        ({"source": {"topic": "t"}}, read_again, True),
        ({"source": {"topic": "t", "format": "json"}}, alike, False),
        ({"source": {"topic": "t"}, "rollup": rollup}, alike, False),
        ({"replay": {"topic": "t"}}, read_again, True),
        ({"replay": {"path": "p"}}, read_again, True),
        ({"replay": {"path": "p"}}, alike, False),
    ]
    for sections, frame, expected in cases:
        told = pipelines.settings_of({"name": "p", **sections, "target": {"topic": "o"}})
        assert are_records(frame, told) is expected, sections
