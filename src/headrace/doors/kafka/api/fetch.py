"""Fetch, 4 to 18: whole batches, as they were written, from memory or file, with a long poll when there is too little.

A fetch is answered when it has `min_bytes`, an error to tell, or no time left; and when a partition has more than the
answer takes, for then waiting adds nothing. So is one that names nothing, by which a client ends its session. What the
file system does not hold in memory is read off the loop. Partitions of a session are looked at only when they have
news; a session that has none left is over.

Who tells the epoch of the last record it has (a follower) is told first of all where its history left ours, if it did:
it gets no records before it has gone back there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from headrace.broker.partition import Partition
from headrace.doors.kafka.answers import Answer
from headrace.doors.kafka.api.produce import unknown_topic
from headrace.doors.kafka.names import from_kafka
from headrace.doors.kafka.registry import Api
from headrace.doors.kafka.sessions import NO_SESSION, Asked, Session
from headrace.errors import DamagedRange, HeadraceError, NotLeader, OffsetOutOfRange, StorageFailed
from headrace.log.reader import FileRead, ReadResult
from headrace.log.span import Span
from headrace.wire.kafka import fetch as wire
from headrace.wire.kafka.errors import Code, code_for
from headrace.wire.kafka.header import FETCH, RequestHeader

if TYPE_CHECKING:
    from headrace.doors.kafka.connection import Connection

API = Api(FETCH, "Fetch", range(wire.OLDEST, wire.NEWEST + 1))

BY_ID_FROM = 13
MAX_WAIT_MS = 60_000  # a longer poll gains a client nothing
TOLD_BYTES = 64  # about what an answer holds of a partition besides its records


class Diverged(NamedTuple):
    """Where a reader's history left ours: the last epoch that both know, and where it ended."""

    epoch: int
    end_offset: int


Found = ReadResult | Span | FileRead | Diverged | HeadraceError


def begin(connection: Connection, buffer: memoryview, end: int, header: RequestHeader) -> None:
    request = wire.decode_request(buffer, header.end, end, header.version)
    by_id = header.version >= BY_ID_FROM
    door = connection.door
    session = door.sessions.find(request, by_id, door.loop.time())
    if isinstance(session, Code):
        door.metrics.failed(FETCH, session)
        connection.done(FETCH, connection.now())
        place = connection.place(Answer())
        place.buffers = wire.encode_response(header.version, header.correlation_id, 0, session, NO_SESSION, [])
        return
    incremental = session is not None and request.session_epoch > 0
    asked = [
        Asked(key, want, _partition(connection, key, want.partition))
        for topic in request.topics
        for key in (topic.topic_id if by_id else topic.name,)
        if key is not None
        for want in topic.partitions
    ]
    if session is not None:
        for forgotten in request.forgotten:
            key = forgotten.topic_id if by_id else forgotten.name
            for index in forgotten.partitions:
                assert key is not None
                session.forget((key, index))
        session.update(asked)
        for one in list(session.ready):
            if one.partition is None or one.partition.error is not None:
                session.find_again(one, _partition(connection, one.topic, one.index))
        if incremental and not session.asked:
            door.sessions.close(session.id)
            session, incremental = None, False
    Fetch(connection, header, request, session, incremental, asked).start()


def _partition(connection: Connection, topic: str | UUID, index: int) -> Partition | None:
    broker = connection.broker
    if isinstance(topic, UUID):
        found = broker.topic_by_id(topic)
    else:
        found = broker.topic(topic) or broker.topic(from_kafka(topic))
    return found.partitions[index] if found is not None and 0 <= index < len(found.partitions) else None


