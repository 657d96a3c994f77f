"""A state topic: a compacted topic of ours that holds state by key, in Kafka's own record formats, so that whoever can
read the topic can read the state.

- It is made on first use, through the metadata log; how many partitions it then has counts, whatever was set since.
- `append` goes into one batch as a whole, and `done(None)` comes when it is synced: state counts as acks=all. What one
  turn of the loop brings for a partition shares a batch; a transaction's has one of its own. The order in which records
  were given is kept, also while the topic is made or its log opened, and told of in it.
- `load` replays a partition: bytes are read and records decoded off the loop, a chunk at a time, and handed over on it.
  A damaged stretch is stepped over (the log has told of it): the rest of the state is worth more than none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headrace.broker.configuration import STORAGE
from headrace.broker.partition import Partition
from headrace.broker.topic import Topic
from headrace.broker.wishes import NewTopic
from headrace.errors import DamagedRange, HeadraceError, MessageTooLarge, NotLeader, OffsetOutOfRange, StorageFailed
from headrace.log.config import Done
from headrace.log.log import AnyLog
from headrace.log.reader import FileRead, ReadResult
from headrace.records import codec, kernel
from headrace.records.batch import BatchHeader, read_header
from headrace.records.record import Record

if TYPE_CHECKING:
    from headrace.broker.broker import Broker, Failed

CHUNK_BYTES = 128 << 10  # read, decoded and applied at a time: a thousand positions, a few milliseconds of the loop
MAX_APPEND_BYTES = 8 << 20  # keys and values of one batch: ten thousand positions with words beside them
MAX_ATTEMPTS = 20  # to read on where segments are being replaced

Entry = tuple[bytes, bytes | None]
Apply = Callable[[bytes, bytes | None, int], None]
ApplyBatch = Callable[[BatchHeader, list[Record]], None]


class StateTopic:
    def __init__(self, broker: Broker, name: str, partitions: int, config: Mapping[str, str]) -> None:
        self._broker, self.name = broker, name
        self._wish = NewTopic(name, partitions, configs={"cleanup.policy": "compact", STORAGE: "disk", **config})
        self._waiting: dict[int, list[_Append]] = {}  # for the turn's end, their log to be opened, the topic to be made
        self._ready: list[int] = []  # partitions that wait for the turn's end alone

    @property
    def topic(self) -> Topic | None:
        """None: nothing was ever written."""
        return self._broker.topic(self.name)

    @property
    def wish(self) -> NewTopic:
        """The topic as it is made."""
        return self._wish

    @property
    def partition_count(self) -> int:
        topic = self._broker.topic(self.name)
        return self._wish.partitions if topic is None else len(topic.partitions)

    def partition_for(self, text: str) -> int:
        return java_hash(text) % self.partition_count

    # Writing

    def append(
        self,
        partition: int,
        records: Sequence[Entry],
        done: Done,
        producer: codec.Producer | None = None,
    ) -> None:
        """At least one record. With a producer: as part of its transaction. Never `done` before this returns."""
        size = sum(len(key) + len(value or b"") for key, value in records)
        if size > MAX_APPEND_BYTES:
            error = MessageTooLarge(f"{size} bytes for {self.name} at once; {MAX_APPEND_BYTES} are the most")
            self._broker.timers.after(0, partial(done, error))
            return
        waiting = self._waiting.get(partition)
        if waiting is None:
            waiting = self._waiting[partition] = []
            self._prepare(partition)
        last = waiting[-1] if waiting and producer is None else None
        if last is not None and last.producer is None and last.size + size <= MAX_APPEND_BYTES:
            last.add(records, done, size)
        else:
            waiting.append(_Append(records, done, size, producer))

    def _prepare(self, partition: int) -> None:
        topic = self._broker.topic(self.name)
        if topic is None:
            self._broker.make_topic(self._wish, partial(self._made, partition))
        elif topic.partitions[partition].log is not None:
            if not self._ready:
                self._broker.timers.after(0, self._write)
            self._ready.append(partition)
        else:
            topic.partitions[partition].when_opened(partial(self._opened, partition))

    def _made(self, partition: int, error: HeadraceError | None) -> None:
        topic = self._broker.topic(self.name)
        if error is not None or topic is None:
            self._opened(partition, error or NotLeader(f"{self.name} was deleted"))
        elif partition >= len(topic.partitions):
            self._opened(partition, NotLeader(f"{self.name} has {len(topic.partitions)} partitions"))
        else:
            topic.partitions[partition].when_opened(partial(self._opened, partition))

    def _opened(self, partition: int, error: HeadraceError | None) -> None:
        if error is None:
            self._stage(partition)
            self._broker.flush()
        else:
            for append in self._waiting.pop(partition):
                append.tell(error)

    def _write(self) -> None:
        """The turn is over: all that it brought."""
        ready, self._ready = self._ready, []
        for partition in ready:
            self._stage(partition)
        self._broker.flush()

    def _stage(self, index: int) -> None:
        broker, topic = self._broker, self._broker.topic(self.name)
        now_ms = broker.clock.now_ms()
        for append in self._waiting.pop(index):
            try:
                if topic is None or index >= len(topic.partitions):
                    raise NotLeader(f"{self.name} was deleted")
                partition = topic.partitions[index]
                log = partition.log
                if log is None:
                    raise partition.error or NotLeader(f"{partition!r} is not open")
                batch = append.batch(now_ms)
                staged = log.stage(batch, read_header(batch), now_ms, partition.leader_epoch, is_own=True)
            except HeadraceError as error:
                broker.timers.after(0, partial(append.tell, error))
                continue
            if not partition.dirty:
                partition.dirty = True
                broker.dirty.append(partition)
            broker.when_flushed(partial(_flushed, partition, log, staged.last_offset + 1, append.tell))

    # Replay

    def load(self, partition: int, apply: Apply, done: Done) -> None:
        """Every record of the partition, in order; `done` after the last. What is appended meanwhile may be among
        them."""

        def apply_batch(header: BatchHeader, records: list[Record]) -> None:
            if not header.is_control:
                for record in records:
                    assert record.key is not None, "a compacted topic's records have keys"
                    apply(record.key, record.value, record.offset)

        self.load_batches(partition, apply_batch, done)

    def load_batches(self, partition: int, apply: ApplyBatch, done: Done) -> None:
        """The same by batch, the ends of transactions included."""
        topic = self._broker.topic(self.name)
        if topic is None or partition >= len(topic.partitions):
            self._broker.timers.after(0, partial(done, None))
        else:
            _Load(self._broker, topic.partitions[partition], apply, done).begin()


class _Append:
    """What goes into one batch, and who is told."""

    __slots__ = ("_done", "_records", "producer", "size")

    def __init__(self, records: Sequence[Entry], done: Done, size: int, producer: codec.Producer | None) -> None:
        self._records, self._done, self.size, self.producer = [*records], [done], size, producer

    def add(self, records: Sequence[Entry], done: Done, size: int) -> None:
        self._records += records
        self._done.append(done)
        self.size += size

    def batch(self, now_ms: int) -> bytearray:
        options = codec.PLAIN
        if self.producer is not None:
            options = codec.BatchOptions(producer=self.producer, is_transactional=True)
        return codec.encode([Record(key, value, (), now_ms) for key, value in self._records], options)

    def tell(self, error: HeadraceError | None) -> None:
        for done in self._done:
            done(error)


def _flushed(partition: Partition, log: AnyLog, end_offset: int, done: Done, failed: Failed | None) -> None:
    error = failed.get(partition) if failed else None
    if error is None and (partition.log is not log or log.written_offset < end_offset):
        error = partition.error or StorageFailed(f"{partition!r} was closed before the write")
    if error is not None:
        done(error)
    else:
        log.when_synced(end_offset, done)


class _Load:
    """One replay, chunk by chunk."""

    def __init__(self, broker: Broker, partition: Partition, apply: ApplyBatch, done: Done) -> None:
        self._broker, self._partition, self._apply, self._done = broker, partition, apply, done
        self._offset = self._end = 0
        self._attempts = 0

    def begin(self) -> None:
        files, folder = self._broker.store.services.files, self._partition.folder
        # A partition that was never written to has no folder, and need not be opened.
        self._broker.background.run(lambda: files.exists(folder), self._looked)

    def _looked(self, exists: bool | None, error: BaseException | None) -> None:
        if exists or error is not None:
            self._partition.when_opened(self._opened)
        else:
            self._done(None)

    def _opened(self, error: HeadraceError | None) -> None:
        log = self._partition.log
        if error is not None or log is None:
            self._done(error or NotLeader(f"{self._partition!r} was closed"))
            return
        self._offset, self._end = log.start_offset, log.written_offset
        self._next()

    def _next(self) -> None:
        log = self._partition.log
        if log is None:
            self._done(self._partition.error or NotLeader(f"{self._partition!r} was closed"))
            return
        found: ReadResult | FileRead
        while self._offset < self._end:
            try:
                found = log.read(self._offset, CHUNK_BYTES, up_to=self._end)
            except HeadraceError as error:
                if not self._steps_over(error):
                    self._done(error)
                    return
            else:
                self._broker.background.run(partial(_decoded, found), self._came)
                return
        self._done(None)

    def _came(self, chunk: _Chunk | None, error: BaseException | None) -> None:
        if chunk is not None:
            self._attempts = 0
            try:
                for header, records in chunk.batches:
                    self._apply(header, records)
            except HeadraceError as unreadable:
                self._done(unreadable)
                return
            self._offset = max(self._offset + 1, chunk.next_offset)
        elif isinstance(error, HeadraceError):
            if not self._steps_over(error):
                self._done(error)
                return
        else:
            self._done(StorageFailed(f"{self._partition!r} does not read: {error}"))
            return
        self._next()

    def _steps_over(self, error: HeadraceError) -> bool:
        self._attempts += 1
        if isinstance(error, DamagedRange) and error.next_offset > self._offset:
            self._offset = error.next_offset
            return True
        log = self._partition.log
        if isinstance(error, OffsetOutOfRange) and log is not None and self._attempts <= MAX_ATTEMPTS:
            self._offset = max(self._offset, log.start_offset)
            return True
        return False


class _Chunk(NamedTuple):
    batches: list[tuple[BatchHeader, list[Record]]]
    next_offset: int


def _decoded(found: ReadResult | FileRead) -> _Chunk:
    """Off the loop."""
    result = found.run() if isinstance(found, FileRead) else found
    batches = []
    for piece in result.pieces:
        for header, body in codec.split(piece, check_crc=False):
            records = kernel.decode_records(
                codec.records_bytes(header, body),
                header.record_count,
                header.base_offset,
                header.base_timestamp,
                header.max_timestamp if header.is_log_append_time else None,
            )
            batches.append((header, records))
    return _Chunk(batches, result.next_offset)


def java_hash(text: str) -> int:
    """Java's String.hashCode without its sign, as Kafka makes an index of it: of UTF-16 units, modulo 2^32."""
    value = 0
    raw = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(raw), 2):
        value = (31 * value + (raw[at] << 8 | raw[at + 1])) & 0xFFFFFFFF
    signed = value - (1 << 32) if value & 0x80000000 else value
    return 0 if signed == -(1 << 31) else abs(signed)
