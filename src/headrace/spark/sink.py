"""The sink. Exactly once, also when tasks run twice, when the driver dies between a commit and its checkpoint, and when
a batch that runs again has its rows in another order:

- each attempt of a task writes in a transaction of its own, a member of the query, and leaves it open;
- the driver commits all members of a batch, and the batch's number in the query's ledger, in one request; a batch that
  is in the ledger already is committed once, however often it is asked for, and its new members are aborted (ledger.py
  has what that means for whoever asks);
- while tasks run they renew the members of their query; when nobody does, the broker aborts them.

Only tasks know which query they belong to, and Spark commits with another writer in another process: what a commit
needs travels in the tasks' messages. A broker that is not ours has no such ledger: there each row is written at least
once, and that is said.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

import headrace
from headrace.errors import HeadraceError, ProducerFenced
from headrace.spark import ledger
from headrace.spark.errors import InvalidOption
from headrace.spark.lookup import CLIENT_ID
from headrace.spark.plain import plain
from headrace.spark.process import keep_memory, spare_imports
from headrace.spark.sink_options import AT_LEAST_ONCE, EXACTLY_ONCE, SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.client.sinks import Member

logger = logging.getLogger("headrace.spark")

RENEWALS: Final = 3  # within the time after which members are given up
GATHERED_BYTES: Final = 32 << 20  # of tables that are put together before they are written


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task tells the driver."""

    query: str
    batch: int
    member: Member | None  # None: there were no rows, or no transaction
    rows: int


def draw(options: SinkOptions) -> int | None:
    """The number of a write that is exactly once; None where it is at least once."""
    if options.guarantee == AT_LEAST_ONCE:
        return None
    with headrace.connect(options.servers, CLIENT_ID, options.timeout) as client:
        number = client.admin.draw_write() if client.admin.has_sinks() else None
    spare_imports()
    if number is not None:
        return number
    words = "this broker is not a Headrace: it cannot commit a query's transactions as one"
    if options.guarantee == EXACTLY_ONCE:
        raise InvalidOption(f"{words}; guarantee={AT_LEAST_ONCE} writes without")
    if options.write_id is not None:
        raise InvalidOption(f"{words}, and a writeId needs that; without one the rows are written at least once")
    logger.warning("%s, so rows are written at least once (guarantee=%s says that this is known)", words, AT_LEAST_ONCE)
    return None


def write(
    options: SinkOptions, number: int | None, query: str, batch: int, tables: Iterator[pa.RecordBatch]
) -> Written:
    """What a task does with its rows."""
    from headrace.spark.rows import shaped

    keep_memory()
    with _renewed(options, query, number) as renewal:  # from now on: others may be done before our first row is there
        gathered = _gathered(tables)
        first = next(gathered, None)
        if first is None:
            return Written(query, batch, None, 0)
        with headrace.connect(options.servers, CLIENT_ID, options.timeout) as client:
            member = None
            if number is not None:
                context = TaskContext.get()
                task = f"{context.partitionId()}.{context.attemptNumber()}" if context is not None else "0.0"
                member = client.admin.open_member(query, number, task, int(options.sink_timeout_s * 1000))
            rows = 0
            try:
                with client.column_producer(member=member, compression=options.compression) as producer:
                    for topic, table in shaped(_chained(first, gathered), options):
                        renewal.check()
                        rows += producer.put(topic, table)
                    producer.flush()
            except BaseException:
                if member is not None:
                    with contextlib.suppress(HeadraceError):  # it is aborted in time by itself
                        client.admin.abort_batch(query, batch, [member])
                raise
    spare_imports()
    return Written(query, batch, member, rows)


def commit(options: SinkOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    _end(options, messages, is_commit=True)


def abort(options: SinkOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Spark also calls this after a commit that raised, and may have happened: the ledger knows."""
    _end(options, messages, is_commit=False)


def _end(options: SinkOptions, messages: Sequence[WriterCommitMessage | None], *, is_commit: bool) -> None:
    told = [message for message in messages if isinstance(message, Written) and message.member is not None]
    if not told:
        return
    query, batch = told[0].query, told[0].batch
    members = [message.member for message in told if message.member is not None]
    with headrace.connect(options.servers, CLIENT_ID, options.timeout) as client:
        if is_commit:
            ledger.commit(client, options, query, batch, members, sum(message.rows for message in told))
        else:
            client.admin.abort_batch(query, batch, members)
    spare_imports()


class _Renewal:
    """Keeps the members of a query alive while a task runs. It has connections of its own: a task without rows needs
    none, and most tasks are done before anything has to be renewed."""

    def __init__(self, options: SinkOptions, query: str, number: int) -> None:
        self._options, self._query, self._number = options, query, number
        self._every_s = options.sink_timeout_s / RENEWALS
        self._over = threading.Event()
        self._fenced: ProducerFenced | None = None
        self._thread = threading.Thread(target=self._run, name="headrace-renewal", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def check(self) -> None:
        if self._fenced is not None:
            raise self._fenced

    def _run(self) -> None:
        while not self._over.wait(self._every_s):
            try:
                with headrace.connect(self._options.servers, CLIENT_ID, self._options.timeout) as client:
                    client.admin.renew_members(self._query, self._number)
            except ProducerFenced as error:  # a newer run of the query: this one is not wanted any more
                self._fenced = error
                return
            except HeadraceError as error:
                logger.warning("the transactions of %s were not renewed: %s", self._query, error)


class _Nothing:
    def check(self) -> None:
        pass


@contextlib.contextmanager
def _renewed(options: SinkOptions, query: str, number: int | None) -> Iterator[_Renewal | _Nothing]:
    if number is None:
        yield _Nothing()
        return
    renewal = _Renewal(options, query, number)
    renewal.start()
    try:
        yield renewal
    finally:
        renewal.stop()


def _gathered(tables: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Spark's small tables put together: rows are sorted by partition, and few large batches cost less."""
    from headrace.client.columns import ROWS
    from headrace.spark.tables import joined

    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for table in tables:
        if not table.num_rows:
            continue
        waiting.append(table)
        rows, size = rows + table.num_rows, size + table.nbytes
        if rows >= ROWS or size >= GATHERED_BYTES:
            yield joined(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield joined(waiting)


def _chained(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


@plain
class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._options = options
        self._number = draw(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        context = TaskContext.get()
        assert context is not None
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        assert query is not None and batch is not None
        return write(self._options, self._number, ledger.of_stream(query), int(batch), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        commit(self._options, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        abort(self._options, messages)


@plain
class BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._options = options
        self._number = draw(options)
        self._query = ledger.of_write(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return write(self._options, self._number, self._query, self._options.batch_id, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        commit(self._options, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        abort(self._options, messages)
