"""One partition that is read: where its reader stands, what was fetched ahead, and what went wrong."""

from __future__ import annotations

from collections import deque
from typing import Final
from uuid import UUID

from headrace.client.fetched import Chunk
from headrace.client.values import Record, TopicPartition
from headrace.errors import HeadraceError, OffsetOutOfRange
from headrace.records.header import BatchHeader

OUT_OF_RANGE: Final = ("error", "start", "end")  # what to do about an offset that the log does not hold


class Reading:
    __slots__ = (
        "began", "buffered", "chunks", "end", "error", "failures", "fetch_epoch", "fetch_offset", "generation",
        "is_asked", "is_in_line", "is_paused", "lost_since", "not_before", "offset", "topic_id", "where",
    )  # fmt: skip

    def __init__(self, where: TopicPartition, offset: int, end: int | None) -> None:
        self.where, self.offset, self.end = where, offset, end
        self.began = offset  # where it was taken up
        self.topic_id: UUID | None = None  # whose offsets these are; None until it is looked up, and where nobody says
        self.fetch_offset = offset  # where the next Fetch goes on; `offset` is what the user gets next
        self.fetch_epoch = -1  # of the last batch fetched: by it the broker can tell that the log was cut
        self.chunks: deque[Chunk] = deque()
        self.buffered = 0  # bytes of the chunks
        self.generation = 0  # raised when a Fetch that is on its way is not wanted any more
        self.is_asked = False  # it is part of a Fetch that is on its way
        self.is_in_line = False  # for its turn to hand out what was fetched
        self.is_paused = False
        self.error: HeadraceError | None = None
        self.failures = 0
        self.not_before = 0.0
        self.lost_since: float | None = None  # its topic is not there, since when

    @property
    def is_done(self) -> bool:
        return self.end is not None and self.offset >= self.end

    def wants(self, room_bytes: int, now: float) -> bool:
        return (
            not (self.is_asked or self.is_paused or self.error or self.is_done)
            and self.buffered < room_bytes
            and now >= self.not_before
            and (self.end is None or self.fetch_offset < self.end)
        )

    def move(self, offset: int) -> None:
        """The reader stands elsewhere; what was fetched for the old place is dropped."""
        self.offset = self.fetch_offset = offset
        self.fetch_epoch = -1
        self.chunks.clear()
        self.buffered = 0
        self.generation += 1
        self.error = None
        self.failures, self.not_before = 0, 0.0

    def add(self, chunk: Chunk) -> None:
        self.chunks.append(chunk)
        self.buffered += chunk.size
        self.fetch_offset = chunk.next_offset
        self.failures, self.lost_since = 0, None

    def next(self) -> list[Record]:
        """The records of the next batch that was fetched; may be none."""
        chunk = self.chunks[0]
        topic, partition = self.where
        records, offset, epoch = chunk.next(topic, partition, self.offset, self.end)
        self._took(chunk, offset, epoch)
        return records

    def next_batch(self) -> tuple[BatchHeader, memoryview | None]:
        """The next batch that was fetched, as it came; None in its place when it has nothing for this reader."""
        chunk = self.chunks[0]
        header, batch = chunk.next_batch(self.offset)
        self._took(chunk, max(self.offset, header.next_offset), header.leader_epoch)
        return header, batch

    def _took(self, chunk: Chunk, offset: int, epoch: int) -> None:
        self.offset, self.fetch_epoch = offset, epoch
        if chunk.is_empty or self.is_done:
            self.chunks.popleft()
            self.buffered -= chunk.size
        if self.end is not None and self.offset > self.end:
            self.offset = self.end

    def cut_at(self, offset: int) -> OffsetOutOfRange:
        error = OffsetOutOfRange(self.fetch_offset, -1, offset)
        topic, partition = self.where
        lost = f"what was read from there to {self.fetch_offset} is gone"
        error.cause = f"topic {topic!r} partition {partition}: the log was cut at {offset} and has gone on; {lost}"
        error.args = (f"{error.cause}; seek to {offset} to read what took its place",)
        return error

    def out_of_range(self, start: int, end: int) -> OffsetOutOfRange:
        error = OffsetOutOfRange(self.fetch_offset, start, end)
        topic, partition = self.where
        advice = 'seek to another offset, or read with out_of_range="start" or "end"'
        error.cause = f"topic {topic!r} partition {partition}: {error.cause}"
        error.args = (f"{error.cause}; {advice}",)
        return error
