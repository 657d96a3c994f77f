"""The sync face of columns: stretches are taken on the loop's thread and decoded on the caller's; tables are encoded on
the caller's and sent by the loop's."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from headrace.client.column_producer import ColumnProducer as AsyncColumnProducer
from headrace.client.columns import ColumnReader as AsyncColumnReader
from headrace.client.columns import Tables
from headrace.client.portal import Portal
from headrace.client.positions import Position
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.client import client as core


class ColumnReader:
    """`for table in client.columns("topic", follow=False)`: each table is of one partition, in order."""

    def __init__(
        self, owner: object, client: core.Client, portal: Portal, topics: Iterable[str], options: dict[str, Any]
    ) -> None:
        self._owner = owner  # kept alive as long as its reader
        self._portal = portal
        self._core: AsyncColumnReader = portal.run(client.columns, *topics, **options)
        self._now: Tables | None = None
        try:
            portal.call(self._core.source.start())
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if not self._portal.is_stopped:
            self._portal.call(self._core.close())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        table = self.take(None)
        if table is None:
            raise StopIteration
        return table

    def take(self, timeout: float | None = 1.0) -> pa.RecordBatch | None:
        """The next table; None when everything was read, or nothing came in time."""
        while True:
            if self._now is not None and (table := self._decoded(self._now)) is not None:
                return table
            stretch = self._portal.call(self._core.source.stretch(self._core.rows, timeout))
            if stretch is None:
                return None
            self._now = Tables(stretch, self._core.names)

    def position(self, topic: str, partition: int) -> int:
        """The offset from which the broker is asked on: after what was handed out, and the rest of its stretch."""
        return self._portal.run(self._core.source.position, topic, partition)

    def seek(self, topic: str, partition: int, to: Position) -> None:
        if self._now is not None and self._now.stretch[:2] == (topic, partition):
            self._now = None
        self._portal.call(self._core.source.seek(topic, partition, to))

    def _decoded(self, tables: Tables) -> pa.RecordBatch | None:
        try:
            return tables.next()
        except HeadraceError:
            self._now = None
            self._portal.call(self._core.source.seek(*tables.stretch[:2], tables.next_offset))
            raise


class ColumnProducer:
    """`producer.put("topic", table)`; `flush` waits until everything is acknowledged, and leaving `with` does too."""

    def __init__(self, owner: object, client: core.Client, portal: Portal, options: dict[str, Any]) -> None:
        self._owner = owner  # kept alive as long as its producer
        self._portal = portal
        self._core: AsyncColumnProducer = portal.run(client.column_producer, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.flush()
        finally:
            self.close()

    def put(self, topic: str, table: pa.RecordBatch | pa.Table) -> int:
        """Waits for room only. How many rows were put."""
        rows = 0
        for part in table.to_batches() if hasattr(table, "to_batches") else [table]:
            prepared = self._core.prepare(part, *self._portal.call(self._core.aim(topic)))
            self._portal.call(self._core.place(topic, prepared))
            rows += part.num_rows
        return rows

    def flush(self) -> None:
        self._portal.call(self._core.flush())

    def close(self) -> None:
        """What is not acknowledged yet is given up: `flush` first."""
        if not self._portal.is_stopped:
            self._portal.call(self._core.close())
