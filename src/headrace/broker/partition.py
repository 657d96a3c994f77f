"""A partition as its leader serves it: checks a producer's batch, appends, reads, and wakes who waits for more.

The log is opened on first use, off the loop, because opening is recovering; until then `log` is None and callers wait
for `opened()`. `append` only stages; a batch can be read, and acknowledged as written, after the broker's `flush`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headrace.broker.config import TopicConfig
from headrace.cluster.image import PartitionImage
from headrace.errors import (
    CorruptBatch,
    FencedLeaderEpoch,
    HeadraceError,
    InvalidRecord,
    InvalidTimestamp,
    KeptForever,
    MessageTooLarge,
    NotEnoughReplicas,
    NotLeader,
    OffsetOutOfRange,
    StorageFailed,
    UnknownLeaderEpoch,
)
from headrace.log.config import Staged
from headrace.log.log import AnyLog, Log
from headrace.log.reader import FileRead, ReadResult
from headrace.ports import Buffer, Promise
from headrace.records import codec
from headrace.records.batch import HEADER_BYTES, BatchHeader, read_header, stamp_append_time, validate

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.topic import Topic

NO_TIMESTAMP = -1
ALL_RECORDS = -1


class Waiter(Protocol):
    """Somebody who waits for more records."""

    def wake(self, partition: Partition) -> None: ...


class Partition:
    __slots__ = ("_broker", "_opening", "_waiters", "dirty", "error", "image", "index", "log", "topic")

    def __init__(self, broker: Broker, topic: Topic, index: int, image: PartitionImage) -> None:
        self._broker, self.topic, self.index, self.image = broker, topic, index, image
        self.log: AnyLog | None = None
        self.error: HeadraceError | None = None
        self.dirty = False
        self._opening: list[Promise[None]] = []  # one for each who waits: who gives up takes nobody along
        self._waiters: dict[Waiter, None] = {}

    def __repr__(self) -> str:
        return f"<partition {self.topic.name}/{self.index}>"

    @property
    def leader(self) -> int:
        return self.image.leader

    @property
    def leader_epoch(self) -> int:
        return self.image.leader_epoch

    @property
    def replicas(self) -> list[int]:
        return self.image.replicas

    @property
    def isr(self) -> list[int]:
        return self.image.isr

    @property
    def folder(self) -> str:
        """Where its log lies on the disk, or would."""
        return f"{self._broker.store.root}/topics/{self.topic.folder}/{self.index}"

    # The log

    async def opened(self) -> Partition:
        """This partition with its log open. Several may wait for one opening."""
        if self.log is None:
            if self.error is not None:
                raise self.error
            opening: Promise[None] = self._broker.new_promise()
            self._opening.append(opening)
            if len(self._opening) == 1:
                self._broker.open_log(self, self._opened)
            await opening
        return self

    def _opened(self, log: AnyLog | None, error: BaseException | None) -> None:
        waiting = [opening for opening in self._opening if not opening.done()]
        self._opening = []
        if log is not None and self.error is not None:  # deleted meanwhile
            log.close()
            error = self.error
        if error is not None or log is None:
            if not isinstance(error, HeadraceError):
                error = StorageFailed(f"{self.topic.name}/{self.index} cannot be opened: {error}")
            for opening in waiting:
                opening.set_exception(error)
            return
        log.configure(self.topic.config.for_log())  # which may have changed while it was opened
        log.epochs.begin(self.leader_epoch)
        log.on_append = self.wake
        if isinstance(log, Log):
            log.services.metrics.recoveries.observe(log.recovery_s)
        self.log = log
        for opening in waiting:
            opening.set_result(None)

    def recover(self) -> None:
        """The log has failed. Whoever comes next opens it anew, and that is its recovery."""
        if isinstance(self.log, Log) and self.log.is_blocked:  # only for a moment
            return
        if self.log is not None:
            self.topic.traffic.took_in(self.log)
            self.log.close()
            self.log = None

    def close(self, error: HeadraceError) -> None:
        """No more service: whoever comes, or waits, is told `error`."""
        self.error = error
        log, self.log = self.log, None
        if log is not None:
            self.topic.traffic.took_in(log)
            log.close()
        self.wake()

    # Producing

    def append(self, batch: Buffer, now_ms: int) -> Staged:
        """Checks and stages one batch, which becomes ours to patch and keep."""
        log = self.log
        assert log is not None
        try:
            header = validate(batch)
        except CorruptBatch:
            _refuse_several(batch)
            raise
        topic = self.topic
        config = topic.config
        if len(batch) > config.max_message_bytes:
            raise MessageTooLarge(
                f"{len(batch)} bytes are over the topic's max.message.bytes={config.max_message_bytes}"
            )
        if header.attributes & 0x30:
            _refuse(header)
        if topic.is_compacted:
            _refuse_keyless(batch)
        if topic.is_log_append_time:
            batch, header = _stamped(batch, header, now_ms)
        elif header.max_timestamp != NO_TIMESTAMP:
            early, late = config.timestamp_before_max_ms, config.timestamp_after_max_ms
            if header.max_timestamp > now_ms + late or header.base_timestamp < now_ms - early:
                _refuse_timestamp(header, config, now_ms)
        staged = log.stage(batch, header, now_ms, self.image.leader_epoch)
        if not staged.duplicate and not self.dirty:
            self.dirty = True
            self._broker.dirty.append(self)
        return staged

    def flush(self) -> None:
        """Writes what was staged."""
        self.dirty = False
        if self.log is None:
            raise self.error or NotLeader(f"{self!r} was closed")
        self.log.flush()

    def check_in_sync(self) -> None:
        need = self.topic.config.min_insync_replicas
        if need > len(self.image.isr):
            raise NotEnoughReplicas(f"min.insync.replicas={need}, and {len(self.image.isr)} in sync")

    # Reading

    @property
    def start_offset(self) -> int:
        assert self.log is not None
        return self.log.start_offset

    @property
    def high_watermark(self) -> int:
        """Replication factor 1: what is written."""
        assert self.log is not None
        return self.log.written_offset

    @property
    def last_stable_offset(self) -> int:
        return self.high_watermark

    def check_epoch(self, known: int) -> None:
        """`known`: the leader epoch in the client's metadata, -1 when it has none."""
        if known == -1 or known == self.image.leader_epoch:
            return
        if known < self.image.leader_epoch:
            raise FencedLeaderEpoch(f"leader epoch {known} is over, it is {self.image.leader_epoch} now")
        raise UnknownLeaderEpoch(f"leader epoch {known} has not begun here, it is {self.image.leader_epoch} now")

    def check_offset(self, offset: int) -> None:
        assert self.log is not None
        if not self.log.start_offset <= offset <= self.log.written_offset:
            raise OffsetOutOfRange(offset, self.log.start_offset, self.log.written_offset)

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool) -> ReadResult | FileRead:
        assert self.log is not None
        return self.log.read(offset, max_bytes, at_least_one=at_least_one)

    async def delete_records(self, before: int) -> int:
        """Nothing before that offset can be read any more, after a restart neither; -1: all that is readable now. The
        new start."""
        if not self.topic.config.is_deleted:
            raise KeptForever(f"topic {self.topic.name!r} is compacted: its records go by their keys")
        await self.opened()
        log = self.log
        if log is None or log.failed is not None:
            raise self.error or (log.failed if log else None) or NotLeader(f"{self!r} was closed")
        end = self.high_watermark
        if not ALL_RECORDS <= before <= end:
            raise OffsetOutOfRange(before, log.start_offset, end)
        promise = self._broker.new_promise()

        def done(error: HeadraceError | None) -> None:
            if not promise.done():
                promise.set_result(None) if error is None else promise.set_exception(error)

        log.delete_records(end if before == ALL_RECORDS else before, done)
        await promise
        return log.start_offset

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        assert self.log is not None
        return self.log.epochs.end_offset_for(epoch, self.log.written_offset)

    def watch(self, waiter: Waiter) -> None:
        self._waiters[waiter] = None

    def unwatch(self, waiter: Waiter) -> None:
        self._waiters.pop(waiter, None)

    def wake(self) -> None:
        if self._waiters:
            for waiter in tuple(self._waiters):
                waiter.wake(self)


