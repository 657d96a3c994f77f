"""`python -m bench.spark_floor`: what Spark itself takes for rows that go through Python, when that Python does nothing
with them. Whatever a source or a sink in Python does comes on top, so nothing of ours can cost less.

rows       the rows that `bench.spark` writes are made, and dropped in the JVM
sink       the same rows handed to a sink that counts them
source     as many rows as `bench.spark` reads, all columns, the same table again and again
value      the same, the value alone
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from bench.processes import Watch
from bench.spark import Meter, kind_of, say, session
from bench.spark_table import Sample
from bench.spark_work import KEY_BYTES, PARTITIONS, VALUE_BYTES, drop, made

if TYPE_CHECKING:
    import pyarrow as pa

TABLE_ROWS = 1 << 16
NAME = "nothing"
COLUMNS = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"
NO_BROKER = -1


class Counted(WriterCommitMessage):
    pass


class CountingWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Counted:
        sum(table.num_rows for table in iterator)
        return Counted()


class RepeatingReader(DataSourceReader):
    def __init__(self, rows: int, schema: StructType) -> None:
        self._rows, self._schema = rows, schema

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(index) for index in range(PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        row = {
            "key": bytes(KEY_BYTES),
            "value": bytes(VALUE_BYTES),
            "topic": NAME,
            "partition": partition.value,
            "offset": 1,
            "timestamp": datetime.now(UTC),
            "timestampType": 0,
        }
        schema = to_arrow_schema(self._schema, timezone="UTC")
        columns = [pa.repeat(pa.scalar(row[field.name], field.type), TABLE_ROWS) for field in schema]
        table = pa.RecordBatch.from_arrays(columns, schema=schema)
        for left in range(self._rows // PARTITIONS, 0, -TABLE_ROWS):
            yield table.slice(0, left)


class Nothing(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return COLUMNS

    def reader(self, schema: StructType) -> RepeatingReader:
        return RepeatingReader(int(self.options["rows"]), schema)

    def writer(self, schema: StructType, overwrite: bool) -> CountingWriter:
        return CountingWriter()


def parts(spark: Any, rows: int, written: int) -> dict[str, Callable[[], object]]:
    reader = spark.read.format(NAME).option("rows", rows)
    return {
        "rows": lambda: drop(made(spark, written)),
        "sink": lambda: made(spark, written).write.format(NAME).mode("append").save(),
        "source": lambda: drop(reader.load()),
        "value": lambda: drop(reader.schema("value binary").load()),
    }


def shown(name: str, rows: int, samples: list[Sample]) -> str:
    kinds = ("JVM", "Python")
    each = " + ".join(f"{statistics.median(one.cpu_s.get(kind, 0.0) for one in samples):.2f}" for kind in kinds)
    total = statistics.median(one.total_s for one in samples)
    return f"{name:8} {rows:>10,} rows  {total:.2f} CPU s = {each} ({' + '.join(kinds)})"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.spark_floor", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="that count; as many before them warm the JVM")
    parser.add_argument("--rows", type=int, default=4_000_000, help="rows that are read")
    parser.add_argument("--written", type=int, default=1_000_000, help="rows that are written")
    chosen = parser.parse_args()
    samples: dict[str, list[Sample]] = {}
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder, Watch(kind_of(NO_BROKER)) as watch:
        spark = session(Path(folder), "1g")
        spark.dataSource.register(Nothing)
        work, meter = parts(spark, chosen.rows, chosen.written), Meter(watch)
        for number in range(2 * chosen.rounds):
            for name, run in work.items():
                sample = meter.measure(lambda run=run: bool(run()))  # type: ignore[misc]
                say(f"{name}: {sample.total_s:.2f} CPU s")
                if number >= chosen.rounds:
                    samples.setdefault(name, []).append(sample)
        spark.stop()
    for name, found in samples.items():
        print(shown(name, chosen.written if name in ("rows", "sink") else chosen.rows, found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
