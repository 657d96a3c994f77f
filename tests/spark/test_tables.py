"""The client's tables in Spark's columns, without Spark around it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace.spark.options import source_options
from headrace.spark.schema import spark_schema
from headrace.spark.tables import Shape

PAIRS = pa.list_(pa.struct([("k", pa.string()), ("v", pa.binary())]))
GIVEN = [[], [("a", b"1"), ("a", None)], [], [("b", b"")], []]


@pytest.mark.parametrize("first", range(len(GIVEN)))
def test_a_record_without_headers_has_null(first: int) -> None:
    options = source_options({"servers": "h:1", "subscribe": "t"}, is_stream=False)
    column = pa.array([[{"k": k, "v": v} for k, v in one] for one in GIVEN], PAIRS)[first:]
    only = spark_schema(True)["headers"]
    shape = Shape(type(spark_schema(True))([only]), options)
    made = shape.table(pa.record_batch({"headers": column})).column(0)
    made.validate(full=True)
    assert made.null_count == sum(not one for one in GIVEN[first:])
    assert [one and [(pair["key"], pair["value"]) for pair in one] for one in made.to_pylist()] == [
        one or None for one in GIVEN[first:]
    ]