def _refuse_several(batch: Buffer) -> None:
    """Whole batches one after the other are not damage, which a client would send again."""
    if len(batch) >= HEADER_BYTES and HEADER_BYTES <= read_header(batch).size < len(batch):
        raise InvalidRecord("a producer sends exactly one batch for a partition")


def _refuse_keyless(batch: Buffer) -> None:
    if any(record.key is None for record in codec.decode(batch)):
        raise InvalidRecord("every record of a compacted topic has a key")


def _refuse(header: BatchHeader) -> None:
    if header.is_control:
        raise InvalidRecord("control batches are the broker's to write")
    raise InvalidRecord("transactions are not offered: no transaction coordinator is advertised")


def _refuse_timestamp(header: BatchHeader, config: TopicConfig, now_ms: int) -> None:
    raise InvalidTimestamp(
        f"timestamps {header.base_timestamp} to {header.max_timestamp} are outside of what is taken at {now_ms}: "
        f"{config.timestamp_before_max_ms} ms before, {config.timestamp_after_max_ms} ms after"
    )


def _stamped(batch: Buffer, header: BatchHeader, now_ms: int) -> tuple[Buffer, BatchHeader]:
    own = batch if not isinstance(batch, bytes) else bytearray(batch)
    stamp_append_time(own, 0, len(own), now_ms)
    return own, read_header(own)