class Fetch:
    """One request, from its first look to its answer."""

    def __init__(
        self,
        connection: Connection,
        header: RequestHeader,
        request: wire.FetchRequest,
        session: Session | None,
        incremental: bool,
        asked: list[Asked],
    ) -> None:
        self.connection, self.header, self.request = connection, header, request
        self.session, self.incremental = session, incremental
        self._is_committed = request.isolation_level == wire.READ_COMMITTED
        self._asked = asked
        self._answer = connection.place(Answer())
        self._began = connection.now()
        self._waits_since = 0.0
        self._scheduled = self._done = self._sends_spans = False
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0

    def start(self) -> None:
        closed = [one.partition for one in self._candidates() if _is_closed(one.partition)]
        wait_ms = min(self.request.max_wait_ms, MAX_WAIT_MS)
        asked = self.session.asked if self.session is not None else self._asked
        self._deadline = self.connection.door.loop.time() + wait_ms / 1000
        if closed:
            self.connection.block()
            self.connection.door.spawn(self._open_first(closed), self.connection)
        elif not self._attempt(last=wait_ms <= 0 or not asked, in_turn=True):
            self._wait()

    async def _open_first(self, closed: list[Partition | None]) -> None:
        failed: dict[Partition, HeadraceError] = {}
        for partition in closed:
            assert partition is not None
            try:
                await partition.opened()
            except HeadraceError as error:
                failed[partition] = error
        if not self._attempt(last=self.connection.door.loop.time() >= self._deadline, failed=failed):
            self._wait()

    # Waiting for more

    def _wait(self) -> None:
        self.connection.block()
        door = self.connection.door
        self._waits_since = door.broker.clock.monotonic()
        self._timer = door.loop.call_at(self._deadline, self._last_look)
        door.polls[self] = None
        self.connection.poll = self
        if self.session is not None:
            self.session.on_news = self._news
        else:
            for one in self._asked:
                if one.partition is not None:
                    one.partition.watch(self)

    def wake(self, partition: Partition) -> None:
        self._news()

    def _news(self) -> None:
        """One look for all that a turn brings."""
        if not self._scheduled:
            self._scheduled = True
            self.connection.door.loop.call_soon(self._look)

    def _look(self) -> None:
        self._scheduled = False
        if not self._done and self._attempt(last=False):
            self._stop_waiting()

    def _last_look(self) -> None:
        if not self._done:
            self._stop_waiting()
            self._attempt(last=True)

    def hurry(self) -> None:
        """The node is stopping."""
        self._last_look()

    def cancel(self) -> None:
        """The client is gone."""
        if not self._done:
            self._done = True
            self._stop_waiting()

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            # What it waited for by the client's own wish is not how long it took.
            self._began += self.connection.broker.clock.monotonic() - self._waits_since
            self.connection.door.polls.pop(self, None)
            self.connection.poll = None
            if self.session is not None:
                self.session.on_news = None
            else:
                for one in self._asked:
                    if one.partition is not None:
                        one.partition.unwatch(self)

    # Looking

    def _candidates(self) -> Iterable[Asked]:
        return list(self.session.ready) if self.session is not None else self._asked

    def _attempt(
        self, *, last: bool, in_turn: bool = False, failed: dict[Partition, HeadraceError] | None = None
    ) -> bool:
        """True when the answer is made, or being read from disk. `in_turn`: the end of this turn sends it."""
        door = self.connection.door
        last = last or door.stopping
        room = door.unsent.room(door.limits.fetch_max_bytes)
        if room <= 0 and not last:
            return False
        left = min(self.request.max_bytes, room)
        enough = min(self.request.min_bytes, max(left, 1))  # a limit of nothing still gives the first batch
        got, at_once, from_disk = 0, False, False
        self._sends_spans = in_turn and self.connection.sends_spans(self._answer)
        looked: list[tuple[Asked, Found]] = []
        for one in self._candidates():
            found = self._read(one, left - got, got == 0 and room > 0, failed)
            looked.append((one, found))
            if isinstance(found, ReadResult | Span):
                got += found.size
                at_once = at_once or self._has_more(one, found)
            elif isinstance(found, FileRead):
                got += max(1, min(one.want.max_bytes, left - got))  # at the most; how much, the disk will say
                at_once = from_disk = True
            else:
                at_once = True
        if not last and not at_once and got < enough:
            return False
        self._done = True
        if from_disk:
            looked = [(one, _kept(found)) for one, found in looked]
            self.connection.block()
            door.spawn(self._read_disk(looked, got), self.connection)
        else:
            self._finish(looked)
        return True

    def _read(self, one: Asked, left: int, at_least_one: bool, failed: dict[Partition, HeadraceError] | None) -> Found:
        partition, want = one.partition, one.want
        if partition is None:
            return self._unknown(one)
        if partition.log is None:
            return partition.error or (failed or {}).get(partition) or NotLeader(f"{partition!r} is being recovered")
        try:
            partition.serving_log()
            if want.current_leader_epoch != -1:
                partition.check_epoch(want.current_leader_epoch)
            if want.last_fetched_epoch >= 0 and (parted := _diverged(partition, want)) is not None:
                return parted
            if left <= 0 and not at_least_one:
                partition.check_offset(want.fetch_offset)
                return ReadResult([], 0, want.fetch_offset)
            max_bytes = max(0, min(want.max_bytes, left))
            if self._sends_spans and (
                span := partition.span(want.fetch_offset, max_bytes, committed=self._is_committed)
            ):
                return span
            return partition.read(want.fetch_offset, max_bytes, at_least_one=at_least_one, committed=self._is_committed)
        except HeadraceError as error:
            return error

    def _has_more(self, one: Asked, found: ReadResult | Span) -> bool:
        """What was read ends before the partition does: at a limit, or where another read has to go on."""
        assert one.partition is not None
        end = one.partition.last_stable_offset if self._is_committed else one.partition.high_watermark
        return found.next_offset < end

    async def _read_disk(self, looked: list[tuple[Asked, Found]], size: int) -> None:
        door = self.connection.door
        read: list[tuple[Asked, Found]] = []
        ends = self._ends()
        door.unsent.reading_bytes += size
        try:
            for one, found in looked:
                if isinstance(found, FileRead):
                    try:
                        found = await door.in_background(found.run)
                    except HeadraceError as error:
                        found = error
                read.append((one, found))
        finally:
            door.unsent.reading_bytes -= size
        is_due = door.stopping or door.loop.time() >= self._deadline
        if is_due or any(not isinstance(found, ReadResult) or found.size for _, found in read):
            self._finish(read)
            return
        # Compaction has left nothing between the offset and the last stable one: as at the end of the log.
        self._done = False
        self._wait()
        if self._ends() != ends:
            self._news()

    def _ends(self) -> list[tuple[int, int]]:
        asked = self.session.asked.values() if self.session is not None else self._asked
        parts = [one.partition for one in asked if one.partition is not None and one.partition.log is not None]
        return [(partition.high_watermark, partition.last_stable_offset) for partition in parts]

    # Answering

    def _finish(self, looked: list[tuple[Asked, Found]]) -> None:
        topics: dict[str | UUID, list[wire.FetchedPartition]] = {}
        for one, found in looked:
            fetched = self._fetched(one, found)
            if self._tell(one, fetched):
                self._answer.ready_bytes += TOLD_BYTES + fetched.size
                if fetched.size and one.partition is not None and isinstance(found, ReadResult | Span):
                    traffic = one.partition.topic.traffic
                    traffic.read_bytes += fetched.size
                    traffic.read_records += found.next_offset - one.want.fetch_offset
                topics.setdefault(one.topic, []).append(fetched)
        header = self.header
        session_id = self.session.id if self.session is not None else NO_SESSION
        results = [
            wire.FetchedTopic(None, topic, parts) if isinstance(topic, UUID) else wire.FetchedTopic(topic, None, parts)
            for topic, parts in topics.items()
        ]
        self._answer.buffers = wire.encode_response(header.version, header.correlation_id, 0, 0, session_id, results)
        self.connection.ready_bytes += self._answer.ready_bytes
        self.connection.done(FETCH, self._began)
        self.connection.unblock()

    def _fetched(self, one: Asked, found: Found) -> wire.FetchedPartition:
        partition = one.partition
        if isinstance(found, HeadraceError):
            code, _ = code_for(found)
            self.connection.door.metrics.failed(FETCH, code)
            start_offset = -1
            if (
                isinstance(found, OffsetOutOfRange | DamagedRange)
                and partition is not None
                and partition.log is not None
            ):
                start_offset = partition.start_offset
            return wire.FetchedPartition(one.index, code, log_start_offset=start_offset)
        if partition is None or partition.log is None:  # deleted while we read
            return wire.FetchedPartition(one.index, code_for(self._unknown(one))[0])
        ends = partition.high_watermark, partition.last_stable_offset, partition.start_offset
        if isinstance(found, Diverged):
            return wire.FetchedPartition(one.index, 0, *ends, diverging=found)
        assert isinstance(found, ReadResult | Span)
        aborted: list[tuple[int, int]] | None = None
        if self._is_committed:
            aborted = partition.aborted(one.want.fetch_offset, found.next_offset) if found.size else []
        pieces, span = (found.pieces, None) if isinstance(found, ReadResult) else ([], found)
        return wire.FetchedPartition(one.index, 0, *ends, pieces, found.size, aborted, unseen=span)

    def _unknown(self, one: Asked) -> HeadraceError:
        if isinstance(one.topic, UUID):
            return unknown_topic(None, one.topic, self.connection.broker.topic_by_id(one.topic))
        return unknown_topic(one.topic, None, None)

    def _tell(self, one: Asked, fetched: wire.FetchedPartition) -> bool:
        """In a session only what is new is told; the rest of a full fetch is told once."""
        session = self.session
        if session is None:
            return True
        news = (
            not self.incremental
            or fetched.error != 0
            or fetched.size > 0
            or fetched.diverging is not None
            or fetched.high_watermark != one.high_watermark
            or fetched.log_start_offset != one.start_offset
        )
        one.high_watermark, one.start_offset = fetched.high_watermark, fetched.log_start_offset
        more = fetched.error != 0 or fetched.diverging is not None or one.want.fetch_offset < fetched.high_watermark
        goes_on = more and session.asked.get(one.key) is one
        if fetched.size or not goes_on:
            session.ready.pop(one, None)
        if goes_on:
            session.ready[one] = None  # at the end of the line for who got something: it lets others go first
        return news


def _diverged(partition: Partition, want: wire.FetchPartition) -> Diverged | None:
    """For a reader that knows its last epoch. OffsetOutOfRange for one that never was, and for who is too far behind to
    compare."""
    known, offset = want.last_fetched_epoch, want.fetch_offset
    epoch, end_offset = partition.epoch_end(known)
    if epoch < 0 or offset < partition.start_offset:
        raise OffsetOutOfRange(offset, partition.start_offset, partition.high_watermark)
    return Diverged(epoch, end_offset) if epoch < known or end_offset < offset else None


def _kept(found: Found) -> Found:
    """For an answer that waits for a disk: a span is for one that goes out at once."""
    try:
        return found.taken() if isinstance(found, Span) else found
    except OSError as error:
        return StorageFailed(f"what is to be sent does not read ({error}): check the disk")


def _is_closed(partition: Partition | None) -> bool:
    return partition is not None and partition.log is None and partition.error is None
