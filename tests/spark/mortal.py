"""The sink with steps that traps can be set at: the format `mortal`, which is `headrace` otherwise. Its option `traps`
is their folder."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from headrace.spark import sink
from headrace.spark.source import HeadraceSource
from tests.spark.traps import ANSWERED, FLUSHED, WRITING, Traps

Messages = list[WriterCommitMessage | None]


class MortalSource(HeadraceSource):
    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._traps = Traps(Path(options["traps"]))
        super().__init__({name: value for name, value in options.items() if name.lower() != "traps"})

    @classmethod
    def name(cls) -> str:
        return "mortal"

    def streamWriter(self, schema: StructType, overwrite: bool) -> MortalWriter:  # type: ignore[override]
        return MortalWriter(super().streamWriter(schema, overwrite), self._traps)


class MortalWriter(DataSourceStreamArrowWriter):
    def __init__(self, writer: sink.StreamWriter, traps: Traps) -> None:
        self._writer, self._traps = writer, traps

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        sink.GATHERED_BYTES = 1  # type: ignore[misc] # each table is sent as it comes
        message = self._writer.write(self._watched(iterator))
        self._traps.reach(FLUSHED)
        return message

    def _watched(self, tables: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, table in enumerate(tables):
            if number:
                self._traps.reach(WRITING)
            yield table

    def commit(self, messages: Messages, batchId: int) -> None:
        self._writer.commit(messages, batchId)
        self._traps.reach(ANSWERED)

    def abort(self, messages: Messages, batchId: int) -> None:
        self._writer.abort(messages, batchId)
