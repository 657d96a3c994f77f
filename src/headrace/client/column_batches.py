"""Tables as batches on their way: each row's partition chosen, rows of one partition together, encoded without a record
becoming an object. No socket, no clock; may run on any thread.

Columns are found by name: `value`, and where there are `key`, `timestamp`, `headers` and `partition`. A row goes to the
partition that its column says, else where its key goes, else to `spare`, which is another one for each table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from headrace.client.lane import Batch, Lane
from headrace.errors import UnknownPartition
from headrace.ports import Buffer
from headrace.records import codec, kernel
from headrace.records.columns import inputs_of, key_of

if TYPE_CHECKING:
    import pyarrow as pa


class Piece(NamedTuple):
    """The records of one batch."""

    partition: int
    body: bytearray  # with room for the header in front
    rows: int
    base_timestamp: int
    max_timestamp: int


class ColumnBatch(Batch):
    __slots__ = ("piece",)
    piece: Piece


class ColumnLane(Lane):
    __slots__ = ()

    def add(self, piece: Piece, deadline: float) -> Batch:
        self._order += 1
        batch = ColumnBatch((self._order,), 0.0, deadline)
        batch.piece, batch.count, batch.size = piece, piece.rows, len(piece.body)
        self.waiting.append(batch)
        return batch

    def _seal(self, batch: Batch) -> bytearray:
        assert isinstance(batch, ColumnBatch)
        _, body, rows, base_timestamp, max_timestamp = batch.piece
        del batch.piece
        return codec.seal(body, rows, base_timestamp, max_timestamp, self._options(batch.producer))


def pieces(table: pa.RecordBatch, count: int, spare: int, max_bytes: int, now_ms: int) -> Iterator[Piece]:
    """Batches of up to `max_bytes` for a topic of `count` partitions; rows of a partition stay in their order."""
    rows = table.num_rows
    if not rows:
        return
    columns, goals = inputs_of(table), chosen(table, count, spare)
    if goals is not None:
        for made in kernel.encode_partitioned(rows, *columns, goals, count, max_bytes, now_ms):
            yield Piece(*made)
        return
    first = 0
    while first < rows:
        body, taken, base, most = kernel.encode_columns(rows, *columns, first, max_bytes, now_ms)
        yield Piece(spare, body, taken, base, most)
        first += taken


def chosen(table: pa.RecordBatch, count: int, spare: int) -> Buffer | None:
    """Each row's partition, as numbers of 4 bytes; None when all go to `spare`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    key = key_of(table) if count > 1 else None
    keyed = None if key is None else kernel.key_partitions(table.num_rows, key, count)
    if "partition" not in table.schema.names and (keyed is None or not table.column("key").null_count):
        return keyed
    goals = pa.repeat(pa.scalar(spare, pa.int32()), table.num_rows)
    if keyed is not None:
        found = pa.Array.from_buffers(pa.int32(), table.num_rows, [None, pa.py_buffer(keyed)])
        goals = pc.if_else(pc.greater_equal(found, 0), found, goals)
    if "partition" in table.schema.names:
        goals = pc.coalesce(table.column("partition").cast(pa.int32()), goals)
        least, most = pc.min_max(goals).values()
        for strange in (least.as_py(), most.as_py()):
            if not 0 <= strange < count:
                raise UnknownPartition(
                    f"a row goes to partition {strange}, and the topic has partitions 0 to {count - 1}"
                )
    _, numbers = goals.buffers()
    return memoryview(numbers).cast("B")[4 * goals.offset :]
