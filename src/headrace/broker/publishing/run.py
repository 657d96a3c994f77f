"""A run: what one turn brought for one partition, on its way into one batch.

Who published is a taker: it waits for the place of its record, or of its stretch of records, at its own level. Where
one batch is not the answer for all (it would be too large, the topic does not take all of them, or has some already),
parts.py goes through them one by one. A refusal is for its own taker alone; a stretch is taken whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from headrace.broker.dedup.deduplication import Deduplication
from headrace.broker.dedup.topic_ids import TopicIds
from headrace.broker.dedup.window import id_of
from headrace.broker.partition import Partition
from headrace.broker.publishing.parts import Parts
from headrace.broker.publishing.published import RECEIVED, WRITTEN, Published, Stretch
from headrace.errors import HeadraceError, InvalidTimestamp, MessageTooLarge, StorageFailed
from headrace.log.log import AnyLog
from headrace.ports import Timers
from headrace.records import codec, kernel
from headrace.records.record import NO_TIMESTAMP, Record

# Whom to tell, at which level, the first of its records in the run, and how many: ONE for a record by itself.
Taker = tuple[Callable[..., None], int, int, int]
ONE = -1
Outcome = Published | Sequence[Published] | HeadraceError
NO_LEVEL = -2

_new = tuple.__new__  # a named tuple's own constructor takes twice as long, and this is once per record


class Run:
    __slots__ = (
        "_base",
        "_ends",
        "_error",
        "_results",
        "_timers",
        "_times",
        "_unsynced",
        "checked_level",
        "held_bytes",
        "is_opening",
        "partition",
        "records",
        "takers",
    )

    def __init__(self, partition: Partition, timers: Timers) -> None:
        self.partition, self._timers = partition, timers
        self.records: list[Record] = []
        self.takers: list[Taker] = []
        self.checked_level = NO_LEVEL  # the last one that can be promised
        self.is_opening = False
        self.held_bytes = 0  # while its log is opened
        self._base = -1  # offset of the first record, when all of them follow each other
        self._ends: dict[int, int] = {}  # up to where partitions have to be written, or synced, for all of it
        self._times: Sequence[int] | int = NO_TIMESTAMP  # of each record, or of all
        self._error: HeadraceError | None = None  # why none of them was appended
        self._results: list[Published | HeadraceError] | None = None  # one by one, where they differ
        self._unsynced = 0

    # Into the log

    def stage(self, now_ms: int, deduplication: Deduplication) -> None:
        """Gives the records their places in the partition's log, which is open. Where the topic looks at ids, they
        have been read back."""
        topic, records = self.partition.topic, self.records
        self.records = []
        ids: TopicIds | None = None
        names: list[bytes | None] = []
        if topic.window_ms:
            ids = deduplication.of(topic)
            names = [id_of(record[2]) if record[2] else None for record in records]
        options = codec.BatchOptions(append_time_ms=now_ms) if topic.is_log_append_time else codec.PLAIN
        batch = self._encoded(records, options, now_ms) if ids is None or ids.all_new(names, now_ms) else None
        if batch is None:
            self._stage_parts(records, options, now_ms, names, ids, deduplication)
            return
        try:
            staged = self.partition.append_own(batch, now_ms)
        except HeadraceError as error:
            self._error = error
            return
        self._base = staged.base_offset
        self._ends[self.partition.index] = staged.last_offset + 1
        if ids is not None:
            deduplication.note(self.partition, ids, names, staged.base_offset, self._times, now_ms)

    def _stage_parts(
        self,
        records: list[Record],
        options: codec.BatchOptions,
        now_ms: int,
        names: list[bytes | None],
        ids: TopicIds | None,
        deduplication: Deduplication,
    ) -> None:
        parts = Parts(self.partition, _stamped(records, now_ms), now_ms)
        if ids is not None:
            parts.leave_out_known(names, ids)
        parts.refuse([(start, count) for _, _, start, count in self.takers if count != ONE])
        if ids is not None:
            parts.leave_out_again(names)
            deduplication.duplicates += parts.duplicates
        staged_parts = parts.stage(options)
        if ids is not None:
            parts.note(staged_parts, names, ids, deduplication)
        self._results, self._ends = parts.results, parts.ends

    def _encoded(self, records: list[Record], options: codec.BatchOptions, now_ms: int) -> bytearray | None:
        """One batch of all; None when each has to be looked at."""
        topic = self.partition.topic
        config = topic.config
        if topic.is_compacted and any(record.key is None for record in records):
            return None
        times = [record[3] for record in records]
        self._times = now_ms
        try:
            if times.count(NO_TIMESTAMP) == len(times):
                # None has a time of its own: the batch's time is theirs, and no record need be made anew.
                batch = codec.seal(kernel.encode_records(records)[0], len(records), now_ms, now_ms, options)
            else:
                records = _stamped(records, now_ms)
                if not topic.is_log_append_time:
                    self._times = times = [record[3] for record in records]
                    early, late = now_ms - config.timestamp_before_max_ms, now_ms + config.timestamp_after_max_ms
                    if min(times) < early or max(times) > late:
                        return None
                batch = codec.encode(records, options)
        except (MessageTooLarge, InvalidTimestamp, UnicodeEncodeError):
            return None
        return batch if len(batch) <= config.max_message_bytes else None

    # Back to who published

    def fail(self, error: HeadraceError) -> None:
        """Nothing of it was or will be appended."""
        self._error = error
        self._tell(self.takers)

    def flushed(self, failed: dict[Partition, HeadraceError] | None) -> None:
        """The turn's writes are done, but for those of `failed`."""
        logs: list[tuple[AnyLog, int]] = []
        for index, end in self._ends.items():
            partition = self.partition.topic.partitions[index]
            log = partition.log
            if failed and partition in failed:
                self._error = partition.error or failed[partition]
            elif log is None or log.written_offset < end:  # never acknowledged, whatever the fault
                self._error = partition.error or StorageFailed(
                    "the record was not written; the log of this node says why"
                )
            else:
                logs.append((log, end))
        waiting = [taker for taker in self.takers if not RECEIVED <= taker[1] <= WRITTEN]
        if self._error is not None or not logs or not waiting:
            self._tell(self.takers)
            return
        if len(waiting) < len(self.takers):
            self._tell([taker for taker in self.takers if RECEIVED <= taker[1] <= WRITTEN])
        self._unsynced = len(logs)
        for log, end in logs:
            log.when_synced(end, partial(self._synced, waiting))

    def _synced(self, waiting: list[Taker], error: HeadraceError | None) -> None:
        if error is not None:  # of a topic that was deleted meanwhile, its log only knows that it was closed
            self._error = self._error or self.partition.error or error
        self._unsynced -= 1
        if not self._unsynced:
            self._tell(waiting)

    def _tell(self, takers: list[Taker]) -> None:
        for taker, outcome in zip(takers, self._outcomes(takers), strict=True):
            try:
                taker[0](outcome)
            except Exception as error:  # noqa: BLE001  # it costs nobody else an answer, and comes out by itself
                self._timers.after(0, partial(_raise, error))

    def _outcomes(self, takers: list[Taker]) -> list[Outcome]:
        """What became of the record or stretch of each."""
        error, results, times = self._error, self._results, self._times
        if results is not None:
            return [_found(results, start, count, error) for _, _, start, count in takers]
        if error is not None:
            return [error] * len(takers)
        index, base = self.partition.index, self._base
        if isinstance(times, int):
            return [
                _new(Published, (index, base + start, times, False))
                if count == ONE
                else Stretch(index, base + start, count, times)
                for _, _, start, count in takers
            ]
        return [
            Published(index, base + start, times[start])
            if count == ONE
            else Stretch(index, base + start, count, times[start : start + count])
            for _, _, start, count in takers
        ]


def _stamped(records: list[Record], now_ms: int) -> list[Record]:
    """Who gave no time published now."""
    return [record if record[3] != NO_TIMESTAMP else record._replace(timestamp_ms=now_ms) for record in records]


def _found(results: list[Published | HeadraceError], start: int, count: int, error: HeadraceError | None) -> Outcome:
    """Of records that were looked at one by one; `error`: of all that were staged."""
    own = results[start : start + max(count, 1)]
    published = [result for result in own if isinstance(result, Published)]
    if len(published) < len(own):
        return next(result for result in own if isinstance(result, HeadraceError))
    if error is not None:
        return error
    return published[0] if count == ONE else published


def _raise(error: Exception) -> None:
    raise error
