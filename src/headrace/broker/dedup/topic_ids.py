"""The ids of one topic: read back from its logs before the first use, and again where a log was opened anew.

What a log holds of the last window is all that has to be known: an id whose record was lost with the power is not in
it, and may come again. Records are read and decoded off the loop, a chunk at a time.

While a topic is in use an id counts from its append. Read back, it counts from the latest timestamp so far, which is
the same where producers' clocks are right, and with LogAppendTime everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headrace.broker.dedup.window import MAX_IDS, Window, id_of
from headrace.broker.page_read import split
from headrace.broker.partition import Partition
from headrace.errors import CorruptBatch, DamagedRange, HeadraceError, NotLeader, OffsetOutOfRange, StorageFailed
from headrace.log.config import Done
from headrace.log.log import AnyLog
from headrace.log.reader import FileRead, ReadResult
from headrace.records import codec, kernel
from headrace.records.header import CONTROL, TRANSACTIONAL

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.topic import Topic

CHUNK_BYTES = 1 << 20  # read and decoded at a time, in some milliseconds of a thread
MAX_OFFSETS = 4 * MAX_IDS  # read back of one log: a few seconds, and more than enough where most records have ids
MAX_ATTEMPTS = 20  # to read on where segments are being replaced


class TopicIds:
    def __init__(self, broker: Broker, topic: Topic) -> None:
        self._broker, self._topic = broker, topic
        self.window = Window(topic.window_ms)
        self._logs: dict[Partition, AnyLog] = {}  # whose ids are known
        self._waiting: list[Done] = []

    @property
    def is_ready(self) -> bool:
        logs = self._logs
        return all(part.log is not None and logs.get(part) is part.log for part in self._topic.partitions)

    def prepare(self, done: Done) -> None:
        """`done(None)` with everything known, or why it cannot be."""
        self._waiting.append(done)
        if len(self._waiting) == 1:
            self._go_on(None)

    def all_new(self, names: Sequence[bytes | None], now_ms: int) -> bool:
        """Whether none of these is known, or twice among them."""
        given = [name for name in names if name is not None]
        first = self.window.first
        return len(set(given)) == len(given) and all(first(name, now_ms) is None for name in given)

    def _go_on(self, error: HeadraceError | None) -> None:
        """One partition after the other."""
        if error is None:
            for partition in self._topic.partitions:
                if partition.log is None or self._logs.get(partition) is not partition.log:
                    partition.when_opened(partial(self._opened, partition))
                    return
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done(error)

    def _opened(self, partition: Partition, error: HeadraceError | None) -> None:
        log = partition.log
        if error is not None or log is None:
            self._go_on(error or partition.error or NotLeader(f"{partition!r} was closed"))
            return
        if self._logs.pop(partition, None) is not None:
            self.window.forget_partition(partition.index)
        _Load(self._broker, self.window, partition, log, partial(self._loaded, partition, log)).begin()

    def _loaded(self, partition: Partition, log: AnyLog, error: HeadraceError | None) -> None:
        if error is None:
            self._logs[partition] = log
        self._go_on(error)


class _Load:
    """Reads back what a log holds of the window."""

    def __init__(self, broker: Broker, window: Window, partition: Partition, log: AnyLog, done: Done) -> None:
        self._broker, self._window, self._partition, self._log, self._done = broker, window, partition, log, done
        self._now_ms = broker.clock.now_ms()
        self._latest_ms = 0
        self._at, self._end = log.start_offset, log.written_offset
        self._attempts = 0

    def begin(self) -> None:
        if self._at == self._end:
            self._done(None)
            return
        lookup = self._log.timestamp_lookup(max(0, self._now_ms - self._window.span_ms + 1))
        self._broker.background.run(lookup.run, self._found)

    def _found(self, found: tuple[int, int] | None, error: BaseException | None) -> None:
        if error is not None:
            self._fail(error)
        elif found is None:  # all of it is older
            self._done(None)
        else:
            furthest = self._end - MAX_OFFSETS
            if found[0] < furthest:
                self._window.is_cut = True
            self._at = max(self._at, found[0], furthest)
            self._next()

    def _next(self) -> None:
        while self._at < self._end:
            try:
                found = self._log.read(self._at, CHUNK_BYTES, up_to=self._end)
            except HeadraceError as error:
                if not self._steps_over(error):
                    self._done(error)
                    return
            else:
                self._broker.background.run(partial(_named, found), self._came)
                return
        self._done(None)

    def _came(self, chunk: _Chunk | None, error: BaseException | None) -> None:
        if chunk is None:
            if not (isinstance(error, HeadraceError) and self._steps_over(error)):
                self._fail(error)
                return
        else:
            self._attempts = 0
            index, note, latest_ms = self._partition.index, self._window.note, self._latest_ms
            for name, offset, timestamp_ms in chunk.named:
                latest_ms = max(latest_ms, min(timestamp_ms, self._now_ms))
                note(name, index, offset, timestamp_ms, latest_ms)
            self._broker.deduplication.came(len(chunk.named))
            self._latest_ms = max(latest_ms, min(chunk.latest_ms, self._now_ms))
            self._at = max(self._at + 1, chunk.next_offset)
        self._next()

    def _steps_over(self, error: HeadraceError) -> bool:
        self._attempts += 1
        if isinstance(error, DamagedRange) and error.next_offset > self._at:
            self._at = error.next_offset
            return True
        if isinstance(error, OffsetOutOfRange) and self._attempts <= MAX_ATTEMPTS:
            self._at = max(self._at, self._log.start_offset)
            return True
        return False

    def _fail(self, error: BaseException | None) -> None:
        if not isinstance(error, HeadraceError):
            error = StorageFailed(f"{self._partition!r} does not read: {error}")
        self._done(error)


class _Chunk(NamedTuple):
    named: list[tuple[bytes, int, int]]  # id, offset, timestamp
    latest_ms: int
    next_offset: int


def _named(found: ReadResult | FileRead) -> _Chunk:
    """Off the loop."""
    result = found.run() if isinstance(found, FileRead) else found
    named, latest_ms = [], 0
    for header, body in split(result.pieces):
        latest_ms = max(latest_ms, header.max_timestamp)
        if header.attributes & (CONTROL | TRANSACTIONAL):
            continue
        try:
            records = kernel.decode_records(
                codec.records_bytes(header, body),
                header.record_count,
                header.base_offset,
                header.base_timestamp,
                header.max_timestamp if header.is_log_append_time else None,
            )
        except CorruptBatch:  # whole, but without records: it has no ids
            continue
        for _, _, headers, timestamp_ms, offset in records:
            name = id_of(headers) if headers else None
            if name is not None:
                named.append((name, offset, timestamp_ms))
    return _Chunk(named, latest_ms, result.next_offset)
