"""A partition as its leader serves it: checks a producer's batch, appends, reads, and wakes who waits for more.

The log is opened on first use, off the loop, because opening is recovering; until then `log` is None and callers wait
for `opened()`. `append` only stages; a batch can be read, and acknowledged as written, after the broker's `flush`.

A log that failed is opened anew in a new leader epoch, as all are after a start: what recovery cuts off was readable,
its offsets will be other records', and by the epoch a reader can tell.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from headrace.broker import opened, refusals
from headrace.broker.refusals import OURS
from headrace.cluster import controller
from headrace.cluster.image import PartitionImage
from headrace.errors import (
    CorruptBatch,
    FencedLeaderEpoch,
    HeadraceError,
    InvalidRecord,
    InvalidTopicName,
    KeptForever,
    MessageTooLarge,
    NotEnoughReplicas,
    NotLeader,
    OffsetOutOfRange,
    OutOfOrderSequence,
    StorageFailed,
    UnknownLeaderEpoch,
)
from headrace.log.config import Done, Staged
from headrace.log.log import AnyLog, Log
from headrace.log.producers import Awaited
from headrace.log.reader import FileRead, ReadResult
from headrace.log.span import Span
from headrace.ports import Buffer, Promise
from headrace.records.batch import BatchHeader, read_header, stamp_append_time, validate
from headrace.records.control import Marker, encode_marker
from headrace.records.header import TRANSACTIONAL

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.topic import Topic

NO_TIMESTAMP = -1
ALL_RECORDS = -1


class Waiter(Protocol):
    """Somebody who waits for more records."""

    def wake(self, partition: Partition) -> None: ...


class Partition:
    __slots__ = (
        "_awaited",
        "_broker",
        "_had_failed",
        "_opening",
        "_told",
        "_waiters",
        "dirty",
        "error",
        "image",
        "index",
        "log",
        "topic",
    )

    def __init__(self, broker: Broker, topic: Topic, index: int, image: PartitionImage) -> None:
        self._broker, self.topic, self.index, self.image = broker, topic, index, image
        self.log: AnyLog | None = None
        self.error: HeadraceError | None = None
        self.dirty = self._had_failed = False
        self._awaited: Awaited = {}  # by the log that failed, for the one that takes its place
        self._opening: list[Done] = []  # one for each who waits
        self._told = ""  # why it could not be opened the last time
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
            opening: Promise[None] = self._broker.new_promise()

            def done(error: HeadraceError | None) -> None:
                if not opening.done():  # who gives up takes nobody along
                    opening.set_result(None) if error is None else opening.set_exception(error)

            self.when_opened(done)
            await opening
        return self

    def when_opened(self, done: Done) -> None:
        """`done(None)` with the log open, at once if it is."""
        if self.log is not None or self.error is not None:
            done(self.error if self.log is None else None)
            return
        self._opening.append(done)
        if len(self._opening) == 1:
            if self._had_failed:
                self._begin_epoch()
            else:
                self._broker.open_log(self, self._opened)

    def _begin_epoch(self) -> None:
        begin = partial(controller.begin_epoch, topic_id=self.topic.image.topic_id, index=self.index)
        self._broker.quorum.propose(begin, self._epoch_begun, is_vital=True)

    def _epoch_begun(self, error: HeadraceError | None) -> None:
        error = error or self.error
        if error is None:
            self._had_failed = False
            self._broker.open_log(self, self._opened)
        else:
            self._opened(None, error)

    def _opened(self, log: AnyLog | None, error: BaseException | None) -> None:
        waiting, self._opening = self._opening, []
        if log is not None and self.error is not None:  # deleted meanwhile
            log.close()
            error = self.error
        if error is not None or log is None:
            if not isinstance(error, HeadraceError):
                error = StorageFailed(f"{self.topic.name}/{self.index} cannot be opened: {error}")
            self._tell(error)
            for done in waiting:
                done(error)
            return
        log.configure(self.topic.config.for_log())  # which may have changed while it was opened
        log.epochs.begin(self.leader_epoch)
        log.on_append = self.wake
        if isinstance(log, Log):
            log.services.metrics.recoveries.observe(log.recovery_s)
            log.producers.await_unkept(self._awaited)
        self.log, self._told, self._awaited = log, "", {}
        for done in waiting:
            done(None)

    def _tell(self, error: HeadraceError) -> None:
        """Once, while the reason stays the same: clients ask again and again."""
        if error is not self.error and self._told != str(error):
            self._told = str(error)
            self._broker.on_event("log.not-opened", {"folder": self.folder, "why": self._told})

    def recover(self) -> None:
        """The log has failed. Whoever comes next opens it anew, and that is its recovery."""
        if isinstance(self.log, Log) and self.log.is_blocked:  # only for a moment
            return
        if self.log is not None:
            self.topic.traffic.took_in(self.log)
            self.log.close()
            self._awaited = self.log.producers.unkept(self.log.synced_offset)
            self.log, self._had_failed = None, True

    def close(self, error: HeadraceError) -> None:
        """No more service: whoever comes, or waits, is told `error`."""
        self.error = error
        log, self.log = self.log, None
        if log is not None:
            self.topic.traffic.took_in(log)
            log.close()
        self.wake()

    # Producing

    def append(self, batch: Buffer, now_ms: int, *, is_first: bool = False) -> Staged:
        """Checks and stages one batch, which becomes ours to patch and keep. `is_first`: of a producer that is not
        known here, it has to be the first batch."""
        try:
            header = validate(batch)
        except CorruptBatch as error:
            refusals.refuse_undamaged(batch, error)
            raise
        return self.take(batch, header, now_ms, is_first)

    def take(self, batch: Buffer, header: BatchHeader, now_ms: int, is_first: bool = False) -> Staged:
        """As `append`, of a batch that is whole and has this header: whether this partition takes it."""
        log = self.log if self.log is not None else self._open_log()
        topic = self.topic
        config = topic.config
        if len(batch) > config.max_message_bytes:
            raise MessageTooLarge(
                f"{len(batch)} bytes are over the topic's max.message.bytes={config.max_message_bytes}"
            )
        attributes = header.attributes
        if attributes & OURS:
            refusals.refuse_ours(attributes)
        if attributes & TRANSACTIONAL and header.producer_id < 0:
            raise InvalidRecord("a transactional batch has its producer's id")
        if topic.is_guarded:
            if topic.is_ours:
                raise InvalidTopicName(f"{topic.name!r} is the broker's own to write")
            opened.refuse_keyless(batch, header)
        if topic.is_log_append_time:
            batch, header = _stamped(batch, header, now_ms)
        elif header.max_timestamp != NO_TIMESTAMP:
            early, late = config.timestamp_before_max_ms, config.timestamp_after_max_ms
            if header.max_timestamp > now_ms + late or header.base_timestamp < now_ms - early:
                refusals.refuse_timestamp(header, config, now_ms)
        if is_first and header.base_sequence and log.producers.state(header.producer_id) is None:
            raise OutOfOrderSequence(
                f"producer {header.producer_id} is new here and began with sequence {header.base_sequence} instead of 0"
            )
        if topic.window_ms and not attributes & TRANSACTIONAL:
            return self._broker.deduplication.append(self, batch, header, now_ms)
        staged = log.stage(batch, header, now_ms, self.image.leader_epoch)
        if not self.dirty and not staged.duplicate:
            self._mark_dirty()
        return staged

    def stage(self, batch: Buffer, header: BatchHeader, now_ms: int) -> Staged:
        """What was checked already."""
        log = self.log if self.log is not None else self._open_log()
        staged = log.stage(batch, header, now_ms, self.image.leader_epoch)
        if not staged.duplicate and not self.dirty:
            self._mark_dirty()
        return staged

    def append_own(self, batch: Buffer, now_ms: int) -> Staged:
        """Stages a batch that this node wrote itself, maybe for a producer's transaction: nothing of it is doubted."""
        staged = self._open_log().stage(batch, read_header(batch), now_ms, self.image.leader_epoch, is_own=True)
        self._mark_dirty()
        return staged

    def append_marker(
        self,
        producer_id: int,
        epoch: int,
        coordinator_epoch: int,
        commit: bool,
        now_ms: int,
        is_bumped: bool = False,
    ) -> Staged:
        """Stages the end of a producer's transaction. `is_bumped`: its epoch is higher than that of what it ends."""
        log, marker = self._open_log(), Marker(commit, coordinator_epoch)
        batch = encode_marker(marker, producer_id, epoch, now_ms)
        header = read_header(batch)
        log.producers.check_marker(header, marker, is_bumped)
        staged = log.stage(batch, header, now_ms, self.image.leader_epoch, is_own=True, marker=marker)
        self._mark_dirty()
        return staged

    def _open_log(self) -> AnyLog:
        if self.log is None:
            raise self.error or NotLeader(f"{self!r} is not open")
        return self.log

    def _mark_dirty(self) -> None:
        if not self.dirty:
            self.dirty = True
            self._broker.dirty.append(self)

    def flush(self) -> None:
        """Writes what was staged."""
        self.dirty = False
        if self.log is None:
            raise self.error or NotLeader(f"{self!r} was closed")
        subscriptions = self._broker.subscriptions
        if subscriptions.is_gathering:
            subscriptions.expect(self)
        self.log.flush()

    def check_in_sync(self) -> None:
        need = self.topic.config.min_insync_replicas
        if need > len(self.image.isr):
            raise NotEnoughReplicas(f"min.insync.replicas={need}, and {len(self.image.isr)} in sync")

    # Reading

    def serving_log(self) -> AnyLog:
        """Its log, or why there is none to ask: of one that failed, recovery may cut off what it would tell of."""
        log = self._open_log()
        if log.failed is not None:
            raise log.failed
        return log

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
        """No transaction that is under way has a batch before it."""
        assert self.log is not None
        return self.log.stable_offset

    def ongoing(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer has a transaction under way here, with that epoch."""
        log = self.log
        if log is None or producer_id not in log.transactions.ongoing:
            return False
        state = log.producers.state(producer_id)
        return state is not None and state[0] == epoch

    def aborted(self, from_offset: int, to_offset: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of the aborted transactions of which something lies between."""
        assert self.log is not None
        return [found[:2] for found in self.log.transactions.aborted(from_offset, to_offset)]

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

    def read(
        self, offset: int, max_bytes: int, *, at_least_one: bool, committed: bool = False
    ) -> ReadResult | FileRead:
        assert self.log is not None
        up_to = self.log.stable_offset if committed else None
        return self.log.read(offset, max_bytes, up_to=up_to, at_least_one=at_least_one)

    def span(self, offset: int, max_bytes: int, *, committed: bool = False) -> Span | None:
        """What `read` would give, to be sent unseen. None: read it."""
        assert self.log is not None
        return self.log.span(offset, max_bytes, self.log.stable_offset if committed else None)

    async def delete_records(self, before: int) -> int:
        """Nothing before that offset can be read any more, after a restart neither; -1: all that is readable now. The
        new start."""
        if not self.topic.config.is_deleted:
            raise KeptForever(f"topic {self.topic.name!r} is compacted: its records go by their keys")
        await self.opened()
        log, end = self.serving_log(), self.high_watermark
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


def _stamped(batch: Buffer, header: BatchHeader, now_ms: int) -> tuple[Buffer, BatchHeader]:
    own = batch if not isinstance(batch, bytes) else bytearray(batch)
    stamp_append_time(own, 0, len(own), now_ms)
    return own, read_header(own)
